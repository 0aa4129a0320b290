//! Linear layers of experts: `y[i] = weight[ids[i]] · x[i]`, the products of a mixture of experts.
//!
//! The last axis of `ids` has the experts of each row of activations. A pair of a row and one of its experts is one product of
//! `[k]` activations and the expert's `[n, k]` weights. The experts of a row share its activations, or have their own.
//! Kernels group pairs by expert, so that the weights of an expert are read once for all its rows.
//!
//! An id outside of the experts, negative ones included, reads nothing outside of the weights. The outputs of its pair are NaN,
//! which a sampler refuses.
//!
//! Rows of bf16 are the same numbers in f32: their products have the bits of those. Experts may lie apart, as in views of larger weights
//! ([`expert_linear_padded`]): results are those of the experts one after the other, bit by bit on the CPU.
//!
//! On the CPU, the bits of a pair's outputs depend on its activations and its expert alone, not on the other pairs of the call.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::is_float;
use crate::glu::{Activation, Glu};
use crate::group_by_expert::{GroupExtents, group_by_expert};
use crate::product::compose::{self, Bound, append, around_wide};
use crate::product::integer;
use crate::quantize_q8::{WeightExtents, for_products, host_values};
use crate::weight;
use silicide_core::kernel::{
    Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, TensorInfo, Tolerance, Work,
};
use silicide_core::{AsWeight, Error, Recorder, Result};
use silicide_gemm::q8::{GROUP, quantized_row_bytes};
use silicide_hal::DeviceInfo;
use silicide_quant::{DType, Encoding, Shape};
use smallvec::SmallVec;

/// The name of the op.
const NAME: &str = "expert_linear";

/// Experts that lie apart: of the weight rows `[rows, k]`, expert `e` has the `n` rows from `e * pitch` on. The others are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PaddedExperts {
    /// Experts.
    pub experts: u32,
    /// Weight rows of an expert.
    pub n: u32,
    /// Weight rows from one expert to the next, at least `n`.
    pub pitch: u32,
}

/// The op. Inputs: `x` of f32 or bf16, `[..., k]` or `[..., used, k]`, or its [quantized rows](crate::quantize_q8); the planes of a weight
/// `[experts, n, k]`, or `[rows, k]` if it is [`padded`](ExpertLinear::padded); those of another weight of the same shape, if products
/// are [gated](ExpertLinear::gate); `ids` of u32 or i32, `[..., used]`; their
/// [groups](crate::group_by_expert), if it is [`grouped`](ExpertLinear::grouped). Output: `y` of f32 or bf16, `[..., used, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExpertLinear {
    /// The encoding of the weight: elements of f32, f16 or bf16, blocks, planes, or
    /// [interleaved](crate::interleave) forms of them, which only the CPU takes.
    pub encoding: Encoding,
    /// Multiplies activations as they are. Otherwise a kernel may quantize them to 8 bits, or round them and the weights to f16,
    /// within the tolerance of the op.
    pub exact: bool,
    /// Whether the groups of the ids are an input. Kernels that need them and do not have them make them. Only [`expert_linear`] sets
    /// it: groups of other ids would leave outputs unwritten.
    pub(crate) grouped: bool,
    /// Where experts lie, if not one after the other. Interleaved weights have none.
    pub padded: Option<PaddedExperts>,
    /// The activation of the products with the first weight, which are then multiplied with those of the second.
    pub gate: Option<Activation>,
    /// Whether outputs are bf16: sums in f32, rounded once to the nearest, ties to even.
    pub bf16: bool,
}

impl ExpertLinear {
    /// Products that may quantize activations, without groups.
    pub const fn new(encoding: Encoding) -> ExpertLinear {
        ExpertLinear { encoding, exact: false, grouped: false, padded: None, gate: None, bf16: false }
    }

    /// Sets [`gate`](ExpertLinear::gate).
    #[must_use]
    pub const fn with_gate(self, gate: Option<Activation>) -> ExpertLinear {
        ExpertLinear { gate, ..self }
    }

    /// Returns the number of inputs that are planes.
    fn plane_count(&self) -> usize {
        self.encoding.planes() * if self.gate.is_some() { 2 } else { 1 }
    }

    /// Returns whether a kernel of the device gates products in the launch that multiplies.
    pub(crate) fn is_one_launch(&self, io: &Io<'_>, on: &DeviceInfo) -> bool {
        GATING.iter().any(|kernel| kernel.fits(self, io, on).is_ok())
    }

    /// Sets [`padded`](ExpertLinear::padded).
    #[must_use]
    pub const fn with_padded(self, padded: PaddedExperts) -> ExpertLinear {
        ExpertLinear { padded: Some(padded), ..self }
    }

    /// Sets [`bf16`](ExpertLinear::bf16).
    #[must_use]
    pub const fn with_bf16(self, bf16: bool) -> ExpertLinear {
        ExpertLinear { bf16, ..self }
    }

    /// Returns how the rows of a weight of this shape belong to experts, if they do.
    fn stack(&self, weight: &Shape) -> Option<Stack> {
        match (self.padded, weight.axes()) {
            (None, &[experts, n, k]) => Some(Stack { experts, n, pitch: n, k }),
            (Some(PaddedExperts { experts, n, pitch }), &[rows, k]) => {
                let [experts, n, pitch] = [experts, n, pitch].map(|extent| extent as usize);
                let needed = experts.checked_sub(1)?.checked_mul(pitch)?.checked_add(n)?;
                let fits = n > 0 && n <= pitch && needed <= rows && self.encoding.interleaved_rows() == 1;
                fits.then_some(Stack { experts, n, pitch, k })
            }
            _ => None,
        }
    }

    /// Sets [`exact`](ExpertLinear::exact).
    #[must_use]
    pub const fn with_exact(self, exact: bool) -> ExpertLinear {
        ExpertLinear { exact, ..self }
    }
}

/// Kernels that gate products in the launch that multiplies.
static GATING: [&dyn Kernel<Op = ExpertLinear>; 3] = [&cpu::INTEGER, &cpu::ELEMENTS, &cpu::DECODED];

/// The weights of experts among weight rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stack {
    experts: usize,
    n: usize,
    /// Weight rows from one expert to the next.
    pitch: usize,
    k: usize,
}

/// Records the products of activations and the experts that `ids` names: `[..., k]` or `[..., used, k]` by a weight `[experts, n, k]`
/// becomes `[..., used, n]`.
pub fn expert_linear<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weight: &impl AsWeight<R::Value>,
    ids: &R::Value,
) -> Result<R::Value> {
    record(recorder, ExpertLinear::new(weight.encoding_in(recorder)), [x, ids], weight)
}

/// [`expert_linear`] with experts that lie apart among the weight rows `[rows, k]`: a view of a larger weight, without a copy.
pub fn expert_linear_padded<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weight: &impl AsWeight<R::Value>,
    ids: &R::Value,
    padded: PaddedExperts,
) -> Result<R::Value> {
    record(recorder, ExpertLinear::new(weight.encoding_in(recorder)).with_padded(padded), [x, ids], weight)
}

/// Records `op`, and what its kernels would otherwise make themselves: quantized rows and groups.
fn record<R: Recorder>(
    recorder: &mut R,
    mut op: ExpertLinear,
    [x, ids]: [&R::Value; 2],
    weight: &impl AsWeight<R::Value>,
) -> Result<R::Value> {
    let extents = crate::linear::weight_extents(recorder, op.encoding, weight.as_planes());
    let stack = extents.and_then(|weight| op.stack(&weight.shape));
    let of_expert = stack.and_then(|stack| {
        let shape = Shape::new(&[stack.n, stack.k]).ok()?;
        Some(WeightExtents { encoding: op.encoding, shape })
    });
    let q = for_products(recorder, x, of_expert.as_slice())?;
    let x = q.as_ref().unwrap_or(x);
    // A single row needs no groups: each of its experts has one pair.
    let info = recorder.info(ids);
    let groups = match stack.map(|stack| stack.experts) {
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
    /// Weight rows from one expert to the next.
    pub(crate) pitch: usize,
    pub(crate) k: usize,
}

impl Problem {
    /// The problem of a checked call, unless it is out of range.
    pub(crate) fn of(op: &ExpertLinear, io: &Io<'_>) -> Option<Problem> {
        let planes = op.encoding.planes();
        let (x, ids) = (io.input(0).shape, io.input(op.plane_count() + 1).shape);
        let weight = weight_shape(op.encoding, io.inputs.get(1..planes + 1)?).ok()?;
        let Stack { experts, n, pitch, k } = op.stack(&weight)?;
        let (pairs, used) = (ids.elements(), ids.last());
        let sharing = if x.rank() == ids.rank() { used } else { 1 };
        let fit = |extent: usize| extent > 0 && u32::try_from(extent).is_ok();
        let fits = [pairs, n, pitch, k].into_iter().all(fit) && experts < i32::MAX as usize;
        fits.then_some(Problem { pairs, used, sharing, experts, n, pitch, k })
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

impl ExpertLinear {
    /// Returns the tolerance of an output whose products have this one.
    fn stored(&self, output: &TensorInfo, product: Tolerance) -> Tolerance {
        let product = match self.gate {
            None => product,
            // Errors of both are multiplied with the other, which is rarely large where the first is.
            Some(_) => Tolerance { nmse: 4.0 * product.nmse, max: 6.0 * product.max },
        };
        weight::stored_as(output.dtype, product)
    }
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
        const UP: Slot = Slot::input("up");
        const P: Slot = PACKED;
        const S: Slot = SCALES;
        const B: Slot = BIASES;
        const W: Slot = WEIGHT;
        match (self.encoding.planes(), self.gate.is_some(), self.grouped) {
            (1, false, false) => const { &[X, W, IDS, Y] },
            (1, false, true) => const { &[X, W, IDS, GROUPS, Y] },
            (2, false, false) => const { &[X, P, S, IDS, Y] },
            (2, false, true) => const { &[X, P, S, IDS, GROUPS, Y] },
            (_, false, false) => const { &[X, P, S, B, IDS, Y] },
            (_, false, true) => const { &[X, P, S, B, IDS, GROUPS, Y] },
            (1, true, false) => const { &[X, W, UP, IDS, Y] },
            (1, true, true) => const { &[X, W, UP, IDS, GROUPS, Y] },
            (2, true, false) => const { &[X, P, S, UP, S, IDS, Y] },
            (2, true, true) => const { &[X, P, S, UP, S, IDS, GROUPS, Y] },
            (_, true, false) => const { &[X, P, S, B, UP, S, B, IDS, Y] },
            (_, true, true) => const { &[X, P, S, B, UP, S, B, IDS, GROUPS, Y] },
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, count) = (NAME, self.plane_count() + 2);
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
        if !matches!(x.dtype, DType::F32 | DType::BF16) && !is_quantized {
            return mismatch("x", "f32, bf16, or u8 of quantized rows", x.dtype);
        }
        if !matches!(ids.dtype, DType::U32 | DType::I32) {
            return mismatch("ids", "u32 or i32", ids.dtype);
        }
        let (planes, of_up) = planes.split_at(self.encoding.planes());
        let weight = weight_shape(self.encoding, planes)?;
        if !of_up.is_empty() {
            let up = weight_shape(self.encoding, of_up)?;
            if up != weight {
                return Err(Error::Shape { op, slot: "up", expected: weight.to_string(), got: up });
            }
        }
        let Some(Stack { experts, n, k, .. }) = self.stack(&weight) else {
            let slot = self.encoding.plane_names().first().unwrap_or(&"weight");
            let expected = match self.padded {
                None => "planes of a weight [experts, n, k]".to_owned(),
                Some(PaddedExperts { experts, n, pitch }) => format!(
                    "weight rows [rows, k] that are not interleaved, with {n} rows every {pitch} rows for {experts} experts"
                ),
            };
            return Err(Error::Shape { op, slot, expected, got: weight });
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
        let dtype = if self.bf16 { DType::BF16 } else { DType::F32 };
        Ok(Outputs::from_slice(&[TensorInfo::new(dtype, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let inputs = inputs.get(..self.plane_count() + 2).unwrap_or_default();
        let ([x, planes @ .., ids], [y]) = (inputs, outputs) else { return };
        if let Some(activation) = self.gate {
            let planes = planes.chunks(self.encoding.planes());
            let product = |planes: &[Host]| {
                let inputs = [std::slice::from_ref(x), planes, std::slice::from_ref(ids)].concat();
                let mut products = [y.clone()];
                ExpertLinear { gate: None, grouped: false, ..*self }.reference(&inputs, &mut products);
                products
            };
            let both: Vec<Host> = planes.flat_map(product).collect();
            return Glu::new(activation).reference(&both, std::slice::from_mut(y));
        }
        let n = y.shape.last().max(1);
        let pitch = self.padded.map_or(n, |padded| padded.pitch as usize);
        let experts = self.padded.map_or(usize::MAX, |padded| padded.experts as usize);
        let weights = weight::values(self.encoding, planes);
        let infos: SmallVec<[TensorInfo; 3]> =
            planes.iter().map(|plane| TensorInfo::new(plane.dtype, plane.shape)).collect();
        let k = weight_shape(self.encoding, &infos).map_or(1, |weight| weight.last().max(1));
        let x = if x.dtype == DType::U8 { &host_values(x, k) } else { &x.values };
        let sharing = ids.values.len() / (x.len() / k).max(1);
        for (pair, (id, y)) in ids.values.iter().zip(y.values.chunks_exact_mut(n)).enumerate() {
            let expert = Some(*id as usize).filter(|expert| *id >= 0.0 && *expert < experts);
            let start = expert.map(|expert| expert * pitch * k);
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

    fn tolerance(&self, io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        let k = Problem::of(self, io).map_or(0, |problem| problem.k) as f64;
        // Each of k additions in f32 rounds a sum that has grown with the square root of k.
        let sums = Tolerance { nmse: 1e-12 + 1e-13 * k, max: 1e-6 + 1e-6 * k.sqrt() };
        // Products of quantized rows measured at most 6e-14 and 5e-7.
        let may_quantize = !self.exact && weight::has_integer_product(self.encoding);
        if may_quantize && io.input(0).dtype != DType::U8 {
            // On the CPU, activations are quantized to 8 bits: an error of at most 1/254 of the largest of 32.
            return self.stored(output, Tolerance { nmse: 2e-4, max: 2e-2 });
        }
        let rounds = !self.exact && weight::may_round(self.encoding);
        self.stored(output, if rounds { weight::ROUNDED } else { sums })
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let Some(Problem { pairs, experts, n, k, .. }) = Problem::of(self, io) else {
            return Work::default();
        };
        let bytes = |infos: &[TensorInfo]| infos.iter().map(|info| info.bytes() as u64).sum::<u64>();
        let weight = bytes(io.inputs.get(1..self.plane_count() + 1).unwrap_or_default());
        // No more experts are read than there are pairs, and no padding.
        let rows = io.input(1).shape.rows().max(1) as u64;
        let read = weight / rows * (pairs.min(experts) * n) as u64;
        let y = io.output(0);
        let others = bytes(io.inputs) - weight + y.bytes() as u64;
        let products = if self.gate.is_some() { 2 } else { 1 };
        let flops = (y.elements() as u64).saturating_mul(2 * products).saturating_mul(k as u64);
        Work { bytes: read + others, flops }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        static KERNELS: [&dyn Kernel<Op = ExpertLinear>; 10] = [
            &cpu::INTEGER,
            &cpu::ELEMENTS,
            &cpu::DECODED,
            &gpu::GEMV,
            &gpu::GEMM,
            &gpu::MATRIX[0],
            &gpu::MATRIX[1],
            &gpu::MATRIX[2],
            &Bf16Experts,
            &GatedSteps,
        ];
        &KERNELS
    }
}

/// Rows or outputs of bf16, on every device: rows are widened first, and outputs rounded last.
struct Bf16Experts;

impl Kernel for Bf16Experts {
    type Op = ExpertLinear;

    fn name(&self) -> &'static str {
        "expert_linear.bf16"
    }

    fn fits(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        bf16(op, io, on).map(|_| Cost::FALLBACK)
    }

    fn plan(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        bf16(op, io, on).unwrap_or_default()
    }
}

fn bf16(op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Plan, Decline> {
    if io.input(0).dtype != DType::BF16 && !op.bf16 {
        return Err(Decline("is for rows of bf16"));
    }
    let Problem { n, k, .. } = Problem::of(op, io).ok_or(Decline("takes extents of at most 32 bits"))?;
    let integer = !on.is_gpu() && !op.exact && integer::takes(op.encoding, [n, k]);
    around_wide(&op.with_bf16(false), io, integer, on)
}

/// Gated products as two products and their [`Glu`], on devices whose kernels do not gate them.
struct GatedSteps;

impl Kernel for GatedSteps {
    type Op = ExpertLinear;

    fn name(&self) -> &'static str {
        "expert_linear.gated.steps"
    }

    fn fits(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        gated_steps(op, io, on).map(|_| Cost(2 * Cost::FALLBACK.0))
    }

    fn plan(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        gated_steps(op, io, on).unwrap_or_default()
    }
}

fn gated_steps(op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Plan, Decline> {
    let activation = op.gate.ok_or(Decline("is for products that are gated"))?;
    if io.input(0).dtype == DType::BF16 || op.bf16 {
        return Err(Decline("takes and gives no rows of bf16"));
    }
    let mut plan = Plan::default();
    let inputs = compose::slots(io);
    let (one, planes) = (op.with_gate(None), op.encoding.planes());
    let mut both: SmallVec<[Bound; 2]> = SmallVec::new();
    for first in [1, 1 + planes] {
        let (x, of_one, others) = (
            inputs.get(..1).unwrap_or_default(),
            inputs.get(first..first + planes).unwrap_or_default(),
            inputs.get(1 + 2 * planes..).unwrap_or_default(),
        );
        let given: SmallVec<[Bound; 8]> = x.iter().chain(of_one).chain(others).copied().collect();
        let product = compose::scratch(&mut plan, io.output(0));
        append(&mut plan, &one, &given, &[product], on)?;
        both.push(product);
    }
    let y = (io.output(0), Arg::slot(io.inputs.len() as u8));
    append(&mut plan, &Glu::new(activation), &both, &[y], on)?;
    Ok(plan)
}

#[cfg(test)]
mod tests;
