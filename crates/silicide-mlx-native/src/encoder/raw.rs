//! Dispatches by kernel. The kernels of mlx-native are MSL text, which is not here: what a capture holds can be dispatched, and WGSL that
//! the program registered (`text.rs`).
//!
//! These functions return nothing, so a kernel without a program fails the command buffer: `commit_and_wait` returns the error.

use super::text::{TextGrid, views};
use super::{CapturedOpKind, CommandEncoder, DispatchKind, RecordedBinding};
use crate::hazard::OperandStart;
use crate::metal::{ComputePipelineState, ComputePipelineStateRef, MTLSize};
use crate::{MlxBuffer, counters};

/// An operand of a dispatch by kernel.
#[derive(Clone, Copy, Debug)]
pub enum KernelArg<'a> {
    /// A buffer, from the start of its view.
    Buffer(&'a MlxBuffer),
    /// A buffer, from a byte of its allocation on.
    BufferWithOffset(&'a MlxBuffer, u64),
    /// Constants.
    Bytes(&'a [u8]),
}

/// A dispatch whose kernel and constants are fixed.
#[derive(Clone, Debug)]
pub struct DispatchRecord {
    /// The kernel.
    pub pipeline: ComputePipelineState,
    /// Groups.
    pub threadgroups: MTLSize,
    /// Threads of a group.
    pub threads_per_tg: MTLSize,
    /// Memory of a group.
    pub threadgroup_mem: Vec<(u64, u64)>,
    /// Constants.
    pub params_bytes: Vec<u8>,
    /// The slot of the constants.
    pub params_slot: u64,
    /// Slots of the buffers.
    pub buffer_slots: Vec<u64>,
    /// The kind of op.
    pub op_kind: CapturedOpKind,
    /// The kernel's name.
    pub kernel_name: String,
}

/// Where an argument begins; `None` for constants, which no capture has.
fn start_of(argument: &KernelArg<'_>) -> Option<OperandStart> {
    match argument {
        KernelArg::Buffer(buffer) => Some(OperandStart::of(buffer)),
        KernelArg::BufferWithOffset(buffer, offset) => {
            Some(OperandStart::at(&buffer.metal_buffer().0, *offset))
        }
        KernelArg::Bytes(_) => None,
    }
}

fn starts_of_buffers(buffers: &[(u64, &MlxBuffer)]) -> Vec<(u64, Option<OperandStart>)> {
    buffers.iter().map(|(slot, buffer)| (*slot, Some(OperandStart::of(buffer)))).collect()
}

fn starts_of_arguments(arguments: &[(u64, KernelArg<'_>)]) -> Vec<(u64, Option<OperandStart>)> {
    arguments.iter().map(|(slot, argument)| (*slot, start_of(argument))).collect()
}

fn starts_of_records(records: &[(u64, RecordedBinding)]) -> Vec<(u64, Option<OperandStart>)> {
    let start = |record: &RecordedBinding| match record {
        RecordedBinding::Buffer { metal_buffer, offset } => Some(OperandStart::at(&metal_buffer.0, *offset)),
        RecordedBinding::Bytes(_) => None,
    };
    records.iter().map(|(slot, record)| (*slot, start(record))).collect()
}

/// Declares dispatches that differ in their arguments only. Those in brackets are the operands, with the function that reads them.
macro_rules! raw_dispatches {
    ($($(#[$doc:meta])* $name:ident(
        [$starts:ident: $operands:ident: $of:ty], $($argument:ident: $type:ty),*
    ) over $kind:expr, $grid:ident;)*) => {
        impl CommandEncoder {$(
            $(#[$doc])*
            ///
            /// Runs registered WGSL, or a kernel of a capture over the operands that it was recorded with. Other operands, constants of
            /// captured kernels, and kernels that no capture holds fail the command buffer.
            pub fn $name(&mut self, pipeline: &ComputePipelineStateRef, $operands: $of, $($argument: $type),*) {
                $(let _ = $argument;)*
                match pipeline.named() {
                    Some(kernel) => self.launch_text(kernel, pipeline.label(), &views($operands), TextGrid { kind: $kind, size: $grid }),
                    None => self.replay_over(pipeline, &$starts($operands)),
                }
            }
        )*}
    };
}

raw_dispatches! {
    /// Dispatches threads over buffers.
    encode(
        [starts_of_buffers: buffers: &[(u64, &MlxBuffer)]], grid_size: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::Threads, grid_size;
    /// Dispatches groups over buffers.
    encode_threadgroups(
        [starts_of_buffers: buffers: &[(u64, &MlxBuffer)]], threadgroups: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::ThreadGroups, threadgroups;
    /// Dispatches groups over buffers, with memory of a group.
    encode_threadgroups_with_shared(
        [starts_of_buffers: buffers: &[(u64, &MlxBuffer)]], threadgroup_mem: &[(u64, u64)], threadgroups: MTLSize,
        threadgroup_size: MTLSize
    ) over DispatchKind::ThreadGroups, threadgroups;
    /// Dispatches threads over arguments.
    encode_with_args(
        [starts_of_arguments: bindings: &[(u64, KernelArg<'_>)]], grid_size: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::Threads, grid_size;
    /// Dispatches groups over arguments.
    encode_threadgroups_with_args(
        [starts_of_arguments: bindings: &[(u64, KernelArg<'_>)]], threadgroups: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::ThreadGroups, threadgroups;
    /// Dispatches groups over arguments, with memory of a group.
    encode_threadgroups_with_args_and_shared(
        [starts_of_arguments: bindings: &[(u64, KernelArg<'_>)]], threadgroup_mem: &[(u64, u64)],
        threadgroups: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::ThreadGroups, threadgroups;
    /// Dispatches what a capture recorded.
    replay_dispatch(
        [starts_of_records: bindings: &[(u64, RecordedBinding)]], threadgroup_memory: &[(u64, u64)],
        threads_per_grid: MTLSize, threads_per_threadgroup: MTLSize, dispatch_kind: DispatchKind
    ) over dispatch_kind, threads_per_grid;
}

/// Declares dispatches that say what they read and write.
macro_rules! tracked_dispatches {
    ($($(#[$doc:meta])* $name:ident(
        [$starts:ident: $operands:ident: $of:ty] $(, $before:ident: $before_type:ty)*; $($after:ident: $after_type:ty),*
    ) over $kind:expr, $grid:ident;)*) => {
        impl CommandEncoder {$(
            $(#[$doc])*
            ///
            /// Runs registered WGSL, or a kernel of a capture over the operands that it was recorded with. Other operands, constants of
            /// captured kernels, and kernels that no capture holds fail the command buffer.
            pub fn $name(
                &mut self,
                pipeline: &ComputePipelineStateRef,
                $operands: $of,
                $($before: $before_type,)*
                reads: &[&MlxBuffer],
                writes: &[&MlxBuffer],
                $($after: $after_type),*
            ) {
                $(let _ = $before;)*
                $(let _ = $after;)*
                self.track(reads, writes);
                match pipeline.named() {
                    Some(kernel) => self.launch_text(kernel, pipeline.label(), &views($operands), TextGrid { kind: $kind, size: $grid }),
                    None => self.replay_over(pipeline, &$starts($operands)),
                }
            }
        )*}
    };
}

tracked_dispatches! {
    /// Dispatches groups over buffers.
    dispatch_tracked_threadgroups(
        [starts_of_buffers: buffers: &[(u64, &MlxBuffer)]]; threadgroups: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::ThreadGroups, threadgroups;
    /// Dispatches groups over buffers, with memory of a group.
    dispatch_tracked_threadgroups_with_shared(
        [starts_of_buffers: buffers: &[(u64, &MlxBuffer)]], threadgroup_mem: &[(u64, u64)];
        threadgroups: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::ThreadGroups, threadgroups;
    /// Dispatches groups over arguments.
    dispatch_tracked_threadgroups_with_args(
        [starts_of_arguments: bindings: &[(u64, KernelArg<'_>)]]; threadgroups: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::ThreadGroups, threadgroups;
    /// Dispatches groups over arguments, with memory of a group.
    dispatch_tracked_threadgroups_with_args_and_shared(
        [starts_of_arguments: bindings: &[(u64, KernelArg<'_>)]], threadgroup_mem: &[(u64, u64)];
        threadgroups: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::ThreadGroups, threadgroups;
    /// Dispatches threads over arguments.
    dispatch_tracked_threads_with_args(
        [starts_of_arguments: bindings: &[(u64, KernelArg<'_>)]]; grid_size: MTLSize, threadgroup_size: MTLSize
    ) over DispatchKind::Threads, grid_size;
}

impl CommandEncoder {
    /// Dispatches a record over buffers, in the order of its slots. Fails the command buffer where these are not the operands of the
    /// record's kernel, or where it has constants.
    pub fn dispatch_record(&mut self, rec: &DispatchRecord, runtime_buffers: &[&MlxBuffer]) {
        if runtime_buffers.len() != rec.buffer_slots.len() {
            let (expected, got) = (rec.buffer_slots.len(), runtime_buffers.len());
            self.fail(format!("{}: takes {expected} buffers, got {got}", rec.kernel_name));
            return;
        }
        let buffers = || rec.buffer_slots.iter().copied().zip(runtime_buffers.iter().copied());
        if let Some(kernel) = rec.pipeline.named() {
            let bytes = (rec.params_slot, KernelArg::Bytes(&rec.params_bytes));
            let bytes = (!rec.params_bytes.is_empty()).then_some(bytes);
            let arguments: Vec<(u64, KernelArg<'_>)> =
                buffers().map(|(slot, buffer)| (slot, KernelArg::Buffer(buffer))).chain(bytes).collect();
            let grid = TextGrid { kind: DispatchKind::ThreadGroups, size: rec.threadgroups };
            self.launch_text(kernel, &rec.kernel_name, &views(&arguments), grid);
            return;
        }
        if !rec.params_bytes.is_empty() {
            self.fail(format!("{}: constants of a captured kernel cannot be set", rec.kernel_name));
            return;
        }
        let buffers: Vec<(u64, &MlxBuffer)> = buffers().collect();
        self.replay_over(&rec.pipeline, &starts_of_buffers(&buffers));
    }

    /// Runs a captured kernel if these operands, by slot, are its own.
    fn replay_over(&mut self, pipeline: &ComputePipelineStateRef, operands: &[(u64, Option<OperandStart>)]) {
        if let Some(captured) = pipeline.program() {
            if operands.len() != captured.operands.len() {
                let (name, expected, got) = (pipeline.label(), captured.operands.len(), operands.len());
                self.fail(format!("{name}: was captured with {expected} operands, got {got}"));
                return;
            }
            let recorded =
                |slot: u64| usize::try_from(slot).ok().and_then(|slot| captured.operands.get(slot));
            let other =
                operands.iter().find(|(slot, start)| start.is_none() || recorded(*slot) != start.as_ref());
            if let Some((slot, _)) = other {
                let name = pipeline.label();
                self.fail(format!(
                    "{name}: slot {slot} is not the operand that the kernel was captured with"
                ));
                return;
            }
        }
        self.replay(pipeline);
    }

    /// Runs the program of a captured kernel, or captures it again.
    pub(crate) fn replay(&mut self, pipeline: &ComputePipelineStateRef) {
        self.pending_kind = None;
        self.pending_ranges = None;
        let Some(captured) = pipeline.program() else {
            let name = pipeline.label();
            self.fail(format!(
                "{name}: kernels of MSL text cannot be dispatched; call the function of `ops`"
            ));
            return;
        };
        if self.is_capturing() {
            self.fail(format!("{}: a captured dispatch cannot be replayed into a capture", pipeline.label()));
            return;
        }
        match (captured.program)(self.recorder()) {
            Ok(()) => {
                self.active = true;
                self.unsubmitted.extend(&captured.writes);
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    pub(super) fn fail(&mut self, text: String) {
        self.failure.get_or_insert(text);
    }

    /// Counts whether a tracked dispatch needs a barrier, if `HF2Q_AUTO_BARRIER=1`.
    fn track(&mut self, reads: &[&MlxBuffer], writes: &[&MlxBuffer]) {
        if !counters::auto_barriers() || self.is_capturing() {
            return;
        }
        if self.tracker.check_and_record(reads, writes) {
            counters::AUTO_CONCURRENT.add(1);
        } else {
            counters::AUTO_BARRIERS.add(1);
            self.force_barrier_and_reset_tracker();
            self.tracker.add_dispatch(reads, writes);
        }
    }
}
