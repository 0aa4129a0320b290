//! A session of a graph: an arena, buffers for its inputs, and a list that its device has baked.

use super::commands::{Call, Piece};
use super::compute::{Node, Operand, Origin};
use super::executor::{Compiled, GraphExecutor};
use super::extents::{LiveExtent, LiveNode, Sizes};
use super::launches::LaunchMemory;
use super::parameters::{Parameter, Parameters};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, TensorInfo};
use crate::memory::{Purpose, Request};
use crate::profile::ProfiledCall;
use crate::record::rules::{self, Argument, Extent, Memory, check_device, check_graph};
use crate::record::{
    BakedList, BufferRegion, Call as Lowered, PlanBuffers, Recording, Submission, scratch_bytes,
};
use silicide_hal::{Command, MemoryKind};
use silicide_quant::{DType, Element, Shape};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// One user of a [`GraphExecutor`]. Sessions share weights and compiled kernels, and nothing that is written unless they share an
/// arena: any number of them may be replayed, by any number of threads. A replay allocates nothing, unless live extents
/// have changed.
#[derive(Debug)]
pub struct GraphSession {
    bound: Bound,
    baked: Arc<BakedList>,
    outputs: Vec<Buffer>,
}

const _: () = {
    const fn sent_between_threads<T: Send>() {}
    sent_between_threads::<GraphSession>();
};

/// Memory for values and scratch of sessions. Clones share it.
#[derive(Clone, Debug)]
pub struct GraphArena {
    device: Device,
    memory: Option<Buffer>,
}

impl GraphArena {
    /// Allocates an arena of `bytes` bytes.
    pub fn new(device: &Device, bytes: usize) -> Result<GraphArena> {
        let memory = if bytes == 0 { None } else { Some(memory(device, DType::U8, bytes, "arena")?) };
        Ok(GraphArena { device: device.clone(), memory })
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, Buffer::size)
    }
}

/// Memory of a session, which the host may write.
pub(super) fn memory(device: &Device, dtype: DType, elements: usize, what: &'static str) -> Result<Buffer> {
    let shape = Shape::new(&[elements]).map_err(|error| Error::bad_shape(what, error))?;
    let bytes = shape.bytes(dtype).map_err(|error| Error::bad_shape(what, error))?;
    let request = Request { bytes, purpose: Purpose::Activations, kind: MemoryKind::Shared, zeroed: false };
    let allocator = Arc::<_>::clone(device.memory()) as _;
    let memory = Buffer::from_request(device, allocator, dtype, shape, request)?;
    memory.ensure_allocated()?;
    Ok(memory)
}

impl GraphSession {
    /// Records the list and bakes it.
    pub(super) fn bind(
        executor: &GraphExecutor,
        arena: &GraphArena,
        inputs: &[&Buffer],
    ) -> Result<GraphSession> {
        let compiled = &*executor.compiled;
        let device = compiled.graph.device();
        if !arena.device.is_same(device) {
            let (expected, got) = (device.info().id.clone(), arena.device.info().id.clone());
            return Err(Error::WrongDevice { what: "arena", expected, got });
        }
        // rule: arena-size
        if arena.bytes() < executor.arena_bytes() {
            let (expected, got) = (executor.arena_bytes(), arena.bytes());
            return Err(Error::SizeMismatch { what: "arena", expected, got });
        }
        let parameters = Parameters::new(device, &compiled.graph)?;
        let launches = LaunchMemory::new(compiled)?;
        let inputs = inputs.iter().map(|input| (*input).clone()).collect();
        let arena = arena.memory.clone();
        let bound = Bound { executor: executor.clone(), inputs, arena, parameters, launches };
        bound.check()?;
        let mut recording = device.recycler().take();
        recording.list.traced = compiled.mark_ops;
        if let Err(error) = bound.record(&mut recording) {
            device.recycler().give(recording);
            return Err(error);
        }
        if let Some(arena) = &bound.arena {
            // Every byte that is read was written before, by an earlier command of the same list; rows that are not live may hold
            // anything.
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
        Ok(GraphSession { bound, baked, outputs })
    }

    /// Sets a parameter for the replays that follow. Parameters are zero before. `values` has the parameter's type and number of
    /// elements, or its number of elements at the live extents. Replays that have begun keep the old values.
    pub fn set<T: Element>(&mut self, parameter: Parameter, values: &[T]) -> Result<()> {
        let (compiled, what) = (&*self.bound.executor.compiled, "parameter");
        check_graph(compiled.graph.id, parameter.graph, what)?;
        let slot = compiled.graph.parameters.get(parameter.number as usize);
        let found = self.bound.parameters.as_mut().zip(slot);
        let (parameters, slot) = found.ok_or(Error::WrongGraph { what })?;
        let live = slot.live.map(|live| live as usize);
        let extent =
            live.and_then(|live| compiled.graph.extents.get(live).zip(self.bound.launches.extents.get(live)));
        let elements = slot.info.elements();
        parameters.set(
            slot,
            extent.map_or(elements, |(slot, rows)| elements / slot.max.max(1) * rows),
            values,
        )
    }

    /// Sets a live extent for the replays that follow: from 1 to the planned number of rows, its first value. Outputs then have
    /// their first `rows` rows; the contents of the other rows are unspecified.
    pub fn set_extent(&mut self, extent: LiveExtent, rows: usize) -> Result<()> {
        let (graph, what) = (&self.bound.executor.compiled.graph, "extent");
        check_graph(graph.id, extent.graph, what)?;
        let number = extent.number as usize;
        let found = graph.extents.get(number).zip(self.bound.launches.extents.get_mut(number));
        let (slot, current) = found.ok_or(Error::WrongGraph { what })?;
        // rule: live-extent
        if rows == 0 || rows > slot.max {
            let what = format!("{} is {rows}, and was planned for 1 to {}", slot.name, slot.max);
            return Err(Error::BadParameter { op: "set_extent", what });
        }
        self.bound.launches.changed |= *current != rows;
        *current = rows;
        Ok(())
    }

    /// Runs the graph over the present contents of its inputs and parameters. If parameters or extents were set since the last
    /// replay, this waits for that replay.
    pub fn replay(&mut self) -> Result<Submission> {
        self.bound.update_launches()?;
        if let Some(parameters) = &mut self.bound.parameters {
            parameters.bring()?;
        }
        let device = self.executor().graph().device();
        let ticket = device.timeline().replay(device, &self.baked)?;
        device.counter_set().submitted(&self.baked.tally);
        Ok(Submission::new(device.clone(), ticket))
    }

    /// Returns output `i`, written by the last replay. Reading it waits for that replay.
    pub fn output(&self, i: usize) -> Option<&Buffer> {
        self.outputs.get(i)
    }

    /// The graph that is run.
    pub fn executor(&self) -> &GraphExecutor {
        &self.bound.executor
    }

    /// Launches, copies and fills of one replay, and barriers between them.
    pub fn size(&self) -> (usize, usize) {
        let tally = &self.baked.tally;
        ((tally.dispatches + tally.transfers) as usize, tally.barriers as usize)
    }

    /// Its calls as profiles see them, at the extents and parameters that were set ([`GraphExecutor::calls`]).
    pub fn calls(&self) -> Result<Vec<ProfiledCall>> {
        let (compiled, parameters) = (self.bound.compiled(), self.bound.parameters.as_ref());
        let graph = &compiled.graph;
        let sizes = graph.sizes_at(&self.bound.launches.extents)?;
        let info = |operand| sizes.info(graph, operand, "calls").unwrap_or_else(|_| graph.info(operand));
        let words = |operand: Operand| match graph.values.get(operand.value.0 as usize)?.origin {
            Origin::Parameter(number) => {
                parameters?.get(graph.parameters.get(number)?, info(operand).elements())
            }
            _ => None,
        };
        Ok(compiled.calls(info, words))
    }

    /// Returns the ops with live values that compute all planned rows in the next replay: their kernels plan fewer rows with another program.
    pub fn padded_ops(&mut self) -> Result<Vec<&'static str>> {
        self.bound.update_launches()?;
        Ok(self.bound.launches.padded.clone())
    }
}

/// The buffers of a node's operands.
pub(super) struct NodeBuffers {
    pub(super) inputs: SmallVec<[Buffer; 4]>,
    pub(super) outputs: SmallVec<[Buffer; 4]>,
}

/// A node with the kernel that computes it and the buffers that it works on.
struct BoundCall<'a> {
    node: &'a Node,
    call: &'a Call,
    buffers: &'a NodeBuffers,
    live: Option<&'a LiveNode>,
}

/// A graph with the memory of one session.
#[derive(Debug)]
pub(super) struct Bound {
    executor: GraphExecutor,
    inputs: Vec<Buffer>,
    arena: Option<Buffer>,
    parameters: Option<Parameters>,
    pub(super) launches: LaunchMemory,
}

impl Bound {
    pub(super) fn compiled(&self) -> &Compiled {
        &self.executor.compiled
    }

    pub(super) fn device(&self) -> &Device {
        self.executor.compiled.graph.device()
    }

    /// The buffers of a node's operands where values have these sizes.
    pub(super) fn buffers_at(&self, node: &Node, sizes: &Sizes) -> Result<NodeBuffers> {
        let graph = &self.compiled().graph;
        let buffers = |operands: &[Operand]| -> Result<SmallVec<[Buffer; 4]>> {
            let buffer = |operand: &Operand| {
                self.buffer_of(*operand, sizes.info(graph, *operand, node.op.name())?.shape)
            };
            operands.iter().map(buffer).collect()
        };
        Ok(NodeBuffers { inputs: buffers(&node.inputs)?, outputs: buffers(&node.outputs)? })
    }

    /// Checks that inputs have the types, shapes and alignment that the graph was captured for, and that no written buffer overlaps
    /// another one that the schedule took for separate memory.
    fn check(&self) -> Result<()> {
        let (what, op) = ("inputs", "graph");
        let graph = &self.compiled().graph;
        if self.inputs.len() != graph.inputs.len() {
            let (expected, got) = (graph.inputs.len(), self.inputs.len());
            return Err(Error::ArgumentCount { op, what, expected, got });
        }
        for (input, buffer) in graph.inputs.iter().zip(&self.inputs) {
            check_device(self.device(), buffer, op)?;
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
                Origin::Input(i) => Some((graph.extent(id), self.inputs.get(*i)?)),
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
        let graph = &self.compiled().graph;
        graph.nodes().iter().map(|node| self.node(node)).collect()
    }

    /// A bound operand as the rules of a call see it. In the arena each value has memory of its own as far as a call is
    /// concerned: the steps of one node may use the same bytes one after the other. Lowering checks each launch.
    fn argument(&self, operand: Operand, buffer: &Buffer, op: &'static str) -> Result<Argument> {
        let (graph, bound) = (&self.compiled().graph, Argument::of(self.device(), buffer, op)?);
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
            let planned = self.compiled().graph.info(*operand);
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
        for &index in &self.compiled().schedule.order {
            let Some(command) = self.compiled().commands.commands.get(index) else { continue };
            let nodes = self.compiled().graph.nodes();
            let call = self.compiled().commands.calls.get(command.node);
            let Some((node, call)) = nodes.get(command.node).zip(call) else { continue };
            let Some(buffers) = buffers.get(command.node) else { continue };
            if self.compiled().mark_ops && marked.replace(command.node) != Some(command.node) {
                recording.list.commands.push(Command::Mark { label: node.op.name() });
            }
            let live = &self.compiled().live;
            let place = live.binary_search_by_key(&command.node, |live| live.node).ok();
            let live = place.and_then(|place| live.get(place));
            let bound = BoundCall { node, call, buffers, live };
            self.record_command(recording, &bound, command.piece)?;
        }
        Ok(())
    }

    fn record_command(
        &self,
        recording: &mut Recording,
        BoundCall { node, call, buffers, live }: &BoundCall<'_>,
        piece: Piece,
    ) -> Result<()> {
        let scratch = call.scratch.iter().zip(&call.plan.scratch);
        let scratch: SmallVec<[Buffer; 2]> =
            scratch.map(|(&slot, &bytes)| self.scratch(slot, bytes)).collect::<Result<_>>()?;
        let number = match piece {
            Piece::Poison(number) => {
                let Some(buffer) = scratch.get(number) else { return Ok(()) };
                recording.fill(&BufferRegion::of(buffer, Access::Write)?, u32::MAX);
                return Ok(());
            }
            Piece::Step(step) => step,
        };
        let Some(step) = call.plan.steps.get(number) else { return Ok(()) };
        let inputs: SmallVec<[&Buffer; 4]> = buffers.inputs.iter().collect();
        let outputs: SmallVec<[&Buffer; 4]> = buffers.outputs.iter().collect();
        let lowered = Lowered {
            device: self.device(),
            op: &*node.op,
            kernel: node.op.kernel_name(call.kernel),
            inputs: &inputs,
            outputs: &outputs,
        };
        let own = PlanBuffers::new(self.device(), &call.plan, scratch)?;
        let live = live.and_then(|live| live.steps.iter().find(|live| live.step == number));
        let words = match live.zip(self.launches.memory.as_ref()) {
            Some((live, memory)) => {
                let shape =
                    Shape::new(&[live.words]).map_err(|error| Error::bad_shape("launch words", error))?;
                Some(memory.within(live.offset, DType::U32, shape)?)
            }
            None => None,
        };
        let place = words.as_ref().map(|words| BufferRegion::of(words, Access::Read)).transpose()?;
        lowered.record(&own, step, recording, place.as_ref())
    }

    pub(super) fn scratch(&self, slot: u32, bytes: usize) -> Result<Buffer> {
        let shape =
            Shape::new(&[scratch_bytes(bytes)]).map_err(|error| Error::bad_shape("scratch", error))?;
        self.within(slot, DType::U8, shape)
    }

    fn within(&self, slot: u32, dtype: DType, shape: Shape) -> Result<Buffer> {
        let Compiled { offsets, commands, .. } = self.compiled();
        let bytes = commands.slots.get(slot as usize).and_then(|slot| slot.bytes);
        let slot = offsets.get(slot as usize).zip(bytes).zip(self.arena.as_ref());
        let ((&offset, bytes), arena) = slot.ok_or(Error::Missing { what: "the arena of a session" })?;
        in_slot(arena, offset..offset.saturating_add(bytes), dtype, shape)
    }

    /// The memory of an operand.
    fn buffer(&self, operand: Operand) -> Result<Buffer> {
        self.buffer_of(operand, operand.shape)
    }

    /// The memory of an operand in a shape of its first rows.
    fn buffer_of(&self, operand: Operand, shape: Shape) -> Result<Buffer> {
        let graph = &self.compiled().graph;
        let (root, missing) =
            (graph.root(operand.value), Error::Missing { what: "an input or parameter of a session" });
        match graph.origin(root) {
            Some(Origin::Constant(buffer)) => buffer.reshape(shape),
            Some(Origin::Input(input)) => {
                self.inputs.get(*input).ok_or(missing)?.within(0, graph.info(operand).dtype, shape)
            }
            Some(Origin::Parameter(number)) => {
                let found = self.parameters.as_ref().zip(graph.parameters.get(*number));
                let (parameters, slot) = found.ok_or(missing)?;
                parameters.buffer(slot, shape)
            }
            _ => {
                let slot = self.compiled().commands.slot_of(graph, operand.value).ok_or(missing)?;
                self.within(slot, graph.info(operand).dtype, shape)
            }
        }
    }
}

/// Returns a tensor at the start of a slot of the arena. It must fit in the slot: the bytes after it belong to other values.
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
        let arena = GraphArena::new(&Device::cpu().unwrap(), 4096).unwrap().memory.unwrap();
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
