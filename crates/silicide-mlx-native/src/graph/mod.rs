//! Graphs: captured dispatches, passes over them, and sessions that record or run them.

mod session;

pub use session::{GraphExecutor, GraphSession};

use crate::KernelRegistry;
use crate::encoder::{CapturedNode, CapturedOpKind, CommandEncoder, MemRange};
use crate::error::Result;
use crate::metal::{CapturedProgram, ComputePipelineState, DeviceRef};
use std::sync::Arc;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// A matrix product.
    MatMul,
    /// A product with experts.
    MatMulId,
    /// A normalisation.
    Norm,
    /// A rotary embedding.
    Rope,
    /// Element by element.
    Elementwise,
    /// A copy.
    Copy,
    /// A lookup of rows.
    Gather,
    /// Attention.
    Sdpa,
    /// Softmax.
    Softmax,
    /// Routing of experts.
    MoeGate,
    /// Anything else.
    Other,
}

impl OpKind {
    /// Returns whether others may be moved past it.
    pub fn is_reorderable(&self) -> bool {
        !matches!(self, OpKind::Sdpa | OpKind::Softmax | OpKind::MoeGate | OpKind::Other)
    }
}

/// Captured nodes, in order.
#[derive(Clone, Debug, Default)]
pub struct ComputeGraph {
    nodes: Vec<CapturedNode>,
}

/// Reads and writes of a dispatch.
type Touched<'a> = (&'a [MemRange], &'a [MemRange]);

fn overlap(a: &[MemRange], b: &[MemRange]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.0 < y.1 && y.0 < x.1))
}

fn conflict(a: Touched<'_>, b: Touched<'_>) -> bool {
    overlap(a.1, b.0) || overlap(a.0, b.1) || overlap(a.1, b.1)
}

impl ComputeGraph {
    /// Returns an empty graph.
    pub fn new() -> ComputeGraph {
        ComputeGraph::default()
    }

    /// Returns a graph of these nodes.
    pub fn from_nodes(nodes: Vec<CapturedNode>) -> ComputeGraph {
        ComputeGraph { nodes }
    }

    /// Adds a node.
    pub fn record(&mut self, node: CapturedNode) {
        self.nodes.push(node);
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[CapturedNode] {
        &self.nodes
    }

    /// Returns the nodes.
    pub fn into_nodes(self) -> Vec<CapturedNode> {
        self.nodes
    }

    /// Returns the number of dispatches.
    pub fn dispatch_count(&self) -> usize {
        self.nodes.len() - self.barrier_count()
    }

    /// Returns the number of barriers.
    pub fn barrier_count(&self) -> usize {
        self.nodes.iter().filter(|node| matches!(node, CapturedNode::Barrier)).count()
    }

    /// Returns the number of dispatches whose reads or writes are not known.
    pub fn unannotated_dispatch_count(&self) -> usize {
        let unknown =
            |node: &&CapturedNode| matches!(node, CapturedNode::Dispatch { writes, .. } if writes.is_empty());
        self.nodes.iter().filter(unknown).count()
    }

    /// Encodes the nodes in order, and returns the number of barriers.
    pub fn encode_sequential(&self, encoder: &mut CommandEncoder) -> u32 {
        let mut barriers = 0;
        for node in &self.nodes {
            match node {
                CapturedNode::Barrier => {
                    encoder.memory_barrier();
                    barriers += 1;
                }
                CapturedNode::Dispatch { pipeline, .. } => encoder.replay(pipeline),
            }
        }
        barriers
    }

    /// Encodes the dispatches with the barriers that their ranges need, and returns the number of these. A dispatch without
    /// ranges has a barrier before and after it: in mlx-native it has none.
    pub fn encode_with_barriers(&self, encoder: &mut CommandEncoder) -> u32 {
        encode(self.nodes.iter(), encoder)
    }

    /// Encodes the first tenth of the dispatches, at least 64, on `encoder0`, which is submitted at once, and the others on `encoder1`.
    /// Returns the barriers of each.
    pub fn encode_dual_buffer(
        &self,
        encoder0: &mut CommandEncoder,
        encoder1: &mut CommandEncoder,
    ) -> (u32, u32) {
        let dispatches = || self.nodes.iter().filter(|node| matches!(node, CapturedNode::Dispatch { .. }));
        let first = (self.dispatch_count() / 10).max(64);
        let barriers = encode(dispatches().take(first), encoder0);
        encoder0.commit();
        (barriers, encode(dispatches().skip(first), encoder1))
    }

    /// Joins each norm with the product that alone reads its result next, and returns how many there were.
    pub fn fuse(&mut self, _registry: &mut KernelRegistry, _device: &DeviceRef) -> Result<u32> {
        let mut fused = 0;
        let mut at = 0;
        while at < self.nodes.len() {
            if let Some((node, end)) = self.fused_at(at) {
                self.nodes.splice(at..end, [node]);
                fused += 1;
            }
            at += 1;
        }
        Ok(fused)
    }

    /// The node for norm, barriers and product from `at` on, and where they end.
    fn fused_at(&self, at: usize) -> Option<(CapturedNode, usize)> {
        let CapturedNode::Dispatch { pipeline, op_kind: CapturedOpKind::RmsNorm, reads, writes, .. } =
            &self.nodes[at]
        else {
            return None;
        };
        let behind = self.nodes.get(at + 1..)?;
        let barriers = behind.iter().take_while(|node| matches!(node, CapturedNode::Barrier)).count();
        let product = behind.get(barriers)?;
        let CapturedNode::Dispatch {
            pipeline: second,
            op_kind: CapturedOpKind::ElemMul,
            reads: factors,
            writes: products,
            ..
        } = product
        else {
            return None;
        };
        if barriers == 0 || !overlap(writes, factors) {
            return None;
        }
        let (first, second) = (pipeline.program()?.clone(), second.program()?.clone());
        let written = [first.writes, second.writes].concat();
        let operands = second.operands;
        let (first, second) = (first.program, second.program);
        let program = Arc::new(move |encoder: &mut silicide::CommandEncoder| {
            first(encoder)?;
            second(encoder)
        });
        let program = CapturedProgram { program, operands, writes: written };
        let mut node = product.clone();
        if let CapturedNode::Dispatch { pipeline, op_kind, reads: all_reads, writes: all_writes, .. } =
            &mut node
        {
            *pipeline = ComputePipelineState::new("rms_norm_mul", Some(program));
            *op_kind = CapturedOpKind::Other;
            *all_reads = [&reads[..], &factors[..]].concat();
            *all_writes = [&writes[..], &products[..]].concat();
        }
        Some((node, at + 1 + barriers + 1))
    }

    /// Drops the barriers, and moves dispatches ahead of those that they do not depend on, so that fewer barriers are
    /// needed. Returns how many were moved. A dispatch without ranges, attention and softmax stay where they are.
    pub fn reorder(&mut self) -> u32 {
        const AHEAD: usize = 64;
        let mut waiting: Vec<CapturedNode> =
            self.nodes.drain(..).filter(|node| matches!(node, CapturedNode::Dispatch { .. })).collect();
        let mut moved = 0;
        let mut group: Vec<CapturedNode> = Vec::new();
        while !waiting.is_empty() {
            let free = |at: usize| {
                let Some(ranges) = touched(&waiting[at]) else { return false };
                let before = waiting[..at].iter();
                let apart = |node: &CapturedNode| touched(node).is_some_and(|other| !conflict(other, ranges));
                group.iter().all(apart) && before.clone().all(|node| apart(node) && is_movable(node))
            };
            let next =
                (0..waiting.len().min(AHEAD)).find(|&at| free(at) && (at == 0 || is_movable(&waiting[at])));
            let next = match next {
                Some(next) => next,
                None => {
                    self.nodes.append(&mut group);
                    0
                }
            };
            moved += u32::from(next > 0);
            group.push(waiting.remove(next));
        }
        self.nodes.append(&mut group);
        moved
    }
}

fn is_movable(node: &CapturedNode) -> bool {
    matches!(node, CapturedNode::Dispatch { op_kind, .. } if op_kind.is_reorderable())
}

/// The ranges of a dispatch, if they are known.
fn touched(node: &CapturedNode) -> Option<Touched<'_>> {
    match node {
        CapturedNode::Dispatch { reads, writes, .. } if !writes.is_empty() => Some((reads, writes)),
        _ => None,
    }
}

fn encode<'a>(nodes: impl Iterator<Item = &'a CapturedNode>, encoder: &mut CommandEncoder) -> u32 {
    let mut barriers = 0;
    let mut group: Vec<Option<Touched<'a>>> = Vec::new();
    for node in nodes {
        let CapturedNode::Dispatch { pipeline, .. } = node else { continue };
        let ranges = touched(node);
        let apart = |other: &Option<Touched<'_>>| match (other, ranges) {
            (Some(other), Some(ranges)) => !conflict(*other, ranges),
            _ => false,
        };
        if !group.iter().all(apart) {
            encoder.memory_barrier();
            barriers += 1;
            group.clear();
        }
        group.push(ranges);
        encoder.replay(pipeline);
    }
    barriers
}
