//! Whole models: against logits in float64, on every device, and real text from a real model.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bits;
mod common;
mod experts;
mod goldens;
mod memory;
mod passes;
mod profile;
mod progress;
mod random;
mod repack;
mod rings;
mod smollm2;
#[cfg(feature = "vulkan")]
mod split;
