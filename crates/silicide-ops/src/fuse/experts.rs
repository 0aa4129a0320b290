//! Two products with the experts of one input, and what gates them: one op.

use super::{is, made, rewrite};
use crate::expert_linear::ExpertLinear;
use crate::glu::Glu;
use silicide_core::graph::{Fusion, Operand};
use silicide_core::kernel::{Io, TensorInfo};
use silicide_core::{ComputeGraph, Pass};
use smallvec::SmallVec;
use std::sync::Arc;

/// Two products with the experts of one input and the `glu` of both become one `expert_linear`, where the device gates them in the launch that
/// multiplies.
pub const GATED_EXPERTS: Pass =
    Pass { name: "gate and up of experts with activation", run: |graph| Ok(rewrite(graph, gate)) };

fn gate(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some((nodes, fusion)) = find(graph, index) else { return false };
    graph.fuse(&nodes, fusion)
}

fn find(graph: &ComputeGraph, index: usize) -> Option<([usize; 3], Fusion)> {
    let node = graph.nodes().get(index)?;
    let &Glu { activation, quantized: false } = is::<Glu>(node)? else { return None };
    let ([gate, up], [y]) = (node.inputs.as_slice(), node.outputs.as_slice()) else { return None };
    let ((one, gate_node), (other, up_node)) = (made(graph, gate)?, made(graph, up)?);
    let (op, like) = (is::<ExpertLinear>(gate_node)?, is::<ExpertLinear>(up_node)?);
    let makes = |outputs: &[Operand], operand: &Operand| matches!(outputs, [y] if y == operand);
    let is_pair = op == like && one != other && op.gate.is_none() && !op.bf16;
    if !is_pair || !makes(&gate_node.outputs, gate) || !makes(&up_node.outputs, up) {
        return None;
    }
    // Both multiply the same rows with the experts of the same ids.
    let planes = op.encoding.planes();
    let (x, others) = gate_node.inputs.split_first()?;
    let (up_x, up_others) = up_node.inputs.split_first()?;
    let (gate_planes, ids) = others.split_at_checked(planes)?;
    let (up_planes, up_ids) = up_others.split_at_checked(planes)?;
    if x != up_x || ids != up_ids {
        return None;
    }
    let inputs: SmallVec<[Operand; 4]> =
        std::iter::once(x).chain(gate_planes).chain(up_planes).chain(ids).copied().collect();
    let op = op.with_gate(Some(activation));
    let given: SmallVec<[TensorInfo; 8]> = inputs.iter().map(|operand| graph.info(*operand)).collect();
    let outputs = [graph.info(*y)];
    if !op.is_one_launch(&Io { inputs: &given, outputs: &outputs }, graph.device().info()) {
        return None;
    }
    let mut nodes = [one, other, index];
    nodes.sort_unstable();
    Some((nodes, Fusion { op: Arc::new(op), inputs, outputs: std::iter::once(*y).collect() }))
}
