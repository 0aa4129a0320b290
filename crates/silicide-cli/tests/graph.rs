//! `silicide graph` as people run it.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_silicide"))
        .arg("graph")
        .arg(samples::testdata("models/llama-tied-q8_0.gguf"))
        .args(["--device", "cpu"])
        .args(options)
        .output()
        .unwrap()
}

fn graph(options: &[&str]) -> String {
    let output = run(options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn shows_a_layer_and_what_became_of_the_pass() {
    let shown = graph(&[]);
    for part in [
        "attention:",
        "feed-forward:",
        "linear",
        "keys f16[",
        "commands",
        "barriers",
        "arena of",
        "blk.1.attn_q.weight",
        "blk.1.attn_k.weight",
        "blk.1.ffn_norm.weight",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(graph(&["--all"]).len() > shown.len());
    let compressed = graph(&["-ctk", "f32", "-ctv", "bf16"]);
    assert!(compressed.contains("keys f32[") && compressed.contains("values bf16["), "{compressed}");
}

#[test]
fn draws_a_layer() {
    let drawn = graph(&["--dot", "--layer", "0"]);
    assert!(drawn.starts_with("digraph {") && drawn.ends_with("}\n"), "{drawn}");
    assert!(drawn.contains("label=\"attention\"") && drawn.contains("slots"), "{drawn}");
    assert_eq!(drawn.matches('{').count(), drawn.matches('}').count());
}

#[test]
fn layers_and_tokens_that_do_not_exist_are_refused() {
    for (options, parts) in [
        (&["--layer", "99"][..], &["--layer 99", "layers, 0 to"][..]),
        (&["-n", "0"], &["tokens", "1 to"]),
        (&["-n", "65", "-c", "64"], &["tokens", "1 to 64"]),
    ] {
        let output = run(options);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{options:?}: {told}");
        assert!(
            output.stdout.is_empty() && parts.iter().all(|part| told.contains(part)),
            "{options:?}: {told}"
        );
    }
}

#[test]
fn dispatches_are_counted_by_kernel() {
    let shown = graph(&["--dispatches"]);
    let lines: Vec<&str> = shown.lines().collect();
    let (last, kernels) = lines.split_last().unwrap();
    let counts: Vec<(usize, &str)> = kernels
        .iter()
        .map(|line| line.trim().split_once(' ').unwrap())
        .map(|(count, kernel)| (count.parse().unwrap(), kernel))
        .collect();
    // The model has a norm before attention, one before the feed-forward of each layer, and one at the end.
    let norms = counts.iter().find(|(_, kernel)| kernel.starts_with("rms_norm"));
    assert!(norms.is_some_and(|(count, _)| *count > 1), "{shown}");
    let sum: usize = counts.iter().map(|(count, _)| count).sum();
    assert!(last.starts_with(&format!("{sum} dispatches, ")) && last.ends_with(" barriers"), "{shown}");
}
