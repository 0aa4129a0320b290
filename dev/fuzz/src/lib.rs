//! Hostile files: a gallery of malformed ones with the errors they must give, and the bodies of the fuzz targets.
//!
//! | module | what |
//! |---|---|
//! | [`gallery`] | one small file per rule, generated; `testdata/malformed` holds the result |
//! | [`targets`] | what a fuzzer calls with bytes; `libfuzzer/` wraps each, tests run each over the gallery |
//!
//! `cargo run -p fuzz --bin gallery` writes the gallery; `scripts/fuzz` runs the fuzzers.
#![forbid(unsafe_code)]

pub mod gallery;
pub mod targets;
