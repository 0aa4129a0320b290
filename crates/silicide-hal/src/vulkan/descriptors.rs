//! Descriptor sets for devices that can't put bindings into command buffers: taken from pools that belong to one
//! command buffer and are emptied with it.

use super::gpu::Gpu;
use crate::Result;
use ash::vk;
use std::sync::Arc;

/// Sets in a pool.
const SETS: u32 = 1024;

/// Bindings in a pool: more than most sets have on average; a pool that runs out of either is followed by another.
const BINDINGS: u32 = 8 * SETS;

/// The pools of one command buffer.
pub(super) struct DescriptorPools {
    gpu: Arc<Gpu>,
    pools: Vec<vk::DescriptorPool>,
    /// The pool that sets are taken from.
    current: usize,
}

impl DescriptorPools {
    pub(super) fn new(gpu: &Arc<Gpu>) -> DescriptorPools {
        DescriptorPools { gpu: gpu.clone(), pools: Vec::new(), current: 0 }
    }

    /// Returns all sets to their pools.
    ///
    /// # Safety
    /// The list that used the sets was reached.
    pub(super) unsafe fn reset(&mut self) -> Result<()> {
        for pool in self.pools.iter().take(self.current + 1) {
            // SAFETY: the device does not use the sets of this pool any more (`# Safety`).
            unsafe { self.gpu.device.reset_descriptor_pool(*pool, vk::DescriptorPoolResetFlags::empty()) }
                .map_err(|result| self.gpu.error("vkResetDescriptorPool", result))?;
        }
        self.current = 0;
        Ok(())
    }

    /// Returns a fresh set.
    pub(super) fn take(&mut self, layout: vk::DescriptorSetLayout) -> Result<vk::DescriptorSet> {
        loop {
            let (pool, is_new) = match self.pools.get(self.current) {
                Some(pool) => (*pool, false),
                None => (self.grow()?, true),
            };
            let mut set = vk::DescriptorSet::null();
            let info = vk::DescriptorSetAllocateInfo {
                descriptor_pool: pool,
                descriptor_set_count: 1,
                p_set_layouts: &layout,
                ..Default::default()
            };
            let allocate = self.gpu.device.fp_v1_0().allocate_descriptor_sets;
            // SAFETY: one layout, room for one set. Called directly: ash's wrapper allocates a vector for the result.
            match unsafe { allocate(self.gpu.device.handle(), &info, &mut set) } {
                vk::Result::SUCCESS => return Ok(set),
                vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL if !is_new => {
                    self.current += 1;
                }
                result => return Err(self.gpu.error("vkAllocateDescriptorSets", result)),
            }
        }
    }

    fn grow(&mut self) -> Result<vk::DescriptorPool> {
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(BINDINGS)];
        let create = vk::DescriptorPoolCreateInfo::default().max_sets(SETS).pool_sizes(&sizes);
        // SAFETY: `gpu` keeps the device alive; the array lives on this stack.
        let pool = unsafe { self.gpu.device.create_descriptor_pool(&create, None) }
            .map_err(|result| self.gpu.error("vkCreateDescriptorPool", result))?;
        self.pools.push(pool);
        Ok(pool)
    }
}

impl Drop for DescriptorPools {
    fn drop(&mut self) {
        for pool in self.pools.drain(..) {
            // SAFETY: no list in flight uses the pool: `VulkanDevice::drop` waits for an idle device, `RawDevice::unbake` demands that
            // its replays were reached, and a recording that failed was not submitted.
            unsafe { self.gpu.device.destroy_descriptor_pool(pool, None) };
        }
    }
}
