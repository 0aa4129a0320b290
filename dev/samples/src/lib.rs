//! Where tests find the files they read: small ones in `testdata`, and a real model outside the repository;
//! and where they note which instruction sets they ran with.
//!
//! The real model is SmolLM2-135M-Instruct in Q4_1. `scripts/test` fetches it once, checks it, and names it in
//! `SILICIDE_SAMPLE_MODEL`; without that variable it is looked for where the script puts it, in `target/models`.
//! Tests that do not find it say so and pass on a developer's machine; where `CI` is set they fail.
#![allow(clippy::panic, reason = "only tests use this")]

use std::io::Write;
use std::path::{Path, PathBuf};

/// The variable that names the real model.
pub const SAMPLE_MODEL: &str = "SILICIDE_SAMPLE_MODEL";

/// A file of the repository's `testdata`.
pub fn testdata(path: &str) -> PathBuf {
    root().join("testdata").join(path)
}

/// The real model, or `None` (with a message) on a developer's machine that does not have it.
pub fn model() -> Option<PathBuf> {
    let path = std::env::var_os(SAMPLE_MODEL)
        .map_or_else(|| root().join("target/models/smollm2.gguf"), PathBuf::from);
    match path.is_file() {
        true => Some(path),
        false if std::env::var_os("CI").is_none() => {
            eprintln!(
                "NOT TESTED with a real model: {} is not there; run scripts/fetch-model",
                path.display()
            );
            None
        }
        false => panic!("no real model: {} is not there; run scripts/fetch-model", path.display()),
    }
}

/// The variable that names the file in which tests note instruction sets.
pub const ISA_LOG: &str = "SILICIDE_ISA_LOG";

/// Notes that `what` ran with the instruction set `isa`, in the file that [`ISA_LOG`] names, if it is set.
/// `cargo xtask isas` makes a table of the file.
pub fn note_isa(isa: &str, what: &str) {
    let Some(path) = std::env::var_os(ISA_LOG) else { return };
    let noted = std::fs::OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| {
        // One write, so that lines of tests that run at once stay whole.
        file.write_all(format!("{isa}\t{what}\n").as_bytes())
    });
    if let Err(error) = noted {
        panic!("{}: {error}", path.display());
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The examples of the repository's README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
