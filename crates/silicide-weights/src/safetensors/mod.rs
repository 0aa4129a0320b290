//! safetensors: a JSON header and data without gaps, as Hugging Face and MLX use it.
//!
//! A [`SafetensorsFile`] is an opened file. Models in several files have an index that names the file of each tensor.

mod file;
mod index;
mod outline;

pub use file::SafetensorsFile;
pub(crate) use index::Index;
