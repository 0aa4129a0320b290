//! The graph: ops in the order in which they were recorded, and the values between them.
//!
//! Values never change. Overwriting one makes a new value; where that must lie in the memory of the old one (a cache, a
//! buffer from outside) it *updates* it, and the memory of both is that of the first: their *root*. The order of nodes
//! is always one in which running them is right.

use super::extents::{ExtentSlot, Probes};
use super::parameters::ParameterSlot;
use crate::buffer::{Buffer, fresh_id};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, DynOp, Io, Outputs, Slot, TensorInfo, select};
use crate::record::rules::{self, Argument, Arguments, Extent, Memory, check_device, output_slots};
use silicide_quant::Shape;
use smallvec::SmallVec;
use std::sync::Arc;

/// How far from its place by number the maker of a value is looked for first.
const NEAR: usize = 8;

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

/// An op with its operands.
#[derive(Clone, Debug)]
pub struct Node {
    /// The op.
    pub op: Arc<dyn DynOp>,
    /// Its inputs, in the order of its slots.
    pub inputs: SmallVec<[Operand; 4]>,
    /// Its outputs.
    pub outputs: SmallVec<[Operand; 2]>,
    /// The innermost scope that it was recorded in.
    pub scope: Option<usize>,
}

/// One op in place of several. See [`ComputeGraph::fuse`].
#[derive(Clone, Debug)]
pub struct Fusion {
    /// The op.
    pub op: Arc<dyn DynOp>,
    /// Its inputs.
    pub inputs: SmallVec<[Operand; 4]>,
    /// Values that the nodes it stands for have made: all that anyone else needs.
    pub outputs: SmallVec<[Operand; 2]>,
}

#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) info: TensorInfo,
    pub(super) origin: Origin,
    /// Its elements at other extents, if it is live.
    pub(super) probes: Probes,
}

/// A buffer that a session supplies.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) info: TensorInfo,
    /// The extent that its first axis follows.
    pub(super) live: Option<u32>,
}

/// A captured pass. See the module's documentation.
#[derive(Clone, Debug)]
pub struct ComputeGraph {
    /// The identity of the builder that captured it, which its values and parameters carry.
    pub(super) id: u64,
    pub(super) device: Device,
    pub(super) values: Vec<Value>,
    pub(super) nodes: Vec<Node>,
    pub(super) inputs: Vec<Input>,
    pub(super) parameters: Vec<ParameterSlot>,
    pub(super) extents: Vec<ExtentSlot>,
    pub(super) outputs: Vec<Operand>,
    pub(super) scopes: Vec<Scope>,
    /// How often nodes read each value; empty if it is not known.
    pub(super) read_counts: Vec<u32>,
}

impl ComputeGraph {
    pub(super) fn new(device: &Device) -> ComputeGraph {
        let (values, nodes, inputs, parameters) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (extents, outputs, scopes) = (Vec::new(), Vec::new(), Vec::new());
        let (id, device) = (fresh_id(), device.clone());
        let read_counts = Vec::new();
        ComputeGraph { id, device, values, nodes, inputs, parameters, extents, outputs, scopes, read_counts }
    }

    /// The device that it is for.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its ops, in an order in which they may run.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the outputs, which a session can read.
    pub fn outputs(&self) -> &[Operand] {
        &self.outputs
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

    /// The node that makes a value.
    pub fn maker(&self, value: ValueId) -> Option<usize> {
        if !matches!(self.origin(value)?, Origin::Arena | Origin::Update(_)) {
            return None;
        }
        let makes = |node: &Node| node.outputs.iter().any(|output| output.value == value);
        // Values are numbered as they are made. Passes move few nodes, and not far.
        let before = |node: &Node| node.outputs.first().is_some_and(|output| output.value < value);
        let near = self.nodes.partition_point(before).saturating_sub(NEAR);
        let found = self.nodes.iter().enumerate().skip(near).take(2 * NEAR).find(|(_, node)| makes(node));
        found.map(|(index, _)| index).or_else(|| self.nodes.iter().position(makes))
    }

    pub(super) fn push_value(&mut self, info: TensorInfo, origin: Origin, probes: Probes) -> ValueId {
        self.values.push(Value { info, origin, probes });
        ValueId(self.values.len() as u32 - 1)
    }

    /// The value whose memory a value lies in.
    pub(super) fn root(&self, mut value: ValueId) -> ValueId {
        while let Some(Origin::Update(of)) = self.origin(value) {
            value = *of;
        }
        value
    }

    /// The bytes that a value lies in.
    pub(super) fn extent(&self, value: ValueId) -> Extent {
        let root = self.root(value);
        let bytes = self.values.get(root.0 as usize).map_or(0, |value| value.info.bytes());
        let (memory, start) = match self.origin(root) {
            Some(Origin::Constant(buffer)) => return Extent::of(buffer),
            Some(Origin::Input(input)) => (Memory::Input(*input), 0),
            Some(Origin::Parameter(number)) => {
                (Memory::Parameters, self.parameters.get(*number).map_or(0, |slot| slot.offset))
            }
            _ => (Memory::Value(root.0), 0),
        };
        Extent { memory, range: start..start.saturating_add(bytes) }
    }

    /// Whether a value lies in memory that others see.
    pub(super) fn is_outside(&self, value: ValueId) -> bool {
        !matches!(self.extent(value).memory, Memory::Value(_))
    }

    /// Returns an operand as an argument of a call. The memory of a constant may not be allocated yet; a session checks it
    /// when it binds it.
    pub(super) fn argument(&self, operand: Operand, op: &'static str) -> Result<Argument> {
        let value = self.values.get(operand.value.0 as usize).ok_or(Error::WrongGraph { what: op })?;
        let info = TensorInfo { shape: operand.shape, ..value.info };
        let (size, expected) = (operand.shape.bytes(info.dtype).ok(), value.info.bytes());
        // rule: operand-shape
        if size != Some(expected) {
            let expected = format!("{} elements", value.info.elements());
            return Err(Error::Shape { op, slot: "operand", expected, got: operand.shape });
        }
        let writable = match self.origin(self.root(operand.value)) {
            Some(Origin::Constant(buffer)) => {
                check_device(&self.device, buffer, op)?;
                !buffer.is_allocated() || buffer.is_writable()?
            }
            Some(Origin::Parameter(_)) => false,
            _ => true,
        };
        Ok(Argument { info, extent: self.extent(operand.value), writable })
    }

    /// Checks that all constants are memory of the graph's device, also those that no node takes.
    pub(super) fn check_constants(&self) -> Result<()> {
        let constants = self.values.iter().filter_map(|value| match &value.origin {
            Origin::Constant(buffer) => Some(buffer),
            _ => None,
        });
        constants.into_iter().try_for_each(|buffer| check_device(&self.device, buffer, "graph"))
    }

    /// Operands as the rules of a call see them.
    fn arguments(&self, operands: &[Operand], op: &'static str) -> Result<Arguments> {
        operands.iter().map(|operand| self.argument(*operand, op)).collect()
    }

    /// Checks the rules of a call.
    pub(super) fn check_call(&self, op: &dyn DynOp, inputs: &[Operand], outputs: &[Operand]) -> Result<()> {
        let inputs = self.arguments(inputs, op.name())?;
        let inferred = rules::check_inputs(op, &inputs)?;
        rules::check_outputs(op, &inputs, &inferred, &self.arguments(outputs, op.name())?)
    }

    /// The value that an output changes without replacing all of it, and so reads.
    pub(super) fn changed(&self, slot: &Slot, output: &Operand) -> Option<ValueId> {
        match self.origin(output.value) {
            Some(Origin::Update(of)) if slot.access == Access::ReadWrite => Some(*of),
            _ => None,
        }
    }

    /// Returns the values that a node reads: its inputs, and the values that it updates.
    pub(super) fn reads<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = ValueId> + 'a {
        let is_update = |output: &Operand| matches!(self.origin(output.value), Some(Origin::Update(_)));
        let updates = node.outputs.iter().enumerate().filter(move |(_, output)| is_update(output));
        let changed = updates.filter_map(|(i, output)| self.changed(output_slots(&*node.op).nth(i)?, output));
        node.inputs.iter().map(|input| input.value).chain(changed)
    }

    /// Returns whether swapping two nodes could change a result.
    pub(super) fn conflict(&self, one: &Node, other: &Node) -> bool {
        let places = |operands: &[Operand]| -> SmallVec<[Extent; 4]> {
            operands.iter().map(|operand| self.extent(operand.value)).collect()
        };
        let meet = |a: &[Extent], b: &[Extent]| a.iter().any(|a| b.iter().any(|b| a.overlaps(b)));
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

    /// Replaces nodes, in ascending order, by one op, if that changes no value. Returns whether it was done. The op takes the position
    /// of the last node, or else that of the first. The conditions:
    ///
    /// 1. The call keeps the rules of every call, and has a kernel on the device.
    /// 2. No other node reads a value that the nodes make and the op does not.
    /// 3. The inputs of the op are made before its position.
    /// 4. Each node can move to that position: no node between them touches the same bytes.
    pub fn fuse(&mut self, nodes: &[usize], fusion: Fusion) -> bool {
        let (Some(&first), Some(&last)) = (nodes.first(), nodes.last()) else { return false };
        if last >= self.nodes.len() || !nodes.is_sorted_by(|a, b| a < b) {
            return false;
        }
        self.count_reads();
        if !self.is_private(nodes, &fusion) || self.check_fusion(&fusion).is_err() {
            return false;
        }
        let Some(place) = [last, first].into_iter().find(|place| self.can_move(nodes, &fusion, *place))
        else {
            return false;
        };
        let scope = self.nodes.get(first).and_then(|node| node.scope);
        let Fusion { op, inputs, outputs } = fusion;
        let fused = Node { op, inputs, outputs, scope };
        let mut counts = std::mem::take(&mut self.read_counts);
        let parts = nodes.iter().filter_map(|&node| self.nodes.get(node));
        parts.for_each(|node| self.add_reads(&mut counts, node, -1));
        self.add_reads(&mut counts, &fused, 1);
        self.read_counts = counts;
        if let Some(node) = self.nodes.get_mut(place) {
            *node = fused;
        }
        for node in nodes.iter().rev().copied().filter(|node| *node != place) {
            let _fused = self.nodes.remove(node);
        }
        true
    }

    /// Returns whether all of `nodes` can move to the position of node `place`, one of them, and the inputs of the fusion are made before it.
    fn can_move(&self, nodes: &[usize], fusion: &Fusion, place: usize) -> bool {
        let later = |input: &Operand| self.maker(input.value).is_some_and(|maker| maker >= place);
        // rule: fusion-order
        if fusion.inputs.iter().any(later) {
            return false;
        }
        let movable = |moved: usize| {
            let between = moved.min(place) + 1..moved.max(place);
            let kept = between.filter(|between| !nodes.contains(between));
            let pair = |between: usize| self.nodes.get(moved).zip(self.nodes.get(between));
            kept.filter_map(pair).all(|(moved, between)| !self.conflict(moved, between))
        };
        nodes.iter().all(|&node| movable(node))
    }

    /// Checks that a fusion keeps the rules of a call, and has a kernel here.
    fn check_fusion(&self, fusion: &Fusion) -> Result<()> {
        self.check_call(&*fusion.op, &fusion.inputs, &fusion.outputs)?;
        let (inputs, outputs) = self.infos(&fusion.inputs, &fusion.outputs);
        let io = Io { inputs: &inputs, outputs: &outputs };
        select(&*fusion.op, &io, self.device.info(), None).map(drop)
    }

    /// Counts how often nodes read each value, unless it is known.
    fn count_reads(&mut self) {
        if self.read_counts.len() != self.values.len() {
            self.read_counts = vec![0; self.values.len()];
            let mut counts = std::mem::take(&mut self.read_counts);
            self.nodes.iter().for_each(|node| self.add_reads(&mut counts, node, 1));
            self.read_counts = counts;
        }
    }

    fn add_reads(&self, counts: &mut [u32], node: &Node, change: i32) {
        for value in self.reads(node) {
            if let Some(count) = counts.get_mut(value.0 as usize) {
                *count = count.saturating_add_signed(change);
            }
        }
    }

    /// Whether a value is an output of the graph, or read by other nodes than `nodes`.
    fn is_read(&self, value: ValueId, nodes: &[usize]) -> bool {
        let all = self.read_counts.get(value.0 as usize).copied().unwrap_or(0) as usize;
        let parts = nodes.iter().filter_map(|&node| self.nodes.get(node));
        let inner = parts.flat_map(|node| self.reads(node)).filter(|read| *read == value).count();
        all > inner || self.outputs.iter().any(|output| output.value == value)
    }

    /// Returns whether a fusion makes all values that other nodes need, makes only values of its nodes, and reads none of them.
    fn is_private(&self, nodes: &[usize], fusion: &Fusion) -> bool {
        let parts = nodes.iter().filter_map(|&node| self.nodes.get(node));
        let made: SmallVec<[ValueId; 8]> =
            parts.flat_map(|node| node.outputs.iter().map(|output| output.value)).collect();
        if !fusion.outputs.iter().all(|output| made.contains(&output.value))
            || fusion.inputs.iter().any(|input| made.contains(&input.value))
        {
            return false;
        }
        let outside: SmallVec<[ValueId; 8]> =
            made.iter().copied().filter(|&value| self.is_read(value, nodes)).collect();
        let kept = |value: ValueId| fusion.outputs.iter().any(|output| output.value == value);
        let needed = |value: &ValueId| outside.contains(value) || self.is_outside(*value);
        let superseded = |value: &ValueId| {
            let later = |other: &ValueId| self.root(*other) == self.root(*value) && kept(*other);
            !outside.contains(value) && made.iter().any(later)
        };
        made.iter().all(|value| kept(*value) || superseded(value) || !needed(value))
    }
}
