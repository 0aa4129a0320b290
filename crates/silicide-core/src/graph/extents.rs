//! Live extents: numbers of rows that a session sets before a replay, each at most what its graph was planned for.
//!
//! A value is *live* if it has fewer elements where an extent is smaller. Parameters and inputs are declared live: their first axis
//! is a multiple of an extent. What becomes of other values follows from the ops, whose outputs are inferred again at other numbers
//! of rows ([`Op::infer`](crate::kernel::Op::infer)). Only the first axis of a value may change.
//!
//! Memory, schedule and barriers are planned for the largest extents. For other extents, the chosen kernels plan their launches
//! again ([`Kernel::plan`](crate::kernel::Kernel::plan)) at the live shapes. The new parameter words, grids and lengths go to
//! the launch words of the session ([`LaunchWords`](silicide_hal::LaunchWords)); they pass the same checks as the first.

use super::compute::{ComputeGraph, Node, Operand, Origin, ValueId};
use crate::error::{Error, Result};
use crate::kernel::{DynOp, Launch, Outputs, Plan, Step, TensorInfo};
use crate::memory::ALIGNMENT;
use silicide_hal::{DeviceInfo, LaunchWords, Program};
use silicide_quant::Shape;
use smallvec::SmallVec;

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

impl ExtentSlot {
    /// Values beside the largest, to find out what follows the extent.
    fn probes(&self) -> [usize; PROBES] {
        [self.max.saturating_sub(1).max(1), 1]
    }
}

/// Values at which each extent is probed. Sessions check again what ops infer at the values that they set.
const PROBES: usize = 2;

/// A value for each extent of a graph.
pub(super) type Extents = SmallVec<[usize; 2]>;

/// The elements that a value has if one extent has one of its probes and the others are largest, for each probe of each extent.
/// Empty for values that follow none.
pub(super) type Probes = SmallVec<[usize; 2 * PROBES]>;

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
    /// The first node with the same op and kernel: at the same live shapes, both have the same plan.
    pub(super) like: usize,
    pub(super) steps: LiveSteps,
}

/// The launches of a live node.
pub(super) type LiveSteps = SmallVec<[LiveStep; 1]>;

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

    /// Checks that a view of a value, in this shape, keeps its live rows in the first axis.
    pub(super) fn check_view(&self, op: &'static str, value: ValueId, shape: Shape) -> Result<()> {
        let Some(value) = self.values.get(value.0 as usize) else { return Ok(()) };
        let planned = value.info.elements();
        if value.probes.iter().any(|&elements| scaled(shape, elements, planned).is_none()) {
            let expected = "live rows in the first axis".to_owned();
            return Err(Error::Shape { op, slot: "shape", expected, got: shape });
        }
        Ok(())
    }

    /// The elements of a value that is declared with an extent, at each probe. None for extents that are always 1.
    pub(super) fn declared_probes(&self, extent: LiveExtent, info: &TensorInfo) -> Result<Probes> {
        let Some(slot) = self.extents.get(extent.number as usize) else {
            return Err(Error::WrongGraph { what: "extent" });
        };
        let rows = info.shape.axes().first().copied().unwrap_or(0);
        if rows == 0 || !rows.is_multiple_of(slot.max) {
            let expected =
                format!("a first axis that is a multiple of {}, the extent {}", slot.max, slot.name);
            return Err(Error::Shape { op: "parameter", slot: "shape", expected, got: info.shape });
        }
        if slot.max == 1 {
            return Ok(Probes::new());
        }
        let probes = (0..self.extents.len()).flat_map(|number| {
            let is_this = number == extent.number as usize;
            slot.probes()
                .map(|rows| if is_this { info.elements() / slot.max * rows } else { info.elements() })
        });
        Ok(probes.collect())
    }

    /// Returns the extent that the rows of a value follow, if it follows one.
    pub(super) fn extent_of(&self, value: ValueId) -> Result<Option<LiveExtent>> {
        let value = self.values.get(value.0 as usize).ok_or(Error::WrongGraph { what: "extent_of" })?;
        let planned = value.info.elements();
        let mut found = None;
        for (number, (slot, probed)) in self.extents.iter().zip(value.probes.chunks(PROBES)).enumerate() {
            if probed.iter().all(|&elements| elements == planned) {
                continue;
            }
            let follows = |(rows, &elements): (usize, &usize)| planned / slot.max.max(1) * rows == elements;
            let is_whole = planned.is_multiple_of(slot.max.max(1));
            if found.is_some() || !is_whole || !slot.probes().into_iter().zip(probed).all(follows) {
                let what = format!("a value of {} whose rows are not those of one extent", value.info);
                return Err(Error::BadParameter { op: "extent_of", what });
            }
            found = Some(LiveExtent { graph: self.id, number: number as u32 });
        }
        Ok(found)
    }

    /// Returns type and shape of an operand whose value has `elements` elements.
    fn info_with(&self, operand: Operand, elements: usize) -> Option<TensorInfo> {
        let planned = self.values.get(operand.value.0 as usize)?.info.elements();
        let info = self.info(operand);
        Some(TensorInfo { shape: scaled(info.shape, elements, planned)?, ..info })
    }

    /// The elements of the outputs of an op at each probe. `inferred` are its outputs as planned.
    pub(super) fn probe_outputs(
        &self,
        op: &dyn DynOp,
        inputs: &[Operand],
        inferred: &[TensorInfo],
    ) -> Result<SmallVec<[Probes; 2]>> {
        let mut probes: SmallVec<[Probes; 2]> = SmallVec::from_elem(Probes::new(), inferred.len());
        let probed = |input: &Operand, number: usize| {
            let value = self.values.get(input.value.0 as usize)?;
            Some(value.probes.get(number).copied().unwrap_or(value.info.elements()))
        };
        if !inputs.iter().any(|input| self.is_live_value(input.value)) {
            return Ok(probes);
        }
        for number in 0..self.extents.len() * PROBES {
            if self.extents.get(number / PROBES).is_none_or(|slot| slot.max == 1) {
                inferred
                    .iter()
                    .zip(&mut probes)
                    .for_each(|(planned, probes)| probes.push(planned.elements()));
                continue;
            }
            let info = |input: &Operand| self.info_with(*input, probed(input, number)?);
            let infos = inputs.iter().map(info).collect::<Option<SmallVec<[TensorInfo; 4]>>>();
            let outputs = op.infer(&infos.ok_or(Error::WrongGraph { what: op.name() })?)?;
            for ((planned, probed), probes) in inferred.iter().zip(&outputs).zip(&mut probes) {
                let elements = probed.elements();
                // rule: live-shape
                if scaled(planned.shape, elements, planned.elements()) != Some(probed.shape) {
                    let what =
                        format!("an output of {planned} that becomes {probed}: live rows are the first axis");
                    return Err(Error::BadParameter { op: op.name(), what });
                }
                probes.push(elements);
            }
        }
        for (planned, probes) in inferred.iter().zip(&mut probes) {
            if probes.iter().all(|&elements| elements == planned.elements()) {
                probes.clear();
            }
        }
        Ok(probes)
    }

    /// Whether a value follows an extent.
    fn is_live_value(&self, value: ValueId) -> bool {
        self.values.get(value.0 as usize).is_some_and(|value| !value.probes.is_empty())
    }

    /// Whether a node works on live values.
    pub(super) fn is_live(&self, node: &Node) -> bool {
        node.inputs.iter().chain(&node.outputs).any(|operand| self.is_live_value(operand.value))
    }

    /// The elements of every value where extents have these values. The outputs of live nodes are inferred again.
    pub(super) fn sizes_at(&self, extents: &[usize]) -> Result<Sizes> {
        let mut sizes: Vec<usize> = self.values.iter().map(|value| value.info.elements()).collect();
        if extents == self.largest_extents().as_slice() {
            return Ok(Sizes(sizes));
        }
        for (value, size) in self.values.iter().zip(&mut sizes) {
            let live = match value.origin {
                Origin::Parameter(number) => self.parameters.get(number).and_then(|slot| slot.live),
                Origin::Input(number) => self.inputs.get(number).and_then(|input| input.live),
                _ => None,
            };
            let live = live.map(|live| live as usize);
            let extent = live.and_then(|live| self.extents.get(live).zip(extents.get(live)));
            if let Some((slot, rows)) = extent {
                *size = *size / slot.max.max(1) * rows;
            }
        }
        let mut sizes = Sizes(sizes);
        for node in self.nodes.iter().filter(|node| self.is_live(node)) {
            let op = node.op.name();
            let inputs = node.inputs.iter().map(|input| sizes.info(self, *input, op));
            let outputs = node.op.infer(&inputs.collect::<Result<SmallVec<[TensorInfo; 4]>>>()?)?;
            for (number, (output, inferred)) in node.outputs.iter().zip(&outputs).enumerate() {
                let Some(size) = sizes.0.get_mut(output.value.0 as usize) else { continue };
                let is_live = self.is_live_value(output.value);
                // rule: live-size
                if !is_live && *size != inferred.elements() && self.changes(node, number, inferred)? {
                    let what = format!("an output of {inferred} at live rows, which no probe had shown");
                    return Err(Error::BadParameter { op, what });
                }
                if is_live {
                    *size = inferred.elements();
                }
            }
        }
        Ok(sizes)
    }

    /// Whether output `number` of a node has other elements than it is inferred to have at the largest extents. The output itself may be
    /// a part of a larger tensor.
    fn changes(&self, node: &Node, number: usize, inferred: &TensorInfo) -> Result<bool> {
        let inputs: SmallVec<[TensorInfo; 4]> = node.inputs.iter().map(|input| self.info(*input)).collect();
        let planned: Outputs = node.op.infer(&inputs)?;
        Ok(planned.get(number).is_none_or(|planned| planned.elements() != inferred.elements()))
    }
}

/// Elements of each value of a graph at certain extents.
#[derive(Debug)]
pub(super) struct Sizes(Vec<usize>);

impl Sizes {
    /// Type and shape of an operand.
    pub(super) fn info(
        &self,
        graph: &ComputeGraph,
        operand: Operand,
        op: &'static str,
    ) -> Result<TensorInfo> {
        let elements = self.0.get(operand.value.0 as usize).copied();
        let info = elements.and_then(|elements| graph.info_with(operand, elements));
        info.ok_or_else(|| Error::BadParameter {
            op,
            what: "live rows that are not its first axis".to_owned(),
        })
    }
}

/// The shape of the first `elements` of `planned` elements: its first axis is shorter. None if they are not whole.
fn scaled(shape: Shape, elements: usize, planned: usize) -> Option<Shape> {
    if elements == planned {
        return Some(shape);
    }
    let mut axes: SmallVec<[usize; 8]> = SmallVec::from_slice(shape.axes());
    let first = axes.first_mut()?;
    let row = shape.elements().checked_div(*first)?;
    *first = elements.checked_div(row).filter(|rows| rows * row == elements && *rows <= *first)?;
    Shape::new(&axes).ok()
}

/// The live launches of a node's plan, with words from byte `end` on, which grows. None if the device cannot run all of its
/// launches live: it then computes all planned rows.
pub(super) fn live_steps(plan: &Plan, on: &DeviceInfo, end: &mut usize) -> Option<LiveSteps> {
    let mut next = *end;
    let steps = plan.steps.iter().enumerate().map(|(step, planned)| {
        let Step::Dispatch(launch) = planned else { return None };
        let words = words_of(launch, on)?;
        // The CPU reads words in place. Other devices bind them.
        let alignment =
            if matches!(launch.program, Program::Native(_)) { size_of::<u32>() } else { ALIGNMENT };
        let offset = next.next_multiple_of(alignment);
        next = offset.saturating_add(words * 4);
        Some(LiveStep { step, offset, words })
    });
    let steps = steps.collect::<Option<LiveSteps>>()?;
    *end = next;
    Some(steps)
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
