//! Choosing experts, as it is written with plain ops, becomes one `route`.
//!
//! ```text
//! gate     softmax or sigmoid of the logits, or nothing
//! choice   top_k of that; or top_k of that plus a bias, and gather_rows of what has no bias (one row)
//! weights  softmax of the chosen where there was no gate; divided by their sum; scaled: each if it is there
//! ```
//!
//! The longest part of this whose values have no other reader is fused. A sum divides rows from the left, so for several rows it is
//! written between two transpositions. Only the softmax's sum is taken: `route` never divides by less than 1/16384, which of
//! at most 1024 experts no sum of the largest can be, while that of sigmoids can. Three kinds of rows differ: of experts that the gate
//! rounds to the same number `route` takes the one with the larger logit; rows of -infinity alone, whose sum is zero, give
//! zeros instead of NaN; and of rows with NaN or +infinity, whose weights are NaN either way, other experts are named.

use super::{is, made, rewrite};
use crate::binary::Binary;
use crate::gather_rows::GatherRows;
use crate::permute::Permute;
use crate::reduce::{Reduce, Reduction};
use crate::route::{Gate, Route};
use crate::softmax::Softmax;
use crate::top_k::TopK;
use crate::unary::{Activation, Unary};
use silicide_core::graph::{Fusion, Node, Operand};
use silicide_core::kernel::Op;
use silicide_core::{ComputeGraph, Pass};
use smallvec::SmallVec;
use std::sync::Arc;

/// A gate, `top_k` and what makes weights of its values become one `route`.
pub const ROUTE: Pass = Pass { name: "routing", run: |graph| Ok(rewrite(graph, fuse)) };

fn fuse(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some(choice) = Choice::find(graph, index) else { return false };
    let found = choice.routes(graph);
    found.into_iter().rev().any(|(nodes, fusion)| graph.fuse(&nodes, fusion))
}

/// The nodes and options that were found so far.
#[derive(Clone)]
struct Choice {
    /// Its nodes.
    nodes: SmallVec<[usize; 8]>,
    route: Route,
    /// Logits, and the bias if there is one.
    inputs: SmallVec<[Operand; 4]>,
    ids: Operand,
    weights: Operand,
}

impl Choice {
    /// The gate and the choice of the best.
    fn find(graph: &ComputeGraph, index: usize) -> Option<Choice> {
        let node = graph.nodes().get(index)?;
        let &TopK { k: used } = is::<TopK>(node)?;
        let ([scores], [values, ids]) = (node.inputs.as_slice(), node.outputs.as_slice()) else {
            return None;
        };
        let plain = Route { used, gate: Gate::SoftmaxOfChosen, normalized: false, scale: 1.0, biased: false };
        let mut choice = Choice {
            nodes: [index].into_iter().collect(),
            route: plain,
            inputs: [*scores].into_iter().collect(),
            ids: *ids,
            weights: *values,
        };
        if let Some((gate, at, logits)) = gate(graph, scores) {
            choice.route.gate = gate;
            choice.nodes.push(at);
            choice.inputs = [logits].into_iter().collect();
        } else if let Some(biased) = choice.biased(graph, scores) {
            return Some(biased);
        }
        Some(choice)
    }

    /// The choice by the gate's values plus a bias, whose weights are rows of the gate's values without bias.
    fn biased(&self, graph: &ComputeGraph, scores: &Operand) -> Option<Choice> {
        let (add, sum) = made(graph, scores)?;
        let [a, b] = sum.inputs.as_slice() else { return None };
        if is::<Binary>(sum) != Some(&Binary::Add) || sum.outputs.first() != Some(scores) {
            return None;
        }
        let pairs = [(a, b), (b, a)].into_iter();
        let ((values, bias), (gate, at, logits)) =
            pairs.filter_map(|pair| Some((pair, gate(graph, pair.0)?))).next()?;
        let (take, gather) = reader::<GatherRows>(graph, &self.ids)?;
        let ([table, ids], [weights]) = (gather.inputs.as_slice(), gather.outputs.as_slice()) else {
            return None;
        };
        // A number for each expert: there is one row of logits.
        let experts = table.shape;
        let one_row = experts.rank() == 1 && experts.elements() == values.shape.last();
        if table.value != values.value || *ids != self.ids || !one_row {
            return None;
        }
        if bias.shape.elements() != experts.elements() {
            return None;
        }
        let bias = Operand { shape: experts, ..*bias };
        Some(Choice {
            nodes: self.nodes.iter().copied().chain([at, add, take]).collect(),
            route: Route { gate, biased: true, ..self.route },
            inputs: [logits, bias].into_iter().collect(),
            weights: *weights,
            ..self.clone()
        })
    }

    /// All routes that this begins, the shortest first.
    fn routes(mut self, graph: &ComputeGraph) -> Vec<(SmallVec<[usize; 8]>, Fusion)> {
        let mut found = Vec::new();
        if self.route.gate == Gate::SoftmaxOfChosen {
            // Without a gate there is nothing yet that `route` does.
            match reader::<Softmax>(graph, &self.weights) {
                Some((at, node)) if plain_softmax(node) => self.go_on(at, node),
                _ => return found,
            }
        }
        found.push(self.fusion());
        if self.route.gate == Gate::Softmax && !self.route.biased && self.normalize(graph) {
            found.push(self.fusion());
        }
        if let Some((at, node)) = reader::<Unary>(graph, &self.weights)
            && let Some(&Unary::Scale { factor }) = is::<Unary>(node)
        {
            self.route.scale = factor;
            self.go_on(at, node);
            found.push(self.fusion());
        }
        found
    }

    /// Takes a node in that makes other weights of these.
    fn go_on(&mut self, at: usize, node: &Node) {
        self.nodes.push(at);
        if let Some(weights) = node.outputs.first() {
            self.weights = *weights;
        }
    }

    /// Takes the division by the sum of a row in; says whether there was one.
    fn normalize(&mut self, graph: &ComputeGraph) -> bool {
        let Some((sum_at, sum)) = reader::<Reduce>(graph, &self.weights) else { return false };
        let Some(total) = sum.outputs.first() else { return false };
        if is::<Reduce>(sum).map(|sum| sum.reduction) != Some(Reduction::Sum) {
            return false;
        }
        let mut next = self.clone();
        next.nodes.push(sum_at);
        let rows = graph.info(*total).elements();
        let turned = reader::<Permute>(graph, &self.weights).filter(|(_, node)| turns(node));
        if let Some((at, node)) = turned {
            next.go_on(at, node);
        } else if rows != 1 {
            return false;
        }
        let Some((at, divide)) = reader::<Binary>(graph, &next.weights) else { return false };
        let divides = is::<Binary>(divide) == Some(&Binary::Div)
            && divide.inputs.first() == Some(&next.weights)
            && divide.inputs.get(1).is_some_and(|by| by.value == total.value);
        if !divides {
            return false;
        }
        next.go_on(at, divide);
        if turned.is_some() {
            let back = reader::<Permute>(graph, &next.weights).filter(|(_, node)| turns(node));
            let Some((at, node)) = back else { return false };
            next.go_on(at, node);
        }
        next.route.normalized = true;
        *self = next;
        true
    }

    fn fusion(&self) -> (SmallVec<[usize; 8]>, Fusion) {
        let mut nodes = self.nodes.clone();
        nodes.sort_unstable();
        let (op, inputs) = (Arc::new(self.route), self.inputs.clone());
        (nodes, Fusion { op, inputs, outputs: [self.ids, self.weights].into_iter().collect() })
    }
}

/// The gate that makes an operand as it is looked at: which, where, and of what.
fn gate(graph: &ComputeGraph, scores: &Operand) -> Option<(Gate, usize, Operand)> {
    let (at, node) = made(graph, scores)?;
    let logits = node.inputs.first().filter(|_| node.outputs.first() == Some(scores))?;
    let gate = match is::<Unary>(node) {
        Some(Unary::Activate(Activation::Sigmoid)) => Gate::Sigmoid,
        _ if plain_softmax(node) => Gate::Softmax,
        _ => return None,
    };
    Some((gate, at, *logits))
}

fn plain_softmax(node: &Node) -> bool {
    is::<Softmax>(node) == Some(&Softmax { scale: 1.0, masked: false })
}

/// Whether a node swaps the two axes of a matrix.
fn turns(node: &Node) -> bool {
    is::<Permute>(node).is_some_and(|permute| permute.order.as_slice() == [1, 0])
}

/// The first node of this type that reads an operand as it is looked at.
fn reader<'a, O: Op>(graph: &'a ComputeGraph, operand: &Operand) -> Option<(usize, &'a Node)> {
    let reads = |node: &Node| node.inputs.contains(operand);
    graph.nodes().iter().enumerate().find(|(_, node)| is::<O>(node).is_some() && reads(node))
}
