//! A session of a graph: an arena, buffers for its inputs, and a list that its device has baked.

use super::commands::{Call, Piece, scratch_bytes};
use super::compute::{Node, Operand, Place as Where};
use super::executor::{Compiled, GraphExecutor};
use super::parameters::{Parameter, ParameterSlot, Parameters};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, TensorInfo};
use crate::memory::{Purpose, Request};
use crate::record::{BakedList, Call as Lowered, Own, Place, Recording, Submission, check_device};
use silicide_hal::{Command, MemoryKind};
use silicide_quant::{DType, Element, Shape};
use smallvec::SmallVec;
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

    /// Sets parameters to words, as the bits of their types, and runs the graph.
    pub fn replay_with(&mut self, values: &[(Parameter, &[u32])]) -> Result<Submission> {
        for (parameter, words) in values {
            let (parameters, slot) = self.parameter(*parameter)?;
            parameters.set_words(slot, words)?;
        }
        self.replay()
    }

    fn parameter(&mut self, Parameter(number): Parameter) -> Result<(&mut Parameters, &ParameterSlot)> {
        let slots = &self.executor.compiled.graph.parameters;
        let count = slots.len();
        let found = self.parameters.as_mut().zip(slots.get(number as usize));
        found.ok_or_else(|| Error::BadParameter {
            op: "graph",
            what: format!("parameter {number} of another graph; this one has {count}"),
        })
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

/// A graph with the memory of one session.
struct Bound<'a> {
    compiled: &'a Compiled,
    device: &'a Device,
    inputs: &'a [&'a Buffer],
    arena: Option<Buffer>,
    parameters: Option<&'a Parameters>,
}

impl Bound<'_> {
    /// Buffers are what the graph was captured for, and what is written is nobody else's.
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
        let outside: Vec<(Where, &Buffer)> = graph
            .values
            .iter()
            .filter_map(|value| match &value.origin {
                super::Origin::Constant(buffer) => {
                    Some((Where::Constant(buffer.storage_id(), buffer.range()), buffer))
                }
                super::Origin::Input(i) => Some((Where::Input(*i), *self.inputs.get(*i)?)),
                _ => None,
            })
            .collect();
        for written in graph.changed_places() {
            for (place, buffer) in outside.iter().filter(|(place, _)| *place == written) {
                if !buffer.is_writable()? {
                    return Err(Error::ReadOnly { what: op });
                }
                let same_bytes = |other: &Buffer| {
                    other.storage_id() == buffer.storage_id()
                        && other.range().start < buffer.range().end
                        && buffer.range().start < other.range().end
                };
                // Two constants that overlap are known to; an input must not turn out to be something else.
                let constant = |place: &Where| matches!(place, Where::Constant(..));
                let hidden = |(other, bytes): &&(Where, &Buffer)| {
                    other != place && !(constant(other) && constant(place)) && same_bytes(bytes)
                };
                if outside.iter().any(|other| hidden(&other)) {
                    return Err(Error::Aliasing { op, output: "a changed buffer", other: "another one" });
                }
            }
        }
        Ok(())
    }

    fn record(&self, recording: &mut Recording) -> Result<()> {
        let mut marked = None;
        for &index in &self.compiled.schedule.order {
            let Some(command) = self.compiled.commands.commands.get(index) else { continue };
            let nodes = self.compiled.graph.nodes();
            let call = self.compiled.commands.calls.get(command.node);
            let Some((node, call)) = nodes.get(command.node).zip(call) else { continue };
            if self.compiled.mark_ops && marked.replace(command.node) != Some(command.node) {
                recording.list.commands.push(Command::Mark { label: node.op.name() });
            }
            self.record_command(recording, (node, call), command.piece)?;
        }
        Ok(())
    }

    fn record_command(
        &self,
        recording: &mut Recording,
        (node, call): (&Node, &Call),
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
        let buffers = |operands: &[Operand]| -> Result<SmallVec<[Buffer; 4]>> {
            operands.iter().map(|operand| self.buffer(*operand)).collect()
        };
        let (inputs, outputs) = (buffers(&node.inputs)?, buffers(&node.outputs)?);
        let (inputs, outputs): (SmallVec<[&Buffer; 4]>, SmallVec<[&Buffer; 4]>) =
            (inputs.iter().collect(), outputs.iter().collect());
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
        let offset = self.compiled.offsets.get(room as usize).copied().unwrap_or(0);
        let nothing = Error::ZeroSize { what: "arena" };
        self.arena.as_ref().ok_or(nothing)?.within(offset, dtype, shape)
    }

    /// The memory of an operand.
    fn buffer(&self, operand: Operand) -> Result<Buffer> {
        let graph = &self.compiled.graph;
        let (root, missing) = (graph.root(operand.value), Error::ZeroSize { what: "graph" });
        match graph.origin(root) {
            Some(super::Origin::Constant(buffer)) => buffer.reshape(operand.shape),
            Some(super::Origin::Input(input)) => {
                self.inputs.get(*input).ok_or(missing)?.reshape(operand.shape)
            }
            Some(super::Origin::Parameter(number)) => {
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
