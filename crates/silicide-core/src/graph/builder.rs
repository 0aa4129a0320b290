//! Capturing: a recorder whose values are names, and whose recording is a graph.

use super::compute::{ComputeGraph, Input, Node, Operand, Origin, Place, Scope, ValueId, output_slots};
use super::parameters::Parameter;
use crate::buffer::{Buffer, StorageId};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, DynOp, Op, TensorInfo};
use crate::record::Recorder;
use rustc_hash::FxHashMap;
use silicide_quant::{DType, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// A recorder that captures what is recorded as a [`ComputeGraph`]. Nothing runs, and no memory is taken.
#[derive(Debug)]
pub struct GraphBuilder {
    graph: ComputeGraph,
    /// What each tensor holds now.
    tensors: Vec<ValueId>,
    /// Constants that were seen: the same bytes are the same tensor.
    constants: FxHashMap<(StorageId, usize, usize, DType), u32>,
    scope: Option<usize>,
}

/// A tensor of a [`GraphBuilder`]: what it holds changes as ops write to it.
#[derive(Clone, Copy, Debug)]
pub struct GraphValue {
    tensor: u32,
    info: TensorInfo,
}

impl GraphValue {
    /// Its type and shape.
    pub fn info(&self) -> TensorInfo {
        self.info
    }
}

impl GraphBuilder {
    /// An empty graph for a device.
    pub fn new(device: &Device) -> GraphBuilder {
        let (tensors, constants) = (Vec::new(), FxHashMap::default());
        GraphBuilder { graph: ComputeGraph::new(device), tensors, constants, scope: None }
    }

    /// A tensor in a buffer that each session brings: what differs from one to the next, such as a cache. Sessions bring them
    /// in the order in which they were named.
    pub fn input(&mut self, name: impl Into<String>, info: TensorInfo) -> GraphValue {
        let number = self.graph.inputs.len();
        self.graph.inputs.push(Input { name: name.into(), info });
        self.tensor(info, Origin::Input(number))
    }

    /// A tensor that each session sets before a replay ([`GraphSession::set`](super::GraphSession::set)), such as a position:
    /// few numbers of u32, i32 or f32, which nodes may read and not write. The graph has memory for them.
    pub fn parameter(
        &mut self,
        name: impl Into<String>,
        info: TensorInfo,
    ) -> Result<(Parameter, GraphValue)> {
        let number = self.graph.parameters.len();
        let parameter = self.graph.push_parameter(name.into(), info)?;
        let info = TensorInfo::new(info.dtype, info.shape);
        Ok((parameter, self.tensor(info, Origin::Parameter(number))))
    }

    /// Ends the capture; `outputs` are what a session gives after a replay.
    pub fn finish(mut self, outputs: &[&GraphValue]) -> ComputeGraph {
        self.graph.outputs = outputs.iter().filter_map(|value| self.operand(value)).collect();
        self.graph
    }

    fn tensor(&mut self, info: TensorInfo, origin: Origin) -> GraphValue {
        let value = self.graph.push_value(info, origin);
        self.tensors.push(value);
        GraphValue { tensor: self.tensors.len() as u32 - 1, info }
    }

    /// What a tensor holds now.
    fn operand(&self, value: &GraphValue) -> Option<Operand> {
        let current = self.tensors.get(value.tensor as usize)?;
        Some(Operand { value: *current, shape: value.info.shape })
    }

    fn operands(&self, op: &dyn DynOp, inputs: &[&GraphValue]) -> Result<SmallVec<[Operand; 4]>> {
        let expected = op.slots().iter().filter(|slot| slot.access == Access::Read).count();
        let operands: SmallVec<[Operand; 4]> =
            inputs.iter().filter_map(|value| self.operand(value)).collect();
        if operands.len() != expected {
            let (what, got) = ("inputs", inputs.len());
            return Err(Error::ArgumentCount { op: op.name(), what, expected, got });
        }
        Ok(operands)
    }

    fn push(&mut self, op: Arc<dyn DynOp>, inputs: SmallVec<[Operand; 4]>, outputs: SmallVec<[Operand; 2]>) {
        let scope = self.scope;
        self.graph.nodes.push(Node { op, inputs, outputs, scope });
    }

    /// A node overwrites or changes a tensor.
    fn overwrite(&mut self, given: &GraphValue, access: Access) -> Option<Operand> {
        let current = self.operand(given)?.value;
        let info = self.graph.values.get(current.0 as usize).map(|value| value.info)?;
        // What nobody outside sees may lie anywhere once all of it is new.
        let moves = access == Access::Write && !self.graph.is_outside(current);
        let origin = if moves { Origin::Arena } else { Origin::Update(current) };
        let value = self.graph.push_value(TensorInfo { shape: given.info.shape, ..info }, origin);
        *self.tensors.get_mut(given.tensor as usize)? = value;
        Some(Operand { value, shape: given.info.shape })
    }
}

/// Outputs share no bytes with each other, nor with inputs unless exactly and where the op allows it.
fn check_aliasing(op: &dyn DynOp, inputs: &[&GraphValue], outputs: &[&GraphValue]) -> Result<()> {
    let name = |index: usize| op.slots().get(index).map_or("", |slot| slot.name);
    for (i, output) in outputs.iter().enumerate() {
        let in_place = op.slots().get(inputs.len() + i).map_or(0, |slot| slot.in_place);
        for (j, input) in inputs.iter().enumerate().filter(|(_, input)| input.tensor == output.tensor) {
            let allowed = in_place & 1u32.checked_shl(j as u32).unwrap_or(0) != 0;
            if !allowed || input.info.dtype != output.info.dtype {
                let (output, other) = (name(inputs.len() + i), name(j));
                return Err(Error::Aliasing { op: op.name(), output, other });
            }
        }
        if let Some(k) = outputs.iter().take(i).position(|other| other.tensor == output.tensor) {
            let (output, other) = (name(inputs.len() + i), name(inputs.len() + k));
            return Err(Error::Aliasing { op: op.name(), output, other });
        }
    }
    Ok(())
}

/// Type, shape and alignment of a buffer, without allocating it: memory begins at multiples of 256 bytes.
pub(super) fn info_of(buffer: &Buffer) -> TensorInfo {
    let known = if buffer.is_allocated() { buffer.info().ok() } else { None };
    known.unwrap_or(TensorInfo {
        dtype: buffer.dtype(),
        shape: buffer.shape(),
        alignment: 1 << buffer.offset().trailing_zeros().min(8),
    })
}

impl Recorder for GraphBuilder {
    type Value = GraphValue;

    fn constant(&mut self, buffer: &Buffer) -> GraphValue {
        let info = info_of(buffer);
        let range = buffer.range();
        let key = (buffer.storage_id(), range.start, range.end, buffer.dtype());
        if let Some(&tensor) = self.constants.get(&key) {
            return GraphValue { tensor, info };
        }
        let value = self.tensor(info, Origin::Constant(buffer.clone()));
        self.constants.insert(key, value.tensor);
        value
    }

    fn reshape(&mut self, value: &GraphValue, shape: Shape) -> Result<GraphValue> {
        let info = TensorInfo { shape, ..value.info };
        if shape.elements() != value.info.elements() {
            let expected = format!("{} elements", value.info.elements());
            return Err(Error::Shape { op: "reshape", slot: "shape", expected, got: shape });
        }
        // Refuses rows that would end inside a block.
        shape.bytes(info.dtype).map_err(|error| Error::bad_shape("reshape", error))?;
        Ok(GraphValue { info, ..*value })
    }

    fn run<O: Op>(&mut self, op: O, inputs: &[&GraphValue]) -> Result<SmallVec<[GraphValue; 2]>> {
        let operands = self.operands(&op, inputs)?;
        let infos: SmallVec<[TensorInfo; 4]> = inputs.iter().map(|value| value.info).collect();
        let inferred = DynOp::infer(&op, &infos)?;
        if output_slots(&op).any(|slot| slot.access == Access::ReadWrite) {
            // Nobody could have put there what the op reads.
            let (what, expected) = ("outputs", output_slots(&op).count());
            return Err(Error::ArgumentCount { op: DynOp::name(&op), what, expected, got: 0 });
        }
        let mut values: SmallVec<[GraphValue; 2]> = SmallVec::new();
        for info in &inferred {
            info.shape.bytes(info.dtype).map_err(|error| Error::bad_shape("output", error))?;
            values.push(self.tensor(TensorInfo::new(info.dtype, info.shape), Origin::Arena));
        }
        let outputs = values.iter().filter_map(|value| self.operand(value)).collect();
        self.push(Arc::new(op), operands, outputs);
        Ok(values)
    }

    fn run_into<O: Op>(&mut self, op: O, inputs: &[&GraphValue], outputs: &[&GraphValue]) -> Result<()> {
        let operands = self.operands(&op, inputs)?;
        let infos: SmallVec<[TensorInfo; 4]> = inputs.iter().map(|value| value.info).collect();
        let inferred = DynOp::infer(&op, &infos)?;
        let slots: SmallVec<[_; 2]> = output_slots(&op).collect();
        if outputs.len() != slots.len() {
            let (what, expected, got) = ("outputs", slots.len(), outputs.len());
            return Err(Error::ArgumentCount { op: DynOp::name(&op), what, expected, got });
        }
        let given: SmallVec<[TensorInfo; 2]> = outputs.iter().map(|value| value.info).collect();
        DynOp::check_outputs(&op, &inferred, &given)?;
        check_aliasing(&op, inputs, outputs)?;
        let is_parameter = |operand: Operand| matches!(self.graph.place(operand.value), Place::Parameter(_));
        if outputs.iter().filter_map(|output| self.operand(output)).any(is_parameter) {
            return Err(Error::ReadOnly { what: "parameter" });
        }
        let made = outputs.iter().zip(slots);
        let made = made.filter_map(|(output, slot)| self.overwrite(output, slot.access)).collect();
        self.push(Arc::new(op), operands, made);
        Ok(())
    }

    fn scope<T>(&mut self, label: &'static str, f: impl FnOnce(&mut GraphBuilder) -> T) -> T {
        self.graph.scopes.push(Scope { label, parent: self.scope });
        let outer = self.scope.replace(self.graph.scopes.len() - 1);
        let result = f(self);
        self.scope = outer;
        result
    }
}
