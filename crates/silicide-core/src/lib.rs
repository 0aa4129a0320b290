//! The safe heart of silicide: devices, buffers, memory, recording, kernel selection.

pub mod error;
pub mod kernel;

pub use error::{Error, Result};
