//! The Metal backend on a real GPU: a missing device is a failure. Run it under `MTL_DEBUG_LAYER=1`, too: Metal's own
//! validation then stops the program where it is used wrongly.
#![cfg(all(target_vendor = "apple", feature = "metal"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../contract/mod.rs"]
mod contract;
mod lists;
mod memory;
mod open;
mod programs;

use contract::{Bench, Rig};
use silicide_hal::metal::{self, MetalOptions};
use silicide_hal::{DeviceInfo, RawDevice, Result};
use std::sync::Arc;

/// A Metal device.
struct Metal;

/// Options of every test: errors name passes.
fn options() -> MetalOptions {
    MetalOptions::default().validation(true)
}

/// A device with options of its own.
fn bench(options: &MetalOptions) -> Bench<Metal> {
    Bench::new(metal::open(0, options).unwrap())
}

impl Rig for Metal {
    const CANNOT: &'static [(&'static str, &'static str)] =
        &[("a_binding_can_be_as_large_as_the_limit", "the limit is most of the machine's memory")];

    fn open(index: usize) -> Result<Arc<dyn RawDevice>> {
        metal::open(index, &options())
    }

    fn open_timed() -> Result<Arc<dyn RawDevice>> {
        metal::open(0, &options().timing(true))
    }

    fn list() -> Vec<DeviceInfo> {
        metal::enumerate().unwrap()
    }
}

contract::contract_tests!(crate::Metal);
