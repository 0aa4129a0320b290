//! The Vulkan backend on a real driver, with the validation layers on: a missing device is a failure, and so is a
//! validation message that a test does not expect.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../contract/mod.rs"]
mod contract;
mod lists;
mod open;
mod programs;

use contract::{Bench, Rig};
use silicide_hal::vulkan::{self, VulkanOptions};
use silicide_hal::{DeviceInfo, RawDevice, Result};
use std::sync::Arc;

/// A Vulkan device with all validation, whose bindings are pushed or lie in descriptor sets.
struct Vulkan<const PUSH_DESCRIPTORS: bool>;

/// Options of every test: all validation.
fn options() -> VulkanOptions {
    VulkanOptions::default().validation(true).synchronization_validation(true)
}

/// A device with options of its own.
fn bench(options: &VulkanOptions) -> Bench<Vulkan<true>> {
    Bench::new(vulkan::open(0, options).unwrap())
}

impl<const PUSH_DESCRIPTORS: bool> Rig for Vulkan<PUSH_DESCRIPTORS> {
    const CANNOT: &'static [(&'static str, &'static str)] = &[];

    fn open(index: usize) -> Result<Arc<dyn RawDevice>> {
        vulkan::open(index, &options().push_descriptors(PUSH_DESCRIPTORS))
    }

    fn list() -> Vec<DeviceInfo> {
        vulkan::enumerate().unwrap()
    }
}

mod pushed {
    crate::contract::contract_tests!(crate::Vulkan<true>);
}

mod descriptor_sets {
    crate::contract::contract_tests!(crate::Vulkan<false>);
}
