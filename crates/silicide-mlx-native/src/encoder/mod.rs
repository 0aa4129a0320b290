//! The command encoder: takes dispatches, and submits them as one list.
//!
//! A dispatch is a program over silicide's own encoder, which orders commands by the bytes that they touch. So the barriers of callers
//! are counted, and change nothing. In capture mode programs are kept instead of run.

mod capture;
mod raw;
mod submit;
mod text;

pub use capture::{CapturedNode, CapturedOpKind, DispatchKind, MemRange, RecordedBinding};
pub use raw::{DispatchRecord, KernelArg};

use crate::error::{MlxError, Result, refuse};
use crate::hazard::{MemRanges, OperandStart};
use crate::metal::{CapturedProgram, CommandBuffer, ComputePipelineState, MTLSize};
use crate::{MlxBuffer, MlxDevice, counters};
use bytemuck::Pod;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// The program of a dispatch, with its operands.
pub(crate) type Program =
    Arc<dyn Fn(&mut silicide::CommandEncoder) -> std::result::Result<(), silicide::Error> + Send + Sync>;

/// Encodes dispatches and copies into a command buffer.
pub struct CommandEncoder {
    device: MlxDevice,
    /// Commands that are not submitted.
    recorder: Option<silicide::CommandEncoder>,
    command_buffer: CommandBuffer,
    /// Nodes, in capture mode.
    captured: Option<Vec<CapturedNode>>,
    /// The kind and the ranges of the next dispatch.
    pending_kind: Option<CapturedOpKind>,
    pending_ranges: Option<(Vec<MemRange>, Vec<MemRange>)>,
    /// Whether something was encoded since the command buffer was made.
    active: bool,
    tracker: MemRanges,
    /// Ranges that the commands of `recorder` write.
    unsubmitted: Vec<MemRange>,
    /// The first failure of a function that can't return it.
    failure: Option<String>,
}

/// How a dispatch appears in a capture.
pub(crate) struct Dispatch<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) kind: CapturedOpKind,
    pub(crate) reads: SmallVec<[&'a MlxBuffer; 8]>,
    pub(crate) writes: SmallVec<[&'a MlxBuffer; 4]>,
    /// Grid and group of mlx-native's kernel, where callers look at them.
    pub(crate) grid: (MTLSize, MTLSize, DispatchKind),
    /// Whether the capture has the ranges without the caller's help.
    pub(crate) annotated: bool,
}

impl<'a> Dispatch<'a> {
    /// A dispatch of one thread for each of `threads`.
    pub(crate) fn new(
        kernel: &'a str,
        threads: usize,
        reads: &[&'a MlxBuffer],
        writes: &[&'a MlxBuffer],
    ) -> Dispatch<'a> {
        let (reads, writes) = (SmallVec::from_slice(reads), SmallVec::from_slice(writes));
        let grid = (MTLSize::new(threads as u64, 1, 1), MTLSize::new(256, 1, 1), DispatchKind::Threads);
        Dispatch { kernel, kind: CapturedOpKind::Other, reads, writes, grid, annotated: false }
    }

    pub(crate) fn kind(self, kind: CapturedOpKind) -> Dispatch<'a> {
        Dispatch { kind, ..self }
    }

    /// Sets grid and group.
    pub(crate) fn grid(self, grid: [u64; 3], group: [u64; 3], kind: DispatchKind) -> Dispatch<'a> {
        let size = |extents: [u64; 3]| MTLSize::new(extents[0], extents[1], extents[2]);
        Dispatch { grid: (size(grid), size(group), kind), ..self }
    }

    pub(crate) fn annotated(self) -> Dispatch<'a> {
        Dispatch { annotated: true, ..self }
    }
}

impl CommandEncoder {
    pub(crate) fn new(device: &MlxDevice) -> CommandEncoder {
        counters::COMMAND_BUFFERS.add(1);
        CommandEncoder {
            device: device.clone(),
            recorder: None,
            command_buffer: CommandBuffer::default(),
            captured: None,
            pending_kind: None,
            pending_ranges: None,
            active: false,
            tracker: MemRanges::new(),
            unsubmitted: Vec::new(),
            failure: None,
        }
    }

    fn recorder(&mut self) -> &mut silicide::CommandEncoder {
        let device = self.device.silicide();
        self.recorder.get_or_insert_with(|| {
            let mut recorder = silicide::CommandEncoder::new(device);
            recorder.mark("commands");
            recorder
        })
    }

    /// Encodes a dispatch, or captures it. In capture mode the program is run on an encoder that is dropped, so that both modes refuse
    /// the same arguments.
    pub(crate) fn dispatch(
        &mut self,
        dispatch: Dispatch<'_>,
        program: impl Fn(&mut silicide::CommandEncoder) -> std::result::Result<(), silicide::Error>
        + Send
        + Sync
        + 'static,
    ) -> Result<()> {
        if dispatch.writes.iter().any(|output| output.is_file_backed()) {
            refuse!("{}: an output is file-backed and read-only", dispatch.kernel);
        }
        let kind = self.pending_kind.take().unwrap_or(dispatch.kind);
        let ranges = self.pending_ranges.take();
        let of = |buffers: &[&MlxBuffer]| buffers.iter().map(|buffer| buffer.range()).collect::<Vec<_>>();
        if self.captured.is_none() {
            program(self.recorder())?;
            counters::dispatched(dispatch.kernel);
            self.active = true;
            self.unsubmitted.extend(dispatch.writes.iter().map(|buffer| buffer.range()));
            return Ok(());
        }
        program(&mut silicide::CommandEncoder::new(self.device.silicide()))?;
        let (reads, writes) = match ranges {
            Some(ranges) => ranges,
            None if dispatch.annotated => (of(&dispatch.reads), of(&dispatch.writes)),
            None => (Vec::new(), Vec::new()),
        };
        let binding = |(index, buffer): (usize, &&MlxBuffer)| {
            let (metal_buffer, offset) = (buffer.metal_buffer().clone(), buffer.byte_offset());
            (index as u64, RecordedBinding::Buffer { metal_buffer, offset })
        };
        let bindings = dispatch.reads.iter().chain(&dispatch.writes).enumerate().map(binding).collect();
        let (threads_per_grid, threads_per_threadgroup, dispatch_kind) = dispatch.grid;
        // Replays need the bytes that are written, also where the caller has not said which.
        let touched = of(&dispatch.writes);
        let operands =
            dispatch.reads.iter().chain(&dispatch.writes).map(|buffer| OperandStart::of(buffer)).collect();
        let captured = CapturedProgram { program: Arc::new(program), operands, writes: touched };
        let pipeline = ComputePipelineState::new(dispatch.kernel, Some(captured));
        self.captured.get_or_insert_default().push(CapturedNode::Dispatch {
            pipeline,
            bindings,
            threads_per_grid,
            threads_per_threadgroup,
            threadgroup_memory: Vec::new(),
            dispatch_kind,
            op_kind: kind,
            reads,
            writes,
        });
        Ok(())
    }

    /// Returns the first `count` elements of a buffer of parameters. Commands that write it are submitted first, and waited for.
    pub(crate) fn host_values<T: Pod>(&mut self, buffer: &MlxBuffer, count: usize) -> Result<Vec<T>> {
        let (start, end) = buffer.range();
        if self.unsubmitted.iter().any(|range| range.0 < end && start < range.1) {
            self.flush()?;
        }
        buffer.values(count)
    }

    /// Submits what was encoded. The command buffer stays open.
    fn flush(&mut self) -> Result<()> {
        self.unsubmitted.clear();
        match self.recorder.take() {
            Some(recorder) => Ok(recorder.submit()?.wait()?),
            None => Ok(()),
        }
    }

    /// Counts a barrier, if something was encoded before it. In capture mode the barrier becomes a node. Silicide orders commands by
    /// the bytes that they touch, with or without it.
    pub fn memory_barrier(&mut self) {
        if let Some(nodes) = &mut self.captured {
            nodes.push(CapturedNode::Barrier);
            return;
        }
        if self.active {
            let start = counters::times_barriers().then(Instant::now);
            counters::BARRIERS.add(1);
            if let Some(start) = start {
                counters::BARRIER_NS.add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
        }
    }

    /// Sets a barrier and forgets the ranges of tracked dispatches.
    pub fn force_barrier_and_reset_tracker(&mut self) {
        self.memory_barrier();
        self.tracker.reset();
    }

    /// Returns the number of ranges of tracked dispatches.
    pub fn mem_ranges_len(&self) -> usize {
        self.tracker.len()
    }

    /// Copies bytes between buffers; offsets count from the start of each view. The same range of the same memory is left alone.
    pub fn blit_copy_bytes(
        &mut self,
        source: &MlxBuffer,
        source_offset: u64,
        destination: &MlxBuffer,
        destination_offset: u64,
        byte_len: u64,
    ) -> Result<()> {
        let place = |buffer: &MlxBuffer, offset: u64| -> Result<(usize, usize)> {
            let range = || {
                let (start, bytes) = (usize::try_from(offset).ok()?, usize::try_from(byte_len).ok()?);
                (start.checked_add(bytes)? <= buffer.data_byte_len()).then_some((start, bytes))
            };
            range().ok_or_else(|| {
                let size = buffer.data_byte_len();
                MlxError::argument(format!("blit_copy_bytes: {byte_len} bytes from {offset} on, of {size}"))
            })
        };
        let (from, bytes) = place(source, source_offset)?;
        let (to, _) = place(destination, destination_offset)?;
        if bytes == 0 {
            refuse!("blit_copy_bytes: zero bytes");
        }
        let (from, to) = (
            source.tensor_at(from, silicide::DType::U8, &[bytes])?,
            destination.tensor_at(to, silicide::DType::U8, &[bytes])?,
        );
        if from.storage_id() == to.storage_id() {
            if from.offset() == to.offset() {
                return Ok(());
            }
            if from.offset().abs_diff(to.offset()) < bytes {
                refuse!("blit_copy_bytes: overlapping same-buffer ranges");
            }
        }
        if self.captured.is_some() {
            refuse!("blit_copy_bytes: not available during graph capture");
        }
        if destination.is_file_backed() {
            refuse!("blit_copy_bytes: the destination is file-backed and read-only");
        }
        self.recorder().copy(&from, &to)?;
        let (start, _) = destination.range();
        let start = start.saturating_add(usize::try_from(destination_offset).unwrap_or(usize::MAX));
        self.unsubmitted.push((start, start.saturating_add(bytes)));
        Ok(())
    }

    /// Returns the device.
    pub(crate) fn device(&self) -> &MlxDevice {
        &self.device
    }
}
