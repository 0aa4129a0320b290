//! Encoding the commands of one piece of a list into one concurrent compute pass.
//!
//! Encoding follows the list: a barrier stands where the list has one. A dispatch is few calls: set the pipeline when
//! it changed, the buffers that changed, the parameters and sizes, dispatch.

use super::arguments::{TRANSFER_THREADS, Transfer, TransferKind, bind_offset, sizes};
use super::memory::MetalBlock;
use super::pipeline::{Pipeline, Transfers};
use super::text;
use super::timestamps::Taking;
use crate::{Binding, Command, CommandList, Dispatch, LaunchWords};
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLBarrierScope, MTLBuffer, MTLCommandEncoder, MTLComputeCommandEncoder, MTLSize};
use slab::Slab;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;

/// Buffer slots of an encoder.
const SLOTS: usize = 31;

/// A block that no handle names.
const NOTHING: u64 = u64::MAX;

/// The objects that a list's handles stand for.
pub(super) struct Objects<'a> {
    pub(super) blocks: &'a Slab<MetalBlock>,
    pub(super) pipelines: &'a Slab<Pipeline>,
    pub(super) transfers: &'a Transfers,
}

/// The pipeline that the encoder is set to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Running {
    Nothing,
    Kernel(u64),
    Transfer(TransferKind),
}

/// A pass that is being encoded.
pub(super) struct Pass<'a> {
    encoder: &'a ProtocolObject<dyn MTLComputeCommandEncoder>,
    objects: &'a Objects<'a>,
    running: Running,
    /// Block and offset in each slot.
    bound: [(u64, u64); SLOTS],
    /// Whether marks open labelled groups, for debuggers.
    labels: bool,
    is_labelled: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        encoder: &'a ProtocolObject<dyn MTLComputeCommandEncoder>,
        objects: &'a Objects<'a>,
        labels: bool,
    ) -> Pass<'a> {
        let bound = [(NOTHING, 0); SLOTS];
        Pass { encoder, objects, running: Running::Nothing, bound, labels, is_labelled: false }
    }

    /// Encodes commands of a list.
    ///
    /// # Safety
    /// The list keeps the contract of [`RawDevice::submit`](crate::RawDevice::submit).
    pub(super) unsafe fn encode(&mut self, list: &CommandList, commands: Range<usize>, taking: &mut Taking) {
        for command in list.commands.get(commands).unwrap_or(&[]) {
            match command {
                Command::Dispatch(dispatch) => {
                    // SAFETY: `RawDevice::submit` demands live handles and ranges inside their blocks.
                    unsafe { self.dispatch(list, dispatch) };
                }
                Command::Copy { src, dst } => {
                    let (kind, transfer) = Transfer::copy(src, dst);
                    // SAFETY: `Command::Copy` has ranges of one length that do not overlap, in live blocks.
                    unsafe { self.transfer(kind, Some(src), dst, &transfer) };
                }
                Command::Fill { dst, value } => {
                    let transfer = Transfer::fill(dst, *value);
                    // SAFETY: `RawDevice::submit` demands a range inside a live block.
                    unsafe { self.transfer(TransferKind::FillWords, None, dst, &transfer) };
                }
                Command::Barrier => self.encoder.memoryBarrierWithScope(MTLBarrierScope::Buffers),
                Command::Mark { label } => {
                    taking.mark(self.encoder, label);
                    self.label(Some(label));
                }
            }
        }
        self.label(None);
    }

    /// # Safety
    /// The pipeline and the blocks of `dispatch` are live, its bindings lie in their blocks at the device's alignment, and
    /// bindings and parameter words are as many as the kernel declares. The words of a live dispatch lie in their block at that
    /// alignment, and are written before the list runs.
    unsafe fn dispatch(&mut self, list: &CommandList, dispatch: &Dispatch) {
        debug_assert!(self.objects.pipelines.contains(dispatch.pipeline.0 as usize));
        // SAFETY: the pipeline is live (`# Safety`), so the slab holds its handle.
        let pipeline = unsafe { self.objects.pipelines.get_unchecked(dispatch.pipeline.0 as usize) };
        if self.running != Running::Kernel(dispatch.pipeline.0) {
            self.running = Running::Kernel(dispatch.pipeline.0);
            self.encoder.setComputePipelineState(&pipeline.state);
            for (index, bytes) in pipeline.threadgroup_bytes.iter().enumerate() {
                // SAFETY: a multiple of 16 within the device's limit, as was checked when it was compiled.
                unsafe { self.encoder.setThreadgroupMemoryLength_atIndex(*bytes as usize, index) };
            }
        }
        let bindings = list.bindings_of(dispatch);
        for (slot, binding) in bindings.iter().enumerate() {
            // SAFETY: the block is live, and the binding begins inside it at the device's alignment (`# Safety`).
            unsafe { self.bind(slot, binding, binding.offset) };
        }
        // SAFETY: as many words as the kernel declares (`# Safety`), in the slots that its MSL has for them.
        unsafe {
            match &dispatch.live {
                Some(words) => self.bind(pipeline.params_slot, words, words.offset),
                None => self.give(pipeline.params_slot, bytemuck::cast_slice(list.params_of(dispatch))),
            }
            let sizes = sizes(&pipeline.sized, bindings);
            self.give(pipeline.sizes_slot, bytemuck::cast_slice(&sizes));
        }
        if let Some(words) = &dispatch.live {
            let offset = words.offset as usize + LaunchWords::of(dispatch).grid_offset();
            debug_assert!(self.objects.blocks.contains(words.block.0 as usize));
            // SAFETY: the block is live (`# Safety`), so the slab holds its handle.
            let buffer: &ProtocolObject<dyn MTLBuffer> =
                unsafe { &self.objects.blocks.get_unchecked(words.block.0 as usize).buffer };
            // SAFETY: three words of the grid lie at this offset, a multiple of 4 (`# Safety`).
            unsafe {
                self.encoder
                    .dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup(
                        buffer,
                        offset,
                        pipeline.workgroup,
                    );
            }
            return;
        }
        let [width, height, depth] = dispatch.grid.map(|axis| axis as usize);
        self.encoder
            .dispatchThreadgroups_threadsPerThreadgroup(MTLSize { width, height, depth }, pipeline.workgroup);
    }

    /// # Safety
    /// The ranges lie in live blocks, have the same length and do not overlap.
    unsafe fn transfer(
        &mut self,
        kind: TransferKind,
        from: Option<&Binding>,
        to: &Binding,
        transfer: &Transfer,
    ) {
        if self.running != Running::Transfer(kind) {
            self.running = Running::Transfer(kind);
            self.encoder.setComputePipelineState(self.objects.transfers.get(kind));
        }
        // SAFETY: both ranges lie in live blocks (`# Safety`); `transfer.metal` has these slots.
        unsafe {
            if let Some(from) = from {
                self.bind(0, from, bind_offset(from));
            }
            self.bind(1, to, bind_offset(to));
            self.give(2, bytemuck::bytes_of(transfer));
        }
        let line = |width| MTLSize { width, height: 1, depth: 1 };
        self.encoder.dispatchThreadgroups_threadsPerThreadgroup(
            line(transfer.groups() as usize),
            line(TRANSFER_THREADS as usize),
        );
    }

    /// Binds a block at an offset, if it is not already.
    ///
    /// # Safety
    /// The block is live and the offset lies in it.
    unsafe fn bind(&mut self, slot: usize, binding: &Binding, offset: u64) {
        let Some(bound) = self.bound.get_mut(slot) else { return };
        let (block, before) = std::mem::replace(bound, (binding.block.0, offset));
        if block != binding.block.0 {
            debug_assert!(self.objects.blocks.contains(binding.block.0 as usize));
            // SAFETY: the block is live (`# Safety`), so the slab holds its handle.
            let buffer: &ProtocolObject<dyn MTLBuffer> =
                unsafe { &self.objects.blocks.get_unchecked(binding.block.0 as usize).buffer };
            // SAFETY: the offset lies in the buffer (`# Safety`), and the encoder has this slot.
            unsafe { self.encoder.setBuffer_offset_atIndex(Some(buffer), offset as usize, slot) };
        } else if before != offset {
            // SAFETY: the slot holds this block's buffer.
            unsafe { self.encoder.setBufferOffset_atIndex(offset as usize, slot) };
        }
    }

    /// Copies bytes to a slot; does nothing if there are none.
    ///
    /// # Safety
    /// At most 4096 bytes, which the kernel expects in this slot.
    unsafe fn give(&mut self, slot: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some(bound) = self.bound.get_mut(slot) {
            *bound = (NOTHING, 0);
        }
        // The framework only reads them.
        let start = NonNull::from(bytes).cast::<c_void>();
        // SAFETY: at most 4096 bytes (`# Safety`), which live until the call has copied them.
        unsafe { self.encoder.setBytes_length_atIndex(start, bytes.len(), slot) };
    }

    /// Ends the open label and opens the next one, for debuggers.
    fn label(&mut self, next: Option<&str>) {
        if !self.labels {
            return;
        }
        if self.is_labelled {
            self.encoder.popDebugGroup();
        }
        if let Some(next) = next {
            self.encoder.pushDebugGroup(&text(next));
        }
        self.is_labelled = next.is_some();
    }
}
