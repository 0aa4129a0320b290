//! `silicide pull`, `list`, `rm` and `devices` as people and scripts run them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::{Command, Output};

/// The program, with a cache of its own.
fn silicide(cache: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
    command.args(arguments).env("SILICIDE_CACHE", cache);
    command
}

fn run(cache: &Path, arguments: &[&str]) -> Output {
    silicide(cache, arguments).output().unwrap()
}

fn success(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn failure(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.starts_with("error: "), "{text}");
    text
}

#[test]
fn lists_and_removes_what_is_there() {
    let cache = tempfile::tempdir().unwrap();
    let empty = success(&run(cache.path(), &["list"]));
    assert!(empty.contains("no models") && empty.contains("smollm2"), "{empty}");
    assert_eq!(success(&run(cache.path(), &["list", "--json"])), "[]\n");

    let models = cache.path().join("models");
    std::fs::create_dir(&models).unwrap();
    std::fs::copy(samples::testdata("models/llama-tied.gguf"), models.join("mine.gguf")).unwrap();
    let listed = success(&run(cache.path(), &["list"]));
    let row = listed.lines().find(|line| line.trim().starts_with("mine"));
    assert!(row.is_some_and(|row| row.contains("mine.gguf") && row.contains("just now")), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&success(&run(cache.path(), &["list", "--json"]))).unwrap();
    assert_eq!(json[0]["name"], "mine");
    assert!(json[0]["bytes"].as_u64() > Some(1000) && json[0]["modified"].as_u64() > Some(1_700_000_000));
    // A name works wherever a path does.
    assert!(success(&run(cache.path(), &["inspect", "mine"])).contains("architecture  llama"));

    let text = failure(&run(cache.path(), &["rm", "other"]), 2);
    assert!(text.contains("\"other\"") && text.contains("mine"), "{text}");
    assert!(success(&run(cache.path(), &["rm", "mine"])).contains("freed"));
    assert_eq!(success(&run(cache.path(), &["list", "--json"])), "[]\n");
}

#[test]
fn unknown_names_and_missing_pip_say_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let text = failure(&run(cache.path(), &["pull", "gpt-17"]), 2);
    assert!(text.contains("\"gpt-17\"") && text.contains("smollm2") && text.contains("path"), "{text}");
    let text = failure(&run(cache.path(), &["inspect", "nowhere.gguf"]), 2);
    assert!(text.contains("\"nowhere.gguf\" is no file or folder"), "{text}");
    // No name at all is wrong usage.
    assert_eq!(run(cache.path(), &["pull"]).status.code(), Some(1));

    let nothing = tempfile::tempdir().unwrap();
    let output = silicide(cache.path(), &["pull", "smollm2"]).env("PATH", nothing.path()).output().unwrap();
    let text = failure(&output, 2);
    for part in ["python3 -m pip", "apt install python3-pip", "path"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert_eq!(left(cache.path()), [""; 0]);
}

/// What is in the store, the lock aside.
fn left(cache: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(cache.join("models")).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name != ".lock").collect()
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_pull_and_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let cache = tempfile::tempdir().unwrap();
    // A pip that is slow: it has fetched some, and would take a minute more.
    let slow = cache.path().join("python3");
    let script = "#!/bin/sh\ncase \"$*\" in *--version*) exit 0;; esac\nhead -c 5000 /dev/zero > \"$TMPDIR/part\"\nexec sleep 60\n";
    std::fs::write(&slow, script).unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", cache.path().display(), std::env::var("PATH").unwrap());
    let mut child = silicide(cache.path(), &["pull", "smollm2"])
        .env("PATH", path)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    while left(cache.path()).is_empty() {
        assert!(begun.elapsed().as_secs() < 30, "nothing was begun");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(left(cache.path()), [""; 0]);
    assert!(begun.elapsed().as_secs() < 30);
}

#[test]
fn devices_are_listed() {
    let cache = tempfile::tempdir().unwrap();
    let text = success(&run(cache.path(), &["devices"]));
    assert!(text.lines().any(|line| line.trim().starts_with("cpu") && line.contains("threads")), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&success(&run(cache.path(), &["devices", "--json"]))).unwrap();
    let devices = json["devices"].as_array().unwrap();
    let cpu = devices.iter().find(|device| device["id"] == "cpu").unwrap();
    assert!(cpu["threads"].as_u64() > Some(0) && cpu["memory"]["total"].as_u64() > Some(1 << 20));
    assert!(cpu["isa"].is_string() && cpu["limits"]["max_block"].is_u64());
    let vulkan = devices.iter().any(|device| device["backend"] == "vulkan");
    assert!(vulkan || !json["missing"].as_array().unwrap().is_empty());
    assert!(vulkan || std::env::var_os("CI").is_none(), "{json}");
}
