//! The executor: a graph that was rewritten, put in order and given an arena, for any number of sessions.

use super::arena::{self, Arena, Lifetime};
use super::commands::{Call, Commands, InPlace};
use super::compute::{ComputeGraph, Operand};
use super::extents::{LiveNode, live_steps};
use super::pass::{COMMON_SUBEXPRESSIONS, DEAD_CODE, Pass, PassReport};
use super::schedule::{Schedule, schedule};
use super::session::{GraphArena, GraphSession};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::kernel::{Io, Outputs, TensorInfo};
use crate::memory::ALIGNMENT;
use crate::profile::ProfiledCall;
use crate::record::MemRanges;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

/// How to make an executor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GraphOptions {
    /// Passes to run, in order.
    pub passes: Vec<Pass>,
    /// Put a timing mark before each op, in recorded order, so that a replay's times name ops, and record the tiles of each thread.
    pub mark_ops: bool,
}

impl Default for GraphOptions {
    fn default() -> GraphOptions {
        GraphOptions { passes: vec![COMMON_SUBEXPRESSIONS, DEAD_CODE], mark_ops: false }
    }
}

impl GraphOptions {
    /// Sets the passes to run, in order.
    pub fn passes(mut self, passes: impl Into<Vec<Pass>>) -> GraphOptions {
        self.passes = passes.into();
        self
    }

    /// Sets whether a timing mark precedes each op.
    pub fn mark_ops(mut self, mark: bool) -> GraphOptions {
        self.mark_ops = mark;
        self
    }
}

/// Figures of a compiled graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphReport {
    /// Ops as captured, and after all passes.
    pub ops: (usize, usize),
    /// Rewrites of each pass.
    pub passes: Vec<PassReport>,
    /// Launches, copies and fills.
    pub commands: usize,
    /// Launches.
    pub dispatches: usize,
    /// Barriers in recorded order, and as scheduled.
    pub barriers: (usize, usize),
    /// Bytes of a session's arena.
    pub arena_bytes: usize,
    /// Bytes that live at once at the worst time.
    pub live_bytes: usize,
    /// Bytes of all values and scratch memory, if none shared any.
    pub value_bytes: usize,
    /// Bytes of workspace that a tile of any launch uses, at most.
    pub workspace: usize,
}

/// How often a replay dispatches programs of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelDispatches {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Its dispatches, over all calls.
    pub dispatches: usize,
}

impl fmt::Display for GraphReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ops, {} as captured", self.ops.1, self.ops.0)?;
        for PassReport { name, rewrites } in &self.passes {
            writeln!(f, "  {name}: {rewrites} rewrites")?;
        }
        writeln!(
            f,
            "{} commands ({} dispatches, {} copies and fills), {} barriers ({} in recorded order)",
            self.commands,
            self.dispatches,
            self.commands - self.dispatches,
            self.barriers.1,
            self.barriers.0
        )?;
        write!(
            f,
            "arena of {} bytes; {} live at once, {} in all",
            self.arena_bytes, self.live_bytes, self.value_bytes
        )
    }
}

/// A graph ready to be bound to memory and run. Clones share it, and any thread may use it.
#[derive(Clone, Debug)]
pub struct GraphExecutor {
    pub(super) compiled: Arc<Compiled>,
}

#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) graph: ComputeGraph,
    pub(super) commands: Commands,
    pub(super) schedule: Schedule,
    /// Offsets of slots in the arena. Memory from outside has none.
    pub(super) offsets: Vec<usize>,
    pub(super) mark_ops: bool,
    /// Nodes whose launches follow live extents.
    pub(super) live: Vec<LiveNode>,
    /// Bytes of a session's launch words.
    pub(super) launch_bytes: usize,
    report: GraphReport,
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<GraphExecutor>();
};

impl GraphExecutor {
    /// Rewrites, orders and plans a graph. Neither allocates memory nor compiles kernels.
    pub fn new(mut graph: ComputeGraph, options: &GraphOptions) -> Result<GraphExecutor> {
        graph.check_constants()?;
        let captured = graph.nodes().len();
        let passes = graph.optimise(&options.passes)?;
        graph.check_constants()?;
        let commands = Commands::of(&graph)?;
        let count = commands.commands.len();
        let mut recorded = MemRanges::new();
        let needs = |command: usize| recorded.check_numbered(commands.touches(command));
        let before = (0..count).map(needs).filter(|needed| *needed).count();
        let schedule = match options.mark_ops {
            // Marks are between ops: these stay in their order, each command in a group of its own.
            true => Schedule { order: (0..count).collect(), groups: (0..count).collect() },
            false => schedule((0..count).map(|command| commands.touches(command))),
        };
        let (arena, offsets, value_bytes) = place(&graph, &commands, &schedule);
        let after = schedule.group_count().saturating_sub(1);
        let report = GraphReport {
            ops: (captured, graph.nodes().len()),
            passes,
            commands: count,
            dispatches: commands.calls.iter().map(Call::dispatches).sum(),
            barriers: (before, after),
            arena_bytes: arena.bytes,
            live_bytes: arena.live,
            value_bytes,
            workspace: commands.calls.iter().map(|call| call.plan.workspace()).max().unwrap_or(0),
        };
        let mut launch_bytes = 0;
        let numbered = graph.nodes().iter().zip(&commands.calls).enumerate();
        let mut live = Vec::new();
        // The first nodes of each op and kernel.
        let mut firsts: FxHashMap<(TypeId, usize), SmallVec<[usize; 4]>> = FxHashMap::default();
        for (index, (node, call)) in numbered.filter(|(_, (node, _))| graph.is_live(node)) {
            match live_steps(&call.plan, graph.device().info(), &mut launch_bytes) {
                Some(steps) => {
                    let firsts = firsts.entry((node.op.as_any().type_id(), call.kernel)).or_default();
                    let is_alike = |&&first: &&usize| {
                        graph.nodes().get(first).is_some_and(|first| node.op.is_same(&*first.op))
                    };
                    let like = firsts.iter().find(is_alike).copied().unwrap_or(index);
                    if like == index {
                        firsts.push(index);
                    }
                    live.push(LiveNode { node: index, like, steps });
                }
                // It computes all planned rows.
                None if node.op.ignores_later_rows() => (),
                None => {
                    let what = "steps that the device can't run with live extents".to_owned();
                    return Err(Error::BadPlan { kernel: node.op.kernel_name(call.kernel), what });
                }
            }
        }
        let mark_ops = options.mark_ops;
        let compiled = Compiled { graph, commands, schedule, offsets, mark_ops, live, launch_bytes, report };
        Ok(GraphExecutor { compiled: Arc::new(compiled) })
    }

    /// Returns the figures of the compiled graph.
    pub fn report(&self) -> &GraphReport {
        &self.compiled.report
    }

    /// Returns the dispatches of a replay by kernel, in the order of their first.
    pub fn dispatches(&self) -> Vec<KernelDispatches> {
        let Compiled { graph, commands, .. } = &*self.compiled;
        let mut counts: Vec<KernelDispatches> = Vec::new();
        for (node, call) in graph.nodes().iter().zip(&commands.calls) {
            let kernel = node.op.kernel_name(call.kernel);
            let dispatches = call.dispatches();
            match counts.iter_mut().find(|count| count.kernel == kernel) {
                Some(count) => count.dispatches += dispatches,
                None => counts.push(KernelDispatches { kernel, dispatches }),
            }
        }
        counts
    }

    /// The graph after all passes.
    pub fn graph(&self) -> &ComputeGraph {
        &self.compiled.graph
    }

    /// Its calls as profiles see them, in the order of the marks that [`GraphOptions::mark_ops`] puts between ops.
    pub fn calls(&self) -> Vec<ProfiledCall> {
        let graph = &self.compiled.graph;
        self.compiled.calls(|operand| graph.info(operand), |_| None)
    }

    /// Bytes of the arena that a session needs, beside those of its parameters and launch words ([`GraphExecutor::session_bytes`]).
    pub fn arena_bytes(&self) -> usize {
        self.compiled.report.arena_bytes
    }

    /// Bytes that each session allocates besides its arena: parameters and launch words.
    pub fn session_bytes(&self) -> usize {
        let allocated = |bytes: usize| bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(bytes);
        let Compiled { graph, launch_bytes, .. } = &*self.compiled;
        allocated(graph.parameter_bytes()).saturating_add(allocated(*launch_bytes))
    }

    /// A session with an arena of its own over these buffers, one for each input in the order of their naming.
    pub fn session(&self, inputs: &[&Buffer]) -> Result<GraphSession> {
        let arena = GraphArena::new(self.graph().device(), self.arena_bytes())?;
        self.session_in(&arena, inputs)
    }

    /// A session in an arena that sessions of other executors use too: one session at a time has its outputs there. The arena has
    /// at least [`GraphExecutor::arena_bytes`].
    pub fn session_in(&self, arena: &GraphArena, inputs: &[&Buffer]) -> Result<GraphSession> {
        GraphSession::bind(self, arena, inputs)
    }
}

impl Compiled {
    /// The calls as profiles see them, with operands of the types and shapes that `info` returns. `words` returns the words of
    /// operands whose values are known.
    pub(super) fn calls<'a>(
        &self,
        info: impl Fn(Operand) -> TensorInfo,
        words: impl Fn(Operand) -> Option<&'a [u32]>,
    ) -> Vec<ProfiledCall> {
        let Compiled { graph, commands, .. } = self;
        let mut nodes: Vec<usize> = commands.commands.iter().map(|command| command.node).collect();
        nodes.dedup();
        let call = |index: &usize| {
            let (node, call) = (graph.nodes().get(*index)?, commands.calls.get(*index)?);
            let infos =
                |operands: &[Operand]| -> Outputs { operands.iter().map(|operand| info(*operand)).collect() };
            let (inputs, outputs) = (infos(&node.inputs), infos(&node.outputs));
            let scope =
                node.scope.and_then(|scope| graph.scopes.get(scope)).map_or("outside", |scope| scope.label);
            let words = |input: usize| words(*node.inputs.get(input)?);
            let work = node.op.work_of(&Io { inputs: &inputs, outputs: &outputs }, &words);
            Some(ProfiledCall { op: node.op.name(), kernel: node.op.kernel_name(call.kernel), scope, work })
        };
        nodes.iter().filter_map(call).collect()
    }
}

/// Assigns an offset to every slot of the arena. Returns the plan, the offsets, and the bytes that slots would take without sharing.
fn place(graph: &ComputeGraph, commands: &Commands, schedule: &Schedule) -> (Arena, Vec<usize>, usize) {
    let group = |command: usize| schedule.groups.get(command).copied().unwrap_or(0);
    let mut lives: Vec<Option<Lifetime>> = vec![None; commands.slots.len()];
    for command in 0..commands.commands.len() {
        for touch in commands.touches(command) {
            let slot = touch.storage as usize;
            let Some(bytes) = commands.slots.get(slot).and_then(|slot| slot.bytes) else { continue };
            let now = group(command);
            let Some(life) = lives.get_mut(slot) else { continue };
            let life = life.get_or_insert(Lifetime { bytes, first: now, last: now });
            (life.first, life.last) = (life.first.min(now), life.last.max(now));
        }
    }
    for output in graph.outputs() {
        let slot = commands.slot_of(graph, output.value);
        let life = slot.and_then(|slot| lives.get_mut(slot as usize)).and_then(Option::as_mut);
        if let Some(life) = life {
            life.last = usize::MAX;
        }
    }
    let value_bytes = lives.iter().flatten().fold(0, |sum: usize, life| sum.saturating_add(life.bytes));
    let owners = share_in_place(commands, schedule, &mut lives);
    let slots: Vec<usize> =
        (0..lives.len()).filter(|&slot| lives.get(slot).is_some_and(Option::is_some)).collect();
    let placed: Vec<Lifetime> = slots.iter().filter_map(|&slot| lives.get(slot).copied().flatten()).collect();
    let arena = arena::plan(&placed);
    let mut offsets = vec![0; lives.len()];
    for (&slot, &offset) in slots.iter().zip(&arena.offsets) {
        if let Some(place) = offsets.get_mut(slot) {
            *place = offset;
        }
    }
    let offsets = owners.iter().map(|&owner| offsets.get(owner).copied().unwrap_or(0)).collect();
    (arena, offsets, value_bytes)
}

/// Places outputs where inputs lie that no later command reads. Returns, for each slot, the slot that has its bytes.
fn share_in_place(commands: &Commands, schedule: &Schedule, lives: &mut [Option<Lifetime>]) -> Vec<usize> {
    let mut owners: Vec<usize> = (0..lives.len()).collect();
    // When a slot was last given to an output: two outputs of one command can't both have it.
    let mut given: Vec<Option<usize>> = vec![None; lives.len()];
    let touches_of = |slot: u32, group: usize| {
        let members = schedule.groups.iter().enumerate().filter(move |(_, other)| **other == group);
        members
            .filter(move |(command, _)| commands.touches(*command).iter().any(|touch| touch.storage == slot))
            .count()
    };
    let mut pairs: Vec<&InPlace> = commands.in_place.iter().collect();
    pairs.sort_by_key(|pair| schedule.groups.get(pair.command).copied());
    for InPlace { command, from, to } in pairs {
        let Some(&group) = schedule.groups.get(*command) else { continue };
        let owner = owners.get(*from as usize).copied().unwrap_or(0);
        let (Some(Some(old)), Some(Some(new))) =
            (lives.get(owner).copied(), lives.get(*to as usize).copied())
        else {
            continue;
        };
        let alone = touches_of(*from, group) == 1;
        if old.last != group || new.first != group || old.bytes < new.bytes || !alone || owner == *to as usize
        {
            continue;
        }
        if given.get(owner) == Some(&Some(group)) {
            continue;
        }
        if let (Some(life), Some(given)) = (lives.get_mut(owner), given.get_mut(owner)) {
            *life = Some(Lifetime { last: new.last, ..old });
            *given = Some(group);
        }
        if let (Some(life), Some(place)) = (lives.get_mut(*to as usize), owners.get_mut(*to as usize)) {
            (*life, *place) = (None, owner);
        }
    }
    owners
}
