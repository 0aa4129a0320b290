//! `silicide convert`: the same model in another file.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use silicide_quant::{DType, Format, decode_into};
use silicide_weights::{Entry, Source};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

fn convert(input: &Path, output: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_silicide"))
        .arg("convert")
        .args([input, output])
        .args(options)
        .output()
        .unwrap()
}

fn converted(input: &str, options: &[&str]) -> (tempfile::TempDir, Source) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.gguf");
    let done = convert(&testdata(input), &output, options);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let source = Source::open(&output).unwrap();
    (directory, source)
}

fn values(source: &Source, entry: &Entry<'_>) -> Vec<f32> {
    let mut values = vec![0.0; entry.shape().elements()];
    decode_into(entry.dtype().unwrap(), &source.data(entry).unwrap(), &mut values).unwrap();
    values
}

/// The error of `got`, relative to the power of `expected`.
fn error(expected: &[f32], got: &[f32]) -> f64 {
    let difference: f64 = expected.iter().zip(got).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    difference / expected.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>()
}

#[test]
fn gguf_stays_what_it_is() {
    let (_directory, copy) = converted("models/qwen3.gguf", &[]);
    let model = Source::open(testdata("models/qwen3.gguf")).unwrap();
    assert!(model.gguf()[0].metadata().eq(copy.gguf()[0].metadata()));
    for (before, after) in model.entries().zip(copy.entries()) {
        assert_eq!((before.name(), before.shape()), (after.name(), after.shape()));
        assert_eq!(model.data(&before).unwrap(), copy.data(&after).unwrap());
    }
    assert_eq!(model.len(), copy.len());
}

#[test]
fn split_files_become_one() {
    let (_directory, copy) = converted("gguf/split-00001-of-00003.gguf", &[]);
    assert_eq!((copy.files().len(), copy.len()), (1, 5));
    assert!(copy.get("split.count").is_none());
    assert!(copy.get("test.string").is_some());
}

#[test]
fn weights_change_their_format_and_norms_do_not() {
    let (_directory, copy) = converted("models/llama-tied.gguf", &["--type", "q8_0"]);
    let model = Source::open(testdata("models/llama-tied.gguf")).unwrap();
    assert_eq!(copy.get("general.file_type").and_then(|value| value.as_u64()), Some(7));
    for entry in copy.entries() {
        let before = values(&model, &model.entry(entry.name()).unwrap());
        let plain = entry.name().contains("norm");
        let expected = if plain { DType::F32 } else { DType::Block(Format::Q8_0) };
        assert_eq!(entry.dtype().unwrap(), expected, "{}", entry.name());
        let error = error(&before, &values(&copy, &entry));
        assert!(error <= if plain { 0.0 } else { 1e-4 }, "{}: {error}", entry.name());
    }
}

#[test]
fn formats_whose_blocks_are_too_long_give_way() {
    let (_directory, copy) = converted("models/llama-tied.gguf", &["--type", "Q4_K"]);
    let dtype = |name: &str| copy.entry(name).unwrap().dtype().unwrap();
    // Rows of 64.
    assert_eq!(dtype("blk.0.attn_q.weight"), DType::Block(Format::Q5_0));
}

#[test]
fn mixtures_are_finer_where_it_matters() {
    let (_directory, copy) = converted("models/llama-tied.gguf", &["--type", "q4_k_m"]);
    assert_eq!(copy.get("general.file_type").and_then(|value| value.as_u64()), Some(15));
    let dtype = |name: &str| copy.entry(name).unwrap().dtype().unwrap();
    // Rows of 64, so what would be Q4_K and Q6_K gives way.
    let (base, finer) = (DType::Block(Format::Q5_0), DType::Block(Format::Q8_0));
    assert_eq!((dtype("blk.0.attn_v.weight"), dtype("blk.1.attn_v.weight")), (base, finer));
    assert_eq!((dtype("blk.1.attn_q.weight"), dtype("token_embd.weight")), (base, finer));
}

/// The checkpoint's twin was written by other software from the same weights.
#[test]
fn safetensors_become_what_others_make_of_them() {
    let (_directory, copy) = converted("models/mlx/llama-bf16", &["--type", "f32"]);
    let twin = Source::open(testdata("models/mlx/llama-bf16/twin.gguf")).unwrap();
    assert_eq!(copy.len(), twin.len());
    for entry in twin.entries() {
        let ours = copy.entry(entry.name()).unwrap();
        assert_eq!((ours.shape(), ours.dtype()), (entry.shape(), entry.dtype()), "{}", entry.name());
        assert_eq!(copy.data(&ours).unwrap(), twin.data(&entry).unwrap(), "{}", entry.name());
    }
    for (key, value) in twin.gguf()[0].metadata().filter(|(key, _)| *key != "general.name") {
        assert_eq!(copy.get(key), Some(value), "{key}");
    }
    assert!(copy.get("tokenizer.chat_template").is_some());
}

#[test]
fn mlx_becomes_nearly_the_same() {
    let (_directory, copy) = converted("models/mlx/llama-4bit", &["--type", "f32"]);
    let twin = Source::open(testdata("models/mlx/llama-bf16/twin.gguf")).unwrap();
    for entry in twin.entries() {
        let ours = copy.entry(entry.name()).unwrap();
        assert_eq!(ours.shape(), entry.shape());
        let error = error(&values(&twin, &entry), &values(&copy, &ours));
        assert!(error < 2e-2, "{}: {error}", entry.name());
    }
}

#[test]
fn refuses_what_it_should() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.gguf");
    std::fs::write(&output, "precious").unwrap();
    let kept = convert(&testdata("models/qwen3.gguf"), &output, &[]);
    assert_eq!(kept.status.code(), Some(1));
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");
    assert!(convert(&testdata("models/qwen3.gguf"), &output, &["--force"]).status.success());
    assert_eq!(convert(&testdata("models/qwen3.gguf"), &output, &["--type", "q9"]).status.code(), Some(1));
    let malformed = convert(&testdata("malformed/gguf-bool-2.gguf"), &directory.path().join("other"), &[]);
    assert_eq!(malformed.status.code(), Some(2));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
