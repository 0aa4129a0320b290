//! Hostile inputs: malformed files with their errors, fuzz targets, and a mutation fuzzer.
//!
//! | module | what |
//! |---|---|
//! | [`gallery`] | one small malformed file per rule, generated; `testdata/malformed` holds the result |
//! | [`target`], [`targets`] | the functions that a fuzzer calls with bytes, with their seeds and mutators |
//! | [`mutate`] | mutations that know the structure of GGUF, JSON, safetensors and templates |
//! | [`guard`] | buffers that begin or end at an inaccessible page |
//! | [`corpus`], [`patch`] | kept inputs in `testdata/corpus`, stored as differences from a seed |
//! | [`driver`] | runs targets in child processes with limits of memory and time |
//!
//! A target returns an [`target::Outcome`]. A panic, a signal, an exceeded limit of memory or a hang is a crash.
//! `scripts/run fuzz` runs the mutation fuzzer, `libfuzzer/` wraps the same targets for libFuzzer, and
//! `cargo run -p fuzz --bin gallery` writes the gallery.
#![deny(unsafe_code)]

pub mod corpus;
pub mod driver;
pub mod gallery;
pub mod guard;
pub mod mutate;
pub mod patch;
pub mod target;
pub mod targets;
