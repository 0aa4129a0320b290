//! The Vulkan backend: kernels are SPIR-V made from WGSL, a submission is one command buffer on one queue.
//!
//! Everything is found at run time. Without a loader, a driver or a device that has what is needed (Vulkan 1.2 with
//! timeline semaphores), [`enumerate`] and [`open`] return an error that names what is missing and what to install.
//!
//! | file | what |
//! |---|---|
//! | `instance` | the loader, layers, and finding devices |
//! | `adapter`, `matrix`, `subgroup` | description and features of a device |
//! | `gpu` | an opened device, and where its loss is remembered |
//! | `device` | the verbs of [`RawDevice`] |
//! | `memory`, `memory_types` | blocks: allocated, imported, mapped; where they go |
//! | `pipeline`, `layout` | compiled kernels and the layouts they share |
//! | `submit`, `record`, `descriptors` | lists into command buffers, recycled |
//! | `baked` | command buffers that are kept and submitted again |
//! | `timeline` | tickets: waiting, failures |
//! | `timestamps` | device times of marks |
//! | `debug` | validation messages and labels for debuggers |
//!
//! Every part destroys its own Vulkan objects when dropped and holds the `gpu::Gpu` that they belong to, so that a
//! device that fails half-way through opening leaks nothing.

mod adapter;
mod baked;
mod debug;
mod descriptors;
mod device;
mod gpu;
mod instance;
mod layout;
mod matrix;
mod memory;
mod memory_types;
mod pipeline;
mod record;
mod subgroup;
mod submit;
mod timeline;
mod timestamps;

use crate::{DeviceInfo, RawDevice, Result};
use std::sync::Arc;

/// How to open a device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VulkanOptions {
    /// Load the Khronos validation layer and turn its warnings and errors into errors of ours.
    pub validation: bool,
    /// With `validation`: also look for missing barriers. It sees bound windows, not the elements that kernels touch
    /// in them: lists whose neighbouring views share a window make it report errors without cause.
    pub synchronization_validation: bool,
    /// The result of [`RawDevice::driver_cache`] in an earlier run. Ignored if it is not from this device and driver.
    pub driver_cache: Vec<u8>,
    /// Put bindings straight into the command buffer where the device can; otherwise descriptor sets are used.
    pub push_descriptors: bool,
}

impl Default for VulkanOptions {
    fn default() -> VulkanOptions {
        VulkanOptions {
            validation: false,
            synchronization_validation: false,
            driver_cache: Vec::new(),
            push_descriptors: true,
        }
    }
}

impl VulkanOptions {
    /// Sets whether the Khronos validation layer runs.
    pub fn validation(mut self, validation: bool) -> VulkanOptions {
        self.validation = validation;
        self
    }

    /// Sets whether the validation layer looks for missing barriers.
    pub fn synchronization_validation(mut self, validation: bool) -> VulkanOptions {
        self.synchronization_validation = validation;
        self
    }

    /// Sets the driver cache of an earlier run.
    pub fn driver_cache(mut self, cache: Vec<u8>) -> VulkanOptions {
        self.driver_cache = cache;
        self
    }

    /// Sets whether bindings are put into the command buffer.
    pub fn push_descriptors(mut self, push: bool) -> VulkanOptions {
        self.push_descriptors = push;
        self
    }
}

/// Returns the devices that can be opened, real GPUs before software ones. Position in the list is the index for [`open`].
pub fn enumerate() -> Result<Vec<DeviceInfo>> {
    let options = VulkanOptions::default();
    let instance = instance::Instance::open(&options)?;
    let adapters = adapter::Adapter::all(&instance, &options)?;
    Ok(adapters.into_iter().map(|adapter| adapter.info).collect())
}

/// Opens device `index` of [`enumerate`].
pub fn open(index: usize, options: &VulkanOptions) -> Result<Arc<dyn RawDevice>> {
    Ok(Arc::new(device::VulkanDevice::open(index, options)?))
}
