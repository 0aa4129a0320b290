//! Whole models: against logits in float64, on every device, and real text from a real model.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod experts;
mod goldens;
mod memory;
mod passes;
mod profile;
mod progress;
mod rings;
mod smollm2;
