//! `silicide inspect` as people and scripts run it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::{Command, Output};

fn inspect(path: &str, options: &[&str]) -> Output {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    Command::new(env!("CARGO_BIN_EXE_silicide"))
        .arg("inspect")
        .arg(testdata.join(path))
        .args(options)
        .output()
        .unwrap()
}

fn text(path: &str, options: &[&str]) -> String {
    let output = inspect(path, options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(path: &str, options: &[&str]) -> serde_json::Value {
    serde_json::from_str(&text(path, &[&["--json"], options].concat())).unwrap()
}

#[test]
fn shows_a_gguf_model() {
    let shown = text("models/llama-tied-q8_0.gguf", &[]);
    for part in [
        "GGUF version 3",
        "architecture  llama",
        "gpt2, 320 tokens, 58 merges, pre-tokenizer gpt-2",
        "q8_0",
        "8.50 bits",
        "general.architecture",
        "tokenizer.ggml.tokens",
        "(320 of string)",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(!shown.contains("token_embd.weight"));
    let listed = text("models/llama-tied-q8_0.gguf", &["--tensors"]);
    assert!(
        listed.lines().any(|line| line.contains("token_embd.weight") && line.contains("[320, 64]")),
        "{listed}"
    );
}

#[test]
fn shows_every_container_as_json() {
    let gguf = json("models/qwen3.gguf", &["--tensors"]);
    assert_eq!(gguf["architecture"], "qwen3");
    assert_eq!(gguf["tensors"].as_array().unwrap().len(), gguf["tensor_count"].as_u64().unwrap() as usize);
    let plain = json("models/mlx/llama-bf16", &[]);
    assert_eq!(
        (plain["architecture"].as_str(), plain["bits_per_weight"].as_f64()),
        (Some("llama"), Some(16.0))
    );
    assert_eq!(plain["tensors"], serde_json::Value::Null);
    let mlx = json("models/mlx/llama-4bit", &[]);
    assert_eq!(mlx["container"], "safetensors, MLX quantisation");
    // The same model: as many logical parameters.
    assert_eq!(mlx["parameters"], plain["parameters"]);
    let formats: Vec<&str> =
        mlx["formats"].as_array().unwrap().iter().filter_map(|f| f["format"].as_str()).collect();
    assert!(formats.contains(&"mlx affine 4-bit, groups of 64, bf16 scales"), "{formats:?}");
}

#[test]
fn says_what_is_wrong_and_where() {
    let output = inspect("malformed/gguf-tensor-overlap.gguf", &[]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.ends_with("gguf-tensor-overlap.gguf: at byte 61: tensors \"first\" and \"second\" overlap\n"),
        "{message}"
    );
    assert!(output.stdout.is_empty());
    assert_eq!(inspect("no such file", &[]).status.code(), Some(2));
    assert_eq!(inspect("models/qwen3.gguf", &["--nonsense"]).status.code(), Some(1));
}

#[test]
fn shows_a_real_model() {
    let Some(model) = samples::model() else { return };
    let shown = json(model.to_str().unwrap(), &["--tensors"]);
    assert_eq!(shown["tensors"].as_array().unwrap().len(), 272);
    let shown = text(model.to_str().unwrap(), &[]);
    for part in ["architecture  llama", "49,152 tokens", "pre-tokenizer smollm", "q4_1"] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
}
