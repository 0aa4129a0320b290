//! A real model: SmolLM2 135M in Q4_1, on the CPU and on Vulkan.

use crate::common::{cpu, devices, exact_session, floats, nmse};
use samples::testdata;
use serde::Deserialize;
use silicide_core::{CancelToken, Device};
use silicide_llm::ModelOptions;
use silicide_llm::chat::message;
use silicide_llm::engine::{Finish, GenerateOptions, LogitsFrom, Session, generate};
use silicide_llm::sample::SamplerOptions;
use silicide_quant::DType;
use silicide_quant::{decode_into, encode_into};
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;

#[derive(Deserialize)]
struct Golden {
    tokens: Vec<u32>,
    greedy: Vec<u32>,
    last: String,
}

fn goldens() -> Vec<Golden> {
    serde_json::from_str(&std::fs::read_to_string(testdata("models/smollm2.json")).unwrap()).unwrap()
}

#[test]
fn the_last_logits_of_prompts_are_right() {
    let Some(path) = samples::model() else { return };
    for device in devices() {
        // The CPU quantizes activations to 8 bits, GPUs do not.
        let tolerance = if device.info().is_gpu() { 1e-6 } else { 5e-3 };
        let mut session = exact_session(&device, &path, 64);
        for golden in goldens() {
            let mut last = Vec::new();
            session.rewind(0);
            session
                .feed(&golden.tokens, LogitsFrom::Last, &CancelToken::new(), &mut |_, logits| {
                    last = logits.to_vec();
                    Ok(())
                })
                .unwrap();
            let error = nmse(&last, &floats(&testdata(&format!("models/{}", golden.last))));
            assert!(error < tolerance, "{}: {error:e}", device.info().id);
        }
    }
}

fn greedy(count: usize) -> GenerateOptions {
    let mut options = GenerateOptions::default();
    (options.max_tokens, options.sampler) = (Some(count), SamplerOptions::greedy());
    options
}

fn session(device: &Device, path: &std::path::Path) -> Session {
    let mut options = ModelOptions::default();
    options.context = Some(256);
    Session::new(&options.device(device).open(path).unwrap()).unwrap()
}

#[test]
fn a_chat_answers_and_keeps_its_messages() {
    let Some(path) = samples::model() else { return };
    let mut session = session(&cpu(2), &path);
    let model = session.model().clone();
    let mut messages = vec![message("user", "Why is the sky blue?")];
    let prompt = model.chat_tokens(&messages).unwrap();
    let mut streamed = String::new();
    let answer = generate(&mut session, &prompt, &greedy(40), &mut |text| streamed.push_str(text)).unwrap();
    assert!(answer.text.contains("light"), "{:?}", answer.text);
    assert_eq!(answer.text, streamed);
    // The next turn feeds only what is new.
    messages.push(message("assistant", &answer.text));
    messages.push(message("user", "And why is it red in the evening?"));
    let prompt = model.chat_tokens(&messages).unwrap();
    let next = generate(&mut session, &prompt, &greedy(8), &mut |_| ()).unwrap();
    assert!(next.timings.reused_tokens > 30, "{:?}", next.timings);
    // Without the cache the answer is the same.
    session.rewind(0);
    let again = generate(&mut session, &prompt, &greedy(8), &mut |_| ()).unwrap();
    assert_eq!((again.timings.reused_tokens, &again.text), (0, &next.text));
}

#[test]
fn the_ends_of_a_text_are_told_apart() {
    let Some(path) = samples::model() else { return };
    let mut session = session(&cpu(2), &path);
    let prompt = &goldens().remove(0).tokens;
    let mut options = greedy(3);
    assert_eq!(generate(&mut session, prompt, &options, &mut |_| ()).unwrap().finish, Finish::MaxTokens);
    options.stop = vec!["is Par".to_owned()];
    options.max_tokens = None;
    let stopped = generate(&mut session, prompt, &options, &mut |_| ()).unwrap();
    assert_eq!(stopped.finish, Finish::Stop);
    assert_eq!(stopped.text, "The capital of France ");
    options.cancel.cancel();
    assert_eq!(generate(&mut session, prompt, &options, &mut |_| ()).unwrap().finish, Finish::Cancelled);
    let mut endless = greedy(1000);
    endless.ignore_end = true;
    let full = generate(&mut session, prompt, &endless, &mut |_| ()).unwrap();
    assert_eq!(full.finish, Finish::ContextFull);
    assert_eq!(session.tokens().len(), 256);
    let error = generate(&mut session, &[1; 300], &endless, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("300 tokens do not fit a context of 256"), "{error}");
}

#[test]
fn greedy_text_begins_as_that_of_llama_cpp() {
    let Some(path) = samples::model() else { return };
    for device in devices() {
        let mut session = exact_session(&device, &path, 64);
        let golden = goldens().remove(0);
        // The first tokens are chosen by wide margins, whatever activations are rounded to.
        let got = generate(&mut session, &golden.tokens, &greedy(7), &mut |_| ()).unwrap();
        assert_eq!(got.tokens, golden.greedy[..7], "{}", device.info().id);
    }
}

/// The model again, with weights of f16.
fn in_f16(path: &std::path::Path) -> tempfile::NamedTempFile {
    let source = Source::open(path).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = GgufWriter::new(file.path());
    source.gguf()[0].metadata().for_each(|(key, value)| writer.copy_meta(key, &value).unwrap());
    let becomes = |dtype: DType| if dtype.is_block() { DType::F16 } else { dtype };
    for entry in source.entries() {
        writer.tensor(entry.name(), entry.shape(), becomes(entry.dtype().unwrap())).unwrap();
    }
    let mut stream = writer.begin().unwrap();
    for entry in source.entries() {
        let (dtype, bytes) = (entry.dtype().unwrap(), source.data(&entry).unwrap());
        if becomes(dtype) == dtype {
            stream.write(&bytes).unwrap();
            continue;
        }
        let mut values = vec![0f32; entry.shape().elements()];
        decode_into(dtype, &bytes, &mut values).unwrap();
        let mut halves = vec![0; 2 * values.len()];
        encode_into(DType::F16, &values, &mut halves, 2).unwrap();
        stream.write(&halves).unwrap();
    }
    stream.finish().unwrap();
    file
}

/// Feeds `tokens` and returns the most likely token after each.
fn likeliest(session: &mut Session, tokens: &[u32]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut note = |_: usize, logits: &[f32]| {
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        found.push(best.unwrap() as u32);
        Ok(())
    };
    session.feed(tokens, LogitsFrom::Token(0), &CancelToken::new(), &mut note).unwrap();
    found
}

/// Greedy text is the same as long as both devices find the same token likeliest after the same text. So the CPU writes
/// it, and Vulkan reads it in one pass, for a software device is slow token by token; the last few it writes itself.
#[test]
fn both_devices_write_the_same_text_from_f16() {
    let Some(path) = samples::model() else { return };
    let file = in_f16(&path);
    let prompt = goldens().remove(0).tokens;
    let mut on_cpu = exact_session(&cpu(2), file.path(), 64);
    let mut options = greedy(64);
    options.ignore_end = true;
    let written = generate(&mut on_cpu, &prompt, &options, &mut |_| ()).unwrap().tokens;
    assert_eq!(written.len(), 64);
    let mut on_vulkan = exact_session(&crate::common::vulkan(), file.path(), 64);
    let (first, last) = written.split_at(60);
    let read = [&prompt[..], first].concat();
    let mut found = likeliest(&mut on_vulkan, &read).split_off(prompt.len() - 1);
    for &token in last {
        found.extend(likeliest(&mut on_vulkan, &[token]));
    }
    assert_eq!(found[..64], written);
}
