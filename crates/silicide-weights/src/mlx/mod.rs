//! MLX checkpoints: safetensors whose quantised weights come in planes, with the settings in `config.json`.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | modes, bits and groups |
//! | `settings.rs` | what `config.json` says |
//! | `join.rs` | planes made into weights |

mod format;
mod join;
mod settings;

pub use format::{MlxFormat, MlxMode};
pub use join::QuantizedWeight;
pub(crate) use join::join;
pub use settings::{Quantization, Settings};
