//! Linear layers of experts: `y[i] = weight[ids[i]] · x[i]`, the products of a mixture of experts.
//!
//! The last axis of `ids` has the experts of each row of activations. A pair of a row and one of its experts is one product of
//! `[k]` activations and the expert's `[n, k]` weights. The experts of a row share its activations, or have their own.
//! Kernels group pairs by expert, so that the weights of an expert are read once for all its rows.
//!
//! An id outside of the experts, negative ones included, reads nothing outside of the weights. The outputs of its pair are NaN,
//! which a sampler refuses.
//!
//! On the CPU, the bits of a pair's outputs depend on its activations and its expert alone, not on the other pairs of the call.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::is_float;
use crate::group_by_expert::{GroupExtents, group_by_expert};
use crate::quantize_q8::{for_products, host_values};
use crate::weight;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{AsWeight, Error, Recorder, Result};
use silicide_gemm::q8::{GROUP, quantized_row_bytes};
use silicide_quant::{DType, Encoding, Shape};
use smallvec::SmallVec;

/// The name of the op.
const NAME: &str = "expert_linear";

/// The op. Inputs: `x` of f32, `[..., k]` or `[..., used, k]`, or its [quantized rows](crate::quantize_q8); the planes of a weight
/// `[experts, n, k]`; `ids` of u32 or i32, `[..., used]`; their [groups](crate::group_by_expert), if it is
/// [`grouped`](ExpertLinear::grouped). Output: `y` of f32, `[..., used, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExpertLinear {
    /// The encoding of the weight: elements of f32, f16 or bf16, blocks, planes, or
    /// [interleaved](crate::interleave) elements or blocks, which only the CPU takes.
    pub encoding: Encoding,
    /// Multiplies activations as they are. Otherwise a kernel may quantize them to 8 bits, or round them and the weights to f16,
    /// within the tolerance of the op.
    pub exact: bool,
    /// Whether the groups of the ids are an input. Kernels that need them and do not have them make them. Only [`expert_linear`] sets
    /// it: groups of other ids would leave outputs unwritten.
    pub(crate) grouped: bool,
}

impl ExpertLinear {
    /// Products that may quantize activations, without groups.
    pub const fn new(encoding: Encoding) -> ExpertLinear {
        ExpertLinear { encoding, exact: false, grouped: false }
    }

    /// Sets [`exact`](ExpertLinear::exact).
    #[must_use]
    pub const fn with_exact(self, exact: bool) -> ExpertLinear {
        ExpertLinear { exact, ..self }
    }
}

/// Records the products of activations and the experts that `ids` names: `[..., k]` or `[..., used, k]` by a weight `[experts, n, k]`
/// becomes `[..., used, n]`.
pub fn expert_linear<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weight: &impl AsWeight<R::Value>,
    ids: &R::Value,
) -> Result<R::Value> {
    let mut op = ExpertLinear::new(weight.encoding_in(recorder));
    let extents = crate::linear::weight_extents(recorder, op.encoding, weight.as_planes());
    let q = for_products(recorder, x, extents.as_slice())?;
    let x = q.as_ref().unwrap_or(x);
    // A single row needs no groups: each of its experts has one pair.
    let info = recorder.info(ids);
    let groups = match extents.map(|weight| *weight.shape.axes().first().unwrap_or(&0)) {
        Some(experts) if !recorder.device().info().is_gpu() && info.shape.rows() > 1 => {
            u32::try_from(experts).ok().map(|experts| group_by_expert(recorder, ids, experts)).transpose()?
        }
        _ => None,
    };
    op.grouped = groups.is_some();
    let inputs: SmallVec<[&R::Value; 6]> =
        std::iter::once(x).chain(weight.as_planes()).chain([ids]).chain(&groups).collect();
    recorder.run_one(op, &inputs)
}

/// The extents of a call, for kernels. Every extent fits in 32 bits, and none is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Products: rows of ids times the experts that each goes to.
    pub(crate) pairs: usize,
    /// Experts that a row goes to.
    pub(crate) used: usize,
    /// Pairs that share a row of activations, one after the other: all of a row's, or one.
    pub(crate) sharing: usize,
    pub(crate) experts: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

impl Problem {
    /// The problem of a checked call, unless it is out of range.
    pub(crate) fn of(op: &ExpertLinear, io: &Io<'_>) -> Option<Problem> {
        let planes = op.encoding.planes();
        let (x, ids) = (io.input(0).shape, io.input(planes + 1).shape);
        let weight = weight_shape(op.encoding, io.inputs.get(1..planes + 1)?).ok()?;
        let &[experts, n, k] = weight.axes() else { return None };
        let (pairs, used) = (ids.elements(), ids.last());
        let sharing = if x.rank() == ids.rank() { used } else { 1 };
        let fit = |extent: usize| extent > 0 && u32::try_from(extent).is_ok();
        let fits = [pairs, n, k].into_iter().all(fit) && experts < i32::MAX as usize;
        fits.then_some(Problem { pairs, used, sharing, experts, n, k })
    }

    /// Rows of activations.
    pub(crate) fn rows(&self) -> usize {
        self.pairs / self.sharing
    }
}

/// Returns the shape of the weight whose planes are given, or the first plane that is not one of it.
fn weight_shape(encoding: Encoding, planes: &[TensorInfo]) -> Result<Shape> {
    if let Encoding::Element(got) = encoding
        && !is_float(got)
    {
        let expected = "f32, f16, bf16 or a block format".to_owned();
        return Err(Error::DTypeMismatch { op: NAME, slot: "weight", expected, got });
    }
    weight::check(NAME, "weight", encoding, planes)
}

impl Op for ExpertLinear {
    fn name(&self) -> &'static str {
        NAME
    }

    fn slots(&self) -> &'static [Slot] {
        const X: Slot = Slot::input("x");
        const PACKED: Slot = Slot::input("packed");
        const SCALES: Slot = Slot::input("scales");
        const BIASES: Slot = Slot::input("biases");
        const IDS: Slot = Slot::input("ids");
        const Y: Slot = Slot::output("y");
        const WEIGHT: Slot = Slot::input("weight");
        const GROUPS: Slot = Slot::input("groups");
        match (self.encoding.planes(), self.grouped) {
            (1, false) => const { &[X, WEIGHT, IDS, Y] },
            (1, true) => const { &[X, WEIGHT, IDS, GROUPS, Y] },
            (2, false) => const { &[X, PACKED, SCALES, IDS, Y] },
            (2, true) => const { &[X, PACKED, SCALES, IDS, GROUPS, Y] },
            (_, false) => const { &[X, PACKED, SCALES, BIASES, IDS, Y] },
            (_, true) => const { &[X, PACKED, SCALES, BIASES, IDS, GROUPS, Y] },
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, count) = (NAME, self.encoding.planes() + 2);
        let expected = count + usize::from(self.grouped);
        let split = given.split_at_checked(count).filter(|_| given.len() == expected);
        let Some(([x, planes @ .., ids], groups)) = split else {
            return Err(Error::ArgumentCount { op, what: "inputs", expected, got: given.len() });
        };
        for (slot, input) in self.slots().iter().zip(given) {
            if input.elements() == 0 {
                let expected = "at least one element".to_owned();
                return Err(Error::Shape { op, slot: slot.name, expected, got: input.shape });
            }
        }
        let mismatch = |slot, expected: &str, got| {
            Err(Error::DTypeMismatch { op, slot, expected: expected.to_owned(), got })
        };
        let is_quantized = x.dtype == DType::U8;
        if x.dtype != DType::F32 && !is_quantized {
            return mismatch("x", "f32, or u8 of quantized rows", x.dtype);
        }
        if !matches!(ids.dtype, DType::U32 | DType::I32) {
            return mismatch("ids", "u32 or i32", ids.dtype);
        }
        let weight = weight_shape(self.encoding, planes)?;
        let &[experts, n, k] = weight.axes() else {
            let slot = self.encoding.plane_names().first().unwrap_or(&"weight");
            let (expected, got) = ("planes of a weight [experts, n, k]".to_owned(), weight);
            return Err(Error::Shape { op, slot, expected, got });
        };
        let Some((_, rows)) = ids.shape.axes().split_last() else {
            return Err(Error::Shape { op, slot: "ids", expected: "[..., used]".to_owned(), got: ids.shape });
        };
        let row = if is_quantized { quantized_row_bytes(k / GROUP) } else { k };
        let with_row = |axes: &[usize]| axes.iter().copied().chain([row]).collect::<SmallVec<[usize; 8]>>();
        let (shared, own) = (with_row(rows), with_row(ids.shape.axes()));
        if is_quantized && !k.is_multiple_of(GROUP) {
            return mismatch("x", "f32 for rows that are not whole groups of 32", x.dtype);
        }
        if x.shape.axes() != shared.as_slice() && x.shape.axes() != own.as_slice() {
            let expected = format!("{shared:?} or {own:?} for ids {} and a weight {weight}", ids.shape);
            return Err(Error::Shape { op, slot: "x", expected, got: x.shape });
        }
        if let [groups] = groups {
            let words = GroupExtents::new(ids.elements(), experts).words();
            if groups.dtype != DType::U32 {
                return mismatch("groups", "u32", groups.dtype);
            }
            if groups.shape.axes() != [words] {
                let expected = format!("[{words}] for ids {} of {experts} experts", ids.shape);
                return Err(Error::Shape { op, slot: "groups", expected, got: groups.shape });
            }
        }
        let axes: SmallVec<[usize; 8]> = ids.shape.axes().iter().copied().chain([n]).collect();
        let shape = Shape::new(&axes).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let inputs = inputs.get(..self.encoding.planes() + 2).unwrap_or_default();
        let ([x, planes @ .., ids], [y]) = (inputs, outputs) else { return };
        let n = y.shape.last().max(1);
        let weights = weight::values(self.encoding, planes);
        let infos: SmallVec<[TensorInfo; 3]> =
            planes.iter().map(|plane| TensorInfo::new(plane.dtype, plane.shape)).collect();
        let k = weight_shape(self.encoding, &infos).map_or(1, |weight| weight.last().max(1));
        let x = if x.dtype == DType::U8 { &host_values(x, k) } else { &x.values };
        let sharing = ids.values.len() / (x.len() / k).max(1);
        for (pair, (id, y)) in ids.values.iter().zip(y.values.chunks_exact_mut(n)).enumerate() {
            let start = (*id >= 0.0).then_some(*id as usize * n * k);
            let expert = start.and_then(|start| weights.get(start..start + n * k));
            let (Some(expert), Some(x)) = (expert, x.chunks_exact(k).nth(pair / sharing.max(1))) else {
                y.fill(f64::NAN);
                continue;
            };
            for (y, weights) in y.iter_mut().zip(expert.chunks_exact(k)) {
                *y = x.iter().zip(weights).map(|(x, weight)| x * weight).sum();
            }
        }
    }

    fn tolerance(&self, io: &Io<'_>, _: &TensorInfo) -> Tolerance {
        let k = Problem::of(self, io).map_or(0, |problem| problem.k) as f64;
        // Each of k additions in f32 rounds a sum that has grown with the square root of k.
        let sums = Tolerance { nmse: 1e-12 + 1e-13 * k, max: 1e-6 + 1e-6 * k.sqrt() };
        // Products of quantized rows measured at most 6e-14 and 5e-7.
        let may_quantize = !self.exact && weight::has_integer_product(self.encoding);
        if may_quantize && io.input(0).dtype != DType::U8 {
            // On the CPU, activations are quantized to 8 bits: an error of at most 1/254 of the largest of 32.
            return Tolerance { nmse: 2e-4, max: 2e-2 };
        }
        if !self.exact && weight::may_round(self.encoding) {
            return weight::ROUNDED;
        }
        sums
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let Some(Problem { pairs, experts, k, .. }) = Problem::of(self, io) else { return Work::default() };
        let bytes = |infos: &[TensorInfo]| infos.iter().map(|info| info.bytes() as u64).sum::<u64>();
        let weight = bytes(io.inputs.get(1..self.encoding.planes() + 1).unwrap_or_default());
        // No more experts are read than there are pairs.
        let read = weight / experts as u64 * pairs.min(experts) as u64;
        let y = io.output(0);
        let others = bytes(io.inputs) - weight + y.bytes() as u64;
        Work { bytes: read + others, flops: (y.elements() as u64).saturating_mul(2).saturating_mul(k as u64) }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        static KERNELS: [&dyn Kernel<Op = ExpertLinear>; 8] = [
            &cpu::INTEGER,
            &cpu::ELEMENTS,
            &cpu::DECODED,
            &gpu::GEMV,
            &gpu::GEMM,
            &gpu::MATRIX[0],
            &gpu::MATRIX[1],
            &gpu::MATRIX[2],
        ];
        &KERNELS
    }
}

#[cfg(test)]
mod tests;
