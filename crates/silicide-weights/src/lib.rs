//! Weight files: hostile bytes in, proven entries out.
//!
//! | item | what |
//! |---|---|
//! | [`Source`] | a model of any format: metadata, entries, bytes |
//! | [`gguf`] | GGUF files: reading and writing |
//! | [`safetensors`] | safetensors files |
//! | [`mlx`] | MLX's quantised checkpoints |
//! | [`limits`] | what a file may claim, at most |
//! | [`Error`] | what is wrong, and where |
//! | [`unfinished()`] | output files that appear when they are complete |
//!
//! Nothing here allocates more than a small multiple of the bytes that are there, panics, or uses a length
//! before comparing it with the bytes that remain.

mod bytes;
mod checkpoint;
mod config;
mod cursor;
mod entry;
mod error;
mod foreign;
pub mod gguf;
mod json;
pub mod limits;
mod map;
pub mod mlx;
mod names;
mod network;
pub mod safetensors;
mod source;
mod unfinished;

pub use bytes::{Bytes, Load, ReadEvent};
pub use config::Config;
pub use entry::{Entry, FileRegion, Stored};
pub use error::{Error, Fault, Result};
pub use gguf::GgufFile;
pub use map::MappedFile;
pub use mlx::QuantizedWeight;
pub use safetensors::SafetensorsFile;
pub use source::{Container, Source};
pub use unfinished::unfinished;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
