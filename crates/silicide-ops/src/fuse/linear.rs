//! Products of one input, what is added to them and what gates them: one op.

use super::{is, made, rewrite};
use crate::binary::Binary;
use crate::glu::{Activation, Glu};
use crate::linear::{Linear, MAX_PRODUCTS, Product};
use silicide_core::graph::{Fusion, Node, Operand};
use silicide_core::kernel::{Io, TensorInfo};
use silicide_core::{ComputeGraph, Pass};
use smallvec::SmallVec;
use std::sync::Arc;

/// How far apart products of one input may stand.
const NEAR: usize = 8;

/// A product and the vector that is added to all its rows become one `linear`.
pub const LINEAR_BIAS: Pass = Pass { name: "linear with bias", run: |graph| Ok(rewrite(graph, add_bias)) };

/// Two products of one input and the `glu` of both become one `linear`.
pub const GATED_LINEARS: Pass =
    Pass { name: "gate and up with activation", run: |graph| Ok(rewrite(graph, gate)) };

/// Two or three products of one input become one `linear`.
pub const SHARED_LINEARS: Pass =
    Pass { name: "linears of one input", run: |graph| Ok(rewrite(graph, share)) };

/// A product of a graph.
#[derive(Clone)]
struct GraphProduct {
    product: Product,
    weight: SmallVec<[Operand; 3]>,
    bias: Option<Operand>,
    y: Operand,
}

/// Products of one input.
struct Products {
    x: Operand,
    each: SmallVec<[GraphProduct; MAX_PRODUCTS]>,
    exact: bool,
}

impl Products {
    /// Returns the products of a node, if they may be one op with others.
    fn of(node: &Node) -> Option<Products> {
        let op = is::<Linear>(node).filter(|op| op.gate.is_none() && !op.bf16)?;
        let mut inputs = node.inputs.iter().copied();
        let mut products = Products { x: inputs.next()?, each: SmallVec::new(), exact: op.exact };
        for (product, y) in op.products.iter().zip(&node.outputs) {
            let weight = inputs.by_ref().take(product.encoding.planes()).collect();
            products.each.push(GraphProduct { product: *product, weight, bias: None, y: *y });
        }
        for product in products.each.iter_mut().filter(|product| product.product.bias) {
            product.bias = Some(inputs.next()?);
        }
        Some(products)
    }

    /// The one product that makes an operand as it is looked at, if its node makes no other.
    fn making(graph: &ComputeGraph, operand: &Operand) -> Option<(usize, Products)> {
        let (maker, node) = made(graph, operand)?;
        let products = Products::of(node)?;
        matches!(products.each.as_slice(), [product] if product.y == *operand).then_some((maker, products))
    }

    /// Replaces nodes by one op of all products, if the device computes it in one launch.
    fn fuse(self, graph: &mut ComputeGraph, nodes: &[usize], gate: Option<(Activation, Operand)>) -> bool {
        let planes = self.each.iter().flat_map(|product| product.weight.iter().copied());
        let biases = self.each.iter().filter_map(|product| product.bias);
        let inputs: SmallVec<[Operand; 4]> = std::iter::once(self.x).chain(planes).chain(biases).collect();
        let outputs: SmallVec<[Operand; 2]> = match gate {
            Some((_, y)) => std::iter::once(y).collect(),
            None => self.each.iter().map(|product| product.y).collect(),
        };
        let products = self.each.iter().map(|product| product.product).collect();
        let gate = gate.map(|(activation, _)| activation);
        let op = Linear { products, gate, exact: self.exact, ..Linear::default() };
        let (given, made) = (infos(graph, &inputs), infos(graph, &outputs));
        let is_one = op.is_one_launch(&Io { inputs: &given, outputs: &made }, graph.device().info());
        is_one && graph.fuse(nodes, Fusion { op: Arc::new(op), inputs, outputs })
    }
}

/// Types and shapes of operands.
fn infos(graph: &ComputeGraph, operands: &[Operand]) -> SmallVec<[TensorInfo; 4]> {
    operands.iter().map(|operand| graph.info(*operand)).collect()
}

fn add_bias(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some((maker, products)) = find_bias(graph, index) else { return false };
    products.fuse(graph, &[maker, index], None)
}

fn find_bias(graph: &ComputeGraph, index: usize) -> Option<(usize, Products)> {
    let add = graph.nodes().get(index)?;
    let ([one, other], [y]) = (add.inputs.as_slice(), add.outputs.as_slice()) else { return None };
    if is::<Binary>(add) != Some(&Binary::Add) {
        return None;
    }
    // A bias has one axis; `Linear::infer` checks its length.
    let (x, bias) = if other.shape.rank() == 1 { (one, other) } else { (other, one) };
    let (maker, mut products) = Products::making(graph, x)?;
    let product = products.each.first_mut().filter(|product| product.bias.is_none())?;
    let n = product.y.shape.last();
    if bias.shape.axes() != [n] {
        return None;
    }
    product.product.bias = true;
    (product.bias, product.y) = (Some(*bias), *y);
    Some((maker, products))
}

fn gate(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some((nodes, products, gate)) = find_gate(graph, index) else { return false };
    products.fuse(graph, &nodes, Some(gate))
}

/// The nodes of a gate, its products, and what is done to them.
type Gate = ([usize; 3], Products, (Activation, Operand));

fn find_gate(graph: &ComputeGraph, index: usize) -> Option<Gate> {
    let node = graph.nodes().get(index)?;
    let &Glu { activation, quantized: false } = is::<Glu>(node)? else { return None };
    let ([gate, up], [y]) = (node.inputs.as_slice(), node.outputs.as_slice()) else { return None };
    let ((one, mut products), (other, others)) =
        (Products::making(graph, gate)?, Products::making(graph, up)?);
    if products.x != others.x || products.exact != others.exact {
        return None;
    }
    products.each.extend(others.each);
    let mut nodes = [one, other, index];
    nodes.sort_unstable();
    Some((nodes, products, (activation, *y)))
}

/// Products that come after a node's and multiply the same: with all that there is room for, or else with one.
fn share(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some(first) = graph.nodes().get(index).and_then(Products::of) else {
        return false;
    };
    let after = graph.nodes().iter().enumerate().skip(index + 1).take(NEAR);
    let like = |(other, node): (usize, &Node)| {
        let products = Products::of(node)?;
        (products.x == first.x && products.exact == first.exact).then_some((other, products))
    };
    let others: SmallVec<[(usize, Products); 2]> = after.filter_map(like).collect();
    let mut choices: Vec<Vec<&(usize, Products)>> = Vec::new();
    if others.len() > 1 {
        choices.push(others.iter().take(MAX_PRODUCTS - 1).collect());
    }
    choices.extend(others.iter().map(|other| vec![other]));
    for choice in choices {
        let each = first.each.iter().chain(choice.iter().flat_map(|(_, products)| &products.each));
        let products = Products { x: first.x, each: each.cloned().collect(), exact: first.exact };
        let nodes: Vec<usize> =
            std::iter::once(index).chain(choice.iter().map(|(other, _)| *other)).collect();
        if products.each.len() <= MAX_PRODUCTS && products.fuse(graph, &nodes, None) {
            return true;
        }
    }
    false
}
