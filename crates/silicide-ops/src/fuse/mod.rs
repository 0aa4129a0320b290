//! Fusions: passes over certain ops. Each says which nodes make a pattern and what takes their place; that nothing else changes
//! is proven by [`ComputeGraph::fuse`], which refuses where it is not so: where another node reads a value in between, where an
//! op between touches the same memory, where the fused op would write over what it reads, where the device has no kernel for it.

mod experts;
mod linear;
mod norm;
mod quantize;
mod rope;
mod route;
mod softmax;

pub use experts::GATED_EXPERTS;
pub use linear::{GATED_LINEARS, LINEAR_BIAS, SHARED_LINEARS};
pub use norm::ADD_RMS_NORM;
pub use quantize::QUANTIZED_ROWS;
pub use rope::ROPE_CACHE;
pub use route::ROUTE;
pub use softmax::SCALE_MASK_SOFTMAX;

use silicide_core::graph::{COMMON_SUBEXPRESSIONS, DEAD_CODE, Node, Operand};
use silicide_core::kernel::Op;
use silicide_core::{ComputeGraph, GraphOptions, Pass};

/// All fusions, in an order in which none hides another.
pub const FUSIONS: &[Pass] = &[
    ADD_RMS_NORM,
    ROPE_CACHE,
    ROUTE,
    SCALE_MASK_SOFTMAX,
    LINEAR_BIAS,
    GATED_LINEARS,
    GATED_EXPERTS,
    SHARED_LINEARS,
    QUANTIZED_ROWS,
];

/// Returns the passes for every graph: common subexpressions, fusions, dead code.
pub fn options() -> GraphOptions {
    let mut options = GraphOptions::default();
    options.passes = [&[COMMON_SUBEXPRESSIONS], FUSIONS, &[DEAD_CODE]].concat();
    options
}

/// The op of a node, if it is of this type.
fn is<O: Op>(node: &Node) -> Option<&O> {
    node.op.as_any().downcast_ref()
}

/// The node that makes an operand as it is looked at.
fn made<'a>(graph: &'a ComputeGraph, operand: &Operand) -> Option<(usize, &'a Node)> {
    let maker = graph.maker(operand.value)?;
    Some((maker, graph.nodes().get(maker)?))
}

/// Tries a rewrite from each node on until none is left to be done; says how often one was.
fn rewrite(graph: &mut ComputeGraph, mut at: impl FnMut(&mut ComputeGraph, usize) -> bool) -> usize {
    let (mut count, mut index) = (0, 0);
    while index < graph.nodes().len() {
        if at(graph, index) {
            count += 1;
            // Nodes before this one have gone: of the largest pattern, six.
            index = index.saturating_sub(7);
        }
        index += 1;
    }
    count
}
