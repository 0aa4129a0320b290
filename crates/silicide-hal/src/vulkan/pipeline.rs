//! Compiled kernels: SPIR-V from disk or from WGSL, a pipeline from that, kept in a slab that recording looks into.
//!
//! Any number of threads compile at once; the slab is locked only to put the result in.

use super::gpu::Gpu;
use super::layout::{Layout, Layouts};
use crate::wgsl::{has_matrices, is_well_formed, kernel_of, to_spirv};
use crate::{HalError, Program, RawPipeline, Result, WgslKernel};
use ash::vk;
use slab::Slab;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A compiled kernel.
pub(super) struct Pipeline {
    pub(super) raw: vk::Pipeline,
    pub(super) layout: Layout,
}

/// The device and driver that a pipeline cache is for.
#[derive(Clone, Copy)]
pub(super) struct CacheIdentity {
    pub(super) vendor: u32,
    pub(super) device: u32,
    pub(super) uuid: [u8; vk::UUID_SIZE],
}

/// All pipelines of a device, their layouts, and the driver's cache.
pub(super) struct Pipelines {
    gpu: Arc<Gpu>,
    pipelines: RwLock<Slab<Pipeline>>,
    layouts: Layouts,
    cache: vk::PipelineCache,
}

impl Pipelines {
    /// Starts from the driver cache of an earlier run, if that is valid for this device and driver.
    pub(super) fn new(gpu: &Arc<Gpu>, driver_cache: &[u8]) -> Result<Pipelines> {
        let known = match is_cache_of(driver_cache, gpu.adapter.cache_identity) {
            true => driver_cache,
            false => &[],
        };
        let create = vk::PipelineCacheCreateInfo::default().initial_data(known);
        // SAFETY: `gpu` keeps the device alive; `is_cache_of` found this driver's header in the data.
        let cache = unsafe { gpu.device.create_pipeline_cache(&create, None) }
            .map_err(|result| gpu.error("vkCreatePipelineCache", result))?;
        Ok(Pipelines { gpu: gpu.clone(), pipelines: RwLock::default(), layouts: Layouts::new(gpu), cache })
    }

    /// Returns the pipelines, for looking many up.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Slab<Pipeline>> {
        self.pipelines.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a program as SPIR-V in little-endian bytes.
    pub(super) fn translate(&self, program: &Program) -> Result<Vec<u8>> {
        let words = to_spirv(kernel_of(program)?, &self.gpu.adapter.target)?;
        Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// See [`RawDevice::compile`](crate::RawDevice::compile).
    pub(super) fn compile(
        &self,
        label: &str,
        program: &Program,
        binary: Option<&[u8]>,
    ) -> Result<RawPipeline> {
        self.gpu.check()?;
        let kernel = kernel_of(program)?;
        self.check_limits(label, kernel)?;
        let words = match binary.and_then(read_words) {
            Some(words) => words,
            None => to_spirv(kernel, &self.gpu.adapter.target)?,
        };
        // A live kernel has its parameter words in a storage behind its bindings.
        let layout = match kernel.is_live() {
            true => self.layouts.get(kernel.bindings + 1, 0)?,
            false => self.layouts.get(kernel.bindings, kernel.words)?,
        };
        let subgroup = kernel.subgroup();
        let (made, complaint) = self.gpu.watched(|| self.create(label, &words, &layout, subgroup));
        let raw = made?;
        if let Some(labels) = &self.gpu.labels {
            labels.name(raw, label);
        }
        if let Some(complaint) = complaint {
            // SAFETY: `create` has just made it, and no list can name it: it is in no slab.
            unsafe { self.gpu.device.destroy_pipeline(raw, None) };
            return Err(complaint);
        }
        Ok(RawPipeline(self.write().insert(Pipeline { raw, layout }) as u64))
    }

    /// See [`RawDevice::discard`](crate::RawDevice::discard).
    ///
    /// # Safety
    /// The pipeline is live and every ticket that used it was reached.
    pub(super) unsafe fn discard(&self, pipeline: RawPipeline) {
        if let Some(pipeline) = self.write().try_remove(pipeline.0 as usize) {
            // SAFETY: no longer in the slab, and the tickets that used it were reached (`# Safety`).
            unsafe { self.gpu.device.destroy_pipeline(pipeline.raw, None) };
        }
    }

    /// Returns the driver's cache, for the next run.
    pub(super) fn driver_cache(&self) -> Vec<u8> {
        // SAFETY: the cache is live. Without data the next run compiles again, nothing else.
        unsafe { self.gpu.device.get_pipeline_cache_data(self.cache) }.unwrap_or_default()
    }

    /// Fails for a kernel beyond the device's limits, which would be undefined behaviour for the driver.
    fn check_limits(&self, label: &str, kernel: &WgslKernel) -> Result<()> {
        let limits = &self.gpu.adapter.info.limits;
        let bindings = kernel.bindings + u32::from(kernel.is_live());
        if bindings > limits.max_bindings || kernel.words as usize > limits.max_param_bytes / 4 {
            let detail = format!(
                "{} bindings and {} parameter words; the device has {} and {}",
                bindings,
                kernel.words,
                limits.max_bindings,
                limits.max_param_bytes / 4
            );
            return Err(HalError::Compile { label: label.to_owned(), detail });
        }
        self.gpu
            .adapter
            .subgroups
            .check(kernel, &self.gpu.adapter.info.features)
            .map_err(|detail| HalError::Compile { label: label.to_owned(), detail })
    }

    fn create(
        &self,
        label: &str,
        words: &[u32],
        layout: &Layout,
        subgroup: Option<u32>,
    ) -> Result<vk::Pipeline> {
        let device = &self.gpu.device;
        let failed = |call, result| match result {
            vk::Result::ERROR_DEVICE_LOST
            | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
            | vk::Result::ERROR_OUT_OF_HOST_MEMORY => self.gpu.error(call, result),
            other => HalError::Compile { label: label.to_owned(), detail: format!("{call}: {other}") },
        };
        // SAFETY: the words are a module for this device, from the translator or looked at by `read_words`.
        let module =
            unsafe { device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(words), None) }
                .map_err(|result| failed("vkCreateShaderModule", result))?;
        let subgroups = &self.gpu.adapter.subgroups;
        // Each of its subgroups must have all the invocations that hold a matrix, or that the text counts on.
        let flags = match has_matrices(words) || (subgroup.is_some() && subgroups.are_full) {
            true => vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS,
            false => vk::PipelineShaderStageCreateFlags::empty(),
        };
        let size = subgroup.filter(|_| subgroups.is_controlled).unwrap_or(0);
        let mut required =
            vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default().required_subgroup_size(size);
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .flags(flags)
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        if size > 0 {
            stage = stage.push_next(&mut required);
        }
        let create = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.pipeline)];
        // SAFETY: module and layout are live; the cache is synchronised by the driver.
        let made = unsafe { device.create_compute_pipelines(self.cache, &create, None) };
        // SAFETY: the module was made above; Vulkan needs none once its pipeline is made.
        unsafe { device.destroy_shader_module(module, None) };
        match made {
            Ok(pipelines) => pipelines
                .first()
                .copied()
                .ok_or_else(|| failed("vkCreateComputePipelines", vk::Result::ERROR_UNKNOWN)),
            Err((_, result)) => Err(failed("vkCreateComputePipelines", result)),
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slab<Pipeline>> {
        self.pipelines.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        for pipeline in self.write().drain() {
            // SAFETY: the device is idle when its parts are dropped, and the pipeline is in no slab any more.
            unsafe { self.gpu.device.destroy_pipeline(pipeline.raw, None) };
        }
        // SAFETY: `drop` has the only reference, so no thread compiles any more.
        unsafe { self.gpu.device.destroy_pipeline_cache(self.cache, None) };
    }
}

/// Returns the words of a binary from disk, unless it can't be a module.
fn read_words(binary: &[u8]) -> Option<Vec<u32>> {
    let (words, []) = binary.as_chunks::<4>() else { return None };
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    is_well_formed(&words).then_some(words)
}

/// Returns whether `data` is a pipeline cache that this driver wrote for this device. Software drivers and crashes leave
/// headers without content, and drivers do not check what they load.
fn is_cache_of(data: &[u8], identity: CacheIdentity) -> bool {
    let CacheIdentity { vendor, device, uuid } = identity;
    const HEADER: u32 = 32;
    let Some((header, _)) = data.split_first_chunk::<{ HEADER as usize }>() else { return false };
    let (words, _) = header.as_chunks::<4>();
    let word = |i: usize| words.get(i).map(|word| u32::from_le_bytes(*word));
    word(0).is_some_and(|length| length >= HEADER && length as usize <= data.len())
        && word(1) == Some(vk::PipelineCacheHeaderVersion::ONE.as_raw() as u32)
        && word(2) == Some(vendor)
        && word(3) == Some(device)
        && header.ends_with(&uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_drivers_cache_is_loaded() {
        let uuid = [7; vk::UUID_SIZE];
        let mut data: Vec<u8> =
            [32u32, 1, 0x1002, 0x73bf].iter().flat_map(|word| word.to_le_bytes()).collect();
        data.extend_from_slice(&uuid);
        data.extend_from_slice(b"compiled");
        let identity = CacheIdentity { vendor: 0x1002, device: 0x73bf, uuid };
        assert!(is_cache_of(&data, identity));
        assert!(!is_cache_of(&[], identity));
        assert!(!is_cache_of(&data[..31], identity));
        assert!(!is_cache_of(&data, CacheIdentity { vendor: 0x10de, ..identity }));
        assert!(!is_cache_of(&data, CacheIdentity { uuid: [8; vk::UUID_SIZE], ..identity }));
        for byte in [0, 1, 4] {
            let mut broken = data.clone();
            broken[byte] ^= 0xff;
            assert!(!is_cache_of(&broken, identity), "byte {byte}");
        }
    }

    #[test]
    fn binaries_are_whole_words() {
        assert!(read_words(&[3, 2, 35, 7, 0]).is_none());
        assert!(read_words(&[]).is_none());
    }
}
