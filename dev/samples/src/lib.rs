//! Where tests find the files they read: small ones in `testdata`, and a real model outside the repository;
//! where they note which instruction sets they opened devices with; and how they say what they could not test.
//!
//! The real model is SmolLM2-135M-Instruct in Q4_1. `scripts/test` fetches it once, checks it, and names it in
//! `SILICIDE_SAMPLE_MODEL`; without that variable it is looked for where the script puts it, in `target/models`.
//! Tests that do not find it call [`not_tested`].
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
    if path.is_file() {
        return Some(path);
    }
    not_tested(format!("a real model: {} is not there; run scripts/fetch-model", path.display()));
    None
}

/// The variable that names the file in which tests note what they skip.
pub const SKIP_LOG: &str = "SILICIDE_SKIP_LOG";

/// Says that a test skips what needs `what`: a device, a model, a tool. Where `CI` is set this fails the test. Elsewhere it
/// writes to standard error, past the capture of the test harness, and to the file that [`SKIP_LOG`] names, if it is set.
#[track_caller]
pub fn not_tested(what: impl std::fmt::Display) {
    let line = format!("NOT TESTED: {}\n", what.to_string().replace('\n', " "));
    assert!(std::env::var_os("CI").is_none(), "{line}");
    // The harness shows what passing tests print only on request, and captures only what macros print.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os(SKIP_LOG) {
        append(Path::new(&path), &line);
    }
}

/// The variable that names the file in which tests note instruction sets.
pub const ISA_LOG: &str = "SILICIDE_ISA_LOG";

/// Notes that `what` opens a device with the instruction set `isa`, in the file that [`ISA_LOG`] names, if it is set.
/// `cargo xtask isas` makes a table of the file.
pub fn note_isa(isa: &str, what: &str) {
    if let Some(path) = std::env::var_os(ISA_LOG) {
        append(Path::new(&path), &format!("{isa}\t{what}\n"));
    }
}

/// Appends a line to a file, in one write, so that lines of tests that run at once stay whole.
fn append(path: &Path, line: &str) {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = opened.and_then(|mut file| file.write_all(line.as_bytes())) {
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
