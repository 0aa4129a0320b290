//! The verbs of [`RawDevice`] on Vulkan: each is a door to the part that does it, closed once the device is lost.

use super::VulkanOptions;
use super::gpu::Gpu;
use super::memory::Blocks;
use super::pipeline::Pipelines;
use super::record::Objects;
use super::submit::Queue;
use super::timeline::VulkanTimeline;
use crate::{
    BlockDesc, CommandList, DeviceInfo, HostRegion, Imported, Program, RawBaked, RawBlock, RawDevice,
    RawPipeline, Result, Span, Ticket,
};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// An opened Vulkan device.
pub(super) struct VulkanDevice {
    gpu: Arc<Gpu>,
    queue: Queue,
    timeline: VulkanTimeline,
    pipelines: Pipelines,
    blocks: Blocks,
}

impl VulkanDevice {
    pub(super) fn open(index: usize, options: &VulkanOptions) -> Result<VulkanDevice> {
        let gpu = Arc::new(Gpu::open(index, options)?);
        Ok(VulkanDevice {
            queue: Queue::new(&gpu),
            timeline: VulkanTimeline::new(&gpu)?,
            pipelines: Pipelines::new(&gpu, &options.driver_cache)?,
            blocks: Blocks::new(&gpu),
            gpu,
        })
    }
}

// SAFETY: blocks stay mapped until they are freed; every submission begins with a barrier against those before it and
// signals the timeline in order; `wait` returns `Ok` only when the timeline has the ticket and no failure is noted.
unsafe impl RawDevice for VulkanDevice {
    fn info(&self) -> &DeviceInfo {
        &self.gpu.adapter.info
    }

    unsafe fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock> {
        self.blocks.alloc(desc)
    }

    unsafe fn import(&self, host: HostRegion) -> Result<Option<Imported>> {
        self.blocks.import(host)
    }

    unsafe fn free(&self, block: RawBlock) {
        // SAFETY: `RawDevice::free` demands a live block whose tickets were reached.
        unsafe { self.blocks.free(block) };
    }

    unsafe fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>> {
        self.blocks.map(block)
    }

    fn translate(&self, program: &Program) -> Result<Option<Vec<u8>>> {
        self.pipelines.translate(program).map(Some)
    }

    unsafe fn compile(&self, label: &str, program: &Program, binary: Option<&[u8]>) -> Result<RawPipeline> {
        self.pipelines.compile(label, program, binary)
    }

    unsafe fn discard(&self, pipeline: RawPipeline) {
        // SAFETY: `RawDevice::discard` demands a live pipeline whose tickets were reached.
        unsafe { self.pipelines.discard(pipeline) };
    }

    fn driver_cache(&self) -> Vec<u8> {
        self.pipelines.driver_cache()
    }

    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
        let (blocks, pipelines) = (self.blocks.read(), self.pipelines.read());
        let objects = Objects { blocks: &blocks, pipelines: &pipelines };
        // SAFETY: the conditions are those of `RawDevice::submit`; both slabs stay locked until the list is recorded.
        let outcome = unsafe { self.queue.submit(list, ticket, &objects, &self.timeline) };
        if let Err(error) = &outcome {
            self.timeline.ledger.skip(ticket, error);
        }
        outcome
    }

    unsafe fn bake(&self, list: &CommandList) -> Result<RawBaked> {
        self.gpu.check()?;
        let (blocks, pipelines) = (self.blocks.read(), self.pipelines.read());
        let objects = Objects { blocks: &blocks, pipelines: &pipelines };
        // SAFETY: the conditions are those of `RawDevice::bake`; both slabs stay locked until the list is recorded.
        unsafe { self.queue.bake(list, &objects) }
    }

    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()> {
        // SAFETY: the conditions are those of `RawDevice::replay`.
        let outcome = unsafe { self.queue.replay(baked, ticket, &self.timeline) };
        if let Err(error) = &outcome {
            self.timeline.ledger.skip(ticket, error);
        }
        outcome
    }

    unsafe fn unbake(&self, baked: RawBaked) {
        // SAFETY: the conditions are those of `RawDevice::unbake`.
        unsafe { self.queue.unbake(baked, &self.timeline) };
    }

    fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        self.timeline.wait(ticket, timeout)
    }

    fn reached(&self) -> Result<Ticket> {
        self.timeline.reached()
    }

    fn spans(&self, ticket: Ticket) -> Vec<Span> {
        self.queue.spans(ticket, &self.timeline)
    }

    fn validation_messages(&self) -> Vec<String> {
        self.gpu.messages().map(|messages| messages.drain()).unwrap_or_default()
    }
}

impl Drop for VulkanDevice {
    fn drop(&mut self) {
        // SAFETY: the device is being dropped, so no other thread uses it. A lost device runs nothing.
        let _ = unsafe { self.gpu.device.device_wait_idle() };
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
