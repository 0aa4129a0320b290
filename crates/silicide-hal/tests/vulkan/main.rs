//! The Vulkan backend on a real driver, with the validation layers on: a missing device is a failure, and so is any
//! message of the layers that a test did not ask for.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod kernels;
mod lists;
mod memory;
mod open;
mod programs;
mod rig;
