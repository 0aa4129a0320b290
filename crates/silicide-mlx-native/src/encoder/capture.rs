//! Capture mode: dispatches as values.

use super::CommandEncoder;
use crate::metal::{self, ComputePipelineState, MTLSize};

/// The addresses of a range: first and one past the last. They tell allocations apart, and are not addresses of the host.
pub type MemRange = (usize, usize);

/// Whether a grid counts threads or groups of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchKind {
    /// Threads.
    Threads,
    /// Groups.
    ThreadGroups,
}

/// The kind of a captured dispatch, as passes over graphs need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CapturedOpKind {
    /// Root-mean-square normalisation.
    RmsNorm,
    /// A product, element by element.
    ElemMul,
    /// A sum, element by element.
    ElemAdd,
    /// Attention.
    Sdpa,
    /// Softmax.
    Softmax,
    /// Anything else.
    Other,
}

impl CapturedOpKind {
    /// Returns whether others may be moved past it: false for attention and softmax.
    pub fn is_reorderable(&self) -> bool {
        !matches!(self, CapturedOpKind::Sdpa | CapturedOpKind::Softmax)
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        match self {
            CapturedOpKind::RmsNorm => "RmsNorm",
            CapturedOpKind::ElemMul => "ElemMul",
            CapturedOpKind::ElemAdd => "ElemAdd",
            CapturedOpKind::Sdpa => "Sdpa",
            CapturedOpKind::Softmax => "Softmax",
            CapturedOpKind::Other => "Other",
        }
    }
}

/// An operand of a captured dispatch.
#[derive(Clone, Debug)]
pub enum RecordedBinding {
    /// A buffer.
    Buffer {
        /// Its allocation.
        metal_buffer: metal::Buffer,
        /// The first byte in it.
        offset: u64,
    },
    /// Constants.
    Bytes(Vec<u8>),
}

/// A node of a capture.
// Its form is mlx-native's.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum CapturedNode {
    /// A dispatch.
    Dispatch {
        /// The kernel, with the operands that it was recorded with.
        pipeline: ComputePipelineState,
        /// The buffers, for passes and tests. A replay uses those of `pipeline`.
        bindings: Vec<(u64, RecordedBinding)>,
        /// The grid.
        threads_per_grid: MTLSize,
        /// The group.
        threads_per_threadgroup: MTLSize,
        /// Memory of a group. Empty here.
        threadgroup_memory: Vec<(u64, u64)>,
        /// Whether the grid counts threads or groups.
        dispatch_kind: DispatchKind,
        /// The kind of op.
        op_kind: CapturedOpKind,
        /// Ranges that are read, if they are known.
        reads: Vec<MemRange>,
        /// Ranges that are written, if they are known.
        writes: Vec<MemRange>,
    },
    /// A barrier.
    Barrier,
}

impl CommandEncoder {
    /// Begins capture mode. Nodes that a capture before it holds are dropped.
    pub fn start_capture(&mut self) {
        self.captured = Some(Vec::new());
    }

    /// Returns whether dispatches are captured.
    pub fn is_capturing(&self) -> bool {
        self.captured.is_some()
    }

    /// Ends capture mode and returns its nodes; `None` if it was off.
    pub fn take_capture(&mut self) -> Option<Vec<CapturedNode>> {
        self.pending_kind = None;
        self.pending_ranges = None;
        self.captured.take()
    }

    /// Sets the kind of the next dispatch.
    pub fn set_op_kind(&mut self, kind: CapturedOpKind) {
        self.pending_kind = Some(kind);
    }

    /// Sets the ranges of the next captured dispatch.
    pub fn set_pending_buffer_ranges(&mut self, reads: Vec<MemRange>, writes: Vec<MemRange>) {
        if self.captured.is_some() {
            self.pending_ranges = Some((reads, writes));
        }
    }

    /// Sets the ranges of the last captured dispatch, if it has none.
    pub fn annotate_last_dispatch_if_missing(&mut self, reads: Vec<MemRange>, writes: Vec<MemRange>) {
        let nodes = self.captured.iter_mut().flatten().rev();
        for node in nodes {
            if let CapturedNode::Dispatch { reads: known_reads, writes: known_writes, .. } = node {
                if known_reads.is_empty() && known_writes.is_empty() {
                    (*known_reads, *known_writes) = (reads, writes);
                }
                return;
            }
        }
    }
}
