//! A session of a graph: an arena, buffers for its inputs, and a list that its device has baked.

use super::commands::{Call, Piece};
use super::compute::{Node, Operand, Origin};
use super::executor::{Compiled, GraphExecutor};
use super::parameters::{Parameter, ParameterSlot, Parameters};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, TensorInfo};
use crate::memory::{Purpose, Request};
use crate::record::rules::{self, Argument, Extent, Memory, check_device, check_graph};
use crate::record::{BakedList, Call as Lowered, Own, Place, Recording, Submission, scratch_bytes};
use silicide_hal::{Command, MemoryKind};
use silicide_quant::{DType, Element, Shape};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// One user of a [`GraphExecutor`]. Sessions share weights and compiled kernels, and nothing that is written: any
/// number of them may be replayed, by any number of threads. A replay allocates nothing.
#[derive(Debug)]
pub struct GraphSession {
    executor: GraphExecutor,
    baked: Arc<BakedList>,
    outputs: Vec<Buffer>,
    parameters: Option<Parameters>,
}

const _: () = {
    const fn sent_between_threads<T: Send>() {}
    sent_between_threads::<GraphSession>();
};

impl GraphSession {
    /// Allocates the arena, records the list and bakes it.
    pub(super) fn bind(executor: &GraphExecutor, inputs: &[&Buffer]) -> Result<GraphSession> {
        let compiled = &*executor.compiled;
        let device = compiled.graph.device();
        let parameters = Parameters::new(device, &compiled.graph)?;
        let arena = arena(device, executor.arena_bytes())?;
        let bound = Bound { compiled, device, inputs, arena, parameters: parameters.as_ref() };
        bound.check()?;
        let mut recording = device.recycler().take();
        recording.list.traced = compiled.mark_ops;
        if let Err(error) = bound.record(&mut recording) {
            device.recycler().give(recording);
            return Err(error);
        }
        if let Some(arena) = &bound.arena {
            // Every byte that is read was written before, by an earlier command of the same list.
            let arena = arena.storage_id();
            recording
                .uses
                .iter_mut()
                .filter(|used| used.storage.id() == arena)
                .for_each(|used| used.overwrites = true);
        }
        let outputs =
            compiled.graph.outputs().iter().map(|output| bound.buffer(*output)).collect::<Result<_>>()?;
        let baked = Arc::new(BakedList::new(device, recording)?);
        Ok(GraphSession { executor: executor.clone(), baked, outputs, parameters })
    }

    /// Sets a parameter, for the replays that follow; what was not set is zero. Values are of the parameter's type, and as many as
    /// it has elements. Replays that were begun before don't see it.
    pub fn set<T: Element>(&mut self, parameter: Parameter, values: &[T]) -> Result<()> {
        let (parameters, slot) = self.parameter(parameter)?;
        parameters.set(slot, values)
    }

    fn parameter(&mut self, parameter: Parameter) -> Result<(&mut Parameters, &ParameterSlot)> {
        let (graph, what) = (&self.executor.compiled.graph, "parameter");
        check_graph(graph.id, parameter.graph, what)?;
        let found = self.parameters.as_mut().zip(graph.parameters.get(parameter.number as usize));
        found.ok_or(Error::WrongGraph { what })
    }

    /// Runs the graph over what its inputs and parameters hold now. Where parameters were set since the last replay, it waits for
    /// that to end.
    pub fn replay(&mut self) -> Result<Submission> {
        if let Some(parameters) = &mut self.parameters {
            parameters.bring()?;
        }
        let device = self.executor.graph().device();
        let ticket = device.timeline().replay(device, &self.baked)?;
        device.counter_set().submitted(&self.baked.tally);
        Ok(Submission::new(device.clone(), ticket))
    }

    /// Output `i` of the graph: what the last replay made. Reading waits for it.
    pub fn output(&self, i: usize) -> Option<&Buffer> {
        self.outputs.get(i)
    }

    /// The graph that is run.
    pub fn executor(&self) -> &GraphExecutor {
        &self.executor
    }

    /// Launches, copies and fills of one replay, and barriers between them.
    pub fn size(&self) -> (usize, usize) {
        let tally = &self.baked.tally;
        ((tally.dispatches + tally.transfers) as usize, tally.barriers as usize)
    }
}

/// Memory for values and scratch, unless there are none.
fn arena(device: &Device, bytes: usize) -> Result<Option<Buffer>> {
    if bytes == 0 {
        return Ok(None);
    }
    let request = Request { bytes, purpose: Purpose::Activations, kind: MemoryKind::Shared, zeroed: false };
    let shape = Shape::new(&[bytes]).map_err(|error| Error::bad_shape("arena", error))?;
    let allocator = Arc::<_>::clone(device.memory()) as _;
    let arena = Buffer::from_request(device, allocator, DType::U8, shape, request)?;
    arena.ensure_allocated()?;
    Ok(Some(arena))
}

/// The buffers of a node's operands.
struct NodeBuffers {
    inputs: SmallVec<[Buffer; 4]>,
    outputs: SmallVec<[Buffer; 4]>,
}

/// A node with the kernel that computes it and the buffers that it works on.
struct BoundCall<'a> {
    node: &'a Node,
    call: &'a Call,
    buffers: &'a NodeBuffers,
}

/// A graph with the memory of one session.
struct Bound<'a> {
    compiled: &'a Compiled,
    device: &'a Device,
    inputs: &'a [&'a Buffer],
    arena: Option<Buffer>,
    parameters: Option<&'a Parameters>,
}

impl Bound<'_> {
    /// Checks that inputs have the types, shapes and alignment that the graph was captured for, and that no written buffer overlaps
    /// another one that the schedule took for separate memory.
    fn check(&self) -> Result<()> {
        let (what, op) = ("inputs", "graph");
        let graph = &self.compiled.graph;
        if self.inputs.len() != graph.inputs.len() {
            let (expected, got) = (graph.inputs.len(), self.inputs.len());
            return Err(Error::ArgumentCount { op, what, expected, got });
        }
        for (input, buffer) in graph.inputs.iter().zip(self.inputs) {
            check_device(self.device, buffer, op)?;
            let TensorInfo { dtype, shape, alignment } = buffer.info()?;
            if (dtype, shape) != (input.info.dtype, input.info.shape) || alignment < input.info.alignment {
                let expected = format!(
                    "{} = {} at a multiple of {} bytes",
                    input.name, input.info, input.info.alignment
                );
                return Err(Error::BadParameter {
                    op,
                    what: format!("expected {expected}, got {dtype}{shape} at {alignment}"),
                });
            }
        }
        let outside: Vec<(Extent, &Buffer)> = (0..)
            .map(super::ValueId)
            .zip(&graph.values)
            .filter_map(|(id, value)| match &value.origin {
                Origin::Constant(buffer) => Some((graph.extent(id), buffer)),
                Origin::Input(i) => Some((graph.extent(id), *self.inputs.get(*i)?)),
                _ => None,
            })
            .collect();
        for written in graph.changed_places() {
            for (place, buffer) in outside.iter().filter(|(place, _)| *place == written) {
                // The schedule has edges for overlapping constants. It treated inputs as memory of their own.
                let constant = |place: &Extent| matches!(place.memory, Memory::Storage(_));
                let hidden = |(other, bytes): &(Extent, &Buffer)| {
                    let known = other == place || (constant(other) && constant(place));
                    !known && Extent::of(bytes).overlaps(&Extent::of(buffer))
                };
                // rule: hidden-aliasing
                if outside.iter().any(hidden) {
                    return Err(Error::Aliasing { op, output: "a changed buffer", other: "another one" });
                }
            }
        }
        Ok(())
    }

    /// The buffers of every node, checked as the encoder checks them.
    fn nodes(&self) -> Result<Vec<NodeBuffers>> {
        let graph = &self.compiled.graph;
        graph.nodes().iter().map(|node| self.node(node)).collect()
    }

    /// A bound operand as the rules of a call see it. In the arena each value has memory of its own as far as a call is
    /// concerned: the steps of one node may use the same bytes one after the other. Lowering checks each launch.
    fn argument(&self, operand: Operand, buffer: &Buffer, op: &'static str) -> Result<Argument> {
        let (graph, bound) = (&self.compiled.graph, Argument::of(self.device, buffer, op)?);
        let extent = if graph.is_outside(operand.value) { bound.extent } else { graph.extent(operand.value) };
        Ok(Argument { extent, ..bound })
    }

    fn node(&self, node: &Node) -> Result<NodeBuffers> {
        let buffers = |operands: &[Operand]| -> Result<SmallVec<[Buffer; 4]>> {
            operands.iter().map(|operand| self.buffer(*operand)).collect()
        };
        let (inputs, outputs) = (buffers(&node.inputs)?, buffers(&node.outputs)?);
        let op = node.op.name();
        let arguments = |operands: &[Operand], buffers: &[Buffer]| -> Result<rules::Arguments> {
            operands
                .iter()
                .zip(buffers)
                .map(|(operand, buffer)| self.argument(*operand, buffer, op))
                .collect()
        };
        let read = arguments(&node.inputs, &inputs)?;
        let written = arguments(&node.outputs, &outputs)?;
        let inferred = rules::check_inputs(&*node.op, &read)?;
        rules::check_outputs(&*node.op, &read, &inferred, &written)?;
        let operands = node.inputs.iter().chain(&node.outputs);
        for (operand, bound) in operands.zip(read.iter().chain(&written)) {
            let planned = self.compiled.graph.info(*operand);
            // The kernel was chosen for this alignment. Allocators of the device always keep it.
            if bound.info.alignment < planned.alignment {
                let (what, bytes, alignment) = (op, bound.extent.range.start, planned.alignment as usize);
                return Err(Error::Misaligned { what, bytes, alignment, dtype: planned.dtype });
            }
        }
        Ok(NodeBuffers { inputs, outputs })
    }

    fn record(&self, recording: &mut Recording) -> Result<()> {
        let buffers = self.nodes()?;
        let mut marked = None;
        for &index in &self.compiled.schedule.order {
            let Some(command) = self.compiled.commands.commands.get(index) else { continue };
            let nodes = self.compiled.graph.nodes();
            let call = self.compiled.commands.calls.get(command.node);
            let Some((node, call)) = nodes.get(command.node).zip(call) else { continue };
            let Some(buffers) = buffers.get(command.node) else { continue };
            if self.compiled.mark_ops && marked.replace(command.node) != Some(command.node) {
                recording.list.commands.push(Command::Mark { label: node.op.name() });
            }
            let bound = BoundCall { node, call, buffers };
            self.record_command(recording, &bound, command.piece)?;
        }
        Ok(())
    }

    fn record_command(
        &self,
        recording: &mut Recording,
        BoundCall { node, call, buffers }: &BoundCall<'_>,
        piece: Piece,
    ) -> Result<()> {
        let scratch = call.scratch.iter().zip(&call.plan.scratch);
        let scratch: SmallVec<[Buffer; 2]> =
            scratch.map(|(&room, &bytes)| self.scratch(room, bytes)).collect::<Result<_>>()?;
        let step = match piece {
            Piece::Poison(number) => {
                let Some(buffer) = scratch.get(number) else { return Ok(()) };
                recording.fill(&Place::of(buffer, Access::Write)?, u32::MAX);
                return Ok(());
            }
            Piece::Step(step) => call.plan.steps.get(step),
        };
        let Some(step) = step else { return Ok(()) };
        let inputs: SmallVec<[&Buffer; 4]> = buffers.inputs.iter().collect();
        let outputs: SmallVec<[&Buffer; 4]> = buffers.outputs.iter().collect();
        let lowered = Lowered {
            device: self.device,
            op: &*node.op,
            kernel: node.op.kernel_name(call.kernel),
            inputs: &inputs,
            outputs: &outputs,
        };
        let own = Own::new(self.device, &call.plan, scratch)?;
        lowered.step(&own, step, recording, true)
    }

    fn scratch(&self, room: u32, bytes: usize) -> Result<Buffer> {
        let shape =
            Shape::new(&[scratch_bytes(bytes)]).map_err(|error| Error::bad_shape("scratch", error))?;
        self.within(room, DType::U8, shape)
    }

    fn within(&self, room: u32, dtype: DType, shape: Shape) -> Result<Buffer> {
        let Compiled { offsets, commands, .. } = self.compiled;
        let bytes = commands.rooms.get(room as usize).and_then(|room| room.bytes);
        let slot = offsets.get(room as usize).zip(bytes).zip(self.arena.as_ref());
        let ((&offset, bytes), arena) = slot.ok_or(Error::ZeroSize { what: "arena" })?;
        in_slot(arena, offset..offset.saturating_add(bytes), dtype, shape)
    }

    /// The memory of an operand.
    fn buffer(&self, operand: Operand) -> Result<Buffer> {
        let graph = &self.compiled.graph;
        let (root, missing) = (graph.root(operand.value), Error::ZeroSize { what: "graph" });
        match graph.origin(root) {
            Some(Origin::Constant(buffer)) => buffer.reshape(operand.shape),
            Some(Origin::Input(input)) => self.inputs.get(*input).ok_or(missing)?.reshape(operand.shape),
            Some(Origin::Parameter(number)) => {
                let found = self.parameters.zip(graph.parameters.get(*number));
                let (parameters, slot) = found.ok_or(missing)?;
                parameters.buffer(slot, operand.shape)
            }
            _ => {
                let room = self.compiled.commands.room_of(graph, operand.value).ok_or(missing)?;
                self.within(room, graph.info(operand).dtype, operand.shape)
            }
        }
    }
}

/// A tensor at the start of a slot of the arena. It must fit in the slot: what lies behind belongs to other values.
fn in_slot(arena: &Buffer, slot: Range<usize>, dtype: DType, shape: Shape) -> Result<Buffer> {
    let bytes = shape.bytes(dtype).map_err(|error| Error::bad_shape("arena", error))?;
    // rule: arena-slot
    if bytes > slot.len() {
        let (offset, size) = (slot.start, slot.len());
        return Err(Error::OutOfBounds { what: "arena", offset, bytes, size });
    }
    arena.within(slot.start, dtype, shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    /// A tensor lies in its slot or is refused, also where the arena has bytes behind the slot: those are another value's.
    #[test]
    fn rules_keep_a_tensor_inside_its_slot_of_the_arena() {
        let arena = arena(&Device::cpu().unwrap(), 4096).unwrap().unwrap();
        let slots = (0..8usize, 1..=8usize).prop_map(|(start, size)| start * 256..(start + size) * 256);
        let dtype = prop_oneof![Just(DType::U8), Just(DType::F16), Just(DType::F32)];
        let config = Config { cases: 1000, failure_persistence: None, ..Config::default() };
        let run = |(slot, dtype, elements): (Range<usize>, DType, usize)| {
            let shape = Shape::new(&[elements]).unwrap();
            let bytes = elements * dtype.size();
            match in_slot(&arena, slot.clone(), dtype, shape) {
                Ok(tensor) => prop_assert_eq!(tensor.range(), slot.start..slot.start + bytes),
                Err(Error::OutOfBounds { what: "arena", .. }) => {}
                Err(error) => prop_assert!(false, "{error}"),
            }
            prop_assert_eq!(in_slot(&arena, slot.clone(), dtype, shape).is_ok(), bytes <= slot.len());
            Ok(())
        };
        TestRunner::new(config).run(&(slots, dtype, 1..=1024usize), run).unwrap();
    }
}
