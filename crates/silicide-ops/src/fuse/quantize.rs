//! Rows and their quantized form: one op with both outputs.

use super::{is, made, rewrite};
use crate::attention::Attend;
use crate::glu::Glu;
use crate::linear::Linear;
use crate::quantize_q8::QuantizeQ8;
use crate::rms_norm::RmsNorm;
use silicide_core::graph::{Fusion, Node, Operand};
use silicide_core::kernel::DynOp;
use silicide_core::{ComputeGraph, Pass};
use silicide_gemm::q8::{GROUP, quantized_row_bytes};
use silicide_quant::Shape;
use std::sync::Arc;

/// A norm, a gated unit, a gated `linear` or `attention`, and `quantize_q8` of its output, become one op with the quantized rows as its
/// last output.
pub const QUANTIZED_ROWS: Pass =
    Pass { name: "quantize with producer", run: |graph| Ok(rewrite(graph, fuse)) };

fn fuse(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some((nodes, fusion)) = find(graph, index) else { return false };
    graph.fuse(&nodes, fusion)
}

fn find(graph: &ComputeGraph, index: usize) -> Option<([usize; 2], Fusion)> {
    let node = graph.nodes().get(index)?;
    is::<QuantizeQ8>(node)?;
    let ([x], [q]) = (node.inputs.as_slice(), node.outputs.as_slice()) else { return None };
    let (maker, producer) = made(graph, x)?;
    let y = producer.outputs.first().filter(|y| y.value == x.value)?;
    let (op, rows) = quantizing(producer, y)?;
    // `x` may be another view of `y`, of the same rows.
    if rows.elements() != x.shape.elements() || rows.last() != x.shape.last() {
        return None;
    }
    let shape = rows.with_last(quantized_row_bytes(rows.last() / GROUP)).ok()?;
    let outputs = producer.outputs.iter().copied().chain([Operand { value: q.value, shape }]).collect();
    Some(([maker, index], Fusion { op, inputs: producer.inputs.clone(), outputs }))
}

/// The op of a node with quantized rows as another output, and the rows that are quantized.
fn quantizing(node: &Node, y: &Operand) -> Option<(Arc<dyn DynOp>, Shape)> {
    if let Some(norm @ RmsNorm { quantized: false, .. }) = is::<RmsNorm>(node) {
        return Some((Arc::new(RmsNorm { quantized: true, ..*norm }), y.shape));
    }
    if let Some(glu @ Glu { quantized: false, .. }) = is::<Glu>(node) {
        return Some((Arc::new(Glu { quantized: true, ..*glu }), y.shape));
    }
    if let Some(linear @ Linear { gate: Some(_), quantized: false, bf16: false, .. }) = is::<Linear>(node) {
        return Some((Arc::new(Linear { quantized: true, ..linear.clone() }), y.shape));
    }
    if let Some(attend @ Attend { quantized: false, .. }) = is::<Attend>(node) {
        let &[tokens, heads, dim] = y.shape.axes() else { return None };
        return Some((
            Arc::new(Attend { quantized: true, ..*attend }),
            Shape::new(&[tokens, heads * dim]).ok()?,
        ));
    }
    None
}
