//! Products of one input, what is added to them and what gates them: one op.

use super::{is, made, rewrite};
use crate::binary::Binary;
use crate::glu::{Activation, Glu};
use crate::interleaved_matmul::InterleavedMatmul;
use crate::matmul::{Matmul, matrix};
use crate::mlx_matmul::MlxMatmul;
use crate::project::{Factor, MOST, Project, Projection};
use silicide_core::graph::{Fusion, Node, Operand};
use silicide_core::kernel::{Io, TensorInfo};
use silicide_core::{ComputeGraph, Pass};
use smallvec::SmallVec;
use std::sync::Arc;

/// How far apart products of one input may stand.
const NEAR: usize = 8;

/// A product and the vector that is added to all its rows become one `project`.
pub const MATMUL_BIAS: Pass = Pass { name: "matmul with bias", run: |graph| Ok(rewrite(graph, add_bias)) };

/// Two products of one input and the `glu` of both become one `project`.
pub const GATED_MATMULS: Pass =
    Pass { name: "gate and up with activation", run: |graph| Ok(rewrite(graph, gate)) };

/// Two or three products of one input become one `project`.
pub const SHARED_MATMULS: Pass =
    Pass { name: "matmuls of one input", run: |graph| Ok(rewrite(graph, share)) };

/// A product of a graph.
#[derive(Clone)]
struct Product {
    projection: Projection,
    weights: SmallVec<[Operand; 3]>,
    bias: Option<Operand>,
    y: Operand,
}

/// Products of one input.
struct Products {
    a: Operand,
    each: SmallVec<[Product; MOST]>,
}

impl Products {
    /// What a node multiplies, if that may be one op with others.
    fn of(graph: &ComputeGraph, node: &Node) -> Option<Products> {
        if let Some(op) = is::<Project>(node) {
            return Products::of_project(op, node);
        }
        if is_in_matrices(graph, node) {
            return None;
        }
        let factor = is::<Matmul>(node).copied().map(Factor::Plain);
        let factor = factor.or_else(|| is::<InterleavedMatmul>(node).copied().map(Factor::Interleaved));
        let factor = factor.or_else(|| is::<MlxMatmul>(node).copied().map(Factor::Planes))?;
        let ((a, weights), [y]) = (node.inputs.split_first()?, node.outputs.as_slice()) else { return None };
        let projection = Projection { factor, bias: false };
        let product = Product { projection, weights: weights.iter().copied().collect(), bias: None, y: *y };
        Some(Products { a: *a, each: std::iter::once(product).collect() })
    }

    fn of_project(op: &Project, node: &Node) -> Option<Products> {
        let mut inputs = node.inputs.iter().copied();
        let a = inputs.next()?;
        let mut products = Products { a, each: SmallVec::new() };
        if op.gate.is_some() {
            return None;
        }
        for (projection, y) in op.projections.iter().zip(&node.outputs) {
            let weights = inputs.by_ref().take(projection.factor.weights()).collect();
            products.each.push(Product { projection: *projection, weights, bias: None, y: *y });
        }
        for product in products.each.iter_mut().filter(|product| product.projection.bias) {
            product.bias = Some(inputs.next()?);
        }
        Some(products)
    }

    /// The one product that makes an operand as it is looked at, if its node makes no other.
    fn making(graph: &ComputeGraph, operand: &Operand) -> Option<(usize, Products)> {
        let (maker, node) = made(graph, operand)?;
        let products = Products::of(graph, node)?;
        matches!(products.each.as_slice(), [product] if product.y == *operand).then_some((maker, products))
    }

    /// All of them as one op.
    fn fusion(self, gate: Option<(Activation, Operand)>) -> Fusion {
        let weights = self.each.iter().flat_map(|product| product.weights.iter().copied());
        let biases = self.each.iter().filter_map(|product| product.bias);
        let inputs = std::iter::once(self.a).chain(weights).chain(biases).collect();
        let outputs = match gate {
            Some((_, y)) => std::iter::once(y).collect(),
            None => self.each.iter().map(|product| product.y).collect(),
        };
        let projections = self.each.iter().map(|product| product.projection).collect();
        let op = Project { projections, gate: gate.map(|(activation, _)| activation) };
        Fusion { op: Arc::new(op), inputs, outputs }
    }
}

/// Whether a product alone is computed in 8x8 matrices, which are faster than one op without them.
fn is_in_matrices(graph: &ComputeGraph, node: &Node) -> bool {
    if is::<Matmul>(node).is_none() {
        return false;
    }
    let infos = |operands: &[Operand]| -> SmallVec<[TensorInfo; 2]> {
        operands.iter().map(|operand| graph.info(*operand)).collect()
    };
    let (inputs, outputs) = (infos(&node.inputs), infos(&node.outputs));
    matrix::is_best(&Io { inputs: &inputs, outputs: &outputs }, graph.device().info())
}

fn add_bias(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some((nodes, fusion)) = find_bias(graph, index) else { return false };
    graph.fuse(&nodes, fusion)
}

fn find_bias(graph: &ComputeGraph, index: usize) -> Option<([usize; 2], Fusion)> {
    let add = graph.nodes().get(index)?;
    let ([one, other], [y]) = (add.inputs.as_slice(), add.outputs.as_slice()) else { return None };
    if is::<Binary>(add) != Some(&Binary::Add) {
        return None;
    }
    // A bias is what has one axis; that its length is right the op says.
    let (x, bias) = if other.shape.rank() == 1 { (one, other) } else { (other, one) };
    let (maker, mut products) = Products::making(graph, x)?;
    let product = products.each.first_mut().filter(|product| product.bias.is_none())?;
    product.projection.bias = true;
    (product.bias, product.y) = (Some(*bias), *y);
    Some(([maker, index], products.fusion(None)))
}

fn gate(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some((nodes, fusion)) = find_gate(graph, index) else { return false };
    graph.fuse(&nodes, fusion)
}

fn find_gate(graph: &ComputeGraph, index: usize) -> Option<([usize; 3], Fusion)> {
    let node = graph.nodes().get(index)?;
    let Glu { activation } = *is::<Glu>(node)?;
    let ([gate, up], [y]) = (node.inputs.as_slice(), node.outputs.as_slice()) else { return None };
    let ((one, mut products), (other, others)) =
        (Products::making(graph, gate)?, Products::making(graph, up)?);
    if products.a != others.a {
        return None;
    }
    products.each.extend(others.each);
    let mut nodes = [one, other, index];
    nodes.sort_unstable();
    Some((nodes, products.fusion(Some((activation, *y)))))
}

/// Products that come after a node's and multiply the same: with all that there is room for, or else with one.
fn share(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some(first) = graph.nodes().get(index).and_then(|node| Products::of(graph, node)) else {
        return false;
    };
    let after = graph.nodes().iter().enumerate().skip(index + 1).take(NEAR);
    let like = |(other, node): (usize, &Node)| {
        let products = Products::of(graph, node).filter(|products| products.a == first.a)?;
        Some((other, products))
    };
    let others: SmallVec<[(usize, Products); 2]> = after.filter_map(like).collect();
    let mut choices: Vec<Vec<&(usize, Products)>> = Vec::new();
    if others.len() > 1 {
        choices.push(others.iter().take(MOST - 1).collect());
    }
    choices.extend(others.iter().map(|other| vec![other]));
    for choice in choices {
        let each = first.each.iter().chain(choice.iter().flat_map(|(_, products)| &products.each));
        let products = Products { a: first.a, each: each.cloned().collect() };
        let nodes: Vec<usize> =
            std::iter::once(index).chain(choice.iter().map(|(other, _)| *other)).collect();
        if products.each.len() <= MOST && graph.fuse(&nodes, products.fusion(None)) {
            return true;
        }
    }
    false
}
