//! Captured passes: prompts of all lengths and sizes of passes give the same logits, from few captures.

use crate::common::{devices, logits, nmse};
use samples::testdata;
use silicide_core::{CancelToken, Device};
use silicide_llm::engine::{LogitsFrom, Session};
use silicide_llm::{Error, Model, ModelOptions};
use silicide_quant::DType;
use std::path::Path;

const MODELS: [&str; 6] = ["llama-tied", "llama-tied-f16", "llama-tied-q8_0", "qwen3", "gemma3", "qwen3moe"];

fn model(device: &Device, path: &Path, context: usize, chunk: usize) -> Model {
    let mut options = ModelOptions::default();
    (options.key_type, options.value_type) = (DType::F16.into(), DType::F16.into());
    options.context(context).chunk(chunk).device(device).open(path).unwrap()
}

fn session(device: &Device, path: &Path, context: usize, chunk: usize) -> Session {
    Session::new(&model(device, path, context, chunk)).unwrap()
}

/// Passes of every class, live rows between the largest of each, and of other chunks.
#[test]
fn every_size_of_passes_gives_the_same_logits() {
    for device in devices() {
        for name in MODELS {
            let path = testdata(&format!("models/{name}.gguf"));
            let tokens: Vec<u32> = (0..100).map(|i| (i * 37 + 5) % 300).collect();
            let expected = logits(&mut session(&device, &path, 128, 64), &tokens, 1);
            for (chunk, size) in [(64, 100), (64, 36), (128, 100), (16, 16), (5, 5), (64, 3), (64, 2), (1, 7)]
            {
                let got = logits(&mut session(&device, &path, 128, chunk), &tokens, size);
                let error = nmse(&got, &expected);
                assert!(error < 1e-8, "{name} on {} by {size} of {chunk}: {error:e}", device.info().id);
            }
        }
    }
}

#[test]
fn tokens_at_any_depth_follow_from_one_capture() {
    for device in devices() {
        let path = testdata("models/gemma3.gguf");
        let tokens: Vec<u32> = (0..280).map(|i| (i * 31 + 7) % 300).collect();
        let got = logits(&mut session(&device, &path, 600, 64), &tokens, 1);
        let expected = logits(&mut session(&device, &path, 600, 64), &tokens, 64);
        let error = nmse(&got, &expected);
        assert!(error < 1e-8, "{}: {error:e}", device.info().id);
    }
}

#[test]
fn prompts_of_all_lengths_and_tokens_at_all_depths_cause_five_captures() {
    let device = Device::cpu().unwrap();
    let model = model(&device, &testdata("models/llama-tied-q8_0.gguf"), 1024, 512);
    let mut session = Session::new(&model).unwrap();
    let tokens: Vec<u32> = (0..600).map(|i| (i * 37 + 5) % 300).collect();
    for length in 1..=600 {
        session.rewind(0);
        follow(&mut session, &tokens[..length], LogitsFrom::Last);
    }
    for token in (0..400).map(|i| i % 300) {
        follow(&mut session, &[token], LogitsFrom::Last);
    }
    assert!(model.captures() <= 5, "{}", model.captures());
}

/// The logits of a short prompt do not depend on what passes before it left in the arena.
#[test]
fn rows_that_are_not_live_change_nothing() {
    for device in devices() {
        for name in ["llama-tied-q8_0", "gemma3", "qwen3moe"] {
            let model = model(&device, &testdata(&format!("models/{name}.gguf")), 128, 64);
            let tokens: Vec<u32> = (0..64).map(|i| (i * 37 + 5) % 300).collect();
            let mut used = Session::new(&model).unwrap();
            for length in [64, 17, 40, 64, 5, 13, 2] {
                used.rewind(0);
                let got = follow(&mut used, &tokens[..length], LogitsFrom::Last);
                let fresh = follow(&mut Session::new(&model).unwrap(), &tokens[..length], LogitsFrom::Last);
                assert!(got == fresh, "{name} on {}: {length} tokens", device.info().id);
            }
        }
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
