//! Every fuzz target over its seeds and some mutations, and the driver's own promises.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use fuzz::mutate;
use fuzz::target::Outcome;
use fuzz::targets::{TARGETS, find};
use std::process::Command;

#[test]
fn every_target_accepts_at_least_one_of_its_seeds() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        let accepts = seeds.iter().take(40).any(|seed| (target.run)(&seed.bytes) == Outcome::Accepted);
        assert!(accepts, "{} accepts none of its seeds", target.name);
    }
}

#[test]
fn targets_survive_a_few_hundred_mutations() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        for number in 0..300 {
            let input = mutate::input(target, &seeds, 7, number);
            let _ = (target.run)(&input);
        }
    }
}

#[test]
fn the_same_seed_and_number_give_the_same_input() {
    let target = find("gguf_model").unwrap();
    let seeds = (target.seeds)();
    for number in [21, 1001] {
        let once = mutate::input(&target, &seeds, 1, number);
        assert!(once == mutate::input(&target, &seeds, 1, number));
        assert!(once != mutate::input(&target, &seeds, 2, number));
    }
}

#[test]
fn panics_signals_exceeded_memory_guard_pages_and_hangs_are_crashes_with_their_inputs_saved() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fuzz"))
        .args(["--target", "self_test", "--inputs", "13", "--timeout", "1", "--crashes"])
        .arg(folder.path())
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{text}{errors}");
    assert!(errors.contains("a panic on purpose") && errors.contains("hung for 1 s"), "{errors}");
    for (number, input) in ["panic", "abort", "memory", "below", "above", "hang"].iter().enumerate() {
        let saved =
            std::fs::read_to_string(folder.path().join(format!("self_test-{}.bin", 2 * number + 2))).unwrap();
        assert_eq!(saved, *input);
    }
}

#[test]
fn the_kept_corpus_runs_without_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fuzz"))
        .args(["replay", "--crashes"])
        .arg(folder.path())
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{errors}");
}

#[test]
fn the_program_counts_the_inputs_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fuzz"))
        .args(["--inputs", "300", "--target", "decode_k", "--target", "gguf", "--crashes"])
        .arg(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<&str> =
        text.lines().filter(|line| line.contains("| 300 ") || line.contains(" 300 |")).collect();
    assert_eq!(rows.len(), 2, "{text}");
}
