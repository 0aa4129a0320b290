//! Files as people give them: files that are no models, files that change, names with control characters.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn silicide(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_silicide")).args(arguments).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn files_that_are_no_models_are_named_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes, part) in [
        ("x.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), "this is a PNG image"),
        ("model.gguf", b"<!DOCTYPE html>\n<html>", "download link of the file itself"),
        ("pytorch_model.bin", b"PK\x03\x04\0\0\0\0\0\0archive/data.pkl", "PyTorch"),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        for command in [["inspect", text(&path)].as_slice(), &["run", text(&path), "hi"]] {
            let output = silicide(command);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(2) && said.contains(part), "{command:?}: {said}");
        }
    }
}

#[test]
fn weight_files_are_mapped_or_copied_with_the_same_result() {
    let model = samples::testdata("models/llama-tied.gguf");
    let run = |how: &[&str]| {
        let arguments =
            ["run", "-m", text(&model), "-p", "a", "--raw", "-n", "4", "--temp", "0", "--device", "cpu"];
        silicide(&[arguments.as_slice(), how].concat())
    };
    let mapped = run(&["--load", "map"]);
    assert!(mapped.status.success(), "{}", String::from_utf8_lossy(&mapped.stderr));
    for how in [["--load", "copy"].as_slice(), &["--no-mmap"], &[]] {
        let other = run(how);
        assert!(other.status.success() && other.stdout == mapped.stdout, "{how:?}");
    }
    for wrong in [["--load", "sideways"].as_slice(), &["--load", "map", "--no-mmap"]] {
        assert_eq!(run(wrong).status.code(), Some(1), "{wrong:?}");
    }
}

/// Runs the program at a terminal, by util-linux's `script`; `None` where there is none.
#[cfg(target_os = "linux")]
fn at_a_terminal(arguments: &str, cache: &Path) -> Option<String> {
    let command = format!("{} {arguments}", env!("CARGO_BIN_EXE_silicide"));
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &command, "/dev/null"]).env("SILICIDE_CACHE", cache);
    let output = script.stdin(std::process::Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(target_os = "linux")]
#[test]
fn control_characters_of_names_are_escaped_at_terminals_only() {
    let cache = tempfile::tempdir().unwrap();
    let models = cache.path().join("models");
    std::fs::create_dir(&models).unwrap();
    std::fs::write(models.join("a\u{1b}]0;title\u{7}.gguf"), "").unwrap();
    let mut piped = Command::new(env!("CARGO_BIN_EXE_silicide"));
    let piped = piped.arg("list").env("SILICIDE_CACHE", cache.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&piped.stdout).contains("\u{1b}]0;title"));
    let Some(shown) = at_a_terminal("list", cache.path()) else {
        return samples::not_tested("a terminal: there is no `script`");
    };
    assert!(shown.contains(r"a\u{1b}]0;title\u{7}") && !shown.contains("\u{1b}]0;"), "{shown:?}");
}
