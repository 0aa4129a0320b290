//! MLX checkpoints: safetensors whose quantised weights come in planes, with the settings in `config.json`.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | what `config.json` says |
//! | `join.rs` | planes made into weights |

mod join;
mod settings;

pub use join::QuantizedWeight;
pub(crate) use join::join;
pub use settings::{Quantization, Settings};
