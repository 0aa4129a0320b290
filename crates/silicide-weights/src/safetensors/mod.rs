//! safetensors: a JSON header and data without gaps, as Hugging Face and MLX use it.
//!
//! | file | what |
//! |---|---|
//! | `outline.rs` | what a header may look like, checked before anything is built from it |
//! | `file.rs` | an opened file |
//! | `index.rs` | models in several files |

mod file;
mod index;
mod outline;

pub use file::SafetensorsFile;
pub(crate) use index::Index;
