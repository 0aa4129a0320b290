//! Ops become commands: a kernel is chosen for each node, its plan is made, and the ranges that each step touches are recorded
//! in terms of slots: memory that is not placed yet.
//!
//! Nothing is allocated or compiled here, so a graph can be measured before there is memory for it.

use super::compute::{ComputeGraph, Node, Operand, Origin, ValueId};
use crate::error::{Error, Result};
use crate::kernel::{Access, Arg, Io, Operand as PlanOperand, Plan, Step, TensorInfo, select};
use crate::record::rules::{Extent, Memory, output_slots};
use crate::record::{Touch, scratch_bytes};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Memory that commands touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The memory of values.
    Values(Memory),
    /// Scratch memory, by node and number.
    Scratch(usize, usize),
}

/// A slot of the arena: memory that a value or scratch memory needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArenaSlot {
    /// Bytes; none for memory from outside.
    pub(super) bytes: Option<usize>,
}

/// A node with the kernel that computes it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) kernel: usize,
    pub(super) plan: Plan,
    /// The slots of its scratch memory.
    pub(super) scratch: SmallVec<[u32; 2]>,
}

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A step of its node's plan.
    Step(usize),
    /// Fills scratch memory with NaN, for tests that look for kernels that read it.
    Poison(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) node: usize,
    pub(super) piece: Piece,
    touches: SmallVec<[Touch; 8]>,
}

/// A launch whose output may lie where its input does.
#[derive(Clone, Copy, Debug)]
pub(super) struct InPlace {
    pub(super) command: usize,
    pub(super) from: u32,
    pub(super) to: u32,
}

/// All commands of a graph, in the order of its nodes.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) calls: Vec<Call>,
    pub(super) commands: Vec<Command>,
    pub(super) slots: Vec<ArenaSlot>,
    pub(super) in_place: Vec<InPlace>,
    /// The ranges that the command being built touches.
    touched: SmallVec<[Touch; 8]>,
    keys: FxHashMap<Key, u32>,
}

/// A range of bytes in a slot.
struct Part {
    slot: u32,
    start: usize,
    bytes: usize,
}

impl Call {
    /// Returns the launches of its plan.
    pub(super) fn dispatches(&self) -> usize {
        self.plan.steps.iter().filter(|step| matches!(step, Step::Dispatch(_))).count()
    }
}

impl Commands {
    /// Chooses kernels and writes commands down.
    pub(super) fn of(graph: &ComputeGraph) -> Result<Commands> {
        let mut commands = Commands::default();
        for (index, node) in graph.nodes.iter().enumerate() {
            commands.add(graph, index, node)?;
        }
        Ok(commands)
    }

    /// Returns the ranges that a command touches.
    pub(super) fn touches(&self, command: usize) -> &[Touch] {
        self.commands.get(command).map_or(&[], |command| &command.touches)
    }

    /// Returns the slot of a value in the arena.
    pub(super) fn slot_of(&self, graph: &ComputeGraph, value: ValueId) -> Option<u32> {
        let root = graph.root(value);
        match graph.origin(root)? {
            Origin::Constant(_) | Origin::Input(_) | Origin::Parameter(_) => None,
            _ => self.keys.get(&Key::Values(Memory::Value(root.0))).copied(),
        }
    }

    fn add(&mut self, graph: &ComputeGraph, index: usize, node: &Node) -> Result<()> {
        // Passes have changed nodes since they were captured.
        graph.check_call(&*node.op, &node.inputs, &node.outputs)?;
        let (inputs, outputs) = graph.infos(&node.inputs, &node.outputs);
        let io = Io { inputs: &inputs, outputs: &outputs };
        let on = graph.device.info();
        let kernel = select(&*node.op, &io, on, None)?;
        let plan = node.op.kernel_plan(kernel, &io, on);
        let mut scratch: SmallVec<[u32; 2]> = SmallVec::new();
        for (number, &bytes) in plan.scratch.iter().enumerate() {
            scratch.push(self.slot(Key::Scratch(index, number), Some(scratch_bytes(bytes))));
        }
        if graph.device.poisons_scratch() {
            for (number, &slot) in scratch.iter().enumerate() {
                let end = self.slot_bytes(slot) as u64;
                self.touched.push(Touch { storage: slot, access: Access::Write, start: 0, end });
                self.command(index, Piece::Poison(number));
            }
        }
        self.calls.push(Call { kernel, plan: plan.clone(), scratch });
        for (step, planned) in plan.steps.iter().enumerate() {
            self.touch_step(graph, index, node, planned)?;
            self.command(index, Piece::Step(step));
        }
        if let ([Step::Dispatch(_)], false) = (plan.steps.as_slice(), graph.device.poisons_scratch()) {
            self.note_in_place(graph, node);
        }
        Ok(())
    }

    fn command(&mut self, node: usize, piece: Piece) {
        self.commands.push(Command { node, piece, touches: std::mem::take(&mut self.touched) });
    }

    fn slot(&mut self, key: Key, bytes: Option<usize>) -> u32 {
        let next = self.slots.len() as u32;
        let slot = *self.keys.entry(key).or_insert(next);
        if slot == next {
            self.slots.push(ArenaSlot { bytes });
        }
        slot
    }

    fn slot_bytes(&self, slot: u32) -> usize {
        self.slots.get(slot as usize).and_then(|slot| slot.bytes).unwrap_or(0)
    }

    fn touch_step(&mut self, graph: &ComputeGraph, index: usize, node: &Node, step: &Step) -> Result<()> {
        let args: SmallVec<[(&Arg, Option<Access>); 8]> = match step {
            Step::Dispatch(launch) => launch.args.iter().map(|arg| (arg, None)).collect(),
            Step::Copy { from, to } => {
                SmallVec::from_slice(&[(from, Some(Access::Read)), (to, Some(Access::Write))])
            }
            Step::Fill { to, .. } => SmallVec::from_slice(&[(to, Some(Access::Write))]),
        };
        for (arg, forced) in args {
            let (part, access) = match arg.operand {
                PlanOperand::Table(_) => continue,
                PlanOperand::Scratch(number, access) => {
                    let call = self.calls.get(index).and_then(|call| call.scratch.get(usize::from(number)));
                    let slot = *call.ok_or_else(|| missing(node, arg))?;
                    (Part { slot, start: 0, bytes: self.slot_bytes(slot) }, access)
                }
                PlanOperand::Slot(slot) => {
                    let slot = usize::from(slot);
                    let output = || node.outputs.get(slot.wrapping_sub(node.inputs.len()));
                    let operand = node.inputs.get(slot).or_else(output);
                    let access = node.op.slots().get(slot).map(|slot| slot.access);
                    let (operand, access) = operand.zip(access).ok_or_else(|| missing(node, arg))?;
                    (self.part(graph, *operand), access)
                }
            };
            let start = part.start.saturating_add(arg.start);
            let bytes =
                if arg.bytes == usize::MAX { part.bytes.saturating_sub(arg.start) } else { arg.bytes };
            let (start, end) = (start as u64, start.saturating_add(bytes) as u64);
            self.touched.push(Touch { storage: part.slot, access: forced.unwrap_or(access), start, end });
        }
        Ok(())
    }

    /// The bytes of an operand.
    fn part(&mut self, graph: &ComputeGraph, operand: Operand) -> Part {
        let Extent { memory, range } = graph.extent(operand.value);
        let size = matches!(memory, Memory::Value(_)).then_some(range.len());
        Part { slot: self.slot(Key::Values(memory), size), start: range.start, bytes: range.len() }
    }

    /// Notes outputs of the last command that may lie where inputs do.
    fn note_in_place(&mut self, graph: &ComputeGraph, node: &Node) {
        let command = self.commands.len().saturating_sub(1);
        for (slot, output) in output_slots(&*node.op).zip(&node.outputs) {
            let to = self.slot_of(graph, output.value).filter(|_| graph.root(output.value) == output.value);
            let allowed = |input: usize| slot.in_place & 1u32.checked_shl(input as u32).unwrap_or(0) != 0;
            for input in &node.inputs {
                let same = |info: TensorInfo| (info.dtype, info.bytes());
                let fits = same(graph.info(*input)) == same(graph.info(*output));
                let from = self.slot_of(graph, input.value).filter(|_| fits);
                let mut places = node.inputs.iter().enumerate();
                let everywhere = places.all(|(i, other)| other.value != input.value || allowed(i));
                if let (Some(from), Some(to), true) = (from, to, everywhere) {
                    self.in_place.push(InPlace { command, from, to });
                    break;
                }
            }
        }
    }
}

fn missing(node: &Node, arg: &Arg) -> Error {
    Error::BadPlan { kernel: node.op.name(), what: format!("{:?}, which is not there", arg.operand) }
}
