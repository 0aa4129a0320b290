//! `silicide graph` as people run it.
#![allow(clippy::unwrap_used)]

use std::process::Command;

fn graph(options: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_silicide"))
        .arg("graph")
        .arg(samples::testdata("models/llama-tied-q8_0.gguf"))
        .args(["--device", "cpu"])
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn shows_a_layer_and_what_became_of_the_pass() {
    let shown = graph(&[]);
    for part in ["attention:", "feed-forward:", "matmul", "keys f16[", "commands", "barriers", "arena of"] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(graph(&["--all"]).len() > shown.len());
}

#[test]
fn draws_a_layer() {
    let drawn = graph(&["--dot", "--layer", "0"]);
    assert!(drawn.starts_with("digraph {") && drawn.ends_with("}\n"), "{drawn}");
    assert!(drawn.contains("label=\"attention\"") && drawn.contains("slots"), "{drawn}");
    assert_eq!(drawn.matches('{').count(), drawn.matches('}').count());
}
