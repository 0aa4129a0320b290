//! MLX checkpoints: safetensors whose quantised weights come in planes, with the settings in `config.json`.
//!
//! [`Settings`] are the quantization settings of `config.json`; a [`QuantizedWeight`] is the planes of one weight.

mod join;
mod settings;

pub use join::QuantizedWeight;
pub(crate) use join::join;
pub use settings::{Quantization, Settings};
