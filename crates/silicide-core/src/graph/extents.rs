//! Live extents: numbers of rows that a session sets before a replay, each at most what its graph was planned for.
//!
//! A value is *live* if its first axis is a multiple of an extent. Parameters are declared live; outputs of ops become live
//! if their first axis follows that of a live input. This is found by asking the op for its outputs at another number of
//! rows ([`Op::infer`](crate::kernel::Op::infer)).
//!
//! Memory, schedule and barriers are planned for the largest extents. For other extents, the chosen kernels plan their launches
//! again ([`Kernel::plan`](crate::kernel::Kernel::plan)) at the live shapes. The new parameter words, grids and lengths go to
//! the launch words of the session ([`LaunchWords`](silicide_hal::LaunchWords)); they pass the same checks as the first.

use super::compute::{ComputeGraph, Node, Operand};
use crate::error::{Error, Result};
use crate::kernel::{DynOp, Launch, Plan, Step, TensorInfo};
use silicide_hal::{DeviceInfo, LaunchWords, Program};
use silicide_quant::Shape;
use smallvec::SmallVec;

/// Launch words begin at multiples of this many bytes: devices bind them.
const ALIGNMENT: usize = 256;

/// A number of rows that sessions set ([`GraphSession::set_extent`](super::GraphSession::set_extent)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveExtent {
    /// The graph that it belongs to.
    pub(super) graph: u64,
    pub(super) number: u32,
}

/// An extent of a graph.
#[derive(Clone, Debug)]
pub(super) struct ExtentSlot {
    pub(super) name: String,
    /// The largest value, which the graph is planned for.
    pub(super) max: usize,
}

/// A value for each extent of a graph.
pub(super) type Extents = SmallVec<[usize; 2]>;

/// A launch of a node that is live: its launch words begin at byte `offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveStep {
    pub(super) step: usize,
    pub(super) offset: usize,
    /// Words at `offset`.
    pub(super) words: usize,
}

/// A node whose launches follow live extents.
#[derive(Clone, Debug)]
pub(super) struct LiveNode {
    pub(super) node: usize,
    pub(super) steps: SmallVec<[LiveStep; 1]>,
}

impl ComputeGraph {
    /// Adds an extent of at most `max` rows.
    pub(super) fn push_extent(&mut self, name: String, max: usize) -> Result<LiveExtent> {
        if max == 0 {
            let what = format!("{name} of at most 0 rows, which is never live");
            return Err(Error::BadParameter { op: "extent", what });
        }
        self.extents.push(ExtentSlot { name, max });
        Ok(LiveExtent { graph: self.id, number: self.extents.len() as u32 - 1 })
    }

    /// Its live extents, in the order in which they were declared, with their names and largest values.
    pub fn extents(&self) -> impl Iterator<Item = (LiveExtent, &str, usize)> {
        let keys = (0..).map(|number| LiveExtent { graph: self.id, number });
        keys.zip(&self.extents).map(|(key, slot)| (key, slot.name.as_str(), slot.max))
    }

    /// The largest value of each extent.
    pub(super) fn largest_extents(&self) -> Extents {
        self.extents.iter().map(|slot| slot.max).collect()
    }

    /// Checks that the first axis of `shape` is a multiple of an extent.
    pub(super) fn check_live(&self, op: &'static str, live: Option<u32>, shape: Shape) -> Result<()> {
        let Some(slot) = live.and_then(|live| self.extents.get(live as usize)) else { return Ok(()) };
        let rows = shape.axes().first().copied().unwrap_or(0);
        if rows == 0 || !rows.is_multiple_of(slot.max) {
            let expected =
                format!("a first axis that is a multiple of {}, the extent {}", slot.max, slot.name);
            return Err(Error::Shape { op, slot: "shape", expected, got: shape });
        }
        Ok(())
    }

    /// Type and shape of an operand where extents have these values.
    pub(super) fn info_at(&self, operand: Operand, extents: &[usize]) -> TensorInfo {
        let info = self.info(operand);
        let live = self.values.get(operand.value.0 as usize).and_then(|value| value.live);
        TensorInfo { shape: self.shape_at(info.shape, live, extents), ..info }
    }

    /// A shape whose first axis follows an extent, where extents have these values.
    fn shape_at(&self, shape: Shape, live: Option<u32>, extents: &[usize]) -> Shape {
        let slot = live.and_then(|live| self.extents.get(live as usize).zip(extents.get(live as usize)));
        let Some((slot, &rows)) = slot else { return shape };
        let mut axes: SmallVec<[usize; 8]> = SmallVec::from_slice(shape.axes());
        if let Some(first) = axes.first_mut() {
            *first = *first / slot.max.max(1) * rows;
        }
        // No larger than the planned shape, which is one.
        Shape::new(&axes).unwrap_or(shape)
    }

    /// The extent of a value, if it is live.
    fn live(&self, operand: &Operand) -> Option<u32> {
        self.values.get(operand.value.0 as usize).and_then(|value| value.live)
    }

    /// The extents that the outputs of an op follow. `inferred` are its outputs as planned.
    pub(super) fn live_outputs(
        &self,
        op: &dyn DynOp,
        inputs: &[Operand],
        inferred: &[TensorInfo],
    ) -> Result<SmallVec<[Option<u32>; 2]>> {
        let mut live: SmallVec<[Option<u32>; 2]> = SmallVec::from_elem(None, inferred.len());
        let mut probed: SmallVec<[u32; 2]> = inputs.iter().filter_map(|input| self.live(input)).collect();
        probed.sort_unstable();
        probed.dedup();
        for number in probed {
            let mut extents = self.largest_extents();
            let Some(rows) = extents.get_mut(number as usize) else { continue };
            // Another number of rows; an extent of one row has none, and is not live (`GraphBuilder::live_parameter`).
            *rows = rows.saturating_sub(1).max(1);
            let infos: SmallVec<[TensorInfo; 4]> =
                inputs.iter().map(|input| self.info_at(*input, &extents)).collect();
            let probe = op.infer(&infos)?;
            for ((planned, probed), live) in inferred.iter().zip(&probe).zip(&mut live) {
                if probed.shape == planned.shape {
                    continue;
                }
                let follows = self.check_live(op.name(), Some(number), planned.shape).is_ok()
                    && self.shape_at(planned.shape, Some(number), &extents) == probed.shape;
                if !follows || live.is_some() {
                    let what =
                        format!("an output of {planned} that becomes {probed}: live rows are the first axis");
                    return Err(Error::BadParameter { op: op.name(), what });
                }
                *live = Some(number);
            }
        }
        Ok(live)
    }

    /// Whether a node works on live values.
    pub(super) fn is_live(&self, node: &Node) -> bool {
        node.inputs.iter().chain(&node.outputs).any(|operand| self.live(operand).is_some())
    }
}

/// The live launches of a node's plan, with words from byte `end` on, which grows. None if the device cannot run all of its
/// launches live: it then computes all planned rows.
pub(super) fn live_node(node: usize, plan: &Plan, on: &DeviceInfo, end: &mut usize) -> Option<LiveNode> {
    let mut next = *end;
    let steps = plan.steps.iter().enumerate().map(|(step, planned)| {
        let Step::Dispatch(launch) = planned else { return None };
        let words = words_of(launch, on)?;
        let offset = next.next_multiple_of(ALIGNMENT);
        next = offset.saturating_add(words * 4);
        Some(LiveStep { step, offset, words })
    });
    let steps = steps.collect::<Option<SmallVec<[LiveStep; 1]>>>()?;
    *end = next;
    Some(LiveNode { node, steps })
}

/// The launch words of a launch, if the device can run it live.
fn words_of(launch: &Launch, on: &DeviceInfo) -> Option<usize> {
    let (params, fits) = match &launch.program {
        Program::Native(_) => (launch.params.len(), true),
        // Parameter words take one more binding.
        Program::Wgsl(kernel) => {
            (kernel.words as usize, kernel.bindings < on.limits.max_bindings && kernel.words > 0)
        }
    };
    fits.then(|| LaunchWords { params, bindings: launch.args.len() }.count())
}

/// Whether `live`, a plan of the same kernel for fewer rows, can replace `planned` in a list that was baked: the same programs over
/// the same memory, no more of it.
pub(super) fn replaces(live: &Plan, planned: &Plan) -> bool {
    let same_step = |(live, planned): (&Step, &Step)| {
        let (Step::Dispatch(live), Step::Dispatch(planned)) = (live, planned) else { return false };
        let same_arg = |(live, planned): (&crate::kernel::Arg, &crate::kernel::Arg)| {
            (live.operand, live.start) == (planned.operand, planned.start) && live.bytes <= planned.bytes
        };
        live.program == planned.program
            && live.params.len() == planned.params.len()
            && live.args.len() == planned.args.len()
            && live.args.iter().zip(&planned.args).all(same_arg)
    };
    live.steps.len() == planned.steps.len()
        && live.scratch.len() == planned.scratch.len()
        && live.scratch.iter().zip(&planned.scratch).all(|(live, planned)| live <= planned)
        && live.steps.iter().zip(&planned.steps).all(same_step)
}
