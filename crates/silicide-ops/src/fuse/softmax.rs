//! Scaling, masking and weighing scores: up to three ops that become the one softmax that does all of it.

use super::{is, made, rewrite};
use crate::binary::Binary;
use crate::softmax::Softmax;
use crate::unary::Unary;
use silicide_core::graph::{Fusion, Operand};
use silicide_core::{ComputeGraph, Pass};
use silicide_quant::Shape;
use smallvec::SmallVec;
use std::sync::Arc;

/// `softmax(scale(x) + mask)` becomes one `softmax`; so does either half of it. A factor is what `unary` scales by: numbers in
/// buffers may change between replays, so products with those stay.
pub const SCALE_MASK_SOFTMAX: Pass =
    Pass { name: "scale, mask and softmax", run: |graph| Ok(rewrite(graph, fuse)) };

fn fuse(graph: &mut ComputeGraph, index: usize) -> bool {
    let mut found = masks(graph, index);
    found.extend(scales(graph, index));
    found.into_iter().any(|(nodes, fusion)| graph.fuse(&nodes, fusion))
}

type Found = SmallVec<[([usize; 2], Fusion); 2]>;

/// A mask that is added before: either of the two that are added may be it.
fn masks(graph: &ComputeGraph, index: usize) -> Found {
    let find = || {
        let node = graph.nodes().get(index)?;
        // A scale would have to be applied to the mask as well.
        let &Softmax { scale: 1.0, masked: false } = is::<Softmax>(node)? else { return None };
        let ([z], [y]) = (node.inputs.as_slice(), node.outputs.as_slice()) else { return None };
        let (add, sum) = made(graph, z)?;
        let [a, b] = sum.inputs.as_slice() else { return None };
        if is::<Binary>(sum) != Some(&Binary::Add) || sum.outputs.first() != Some(z) {
            return None;
        }
        let one = |x: &Operand, mask: &Operand| {
            let mask = Operand { shape: without_ones(mask.shape)?, ..*mask };
            let op = Arc::new(Softmax { scale: 1.0, masked: true });
            let same = x.shape == z.shape;
            same.then(|| {
                (
                    [add, index],
                    Fusion {
                        op,
                        inputs: [*x, mask].into_iter().collect(),
                        outputs: [*y].into_iter().collect(),
                    },
                )
            })
        };
        // The scores are what was scaled, where one of the two was.
        let scaled = |operand: &Operand| {
            let maker = made(graph, operand).and_then(|(_, maker)| is::<Unary>(maker));
            matches!(maker, Some(Unary::Scale { .. }))
        };
        let (first, second) = if scaled(b) && !scaled(a) { ((b, a), (a, b)) } else { ((a, b), (b, a)) };
        Some([first, second].into_iter().filter_map(|(x, mask)| one(x, mask)).collect())
    };
    find().unwrap_or_default()
}

/// A factor that scores are multiplied by before.
fn scales(graph: &ComputeGraph, index: usize) -> Option<([usize; 2], Fusion)> {
    let node = graph.nodes().get(index)?;
    let &Softmax { scale, masked } = is::<Softmax>(node)?;
    let x = node.inputs.first()?;
    let (multiply, scaled) = made(graph, x)?;
    let &Unary::Scale { factor } = is::<Unary>(scaled)? else { return None };
    let from = scaled.inputs.first().filter(|_| scaled.outputs.first() == Some(x))?;
    let inputs = [from].into_iter().chain(node.inputs.iter().skip(1)).copied().collect();
    let op = Arc::new(Softmax { scale: scale * factor, masked });
    Some(([multiply, index], Fusion { op, inputs, outputs: node.outputs.clone() }))
}

/// A shape without the ones that it begins with, as masks have it; a last axis stays.
fn without_ones(shape: Shape) -> Option<Shape> {
    let axes = shape.axes();
    let ones = axes.iter().take(axes.len().saturating_sub(1)).take_while(|&&extent| extent == 1).count();
    Shape::new(axes.get(ones..)?).ok()
}
