//! Captured passes against recorded ones: the same logits, on every device, with every model.

use crate::common::{devices, logits, nmse};
use samples::testdata;
use silicide_core::{CancelToken, Device};
use silicide_llm::Error;
use silicide_llm::ModelOptions;
use silicide_llm::engine::{LogitsFrom, Session};
use silicide_quant::DType;
use std::path::Path;

const MODELS: [&str; 5] = ["llama-tied", "llama-tied-f16", "llama-tied-q8_0", "qwen3", "gemma3"];

fn session(device: &Device, path: &Path, graphs: bool, context: usize) -> Session {
    let mut options = ModelOptions::default();
    (options.key_type, options.value_type) = (DType::F16, DType::F16);
    (options.context, options.chunk, options.graphs) = (Some(context), 64, graphs);
    Session::new(&options.device(device).open(path).unwrap()).unwrap()
}

#[test]
fn replayed_passes_equal_recorded_ones() {
    for device in devices() {
        for name in MODELS {
            let path = testdata(&format!("models/{name}.gguf"));
            let tokens: Vec<u32> = (0..40).map(|i| (i * 37 + 5) % 300).collect();
            let of = |graphs: bool| logits(&mut session(&device, &path, graphs, 128), &tokens, 1);
            let error = nmse(&of(true), &of(false));
            assert!(error < 1e-8, "{name} on {}: {error:e}", device.info().id);
        }
    }
}

#[test]
fn a_text_that_outgrows_its_capture_gets_another() {
    for device in devices() {
        let path = testdata("models/gemma3.gguf");
        let tokens: Vec<u32> = (0..280).map(|i| (i * 31 + 7) % 300).collect();
        let mut captured = session(&device, &path, true, 600);
        let mut recorded = session(&device, &path, false, 600);
        let got = logits(&mut captured, &tokens, 1);
        let expected = logits(&mut recorded, &tokens, 1);
        let error = nmse(&got, &expected);
        assert!(error < 1e-8, "{}: {error:e}", device.info().id);
    }
}

fn in_passes_of_16(device: &Device) -> Session {
    let options = ModelOptions::default().context(256).chunk(16).device(device);
    Session::new(&options.open(testdata("models/gemma3.gguf")).unwrap()).unwrap()
}

/// The wanted logits of tokens that follow those that were fed.
fn follow(session: &mut Session, tokens: &[u32], wanted: LogitsFrom) -> Vec<f32> {
    let mut rows = Vec::new();
    let sink = &mut |_: usize, row: &[f32]| {
        rows.extend_from_slice(row);
        Ok(())
    };
    session.feed(tokens, wanted, &CancelToken::new(), sink).unwrap();
    rows
}

#[test]
fn cancelling_a_prompt_keeps_what_was_fed() {
    for device in devices() {
        let tokens: Vec<u32> = (0..150).map(|i| (i * 31 + 7) % 300).collect();
        let mut session = in_passes_of_16(&device);
        let cancel = CancelToken::new();
        // Stops at the first row that is wanted.
        let fed = session.feed(&tokens, LogitsFrom::Token(70), &cancel, &mut |_, _| {
            cancel.cancel();
            Ok(())
        });
        let cancelled = matches!(fed, Err(Error::Device(silicide_core::Error::Cancelled { .. })));
        assert!(cancelled, "{fed:?}");
        let kept = session.tokens().len();
        assert!(kept > 70 && kept < 150, "{kept}");
        // The kept tokens have the same cache entries as in a session without cancellation.
        let rest = follow(&mut session, &tokens[kept..], LogitsFrom::Token(0));
        let expected = follow(&mut in_passes_of_16(&device), &tokens, LogitsFrom::Token(kept));
        let error = nmse(&rest, &expected);
        assert!(error < 1e-8, "{}: {error:e}", device.info().id);
    }
}

#[test]
fn sessions_share_captures_and_nothing_else() {
    let device = Device::cpu().unwrap();
    let mut options = ModelOptions::default();
    options.context = Some(128);
    let model = options.device(&device).open(testdata("models/llama-tied.gguf")).unwrap();
    let text = |seed: u32| -> Vec<u32> { (0..30).map(|i| (i * 17 + seed * 91) % 300).collect() };
    let alone: Vec<Vec<f32>> =
        (0..4).map(|seed| logits(&mut Session::new(&model).unwrap(), &text(seed), 1)).collect();
    std::thread::scope(|scope| {
        for (seed, alone) in (0..4).zip(&alone) {
            let model = &model;
            scope.spawn(move || {
                let together = logits(&mut Session::new(model).unwrap(), &text(seed), 1);
                assert!(together == *alone, "session {seed}");
            });
        }
    });
}
