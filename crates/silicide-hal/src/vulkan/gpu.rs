//! An opened device with the functions of the extensions it uses, and the memory of its loss.
//!
//! A device that was lost stays lost: [`Gpu::check`] is called by every verb first, and every failed call passes
//! [`Gpu::error`], so that no caller has to look for the code of device loss.

use super::VulkanOptions;
use super::adapter::Adapter;
use super::debug::{Labels, Messages};
use super::instance::{Instance, unavailable};
use crate::{HalError, Result};
use ash::vk;
use std::sync::{Arc, OnceLock};

/// The logical device. Everything made from it holds an `Arc` of it.
pub(super) struct Gpu {
    pub(super) device: ash::Device,
    pub(super) adapter: Adapter,
    /// Where bindings can be put straight into command buffers.
    pub(super) push: Option<ash::khr::push_descriptor::Device>,
    /// Where host memory can be imported.
    pub(super) host_memory: Option<ash::ext::external_memory_host::Device>,
    pub(super) labels: Option<Labels>,
    lost: OnceLock<String>,
    // Dropped after the device was destroyed in `drop`.
    instance: Instance,
}

impl Gpu {
    /// Opens device `index` of the adapters.
    pub(super) fn open(index: usize, options: &VulkanOptions) -> Result<Gpu> {
        let instance = Instance::open(options)?;
        let adapters = Adapter::all(&instance, options)?;
        let count = adapters.len();
        let Some(adapter) = adapters.into_iter().nth(index) else {
            let detail = format!("there is no device vulkan:{index}, only {count} can be used");
            return Err(unavailable(&detail, "Open one of those that the device list shows"));
        };
        let device = create_device(&instance, &adapter)?;
        Ok(Gpu {
            push: adapter
                .has_push_descriptors
                .then(|| ash::khr::push_descriptor::Device::new(&instance.raw, &device)),
            host_memory: adapter
                .info
                .features
                .host_import
                .then(|| ash::ext::external_memory_host::Device::new(&instance.raw, &device)),
            labels: instance.has_debug_utils.then(|| Labels::new(&instance.raw, &device)),
            lost: OnceLock::new(),
            device,
            adapter,
            instance,
        })
    }

    /// Fails when the device was lost.
    pub(super) fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(detail) => Err(HalError::DeviceLost { detail: detail.clone() }),
        }
    }

    /// Returns the error of a call, and records a lost device.
    pub(super) fn error(&self, call: &'static str, result: vk::Result) -> HalError {
        match result {
            vk::Result::ERROR_DEVICE_LOST => self.lose(format!("{call}: {result}")),
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
                HalError::OutOfMemory { requested: 0 }
            }
            other => HalError::Driver { call, detail: other.to_string() },
        }
    }

    /// Declares the device lost.
    pub(super) fn lose(&self, detail: String) -> HalError {
        HalError::DeviceLost { detail: self.lost.get_or_init(|| detail).clone() }
    }

    /// Returns the validation layer's messages, when it is loaded.
    pub(super) fn messages(&self) -> Option<&Arc<Messages>> {
        self.instance.messages()
    }

    /// Runs calls and turns a validation message they caused into an error.
    pub(super) fn watched<T>(&self, calls: impl FnOnce() -> Result<T>) -> (Result<T>, Option<HalError>) {
        let Some(messages) = self.messages() else { return (calls(), None) };
        let position = messages.position();
        let outcome = calls();
        (outcome, messages.caused_since(position).map(|message| HalError::Validation { message }))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: every object of the device holds an `Arc` of this, so all of them are gone.
        unsafe { self.device.destroy_device(None) };
    }
}

fn create_device(instance: &Instance, adapter: &Adapter) -> Result<ash::Device> {
    let (target, features) = (&adapter.target, &adapter.info.features);
    let mut extensions = Vec::new();
    if adapter.has_push_descriptors {
        extensions.push(ash::khr::push_descriptor::NAME.as_ptr());
    }
    if features.host_import {
        extensions.push(ash::ext::external_memory_host::NAME.as_ptr());
    }
    if target.cooperative_matrix {
        extensions.push(ash::khr::cooperative_matrix::NAME.as_ptr());
    }
    let subgroups = adapter.subgroups;
    if subgroups.is_extension {
        extensions.push(ash::ext::subgroup_size_control::NAME.as_ptr());
    }
    let mut v11 = vk::PhysicalDeviceVulkan11Features::default()
        .storage_buffer16_bit_access(features.storage_16)
        .uniform_and_storage_buffer16_bit_access(features.storage_16);
    let mut v12 = vk::PhysicalDeviceVulkan12Features::default()
        .timeline_semaphore(true)
        .shader_float16(target.f16)
        .shader_int8(target.int_8)
        .storage_buffer8_bit_access(features.storage_8)
        .host_query_reset(features.timestamps)
        .vulkan_memory_model(target.cooperative_matrix);
    let mut v13 = vk::PhysicalDeviceVulkan13Features::default()
        .shader_integer_dot_product(target.integer_dot)
        .subgroup_size_control(subgroups.is_controlled)
        .compute_full_subgroups(subgroups.are_full);
    let mut sizes = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
        .subgroup_size_control(subgroups.is_controlled)
        .compute_full_subgroups(subgroups.are_full);
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
    let core = vk::PhysicalDeviceFeatures::default().shader_int16(target.int_16).shader_int64(target.int_64);
    let mut all =
        vk::PhysicalDeviceFeatures2::default().features(core).push_next(&mut v11).push_next(&mut v12);
    if adapter.is_1_3 {
        all = all.push_next(&mut v13);
    }
    if subgroups.is_extension {
        all = all.push_next(&mut sizes);
    }
    if target.cooperative_matrix {
        all = all.push_next(&mut matrix);
    }
    let queues =
        [vk::DeviceQueueCreateInfo::default().queue_family_index(adapter.family).queue_priorities(&[1.0])];
    let create = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .push_next(&mut all);
    // SAFETY: the physical device is the instance's and has the extensions and features that are enabled; the chain lives on this stack.
    unsafe { instance.raw.create_device(adapter.physical, &create, None) }.map_err(|result| match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            HalError::OutOfMemory { requested: 0 }
        }
        other => HalError::Driver { call: "vkCreateDevice", detail: other.to_string() },
    })
}
