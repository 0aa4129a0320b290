//! Tiny models of every architecture against logits that were computed in float64, and what may be odd about a folder.

use crate::common::{cpu, cpu_with, every_device, exact_session, floats, label, logits, nmse};
use samples::testdata;
use serde::Deserialize;
use silicide_core::{CancelToken, Isa};
use silicide_llm::Error;
use silicide_llm::ModelOptions;
use silicide_llm::engine::{GenerateOptions, LogitsFrom, Session, generate};
use silicide_llm::sample::SamplerOptions;

#[derive(Deserialize)]
struct Golden {
    sequences: Vec<Sequence>,
    greedy: Greedy,
}

#[derive(Deserialize)]
struct Sequence {
    tokens: Vec<u32>,
    ref64: String,
}

#[derive(Deserialize)]
struct Greedy {
    tokens_ref64: Vec<u32>,
}

/// The models, and how far from the truth they may be: weights of 8 bits have their activations rounded too.
const MODELS: [(&str, f64); 6] = [
    ("llama-tied", 1e-9),
    ("llama-tied-f16", 1e-9),
    ("llama-tied-q8_0", 5e-3),
    ("qwen3", 1e-9),
    ("qwen3moe", 1e-9),
    ("gemma3", 1e-9),
];

fn golden(name: &str) -> Golden {
    let text = std::fs::read_to_string(testdata(&format!("models/{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A text, its logits, and how far from them a model may be.
#[cfg(feature = "vulkan")]
pub(crate) struct Truth {
    pub(crate) path: std::path::PathBuf,
    pub(crate) tokens: Vec<u32>,
    pub(crate) logits: Vec<f32>,
    pub(crate) tolerance: f64,
}

/// Returns the longest text of every model whose logits are known.
#[cfg(feature = "vulkan")]
pub(crate) fn truths() -> Vec<Truth> {
    let of_models = MODELS.into_iter().map(|(name, tolerance)| {
        let sequence = golden(name).sequences.pop().unwrap();
        let logits = floats(&testdata(&format!("models/{}", sequence.ref64)));
        Truth { path: testdata(&format!("models/{name}.gguf")), tokens: sequence.tokens, logits, tolerance }
    });
    let of_compared = COMPARED.into_iter().map(|name| Truth {
        path: testdata(&format!("models/{name}.gguf")),
        tokens: compared(name),
        logits: floats(&testdata(&format!("models/{name}.llamacpp.f32.bin"))),
        tolerance: 1e-9,
    });
    // The CPU quantizes activations for affine codes.
    let checkpoints = [("llama-bf16", 1e-9), ("llama-4bit", 1e-3), ("qwen3moe-4bit", 1e-3)];
    let of_checkpoints = checkpoints.into_iter().map(|(name, tolerance)| {
        let path = testdata(&format!("models/mlx/{name}"));
        let text = std::fs::read_to_string(path.join("golden.json")).unwrap();
        let tokens = serde_json::from_str::<Compared>(&text).unwrap().tokens;
        Truth { logits: floats(&path.join("logits.ref64.f32.bin")), path, tokens, tolerance }
    });
    of_models.chain(of_compared).chain(of_checkpoints).collect()
}

#[test]
fn logits_are_right_in_one_pass_in_pieces_and_token_by_token() {
    for device in every_device() {
        for (name, tolerance) in MODELS {
            let mut session = exact_session(&device, &testdata(&format!("models/{name}.gguf")), 64);
            for sequence in golden(name).sequences.iter().filter(|sequence| sequence.tokens.len() > 1) {
                let truth = floats(&testdata(&format!("models/{}", sequence.ref64)));
                for size in [sequence.tokens.len(), 5, 1] {
                    let got = logits(&mut session, &sequence.tokens, size);
                    let error = nmse(&got, &truth);
                    let (device, tokens) = (label(&device), sequence.tokens.len());
                    assert!(error < tolerance, "{name} on {device}, {tokens} tokens by {size}: {error:e}");
                }
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for (name, _) in MODELS {
        same_bits_with_any_number_of_threads(name, &golden(name).sequences.last().unwrap().tokens);
    }
}

fn same_bits_with_any_number_of_threads(name: &str, tokens: &[u32]) {
    let path = testdata(&format!("models/{name}.gguf"));
    for isa in Isa::available() {
        let of = |threads: usize| {
            let mut session = exact_session(&cpu_with(isa, Some(threads)), &path, 64);
            let bits = |logits: Vec<f32>| logits.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            (bits(logits(&mut session, tokens, tokens.len())), bits(logits(&mut session, tokens, 1)))
        };
        let one = of(1);
        for threads in [2, 3] {
            assert!(of(threads) == one, "{name} on {isa}: {threads} threads");
        }
    }
}

#[test]
fn greedy_text_is_that_of_float64() {
    for device in every_device() {
        // Where activations are rounded, near ties may fall the other way.
        for (name, _) in MODELS.iter().filter(|(_, tolerance)| *tolerance < 1e-6) {
            let Golden { sequences, greedy } = golden(name);
            let prompt = &sequences.iter().find(|sequence| sequence.tokens.len() == 17).unwrap().tokens;
            let mut session = exact_session(&device, &testdata(&format!("models/{name}.gguf")), 64);
            let mut options = GenerateOptions::default();
            (options.max_tokens, options.ignore_end) = (Some(greedy.tokens_ref64.len()), true);
            options.sampler = SamplerOptions::greedy();
            let got = generate(&mut session, prompt, &options, &mut |_| ()).unwrap();
            assert_eq!(got.tokens, greedy.tokens_ref64, "{name} on {}", label(&device));
        }
    }
}

#[test]
fn a_cache_that_is_rewound_gives_the_same_logits() {
    for (name, _) in MODELS {
        let (path, sequences) = (testdata(&format!("models/{name}.gguf")), golden(name).sequences);
        let tokens = &sequences.last().unwrap().tokens;
        let mut session = exact_session(&cpu(2), &path, 64);
        let fresh = logits(&mut session, tokens, 1);
        // Go back, and feed the rest again.
        let kept = session.rewind(40);
        assert!(kept == 40 || kept == 0, "{name}: {kept}");
        let mut last = Vec::new();
        let rest = &tokens[kept..];
        session
            .feed(rest, LogitsFrom::Last, &CancelToken::new(), &mut |_, logits| {
                last = logits.to_vec();
                Ok(())
            })
            .unwrap();
        assert!(nmse(&last, &fresh[fresh.len() - last.len()..]) < 1e-4, "{name}");
        assert_eq!(session.reuse(tokens), tokens.len() - 1);
    }
}

#[derive(Deserialize)]
struct Compared {
    tokens: Vec<u32>,
}

/// The models of `scripts/generate-tiny-models.py`, whose logits are llama.cpp's.
const COMPARED: [&str; 3] = ["qwen2-yarn", "llama3-rope", "mixtral"];

fn compared(name: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(testdata(&format!("models/{name}.json"))).unwrap();
    serde_json::from_str::<Compared>(&text).unwrap().tokens
}

#[test]
fn biases_stretched_frequencies_and_experts_are_those_of_llama_cpp() {
    for device in every_device() {
        for name in COMPARED {
            let tokens = compared(name);
            let truth = floats(&testdata(&format!("models/{name}.llamacpp.f32.bin")));
            let mut session = exact_session(&device, &testdata(&format!("models/{name}.gguf")), 64);
            for size in [tokens.len(), 5, 1] {
                let error = nmse(&logits(&mut session, &tokens, size), &truth);
                assert!(error < 1e-9, "{name} on {}, by {size}: {error:e}", label(&device));
            }
        }
    }
    for name in COMPARED {
        same_bits_with_any_number_of_threads(name, &compared(name));
    }
}

#[test]
fn checkpoints_of_safetensors_and_mlx_are_right() {
    for device in every_device() {
        // The CPU quantizes activations for affine codes.
        let rounded = if device.info().is_gpu() { 1e-9 } else { 1e-3 };
        for (name, tolerance) in [("llama-bf16", 1e-9), ("llama-4bit", rounded), ("qwen3moe-4bit", rounded)] {
            let folder = testdata(&format!("models/mlx/{name}"));
            let text = std::fs::read_to_string(folder.join("golden.json")).unwrap();
            let tokens = serde_json::from_str::<Compared>(&text).unwrap().tokens;
            let truth = floats(&folder.join("logits.ref64.f32.bin"));
            let mut session = exact_session(&device, &folder, 64);
            for size in [tokens.len(), 1] {
                let error = nmse(&logits(&mut session, &tokens, size), &truth);
                assert!(error < tolerance, "{name} on {}, by {size}: {error:e}", label(&device));
            }
        }
    }
}

/// A copy of a checkpoint in which `file` has `to` for `from`, which is as long if the file is one of tensors.
fn changed(file: &str, from: &str, to: &str) -> tempfile::TempDir {
    let (folder, copy) = (testdata("models/mlx/llama-bf16"), tempfile::tempdir().unwrap());
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    let path = copy.path().join(file);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    bytes.splice(at..at + from.len(), to.bytes());
    std::fs::write(&path, bytes).unwrap();
    copy
}

#[test]
fn a_head_is_tied_only_where_the_file_says() {
    let open =
        |folder: &tempfile::TempDir| ModelOptions::default().device(&cpu(1)).open(folder.path()).map(|_| ());
    // The file has a head: the token table serves instead if it says so.
    let (apart, tied) = ("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    open(&changed("config.json", apart, tied)).unwrap();
    let headless = changed("model.safetensors", "\"lm_head.weight\"", "\"lm_head.absent\"");
    let error = open(&headless).unwrap_err();
    assert!(matches!(&error, Error::MissingTensor { tensor, .. } if tensor == "lm_head.weight"), "{error}");
    // What else a head may have is not forgotten.
    let config = std::fs::read_to_string(headless.path().join("config.json")).unwrap();
    std::fs::write(headless.path().join("config.json"), config.replace(apart, tied)).unwrap();
    let error = open(&headless).unwrap_err();
    assert!(matches!(&error, Error::UnusedTensors { tensor, .. } if tensor == "lm_head.absent"), "{error}");
}

#[test]
fn tokens_that_the_model_does_not_have_are_told_and_refused() {
    let more = "\"added_tokens\": [{\"id\": 320, \"content\": \"<more>\", \"special\": true}, ";
    let folder = changed("tokenizer.json", "\"added_tokens\": [", more);
    let options = ModelOptions::default();
    let model = options.device(&cpu(1)).open(folder.path()).unwrap();
    assert!(model.warnings().iter().any(|warning| warning.contains("321 tokens")), "{:?}", model.warnings());
    let mut session = Session::new(&model).unwrap();
    let error = session.feed(&[320], LogitsFrom::Last, &CancelToken::new(), &mut |_, _| Ok(())).unwrap_err();
    assert!(matches!(error, Error::BadToken { token: 320, vocabulary: 320 }), "{error}");
}
