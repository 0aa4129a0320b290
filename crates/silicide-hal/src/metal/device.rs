//! The verbs of [`RawDevice`] on Metal: each is a door to the part that does it, closed once the device is lost.

use super::MetalOptions;
use super::capture::capture;
use super::gpu::Gpu;
use super::memory::Blocks;
use super::pipeline::Pipelines;
use super::record::Objects;
use super::residency::Residency;
use super::submit::Queue;
use crate::baked::BakedLists;
use crate::{
    BlockDesc, CommandList, DeviceInfo, HostRegion, Imported, NativeObject, Program, RawBaked, RawBlock,
    RawDevice, RawPipeline, Result, Span, Ticket,
};
use objc2::rc::Retained;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// An opened Metal device. Parts are dropped in this order, after everything submitted has finished.
pub(super) struct MetalDevice {
    queue: Queue,
    pipelines: Pipelines,
    blocks: Blocks,
    baked: BakedLists,
    gpu: Arc<Gpu>,
}

impl MetalDevice {
    pub(super) fn open(index: usize, options: &MetalOptions) -> Result<MetalDevice> {
        let gpu = Arc::new(Gpu::open(index, options)?);
        let residency = Arc::new(Residency::new(&gpu, options.keep_warm));
        Ok(MetalDevice {
            queue: Queue::new(&gpu, &residency)?,
            pipelines: Pipelines::new(&gpu, options.driver_cache.as_deref())?,
            blocks: Blocks::new(&gpu, &residency),
            baked: BakedLists::default(),
            gpu,
        })
    }
}

// SAFETY: blocks stay where they are until they are freed; every pass waits for the fence that the one before updates,
// and the timeline is signalled in order; `wait` returns `Ok` only when the ticket's command buffers are complete and
// none of them has failed.
unsafe impl RawDevice for MetalDevice {
    fn info(&self) -> &DeviceInfo {
        &self.gpu.adapter.info
    }

    unsafe fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock> {
        self.blocks.alloc(desc)
    }

    unsafe fn import(&self, host: HostRegion) -> Result<Option<Imported>> {
        self.blocks.import(host)
    }

    unsafe fn adopt(&self, object: NonNull<c_void>) -> Result<Option<RawBlock>> {
        self.gpu.check()?;
        // SAFETY: `RawDevice::adopt` demands a live `MTLBuffer`.
        unsafe { self.blocks.adopt(object) }
    }

    unsafe fn native(&self, of: NativeObject) -> Option<NonNull<c_void>> {
        let object: *const c_void = match of {
            NativeObject::Device => Retained::as_ptr(&self.gpu.adapter.device).cast(),
            NativeObject::Queue => Retained::as_ptr(&self.gpu.queue).cast(),
            NativeObject::Timeline => Retained::as_ptr(&self.queue.timeline.event).cast(),
            NativeObject::Block(block) => {
                Retained::as_ptr(&self.blocks.read().get(block.0 as usize)?.buffer).cast()
            }
        };
        NonNull::new(object.cast_mut())
    }

    unsafe fn free(&self, block: RawBlock) {
        self.blocks.free(block);
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
        self.pipelines.discard(pipeline);
    }

    fn driver_cache(&self) -> Vec<u8> {
        self.pipelines.driver_cache()
    }

    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
        let (blocks, pipelines) = (self.blocks.read(), self.pipelines.read());
        let objects =
            Objects { blocks: &blocks, pipelines: &pipelines, transfers: &self.pipelines.transfers };
        // SAFETY: the conditions are those of `RawDevice::submit`; both slabs stay locked until the list is encoded.
        let outcome = unsafe { self.queue.submit(list, ticket, &objects) };
        if let Err(error) = &outcome {
            self.queue.timeline.ledger.skip(ticket, error);
        }
        outcome
    }

    unsafe fn bake(&self, list: &CommandList) -> Result<RawBaked> {
        self.gpu.check()?;
        Ok(self.baked.bake(list))
    }

    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()> {
        // Command buffers are used once, so the list is encoded again.
        // SAFETY: `RawDevice::bake` demands of its list what `submit` does, until it is unbaked.
        self.baked.with(baked, |list| unsafe { self.submit(list, ticket) })
    }

    unsafe fn unbake(&self, baked: RawBaked) {
        self.baked.unbake(baked);
    }

    fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        self.queue.wait(ticket, timeout)
    }

    fn reached(&self) -> Result<Ticket> {
        self.queue.reached()
    }

    fn spans(&self, ticket: Ticket) -> Vec<Span> {
        self.queue.spans(ticket)
    }

    fn capture(&self, to: Option<&Path>) -> Result<()> {
        capture(&self.gpu, to)
    }
}

impl Drop for MetalDevice {
    fn drop(&mut self) {
        self.queue.drain();
    }
}
