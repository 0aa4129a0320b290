//! GGUF: one file with metadata and tensors, as llama.cpp and its kin use it.
//!
//! A [`GgufFile`] is an opened file; its metadata are [`Value`]s. A [`GgufWriter`] writes one. Models in several files, and
//! big-endian files, are read too.

mod encode;
mod endian;
mod file;
mod header;
mod kind;
mod split;
mod value;
mod writer;

pub use encode::Encode;
pub use file::GgufFile;
pub use kind::Kind;
pub(crate) use split::{open_all, position};
pub use value::{Array, Text, Value};
pub use writer::{CompleteGguf, GgufStream, GgufWriter};

/// The first bytes of every file.
pub(crate) const MAGIC: &[u8; 4] = b"GGUF";
/// Tensor data begins at multiples of this, unless the file says otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;
/// The key with which it says otherwise.
const ALIGNMENT_KEY: &str = "general.alignment";
