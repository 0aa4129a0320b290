//! Capturing: a recorder whose values are names, and whose recording is a graph.

use super::compute::{ComputeGraph, Input, Node, Operand, Origin, Scope, ValueId};
use super::extents::{LiveExtent, Probes};
use super::parameters::Parameter;
use crate::buffer::{Buffer, StorageId};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, DynOp, Op, TensorInfo};
use crate::record::Recorder;
use crate::record::rules::{self, Arguments, check_graph, output_slots};
use rustc_hash::FxHashMap;
use silicide_quant::{DType, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// A recorder that captures calls as a [`ComputeGraph`]. It runs nothing and allocates nothing.
#[derive(Debug)]
pub struct GraphBuilder {
    graph: ComputeGraph,
    /// The value that each tensor holds now.
    tensors: Vec<ValueId>,
    /// Constants that were seen: the same bytes are the same tensor.
    constants: FxHashMap<(StorageId, usize, usize, DType), u32>,
    scope: Option<usize>,
}

/// A tensor of a [`GraphBuilder`]. Its contents change as ops write to it. No other builder accepts it.
#[derive(Clone, Copy, Debug)]
pub struct GraphValue {
    graph: u64,
    tensor: u32,
    info: TensorInfo,
}

/// Operands of a call, and the arguments that they are.
type Operands<const N: usize> = (SmallVec<[Operand; N]>, Arguments);

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

    /// Adds a tensor whose buffer each session brings, such as a cache. Sessions bring the buffers in the order of these calls.
    pub fn input(&mut self, name: impl Into<String>, info: TensorInfo) -> GraphValue {
        let number = self.graph.inputs.len();
        self.graph.inputs.push(Input { name: name.into(), info, live: None });
        self.tensor(info, Origin::Input(number), Probes::new())
    }

    /// As [`GraphBuilder::input`], with live rows: the first axis of `info` is a multiple of the largest `extent`. Nodes read
    /// the live rows, and may not write.
    pub fn live_input(
        &mut self,
        name: impl Into<String>,
        info: TensorInfo,
        extent: LiveExtent,
    ) -> Result<GraphValue> {
        check_graph(self.graph.id, extent.graph, "extent")?;
        let probes = self.graph.declared_probes(extent, &info)?;
        let number = self.graph.inputs.len();
        self.graph.inputs.push(Input { name: name.into(), info, live: Some(extent.number) });
        Ok(self.tensor(info, Origin::Input(number), probes))
    }

    /// A tensor that each session sets before a replay ([`GraphSession::set`](super::GraphSession::set)), such as a position:
    /// few numbers of u32, i32 or f32, which nodes may read and not write. The graph has memory for them.
    pub fn parameter(
        &mut self,
        name: impl Into<String>,
        info: TensorInfo,
    ) -> Result<(Parameter, GraphValue)> {
        self.declare(name.into(), info, None)
    }

    /// Declares a number of rows that sessions set before a replay ([`GraphSession::set_extent`](super::GraphSession::set_extent)):
    /// from 1 to `max`, which the graph is planned for.
    pub fn extent(&mut self, name: impl Into<String>, max: usize) -> Result<LiveExtent> {
        self.graph.push_extent(name.into(), max)
    }

    /// As [`GraphBuilder::parameter`], with live rows: the first axis of `info` is a multiple of the largest `extent`.
    pub fn live_parameter(
        &mut self,
        name: impl Into<String>,
        info: TensorInfo,
        extent: LiveExtent,
    ) -> Result<(Parameter, GraphValue)> {
        check_graph(self.graph.id, extent.graph, "extent")?;
        self.declare(name.into(), info, Some(extent))
    }

    fn declare(
        &mut self,
        name: String,
        info: TensorInfo,
        extent: Option<LiveExtent>,
    ) -> Result<(Parameter, GraphValue)> {
        let probes = match extent {
            Some(extent) => self.graph.declared_probes(extent, &info)?,
            None => Probes::new(),
        };
        let number = self.graph.parameters.len();
        let parameter = self.graph.push_parameter(name, info, extent.map(|extent| extent.number))?;
        let info = TensorInfo::new(info.dtype, info.shape);
        Ok((parameter, self.tensor(info, Origin::Parameter(number), probes)))
    }

    /// Begins a scope: ops belong to it until [`GraphBuilder::end_scope`]. [`Recorder::scope`] calls both.
    pub fn begin_scope(&mut self, label: &'static str) {
        self.graph.scopes.push(Scope { label, parent: self.scope });
        self.scope = Some(self.graph.scopes.len() - 1);
    }

    /// Ends the innermost scope, if there is one.
    pub fn end_scope(&mut self) {
        let parent = |scope: usize| self.graph.scopes.get(scope).and_then(|scope| scope.parent);
        self.scope = self.scope.and_then(parent);
    }

    /// Returns the extent that the rows of a value follow; `None` for a value of fixed shape. Fails for a value that is not a
    /// whole number of rows for each row of one extent.
    pub fn extent_of(&self, value: &GraphValue) -> Result<Option<LiveExtent>> {
        let operand = self.operand(value, "extent_of")?;
        self.graph.extent_of(operand.value)
    }

    /// Ends the capture. `outputs` are the outputs of a session after a replay.
    pub fn finish(mut self, outputs: &[&GraphValue]) -> Result<ComputeGraph> {
        let outputs: Result<_> = outputs.iter().map(|value| self.operand(value, "finish")).collect();
        self.graph.outputs = outputs?;
        Ok(self.graph)
    }

    /// As [`Recorder::run`], for an op without its type.
    pub fn record(
        &mut self,
        op: Arc<dyn DynOp>,
        inputs: &[&GraphValue],
    ) -> Result<SmallVec<[GraphValue; 2]>> {
        let (operands, arguments) = self.operands(&*op, inputs)?;
        let inferred = rules::check_inputs(&*op, &arguments)?;
        rules::check_new_outputs(&self.graph.device, &*op, &inferred)?;
        let probes = self.graph.probe_outputs(&*op, &operands, &inferred)?;
        let new = |(info, probes): (&TensorInfo, Probes)| {
            self.tensor(TensorInfo::new(info.dtype, info.shape), Origin::Arena, probes)
        };
        let values: SmallVec<[GraphValue; 2]> = inferred.iter().zip(probes).map(new).collect();
        let outputs = values.iter().map(|value| self.operand(value, op.name())).collect::<Result<_>>()?;
        self.push(op, operands, outputs);
        Ok(values)
    }

    /// As [`Recorder::run_into`], for an op without its type.
    pub fn record_into(
        &mut self,
        op: Arc<dyn DynOp>,
        inputs: &[&GraphValue],
        outputs: &[&GraphValue],
    ) -> Result<()> {
        let (operands, arguments) = self.operands(&*op, inputs)?;
        let inferred = rules::check_inputs(&*op, &arguments)?;
        let (_, given) = self.operands::<2>(&*op, outputs)?;
        rules::check_outputs(&*op, &arguments, &inferred, &given)?;
        let probes = self.graph.probe_outputs(&*op, &operands, &inferred)?;
        for (output, probes) in outputs.iter().zip(&probes) {
            let current = self.operand(output, op.name())?.value;
            // rule: live-outside
            if !probes.is_empty() && self.graph.is_outside(current) {
                let what = "live rows written to memory from outside, which has a fixed shape".to_owned();
                return Err(Error::BadParameter { op: op.name(), what });
            }
        }
        let made = outputs.iter().zip(output_slots(&*op)).zip(probes);
        let made =
            made.filter_map(|((output, slot), probes)| self.overwrite(output, slot.access, probes)).collect();
        self.push(op, operands, made);
        Ok(())
    }

    fn tensor(&mut self, info: TensorInfo, origin: Origin, probes: Probes) -> GraphValue {
        let value = self.graph.push_value(info, origin, probes);
        self.tensors.push(value);
        GraphValue { graph: self.graph.id, tensor: self.tensors.len() as u32 - 1, info }
    }

    /// Returns the value that a tensor holds now.
    fn operand(&self, value: &GraphValue, what: &'static str) -> Result<Operand> {
        check_graph(self.graph.id, value.graph, what)?;
        let current = self.tensors.get(value.tensor as usize).ok_or(Error::WrongGraph { what })?;
        Ok(Operand { value: *current, shape: value.info.shape })
    }

    /// What tensors hold now, and the arguments that they are.
    fn operands<const N: usize>(&self, op: &dyn DynOp, values: &[&GraphValue]) -> Result<Operands<N>>
    where
        [Operand; N]: smallvec::Array<Item = Operand>,
    {
        let operands: SmallVec<[Operand; N]> =
            values.iter().map(|value| self.operand(value, op.name())).collect::<Result<_>>()?;
        let argument = |operand: &Operand| self.graph.argument(*operand, op.name());
        let arguments = operands.iter().map(argument).collect::<Result<_>>()?;
        Ok((operands, arguments))
    }

    fn push(&mut self, op: Arc<dyn DynOp>, inputs: SmallVec<[Operand; 4]>, outputs: SmallVec<[Operand; 2]>) {
        let scope = self.scope;
        self.graph.nodes.push(Node { op, inputs, outputs, scope });
    }

    /// A node overwrites or changes a tensor.
    fn overwrite(&mut self, given: &GraphValue, access: Access, probes: Probes) -> Option<Operand> {
        let current = *self.tensors.get(given.tensor as usize)?;
        let info = self.graph.values.get(current.0 as usize).map(|value| value.info)?;
        // A value that is not visible outside may lie anywhere once all of it is new.
        let moves = access == Access::Write && !self.graph.is_outside(current);
        let origin = if moves { Origin::Arena } else { Origin::Update(current) };
        let value = self.graph.push_value(TensorInfo { shape: given.info.shape, ..info }, origin, probes);
        *self.tensors.get_mut(given.tensor as usize)? = value;
        Some(Operand { value, shape: given.info.shape })
    }
}

impl Recorder for GraphBuilder {
    type Value = GraphValue;

    fn device(&self) -> &Device {
        &self.graph.device
    }

    /// A value for a buffer. A buffer of another device is refused by the first op that takes it, and by
    /// [`GraphExecutor::new`](super::GraphExecutor::new).
    fn constant(&mut self, buffer: &Buffer) -> GraphValue {
        let info = buffer.info_before_allocation();
        let range = buffer.range();
        let key = (buffer.storage_id(), range.start, range.end, buffer.dtype());
        if let Some(&tensor) = self.constants.get(&key) {
            return GraphValue { graph: self.graph.id, tensor, info };
        }
        let value = self.tensor(info, Origin::Constant(buffer.clone()), Probes::new());
        self.constants.insert(key, value.tensor);
        value
    }

    fn info(&self, value: &GraphValue) -> TensorInfo {
        value.info
    }

    fn reshape(&mut self, value: &GraphValue, shape: Shape) -> Result<GraphValue> {
        check_graph(self.graph.id, value.graph, "reshape")?;
        let info = TensorInfo { shape, ..value.info };
        if shape.elements() != value.info.elements() {
            let expected = format!("{} elements", value.info.elements());
            return Err(Error::Shape { op: "reshape", slot: "shape", expected, got: shape });
        }
        // Refuses rows that would end inside a block.
        shape.bytes(info.dtype).map_err(|error| Error::bad_shape("reshape", error))?;
        let held = *self.tensors.get(value.tensor as usize).ok_or(Error::WrongGraph { what: "reshape" })?;
        self.graph.check_view("reshape", held, shape)?;
        Ok(GraphValue { info, ..*value })
    }

    fn run<O: Op>(&mut self, op: O, inputs: &[&GraphValue]) -> Result<SmallVec<[GraphValue; 2]>> {
        self.record(Arc::new(op), inputs)
    }

    fn run_into<O: Op>(&mut self, op: O, inputs: &[&GraphValue], outputs: &[&GraphValue]) -> Result<()> {
        self.record_into(Arc::new(op), inputs, outputs)
    }

    fn scope<T>(&mut self, label: &'static str, f: impl FnOnce(&mut GraphBuilder) -> T) -> T {
        self.begin_scope(label);
        let result = f(self);
        self.end_scope();
        result
    }
}
