//! Passes: rewrites of a graph, as values. Those here work for any op; those for certain ops live with the ops.

use super::compute::{ComputeGraph, Node, Operand, Origin, ValueId};
use crate::error::Result;
use crate::kernel::Access;
use crate::record::rules::{Extent, output_slots};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::any::TypeId;

/// A rewrite that never changes what a graph computes beyond the tolerance of its ops.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Its name, for reports.
    pub name: &'static str,
    /// Rewrites a graph; says how often.
    pub run: fn(&mut ComputeGraph) -> Result<usize>,
}

/// The result of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassReport {
    /// The pass.
    pub name: &'static str,
    /// Rewrites.
    pub rewrites: usize,
}

/// Dead-code elimination: removes nodes whose results are unused. Writes to memory from outside are always kept.
pub const DEAD_CODE: Pass = Pass { name: "dead code", run: |graph| Ok(graph.remove_dead_code()) };

/// Common-subexpression elimination: merges nodes with equal ops and inputs.
pub const COMMON_SUBEXPRESSIONS: Pass =
    Pass { name: "common subexpressions", run: |graph| Ok(graph.share_subexpressions()) };

impl ComputeGraph {
    /// Runs passes in order.
    pub fn optimise(&mut self, passes: &[Pass]) -> Result<Vec<PassReport>> {
        let report = |pass: &Pass| Ok(PassReport { name: pass.name, rewrites: (pass.run)(self)? });
        passes.iter().map(report).collect()
    }

    fn remove_dead_code(&mut self) -> usize {
        let mut needed: FxHashSet<ValueId> = self.outputs.iter().map(|output| output.value).collect();
        let mut alive = vec![false; self.nodes.len()];
        for (node, alive) in self.nodes.iter().zip(&mut alive).rev() {
            let wanted = |output: &Operand| needed.contains(&output.value) || self.is_outside(output.value);
            if node.outputs.iter().any(wanted) {
                *alive = true;
                needed.extend(self.reads(node));
            }
        }
        self.read_counts.clear();
        let before = self.nodes.len();
        let mut alive = alive.into_iter();
        self.nodes.retain(|_| alive.next().unwrap_or(true));
        before - self.nodes.len()
    }

    fn share_subexpressions(&mut self) -> usize {
        let updated: FxHashSet<ValueId> = self
            .values
            .iter()
            .filter_map(|value| match value.origin {
                Origin::Update(of) => Some(of),
                _ => None,
            })
            .collect();
        let changed = self.changed_places();
        let mut known: FxHashMap<(TypeId, Vec<Operand>), SmallVec<[usize; 1]>> = FxHashMap::default();
        let mut same: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        let mut doubles = vec![false; self.nodes.len()];
        for index in 0..self.nodes.len() {
            let Some(node) = self.nodes.get_mut(index) else { break };
            for input in &mut node.inputs {
                input.value = same.get(&input.value).copied().unwrap_or(input.value);
            }
            let Some(node) = self.nodes.get(index) else { break };
            if !self.is_plain(node, &updated, &changed) {
                continue;
            }
            let alike = known.entry((node.op.as_any().type_id(), node.inputs.to_vec())).or_default();
            let mut firsts = alike.iter().filter_map(|&first| self.nodes.get(first));
            // An op that compares without a parameter may have outputs of another shape.
            match firsts.find(|first| node.op.is_same(&*first.op) && self.makes_the_same(first, node)) {
                Some(first) => {
                    let pairs = node.outputs.iter().zip(&first.outputs);
                    same.extend(pairs.map(|(double, first)| (double.value, first.value)));
                    if let Some(double) = doubles.get_mut(index) {
                        *double = true;
                    }
                }
                None => alike.push(index),
            }
        }
        for output in &mut self.outputs {
            output.value = same.get(&output.value).copied().unwrap_or(output.value);
        }
        self.read_counts.clear();
        let before = self.nodes.len();
        let mut doubles = doubles.into_iter();
        self.nodes.retain(|_| !doubles.next().unwrap_or(false));
        before - self.nodes.len()
    }

    /// Whether the outputs of two nodes have the same types and shapes.
    fn makes_the_same(&self, one: &Node, other: &Node) -> bool {
        let infos = |node: &Node| -> Vec<_> {
            let info = |output: &Operand| self.info(*output);
            node.outputs.iter().map(info).map(|info| (info.dtype, info.shape)).collect()
        };
        infos(one) == infos(other)
    }

    /// Whether a node's outputs follow from its inputs alone, and stay as they are.
    fn is_plain(&self, node: &Node, updated: &FxHashSet<ValueId>, changed: &[Extent]) -> bool {
        let writes = output_slots(&*node.op).all(|slot| slot.access == Access::Write);
        let fresh = |output: &Operand| {
            matches!(self.origin(output.value), Some(Origin::Arena)) && !updated.contains(&output.value)
        };
        let inputs = node.inputs.iter().map(|input| input.value);
        writes && node.outputs.iter().all(fresh) && inputs.into_iter().all(|value| self.stays(value, changed))
    }

    /// Memory that holds one value first and another later.
    pub(super) fn changed_places(&self) -> Vec<Extent> {
        let updates = (0..).map(ValueId).zip(&self.values);
        let updates = updates.filter(|(_, value)| matches!(value.origin, Origin::Update(_)));
        let mut places: Vec<Extent> = Vec::new();
        for (id, _) in updates {
            let place = self.extent(id);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    /// Whether the memory of a value holds that value as long as anyone may read it.
    pub(super) fn stays(&self, value: ValueId, changed: &[Extent]) -> bool {
        let place = self.extent(value);
        !changed.iter().any(|changed| changed.overlaps(&place))
    }
}
