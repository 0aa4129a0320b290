//! `silicide run`, `logits`, `bench` and `perplexity` as programs call them, and what they say to input that is wrong.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::{tiny, tiny_ending};
use samples::testdata;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn silicide(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = silicide(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the standard error of a command that prints nothing else and exits with `code`.
fn failure(arguments: &[&str], code: i32) -> String {
    let output = silicide(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.starts_with("error: ") && output.stdout.is_empty(), "{arguments:?}: {said}");
    said
}

#[track_caller]
fn says(arguments: &[&str], code: i32, parts: &[&str]) {
    let said = failure(arguments, code);
    for part in parts {
        assert!(said.contains(part), "{arguments:?} lacks {part:?}: {said}");
    }
}

#[test]
fn programs_get_tokens_text_and_timings() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny(directory.path(), "{{ messages[0].content }}");
    let arguments = ["run", "-m", &model, "-p", "Abc", "-n", "6", "--temp", "0", "--raw", "--json"];
    for device in ["cpu", "vulkan:0"] {
        let report = json(&[&arguments[..], &["--device", device, "-t", "2"]].concat());
        // Two control tokens come before the bytes.
        assert_eq!(report["prompt_tokens"], serde_json::json!([67, 100, 101]));
        let tokens = report["tokens"].as_array().unwrap();
        assert!(!tokens.is_empty() && tokens.len() <= 6, "{report}");
        assert!(report["text"].is_string() && report["timings"]["first_token_seconds"].as_f64() > Some(0.0));

        // The first token is what the logits say, and those are the same on every device.
        let out = directory.path().join("logits.bin");
        let ids = ["logits", "-m", &model, "--tokens", "67,100,101", "--out", out.to_str().unwrap()];
        assert!(silicide(&[&ids[..], &["--device", device]].concat()).status.success());
        let logits = floats(&out);
        let last = &logits[logits.len() / 3 * 2..];
        let best = (0..last.len()).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap();
        assert_eq!(tokens[0].as_u64(), Some(best as u64), "{device}");
    }
    let bench = json(&[
        "bench", "-m", &model, "-p", "16", "-n", "4", "-t", "2", "-r", "2", "--device", "cpu", "--json",
    ]);
    for rate in ["pp", "tg"] {
        assert!(bench[rate].as_f64() > Some(0.0) && bench[format!("{rate}_stddev")].is_f64(), "{bench}");
    }
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn a_text_that_ends_at_its_first_token_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let run = |model: &str, more: &[&str]| {
        let arguments =
            ["run", "-m", model, "-p", "<|im_start|>", "--raw", "--temp", "0", "-n", "1", "--device", "cpu"];
        silicide(&[&arguments[..], more].concat())
    };
    let output = run(&tiny_ending(directory.path(), 1), &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = report["tokens"][0].as_u64().unwrap() as u32;
    let output = run(&tiny_ending(directory.path(), first), &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{said}");
    assert!(
        said.contains("[no text: the first token of the model ends it") && said.contains("--ignore-eos"),
        "{said}"
    );
}

#[test]
fn perplexity_is_that_of_the_logits() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny(directory.path(), "{{ messages[0].content }}");
    let (file, out) = (directory.path().join("text"), directory.path().join("logits"));
    let text = "All work and no play makes a very dull text of some 64 tokens. ";
    std::fs::write(&file, text).unwrap();
    let tokens: Vec<u32> = text.bytes().map(|byte| u32::from(byte) + 2).collect();
    let window = tokens.len();
    let ids = tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let cache = ["-ctk", "f32", "-ctv", "f32", "--device", "cpu"];
    let logits = ["logits", "-m", &model, "--tokens", &ids, "--out", out.to_str().unwrap()];
    assert!(silicide(&[&logits[..], &cache].concat()).status.success());
    let logits = floats(&out);
    let width = logits.len() / window;
    // The second half of the window, each token by the logits before it.
    let surprise = |at: usize| {
        let row = &logits[at * width..(at + 1) * width];
        let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
        sum.ln() - f64::from(row[tokens[at + 1] as usize])
    };
    let scored = window / 2..window - 1;
    let truth = (scored.clone().map(surprise).sum::<f64>() / scored.len() as f64).exp();
    let size = window.to_string();
    let (file, flags) = (file.to_str().unwrap(), ["-c", &size, "--json"]);
    let found = json(&[&["perplexity", "-m", &model, "-f", file], &flags[..], &cache].concat());
    assert_eq!((found["windows"].as_u64(), found["scored"].as_u64()), (Some(1), Some(scored.len() as u64)));
    let found = found["ppl"].as_f64().unwrap();
    assert!((found / truth - 1.0).abs() < 1e-4, "{found} {truth}");
    says(&["perplexity", "-m", &model, "-f", file, "-c", "400"], 2, &[&format!("{window} tokens"), "400"]);
}

#[test]
fn files_that_are_no_models_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let whole = std::fs::read(testdata("models/llama-tied.gguf")).unwrap();
    let file = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let run = |path: &Path, parts: &[&str]| {
        says(&["run", "-m", path.to_str().unwrap(), "-p", "hi"], 2, parts);
    };
    run(&file("head.gguf", &whole[..1000]), &["head.gguf", "ends inside", "complete?"]);
    run(&file("data.gguf", &whole[..whole.len() - 1000]), &["data.gguf", "of a file of", "complete?"]);
    run(&file("empty.gguf", b""), &["empty.gguf"]);
    run(&file("text.gguf", b"Once upon a time"), &["text.gguf", "plain text", "neither GGUF"]);
    run(&directory.path().join("none.gguf"), &["none.gguf", "smollm2"]);
    let mamba: Vec<u8> = {
        let at = whole.windows(5).position(|bytes| bytes == b"llama").unwrap();
        [&whole[..at], b"mamba", &whole[at + 5..]].concat()
    };
    run(&file("mamba.gguf", &mamba), &["\"mamba\"", "supported are llama, qwen2"]);
    run(&testdata("models/llama-tied.gguf"), &["no chat template", "--raw"]);
    let checkpoint = directory.path().join("checkpoint");
    std::fs::create_dir(&checkpoint).unwrap();
    std::fs::write(checkpoint.join("config.json"), r#"{"model_type": "gpt2", "n_embd": 768}"#).unwrap();
    std::fs::write(checkpoint.join("model.safetensors"), b"\x02\0\0\0\0\0\0\0{}").unwrap();
    run(&checkpoint, &["\"gpt2\"", "supported are llama"]);
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny(directory.path(), "{{ messages[0].content }}");
    let run = |flags: &[&str], code: i32, parts: &[&str]| {
        says(&[&["run", "-m", &model, "-p", "hi"], flags].concat(), code, parts);
    };
    run(&["-n", "-5"], 1, &["-5"]);
    run(&["-c", "many"], 1, &["many"]);
    run(&["-c", "99999999999"], 1, &["ctx-size", "99999999999"]);
    run(&["-t", "100000"], 1, &["1 to 64"]);
    run(&["--temp", "nan"], 1, &["temp", "from 0 up"]);
    run(&["--temp", "-1"], 1, &["temp", "from 0 up", "-1"]);
    run(&["--top-p", "2"], 1, &["top-p", "0 to 1"]);
    run(&["--min-p", "-3"], 1, &["min-p", "0 to 1"]);
    run(&["-ctk", "q9"], 1, &["q8_0"]);
    run(&["--device", "cuda"], 4, &["\"cuda\"", "cpu"]);
    run(&["more words"], 1, &["one too many"]);
    run(&["more words", "than one"], 1, &["given twice", "more words"]);
    run(&["-f", "no/such/file"], 2, &["can't read no/such/file"]);
    run(&["--json", "--json-stream"], 1, &["--json-stream"]);
    run(&["--color", "never", "--no-color"], 1, &["--no-color"]);
    // More than any machine has.
    run(&["-c", "2000000000"], 3, &["GiB are needed", "cache for 2000000000 tokens", "largest"]);
    // The prompt alone fills the context.
    let long = "word ".repeat(100);
    says(&["run", "-m", &model, "-p", &long, "-c", "64"], 2, &["500 tokens", "context of 64", "-c"]);
    says(&["run", "-m", &model], 1, &["-p TEXT"]);
    says(&["run"], 1, &["which model?", "smollm2"]);
    says(&["bench", "-m", &model, "-p", "0", "-n", "0"], 1, &["nothing to measure"]);
    let most = u64::MAX.to_string();
    says(&["bench", "-m", &model, "-p", &most, "-d", "1"], 1, &["ctx-size", &most]);
    says(&["bench", "-m", &model, "-d", "10000000000", "-c", "64"], 2, &["context of 64"]);
    let nowhere = directory.path().join("no/where");
    let nowhere = nowhere.to_str().unwrap();
    says(&["logits", "-m", &model, "--tokens", "1,2", "--out", nowhere], 2, &["can't write", nowhere]);
    let out = directory.path().join("logits");
    let unknown = ["logits", "-m", &model, "--tokens", "1,999999", "--out", out.to_str().unwrap()];
    says(&unknown, 2, &["999999", "vocabulary"]);
    assert!(!out.exists(), "nothing half-written stays");
    // What llama.cpp's users write means what it means there.
    let dashes = ["tokenize", "-m", &model, "--text", "-ub", "--json"];
    assert_eq!(json(&dashes)["tokens"], serde_json::json!([47, 119, 100]));
    let dashes = ["run", "-m", &model, "-p", "- item", "--raw", "-n", "1", "--json", "-dev", "cpu"];
    assert_eq!(json(&dashes)["prompt_tokens"].as_array().unwrap().len(), 6);
    let fine = ["-n", "1", "--raw", "-t", "-1", "-s", "-1", "--top-k", "-1", "-c", "64", "--device", "cpu"];
    assert!(silicide(&[&["run", "-m", &model, "-p", "hi"], &fine[..]].concat()).status.success());
}

#[test]
fn broken_chat_templates_say_where() {
    let directory = tempfile::tempdir().unwrap();
    for (template, parts) in [
        ("line one\n{{ messages[0].content", &["template", "line 2"][..]),
        ("{{ raise_exception('no system role') }}", &["refuses", "no system role"]),
        ("{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}", &["more work"]),
        ("{{ nothing.at.all }}", &["template", "line 1"]),
    ] {
        let model = tiny(directory.path(), template);
        says(&["run", "-m", &model, "-p", "hi", "--device", "cpu"], 2, parts);
        // Without the template the model works.
        let raw = ["run", "-m", &model, "-p", "hi", "--raw", "-n", "1", "--device", "cpu"];
        assert!(silicide(&raw).status.success(), "{template}");
    }
}

/// Ctrl-C leaves the text so far and its figures, and an exit code that tells.
#[cfg(unix)]
#[test]
fn ctrl_c_keeps_the_text_so_far() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny(directory.path(), "{{ messages[0].content }}");
    let endless =
        ["run", "-m", &model, "-p", "hi", "--raw", "--ignore-eos", "-c", "2000000", "--device", "cpu"];
    let text = directory.path().join("text");
    let measured = ["perplexity", "-m", &model, "-f", text.to_str().unwrap(), "-c", "64", "--device", "cpu"];
    std::fs::write(&text, "All work and no play. ".repeat(2_000_000)).unwrap();
    let interrupted = |arguments: &[&str], seconds: u64| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        child.wait_with_output().unwrap()
    };
    for (arguments, said) in [(&endless[..], "generated"), (&measured[..], "perplexity")] {
        // A busy machine may have come to nothing yet: then it gets longer.
        let mut outputs = [2, 6, 18, 54].into_iter().map(|seconds| interrupted(arguments, seconds));
        let good = |output: &Output| {
            let all = [&output.stdout[..], &output.stderr[..]].concat();
            let said_so = String::from_utf8_lossy(&all).contains(said);
            output.status.code() == Some(130) && said_so && !output.stdout.is_empty()
        };
        assert!(outputs.any(|output| good(&output)), "{arguments:?}");
    }
}
