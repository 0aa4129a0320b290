//! The graph: ops in the order in which they were recorded, and the values between them.
//!
//! Values never change. Overwriting one makes a new value; where that must lie in the memory of the old one (a cache, a
//! buffer from outside) it *updates* it, and the memory of both is that of the first: their *root*. The order of nodes
//! is always one in which running them is right.

use super::parameters::ParameterSlot;
use crate::buffer::{Buffer, StorageId};
use crate::device::Device;
use crate::error::Result;
use crate::kernel::{Access, DynOp, Io, Outputs, Slot, TensorInfo, select};
use silicide_quant::Shape;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// A value of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(super) u32);

/// Where a value lies.
#[derive(Clone, Debug)]
pub enum Origin {
    /// In a buffer that all sessions share: weights, tables.
    Constant(Buffer),
    /// In a buffer that each session brings, by number: a cache.
    Input(usize),
    /// In the memory of a session's parameters, by number: tokens, positions. Nodes only read it.
    Parameter(usize),
    /// In the arena: a node made it.
    Arena,
    /// Where another value lies, which a node has overwritten or changed.
    Update(ValueId),
}

/// A value, and the shape in which it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Which value.
    pub value: ValueId,
    /// As many elements as the value has.
    pub shape: Shape,
}

/// A named part of a graph.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Its name.
    pub label: &'static str,
    /// The scope that it is a part of.
    pub parent: Option<usize>,
}

/// An op with what it works on.
#[derive(Clone, Debug)]
pub struct Node {
    /// What is computed.
    pub op: Arc<dyn DynOp>,
    /// What it reads, in the order of its slots.
    pub inputs: SmallVec<[Operand; 4]>,
    /// What it makes.
    pub outputs: SmallVec<[Operand; 2]>,
    /// The innermost scope that it was recorded in.
    pub scope: Option<usize>,
}

/// One op in place of several. See [`ComputeGraph::fuse`].
#[derive(Clone, Debug)]
pub struct Fusion {
    /// What is computed.
    pub op: Arc<dyn DynOp>,
    /// What it reads.
    pub inputs: SmallVec<[Operand; 4]>,
    /// Values that the nodes it stands for have made: all that anyone else needs.
    pub outputs: SmallVec<[Operand; 2]>,
}

#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) info: TensorInfo,
    pub(super) origin: Origin,
}

/// What a session brings.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) info: TensorInfo,
}

/// A captured pass. See the module's documentation.
#[derive(Clone, Debug)]
pub struct ComputeGraph {
    pub(super) device: Device,
    pub(super) values: Vec<Value>,
    pub(super) nodes: Vec<Node>,
    pub(super) inputs: Vec<Input>,
    pub(super) parameters: Vec<ParameterSlot>,
    pub(super) outputs: Vec<Operand>,
    pub(super) scopes: Vec<Scope>,
}

/// Memory outside the arena, to tell whether two values share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Constant(StorageId, Range<usize>),
    Input(usize),
    Parameter(usize),
    Arena(ValueId),
}

impl Place {
    pub(super) fn overlaps(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Constant(a, x), Place::Constant(b, y)) => a == b && x.start < y.end && y.start < x.end,
            _ => self == other,
        }
    }
}

impl ComputeGraph {
    pub(super) fn new(device: &Device) -> ComputeGraph {
        let (values, nodes, inputs, parameters) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (outputs, scopes) = (Vec::new(), Vec::new());
        ComputeGraph { device: device.clone(), values, nodes, inputs, parameters, outputs, scopes }
    }

    /// The device that it is for.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its ops, in an order in which they may run.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// What a session gets out of it.
    pub fn outputs(&self) -> &[Operand] {
        &self.outputs
    }

    /// Its scopes; nodes refer to them by number.
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// The label of a node's scope, if it has one.
    pub fn scope_of(&self, node: &Node) -> Option<&'static str> {
        node.scope.and_then(|scope| self.scopes.get(scope)).map(|scope| scope.label)
    }

    /// Where a value lies.
    pub fn origin(&self, value: ValueId) -> Option<&Origin> {
        self.values.get(value.0 as usize).map(|value| &value.origin)
    }

    /// Type and shape of an operand.
    pub fn info(&self, operand: Operand) -> TensorInfo {
        let value = self.values.get(operand.value.0 as usize).map(|value| value.info);
        let scalar = TensorInfo::new(silicide_quant::DType::U8, Shape::SCALAR);
        TensorInfo { shape: operand.shape, ..value.unwrap_or(scalar) }
    }

    /// The number of nodes that read a value; being an output of the graph counts as one more.
    pub fn uses(&self, value: ValueId) -> usize {
        let reads = self.nodes.iter().filter(|node| self.reads(node).any(|read| read == value)).count();
        reads + usize::from(self.outputs.iter().any(|output| output.value == value))
    }

    /// The node that makes a value.
    pub fn maker(&self, value: ValueId) -> Option<usize> {
        self.nodes.iter().position(|node| node.outputs.iter().any(|output| output.value == value))
    }

    pub(super) fn push_value(&mut self, info: TensorInfo, origin: Origin) -> ValueId {
        self.values.push(Value { info, origin });
        ValueId(self.values.len() as u32 - 1)
    }

    /// The value whose memory a value lies in.
    pub(super) fn root(&self, mut value: ValueId) -> ValueId {
        while let Some(Origin::Update(of)) = self.origin(value) {
            value = *of;
        }
        value
    }

    pub(super) fn place(&self, value: ValueId) -> Place {
        let root = self.root(value);
        match self.origin(root) {
            Some(Origin::Constant(buffer)) => Place::Constant(buffer.storage_id(), buffer.range()),
            Some(Origin::Input(input)) => Place::Input(*input),
            Some(Origin::Parameter(parameter)) => Place::Parameter(*parameter),
            _ => Place::Arena(root),
        }
    }

    /// Whether a value lies in memory that others see.
    pub(super) fn is_outside(&self, value: ValueId) -> bool {
        !matches!(self.place(value), Place::Arena(_))
    }

    /// The value that an output changes without replacing all of it, and so reads.
    pub(super) fn changed(&self, slot: &Slot, output: &Operand) -> Option<ValueId> {
        match self.origin(output.value) {
            Some(Origin::Update(of)) if slot.access == Access::ReadWrite => Some(*of),
            _ => None,
        }
    }

    /// Values that a node reads: inputs, and what it changes.
    pub(super) fn reads<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = ValueId> + 'a {
        let changed = output_slots(&*node.op).zip(&node.outputs);
        let changed = changed.filter_map(|(slot, output)| self.changed(slot, output));
        node.inputs.iter().map(|input| input.value).chain(changed)
    }

    /// Whether swapping two nodes could change what is computed.
    pub(super) fn conflict(&self, one: &Node, other: &Node) -> bool {
        let places = |operands: &[Operand]| -> SmallVec<[Place; 4]> {
            operands.iter().map(|operand| self.place(operand.value)).collect()
        };
        let meet = |a: &[Place], b: &[Place]| a.iter().any(|a| b.iter().any(|b| a.overlaps(b)));
        let (reads, writes) = (places(&one.inputs), places(&one.outputs));
        let (other_reads, other_writes) = (places(&other.inputs), places(&other.outputs));
        meet(&writes, &other_writes) || meet(&writes, &other_reads) || meet(&reads, &other_writes)
    }

    /// Types and shapes of a node's arguments.
    pub(super) fn infos(
        &self,
        inputs: &[Operand],
        outputs: &[Operand],
    ) -> (SmallVec<[TensorInfo; 4]>, Outputs) {
        let info = |operand: &Operand| self.info(*operand);
        (inputs.iter().map(info).collect(), outputs.iter().map(info).collect())
    }

    /// Puts one op in the place of several nodes, in ascending order, where that is proven to change nothing but who
    /// computes it; says whether it was done. The proof: the op takes these types and has a kernel on the device; what the
    /// nodes made and the op does not is read by nobody else; what the op writes shares memory with nothing else that it
    /// touches, unless it may; and each node can be moved down to where the last of them stands, because nothing between
    /// touches what it touches.
    pub fn fuse(&mut self, nodes: &[usize], fusion: Fusion) -> bool {
        let Some(&last) = nodes.last() else { return false };
        if last >= self.nodes.len() || !nodes.is_sorted_by(|a, b| a < b) {
            return false;
        }
        if !self.can_run(&fusion).unwrap_or(false)
            || !self.is_private(nodes, &fusion)
            || !self.is_apart(&fusion)
        {
            return false;
        }
        let first = nodes.first().copied().unwrap_or(last);
        let movable = |moved: usize| {
            let kept = (moved + 1..last).filter(|between| !nodes.contains(between));
            let pair = |between: usize| self.nodes.get(moved).zip(self.nodes.get(between));
            kept.filter_map(pair).all(|(moved, between)| !self.conflict(moved, between))
        };
        if !nodes.iter().all(|&node| movable(node)) {
            return false;
        }
        let scope = self.nodes.get(first).and_then(|node| node.scope);
        let Fusion { op, inputs, outputs } = fusion;
        if let Some(place) = self.nodes.get_mut(last) {
            *place = Node { op, inputs, outputs, scope };
        }
        let mut index = 0;
        self.nodes.retain(|_| {
            index += 1;
            index - 1 == last || !nodes.contains(&(index - 1))
        });
        true
    }

    /// Whether the op takes such arguments, and has a kernel for them here.
    fn can_run(&self, fusion: &Fusion) -> Result<bool> {
        let (inputs, outputs) = self.infos(&fusion.inputs, &fusion.outputs);
        let inferred = fusion.op.infer(&inputs)?;
        if inferred.len() != outputs.len() {
            return Ok(false);
        }
        fusion.op.check_outputs(&inferred, &outputs)?;
        let io = Io { inputs: &inputs, outputs: &outputs };
        select(&*fusion.op, &io, self.device.info(), None).map(|_| true)
    }

    /// Whether what an op writes shares no memory with its other arguments, but where it may be written over an input.
    fn is_apart(&self, fusion: &Fusion) -> bool {
        let places = |operands: &[Operand]| -> SmallVec<[Place; 4]> {
            operands.iter().map(|operand| self.place(operand.value)).collect()
        };
        let (inputs, outputs) = (places(&fusion.inputs), places(&fusion.outputs));
        let slots = output_slots(&*fusion.op).zip(&fusion.outputs).zip(&outputs).enumerate();
        slots.into_iter().all(|(i, ((slot, output), place))| {
            let over = |(j, (input, other)): (usize, (&Operand, &Place))| {
                let allowed = slot.in_place & 1u32.checked_shl(j as u32).unwrap_or(0) != 0;
                let same = place == other && self.info(*output).dtype == self.info(*input).dtype;
                !place.overlaps(other) || (allowed && same)
            };
            let mut others = outputs.iter().take(i);
            others.all(|other| !place.overlaps(other))
                && fusion.inputs.iter().zip(&inputs).enumerate().all(over)
        })
    }

    /// Whether a fusion makes everything that others need, and nothing but what the nodes make; and reads only what is
    /// there before them.
    fn is_private(&self, nodes: &[usize], fusion: &Fusion) -> bool {
        let parts = || nodes.iter().filter_map(|&node| self.nodes.get(node));
        let made: Vec<ValueId> =
            parts().flat_map(|node| node.outputs.iter().map(|output| output.value)).collect();
        let kept = |value: ValueId| fusion.outputs.iter().any(|output| output.value == value);
        let inner = |node: usize| nodes.contains(&node);
        let outside: Vec<ValueId> = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(index, _)| !inner(*index))
            .flat_map(|(_, node)| self.reads(node))
            .chain(self.outputs.iter().map(|output| output.value))
            .collect();
        let needed = |value: &ValueId| outside.contains(value) || self.is_outside(*value);
        let superseded = |value: &ValueId| {
            let later = |other: &ValueId| self.root(*other) == self.root(*value) && kept(*other);
            !outside.contains(value) && made.iter().any(later)
        };
        made.iter().all(|value| kept(*value) || superseded(value) || !needed(value))
            && fusion.outputs.iter().all(|output| made.contains(&output.value))
            && fusion.inputs.iter().all(|input| !made.contains(&input.value))
    }
}

/// The output slots of an op.
pub(super) fn output_slots(op: &dyn DynOp) -> impl Iterator<Item = &'static Slot> + use<> {
    op.slots().iter().filter(|slot| slot.access.writes())
}
