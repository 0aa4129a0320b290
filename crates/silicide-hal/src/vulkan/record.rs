//! One command buffer with all that recording a list into it needs, to be used again once its list was reached.
//!
//! Recording follows the list: a barrier stands where the list has one, and at both ends, where it orders the list
//! after the one before and makes it visible to the host. A dispatch is at most four calls: bind the pipeline when it
//! changed, write the bindings, push the parameters, dispatch.

use super::descriptors::DescriptorPools;
use super::gpu::Gpu;
use super::layout::Layout;
use super::memory::VulkanBlock;
use super::pipeline::Pipeline;
use super::timestamps::Timestamps;
use crate::{Binding, Command, CommandList, Dispatch, LaunchWords, Result};
use ash::vk;
use slab::Slab;
use std::sync::Arc;

/// Stages that touch memory.
const COMMANDS: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);
const WRITES: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::SHADER_WRITE.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
);
const READS: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::TRANSFER_READ.as_raw(),
);

/// The objects that a list's handles stand for.
pub(super) struct Objects<'a> {
    pub(super) blocks: &'a Slab<VulkanBlock>,
    pub(super) pipelines: &'a Slab<Pipeline>,
}

/// A command buffer and its belongings.
pub(super) struct Recording {
    gpu: Arc<Gpu>,
    pool: vk::CommandPool,
    pub(super) buffer: vk::CommandBuffer,
    pub(super) timestamps: Timestamps,
    descriptors: DescriptorPools,
    /// Scratch for the bindings of one dispatch.
    bound: Vec<vk::DescriptorBufferInfo>,
    /// Whether a debugger's label is open.
    is_labelled: bool,
    /// Scratch for one label.
    text: Vec<u8>,
}

impl Recording {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Recording> {
        let create = vk::CommandPoolCreateInfo::default()
            .queue_family_index(gpu.adapter.family)
            .flags(vk::CommandPoolCreateFlags::TRANSIENT);
        // SAFETY: `gpu` keeps the device alive; `create_device` made it with a queue of the family.
        let pool = unsafe { gpu.device.create_command_pool(&create, None) }
            .map_err(|result| gpu.error("vkCreateCommandPool", result))?;
        // From here on, dropping the value destroys the pool.
        let mut recording = Recording {
            gpu: gpu.clone(),
            pool,
            buffer: vk::CommandBuffer::null(),
            timestamps: Timestamps::new(gpu),
            descriptors: DescriptorPools::new(gpu),
            bound: Vec::with_capacity(gpu.adapter.info.limits.max_bindings as usize),
            is_labelled: false,
            text: Vec::new(),
        };
        let allocate = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: the pool was made above, and no other thread has it.
        let buffers = unsafe { gpu.device.allocate_command_buffers(&allocate) }
            .map_err(|result| gpu.error("vkAllocateCommandBuffers", result))?;
        recording.buffer = buffers.first().copied().unwrap_or_default();
        Ok(recording)
    }

    /// Records a list to be run once, or again and again, replacing the one before.
    ///
    /// # Safety
    /// The list keeps the contract of [`RawDevice::submit`](crate::RawDevice::submit), and the device is through with
    /// the list recorded before.
    pub(super) unsafe fn record(
        &mut self,
        list: &CommandList,
        objects: &Objects<'_>,
        usage: vk::CommandBufferUsageFlags,
    ) -> Result<()> {
        // SAFETY: the list recorded before was reached (`# Safety`).
        unsafe { self.begin(usage) }?;
        self.barrier(COMMANDS, COMMANDS, READS | WRITES);
        let mut last = vk::Pipeline::null();
        for command in &list.commands {
            match command {
                Command::Dispatch(dispatch) => {
                    debug_assert!(objects.pipelines.contains(dispatch.pipeline.0 as usize));
                    // SAFETY: `RawDevice::submit` demands a live pipeline, so the slab holds its handle.
                    let pipeline = unsafe { objects.pipelines.get_unchecked(dispatch.pipeline.0 as usize) };
                    if pipeline.raw != last {
                        last = pipeline.raw;
                        let point = vk::PipelineBindPoint::COMPUTE;
                        // SAFETY: `begin` began the buffer; `RawDevice::submit` demands a live pipeline.
                        unsafe { self.gpu.device.cmd_bind_pipeline(self.buffer, point, last) };
                    }
                    // SAFETY: `RawDevice::submit` demands live blocks and ranges inside them; the pipeline is bound.
                    unsafe { self.dispatch(list, dispatch, &pipeline.layout, objects.blocks) }?;
                }
                Command::Copy { src, dst } => {
                    // SAFETY: `Command::Copy` has ranges of one length that do not overlap, in live blocks.
                    unsafe { self.copy(src, dst, objects.blocks) };
                }
                Command::Fill { dst, value } => {
                    // SAFETY: `RawDevice::submit` demands a live block.
                    let buffer = unsafe { buffer_of(dst, objects.blocks) };
                    // SAFETY: `RawDevice::submit` demands a range of whole words inside of the block.
                    unsafe {
                        self.gpu.device.cmd_fill_buffer(self.buffer, buffer, dst.offset, dst.bytes, *value)
                    };
                }
                Command::Barrier => self.barrier(COMMANDS, COMMANDS, READS | WRITES),
                Command::Mark { label } => {
                    self.timestamps.mark(self.buffer, label)?;
                    self.label(Some(label));
                }
            }
        }
        self.label(None);
        self.timestamps.finish(self.buffer)?;
        self.barrier(COMMANDS, vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
        // SAFETY: `begin` above began the buffer, and nothing has ended it.
        unsafe { self.gpu.device.end_command_buffer(self.buffer) }
            .map_err(|result| self.gpu.error("vkEndCommandBuffer", result))
    }

    /// # Safety
    /// The device is through with the list recorded before.
    unsafe fn begin(&mut self, usage: vk::CommandBufferUsageFlags) -> Result<()> {
        self.timestamps.reset();
        self.is_labelled = false;
        // SAFETY: the list that used the sets was reached (`# Safety`).
        unsafe { self.descriptors.reset() }?;
        let device = &self.gpu.device;
        // SAFETY: the buffer's list was reached (`# Safety`). The pool keeps its memory.
        unsafe { device.reset_command_pool(self.pool, vk::CommandPoolResetFlags::empty()) }
            .map_err(|result| self.gpu.error("vkResetCommandPool", result))?;
        let begin = vk::CommandBufferBeginInfo::default().flags(usage);
        // SAFETY: the buffer was reset with its pool, above.
        unsafe { device.begin_command_buffer(self.buffer, &begin) }
            .map_err(|result| self.gpu.error("vkBeginCommandBuffer", result))
    }

    /// Orders all commands before against `to`, and makes their writes visible to `access`.
    fn barrier(&self, from: vk::PipelineStageFlags, to: vk::PipelineStageFlags, access: vk::AccessFlags) {
        let barriers = [vk::MemoryBarrier::default().src_access_mask(WRITES).dst_access_mask(access)];
        let flags = vk::DependencyFlags::empty();
        // SAFETY: `record`, the only caller, began the buffer and ends it after its last barrier.
        unsafe {
            self.gpu.device.cmd_pipeline_barrier(self.buffer, from, to, flags, &barriers, &[], &[]);
        }
    }

    /// # Safety
    /// The pipeline of `dispatch` is bound, its blocks are live, and its bindings lie in them. Bindings, parameter words and
    /// grid are those that the pipeline was compiled for. The words of a live dispatch lie in an allocated block, at the alignment of
    /// bindings, and are written before the list runs; its pipeline is that of a live kernel with parameter words.
    unsafe fn dispatch(
        &mut self,
        list: &CommandList,
        dispatch: &Dispatch,
        layout: &Layout,
        blocks: &Slab<VulkanBlock>,
    ) -> Result<()> {
        let layout_of_words = LaunchWords::of(dispatch);
        let params =
            dispatch.live.map(|words| Binding { bytes: layout_of_words.grid_offset() as u64, ..words });
        let bindings = list.bindings_of(dispatch);
        if !bindings.is_empty() || params.is_some() {
            self.bound.clear();
            self.bound.extend(bindings.iter().chain(&params).map(|binding| {
                // SAFETY: the block is live (`# Safety`).
                let buffer = unsafe { buffer_of(binding, blocks) };
                vk::DescriptorBufferInfo { buffer, offset: binding.offset, range: binding.bytes }
            }));
            // SAFETY: as many bindings as the pipeline's layout has (`# Safety`).
            unsafe { self.bind(layout) }?;
        }
        let device = &self.gpu.device;
        if let Some(words) = &dispatch.live {
            // SAFETY: the block is live (`# Safety`).
            let buffer = unsafe { buffer_of(words, blocks) };
            let offset = words.offset + layout_of_words.grid_offset() as u64;
            // SAFETY: the buffer is being recorded; three words of the grid lie at this offset, a multiple of 4, in a block that
            // `alloc` made for indirect dispatches (`# Safety`).
            unsafe { device.cmd_dispatch_indirect(self.buffer, buffer, offset) };
            return Ok(());
        }
        let params: &[u8] = bytemuck::cast_slice(list.params_of(dispatch));
        let [x, y, z] = dispatch.grid;
        // SAFETY: the buffer is being recorded; parameters and grid are those of the pipeline (`# Safety`).
        unsafe {
            if !params.is_empty() {
                let stage = vk::ShaderStageFlags::COMPUTE;
                device.cmd_push_constants(self.buffer, layout.pipeline, stage, 0, params);
            }
            device.cmd_dispatch(self.buffer, x, y, z);
        }
        Ok(())
    }

    /// Binds `self.bound` for the following commands.
    ///
    /// # Safety
    /// The layout has as many bindings as there are in `self.bound`.
    unsafe fn bind(&mut self, layout: &Layout) -> Result<()> {
        let infos = self.bound.as_ptr().cast();
        if let Some(push) = &self.gpu.push {
            // SAFETY: the template reads as many infos as the layout has bindings.
            unsafe {
                push.cmd_push_descriptor_set_with_template(
                    self.buffer,
                    layout.template,
                    layout.pipeline,
                    0,
                    infos,
                );
            }
            return Ok(());
        }
        let set = self.descriptors.take(layout.set)?;
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the set is new and of this layout; the template reads as many infos as the layout has bindings.
        unsafe {
            self.gpu.device.update_descriptor_set_with_template(set, layout.template, infos);
            self.gpu.device.cmd_bind_descriptor_sets(self.buffer, point, layout.pipeline, 0, &[set], &[]);
        }
        Ok(())
    }

    /// # Safety
    /// The ranges lie in live blocks, have the same length and do not overlap.
    unsafe fn copy(&self, src: &Binding, dst: &Binding, blocks: &Slab<VulkanBlock>) {
        // SAFETY: both blocks are live (`# Safety`).
        let (from, to) = unsafe { (buffer_of(src, blocks), buffer_of(dst, blocks)) };
        let regions = [vk::BufferCopy { src_offset: src.offset, dst_offset: dst.offset, size: src.bytes }];
        // SAFETY: the ranges lie in their buffers and do not overlap (`# Safety`). Copies may have any length.
        unsafe { self.gpu.device.cmd_copy_buffer(self.buffer, from, to, &regions) };
    }

    /// Ends the open label and opens the next one, for debuggers.
    fn label(&mut self, next: Option<&str>) {
        let Some(labels) = &self.gpu.labels else { return };
        if self.is_labelled {
            labels.end(self.buffer);
        }
        if let Some(next) = next {
            labels.begin(self.buffer, next, &mut self.text);
        }
        self.is_labelled = next.is_some();
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: no list in flight is the buffer's, which goes with its pool: `VulkanDevice::drop` waits for an idle device,
        // `RawDevice::unbake` demands that replays were reached, and a recording that failed was not submitted.
        unsafe { self.gpu.device.destroy_command_pool(self.pool, None) };
    }
}

/// Returns the buffer of a binding's block.
///
/// # Safety
/// The block is live.
unsafe fn buffer_of(binding: &Binding, blocks: &Slab<VulkanBlock>) -> vk::Buffer {
    debug_assert!(blocks.contains(binding.block.0 as usize), "no block {:?} on this device", binding.block);
    // SAFETY: the block is live (`# Safety`), so the slab holds its handle.
    unsafe { blocks.get_unchecked(binding.block.0 as usize) }.buffer
}
