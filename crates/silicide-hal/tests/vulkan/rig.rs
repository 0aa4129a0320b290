//! A Vulkan device under test, with all validation.

#[path = "../common/rig.rs"]
mod common;

pub(crate) use common::{LONG, Rig, range};
use silicide_hal::vulkan::{self, VulkanOptions};

/// Options of every test: all validation.
pub(crate) fn options() -> VulkanOptions {
    let mut options = VulkanOptions::default();
    options.validation = true;
    options.synchronization_validation = true;
    options
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::with(&options())
    }

    pub(crate) fn with(options: &VulkanOptions) -> Rig {
        Rig::over(vulkan::open(0, options).unwrap())
    }
}
