//! The Metal backend on a real GPU: a missing device is a failure. Run it under `MTL_DEBUG_LAYER=1`, too: Metal's own
//! validation then stops the program where it is used wrongly.
#![cfg(all(target_vendor = "apple", feature = "metal"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../vulkan/kernels.rs"]
mod kernels;
mod lists;
mod memory;
mod open;
mod programs;
mod rig;
