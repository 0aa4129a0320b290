//! A sum and the norm of it: one op with both outputs.

use super::{is, made, rewrite};
use crate::binary::Binary;
use crate::rms_norm::RmsNorm;
use silicide_core::graph::Fusion;
use silicide_core::{ComputeGraph, Pass};
use std::sync::Arc;

/// `rms_norm(a + b)` and the sum become one `rms_norm` with a residual.
pub const ADD_RMS_NORM: Pass =
    Pass { name: "rms_norm with residual add", run: |graph| Ok(rewrite(graph, fuse)) };

fn fuse(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some((nodes, fusion)) = find(graph, index) else { return false };
    graph.fuse(&nodes, fusion)
}

fn find(graph: &ComputeGraph, index: usize) -> Option<([usize; 2], Fusion)> {
    let norm = graph.nodes().get(index)?;
    let &RmsNorm { eps, weighted, residual: false, quantized: false } = is::<RmsNorm>(norm)? else {
        return None;
    };
    let x = norm.inputs.first()?;
    let (sum, add) = made(graph, x)?;
    let ([a, b], [y]) = (add.inputs.as_slice(), norm.outputs.as_slice()) else { return None };
    if is::<Binary>(add) != Some(&Binary::Add) || add.outputs.first() != Some(x) {
        return None;
    }
    let weight = norm.inputs.iter().skip(1);
    let inputs = [a, b].into_iter().chain(weight).copied().collect();
    let op = Arc::new(RmsNorm::with_residual(eps, weighted));
    Some(([sum, index], Fusion { op, inputs, outputs: [*y, *x].into() }))
}
