//! `silicide tokenize` from outside.
#![allow(clippy::expect_used, reason = "a failure should end the test")]

use std::path::Path;
use std::process::{Command, Output};

fn tokenize(arguments: &[&str]) -> Output {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/models/llama-tied.gguf");
    let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
    command.arg("tokenize").arg("-m").arg(model).args(arguments).output().expect("the program runs")
}

fn tokens(arguments: &[&str]) -> Vec<u64> {
    let output = tokenize(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["tokens"].as_array().expect("a list").iter().map(|id| id.as_u64().expect("a number")).collect()
}

#[test]
fn prints_tokens() {
    assert_eq!(tokens(&["--text", "Hello", "--json"]), [39, 68, 75, 75, 78]);
    assert!(tokens(&["--text", "", "--json"]).is_empty());
    assert_eq!(tokens(&["--text", "<|end|>", "--json", "--special"]), [319]);
    assert!(tokens(&["--text", "<|end|>", "--json"]).len() > 1);
    let shown = String::from_utf8(tokenize(&["--text", "H<|end|>", "--special"]).stdout).expect("text");
    assert!(shown.contains("319") && shown.contains("control") && shown.contains("2 tokens"), "{shown}");
}

#[test]
fn reads_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("text");
    std::fs::write(&path, b"Hello").expect("written");
    let path = path.to_str().expect("UTF-8");
    assert_eq!(tokens(&["-f", path, "--json"]), [39, 68, 75, 75, 78]);
    let missing = tokenize(&["-f", "/nowhere/at/all"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nowhere/at/all"));
    assert_eq!(tokenize(&[]).status.code(), Some(1));
}
