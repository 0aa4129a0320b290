//! Launch words of a session: grids, parameter words and binding lengths of its live launches, at the extents that were set.
//!
//! After an extent changes, the kernel of each live node plans its launches again at the live shapes. Nodes with equal ops and
//! shapes, such as those of equal layers, share one plan. Each launch passes the checks of lowering over its own buffers.

use super::commands::Call;
use super::compute::{Node, Operand};
use super::executor::Compiled;
use super::extents::{Extents, LiveNode, Sizes, replaces};
use super::session::{Bound, memory};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::kernel::{Io, Plan, Step, TensorInfo};
use crate::record::{Call as Lowered, PlanBuffers};
use silicide_quant::DType;
use smallvec::SmallVec;

/// The launch words of a session, and the extents that they are for.
#[derive(Debug)]
pub(super) struct LaunchMemory {
    pub(super) memory: Option<Buffer>,
    pub(super) extents: Extents,
    /// Whether extents differ from those that the words are for.
    pub(super) changed: bool,
    words: Vec<u32>,
    /// Ops that keep their planned launches.
    pub(super) padded: Vec<&'static str>,
}

impl LaunchMemory {
    pub(super) fn new(compiled: &Compiled) -> Result<LaunchMemory> {
        let words = compiled.launch_bytes.div_ceil(4);
        let device = compiled.graph.device();
        let memory = if words == 0 { None } else { Some(memory(device, DType::U32, words, "launch words")?) };
        let extents = compiled.graph.largest_extents();
        Ok(LaunchMemory { memory, extents, changed: true, words: vec![0; words], padded: Vec::new() })
    }
}

/// Types and shapes of operands.
type Infos = SmallVec<[TensorInfo; 4]>;

/// The plan of nodes with one op and kernel at certain shapes.
struct SharedPlan {
    /// [`LiveNode::like`] of the nodes.
    like: usize,
    inputs: Infos,
    outputs: Infos,
    /// None if the kernel does not take these shapes.
    plan: Option<Plan>,
}

/// A node whose launches follow live extents, with the kernel that computes it.
#[derive(Clone, Copy)]
struct LiveCall<'a> {
    live: &'a LiveNode,
    node: &'a Node,
    call: &'a Call,
}

impl Bound {
    /// Writes the launch words of the extents that were set, unless they are there.
    pub(super) fn update_launches(&mut self) -> Result<()> {
        if !self.launches.changed {
            return Ok(());
        }
        let mut words = std::mem::take(&mut self.launches.words);
        let written = self.write_launches(&mut words);
        self.launches.words = words;
        self.launches.padded = written?;
        if let Some(memory) = &self.launches.memory {
            memory.copy_in(&self.launches.words)?;
        }
        self.launches.changed = false;
        Ok(())
    }

    /// Plans live launches for the extents that were set. Returns the ops that keep their planned launches.
    fn write_launches(&self, words: &mut [u32]) -> Result<Vec<&'static str>> {
        let compiled = self.compiled();
        let graph = &compiled.graph;
        let largest = graph.largest_extents();
        let is_largest = self.launches.extents == largest;
        let (sizes, largest) = (graph.sizes_at(&self.launches.extents)?, graph.sizes_at(&largest)?);
        let (mut padded, mut plans) = (Vec::new(), Vec::new());
        for live in &compiled.live {
            let node_and_call = graph.nodes().get(live.node).zip(compiled.commands.calls.get(live.node));
            let Some((node, call)) = node_and_call else { continue };
            let of = LiveCall { live, node, call };
            let planned = if is_largest { None } else { self.live_plan(&mut plans, of, &sizes)? };
            if planned.is_none() && !is_largest {
                if !node.op.ignores_later_rows() {
                    let what =
                        "for fewer rows, a launch that can't replace the one that was baked".to_owned();
                    return Err(Error::BadPlan { kernel: node.op.kernel_name(call.kernel), what });
                }
                padded.push(node.op.name());
            }
            let (plan, sizes) = match planned {
                Some(plan) => (plan, &sizes),
                None => (&call.plan, &largest),
            };
            self.write_launch(of, plan, sizes, words)?;
        }
        Ok(padded)
    }

    /// Lowers the launches of a node's plan where values have these sizes.
    fn write_launch(
        &self,
        LiveCall { live, node, call }: LiveCall<'_>,
        plan: &Plan,
        sizes: &Sizes,
        words: &mut [u32],
    ) -> Result<()> {
        let device = self.device();
        let buffers = self.buffers_at(node, sizes)?;
        let scratch = call.scratch.iter().zip(&plan.scratch);
        let scratch = scratch.map(|(&slot, &bytes)| self.scratch(slot, bytes)).collect::<Result<_>>()?;
        let own = PlanBuffers::new(device, plan, scratch)?;
        let inputs: SmallVec<[&Buffer; 4]> = buffers.inputs.iter().collect();
        let outputs: SmallVec<[&Buffer; 4]> = buffers.outputs.iter().collect();
        let kernel = node.op.kernel_name(call.kernel);
        let lowered = Lowered { device, op: &*node.op, kernel, inputs: &inputs, outputs: &outputs };
        let mut launch_words = Vec::new();
        for step in &live.steps {
            let Some(Step::Dispatch(launch)) = plan.steps.get(step.step) else { continue };
            launch_words.clear();
            lowered.launch_words(&own, launch, &mut launch_words)?;
            let slot = words.get_mut(step.offset / 4..).and_then(|words| words.get_mut(..step.words));
            let Some(slot) = slot.filter(|slot| slot.len() == launch_words.len()) else {
                let what = format!("{} launch words instead of {}", launch_words.len(), step.words);
                return Err(Error::BadPlan { kernel, what });
            };
            slot.copy_from_slice(&launch_words);
        }
        Ok(())
    }

    /// The plan of a node's kernel where values have these sizes, if it can replace the one that was baked.
    fn live_plan<'a>(
        &self,
        plans: &'a mut Vec<SharedPlan>,
        LiveCall { live, node, call }: LiveCall<'_>,
        sizes: &Sizes,
    ) -> Result<Option<&'a Plan>> {
        let (graph, on) = (&self.compiled().graph, self.device().info());
        let infos = |operands: &[Operand]| -> Result<Infos> {
            operands.iter().map(|operand| sizes.info(graph, *operand, node.op.name())).collect()
        };
        let (inputs, outputs) = (infos(&node.inputs)?, infos(&node.outputs)?);
        let known = plans
            .iter()
            .position(|plan| plan.like == live.like && plan.inputs == inputs && plan.outputs == outputs);
        let known = known.unwrap_or_else(|| {
            let io = Io { inputs: &inputs, outputs: &outputs };
            let fits = node.op.kernel_fits(call.kernel, &io, on).is_ok();
            let plan = fits.then(|| node.op.kernel_plan(call.kernel, &io, on));
            plans.push(SharedPlan { like: live.like, inputs, outputs, plan });
            plans.len() - 1
        });
        let plan = plans.get(known).and_then(|shared| shared.plan.as_ref());
        let Some(plan) = plan else { return Ok(None) };
        // rule: live-plan
        if !replaces(plan, &call.plan) {
            return Ok(None);
        }
        Ok(Some(plan))
    }
}
