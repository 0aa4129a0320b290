//! Grouping pairs of rows and experts by expert, for [`expert_linear`](crate::expert_linear()) of many rows on the CPU.
//!
//! The pairs of an expert stay in order; pairs whose id no expert has form a last group of their own. Groups are cut in strips of nearly
//! equal length, at most 128 pairs each.
//!
//! ```text
//! words of the groups, with at most S strips:
//! | strips | S times: expert, first place, pairs | pair of each place | strip of each pair | end of each group: experts + 1 words |
//! ```
//!
//! Words of strips that are not there are zero.

pub mod cases;
mod cpu;

pub(crate) use cpu::group_launch;

use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};

/// The name of the op.
const NAME: &str = "group_by_expert";

/// The most pairs of a strip: their outputs stay in the caches until they are put where they belong.
pub(crate) const STRIP: usize = 128;

/// Words that describe a strip: expert, first place, pairs.
pub(crate) const STRIP_WORDS: usize = 3;

/// The op. Input: `ids` of u32 or i32, of any shape: the expert of each pair. Output: `groups` of u32, `[words]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupByExpert {
    /// The number of experts.
    pub experts: u32,
}

/// The extents of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupExtents {
    pub(crate) pairs: usize,
    pub(crate) experts: usize,
    /// The most strips there can be.
    pub(crate) strips: usize,
}

impl GroupExtents {
    /// The extents of the groups of `pairs` pairs.
    pub(crate) fn new(pairs: usize, experts: usize) -> GroupExtents {
        GroupExtents { pairs, experts, strips: pairs.min(experts.saturating_add(1)) + pairs / STRIP }
    }

    /// Words of the groups.
    pub(crate) fn words(&self) -> usize {
        [STRIP_WORDS * self.strips, 2 * self.pairs, self.experts, 2]
            .into_iter()
            .fold(0, usize::saturating_add)
    }
}

impl Op for GroupByExpert {
    fn name(&self) -> &'static str {
        NAME
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("ids"), Slot::output("groups")] }
    }

    // The offsets of its parts depend on the number of ids.
    fn ignores_later_rows(&self) -> bool {
        false
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let [ids] = crate::elementwise::inputs(NAME, self.slots(), given)?;
        if !matches!(ids.dtype, DType::U32 | DType::I32) {
            let expected = "u32 or i32".to_owned();
            return Err(Error::DTypeMismatch { op: NAME, slot: "ids", expected, got: ids.dtype });
        }
        let words = GroupExtents::new(ids.elements(), self.experts as usize).words();
        let shape = Shape::new(&[words]).map_err(|source| Error::bad_shape(NAME, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::U32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        if let ([ids], [groups]) = (inputs, outputs) {
            groups.values = group(&ids.values, self.experts as usize);
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.input(0).elements() as u64 * 4)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::OneTile]
    }
}

/// Groups ids: the reference.
pub(crate) fn group(ids: &[f64], experts: usize) -> Vec<f64> {
    let group_of = |id: f64| if id < 0.0 { experts } else { (id as usize).min(experts) };
    let extents = GroupExtents::new(ids.len(), experts);
    let (mut strips, mut order, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut homes = vec![0; ids.len()];
    for expert in 0..=experts {
        let first = order.len();
        order.extend(ids.iter().enumerate().filter(|(_, id)| group_of(**id) == expert).map(|(pair, _)| pair));
        let pairs = order.len() - first;
        let parts = pairs.div_ceil(STRIP);
        for part in 0..parts {
            let (start, end) = (part * pairs / parts, (part + 1) * pairs / parts);
            for &pair in order.get(first + start..first + end).unwrap_or_default() {
                homes[pair] = strips.len() / STRIP_WORDS;
            }
            strips.extend([expert, first + start, end - start]);
        }
        ends.push(order.len());
    }
    let count = strips.len() / STRIP_WORDS;
    strips.resize(STRIP_WORDS * extents.strips, 0);
    let words = std::iter::once(count).chain(strips).chain(order).chain(homes).chain(ends);
    words.map(|word| word as f64).collect()
}

/// Records the groups of expert ids.
pub fn group_by_expert<R: Recorder>(recorder: &mut R, ids: &R::Value, experts: u32) -> Result<R::Value> {
    recorder.run_one(GroupByExpert { experts }, &[ids])
}
