//! Linear layers: `y = x · weightᵀ + bias`, with activations `x` in f32 and a weight in any [`Encoding`].
//!
//! The op has one to three products of one input, each with a bias or without; or two of them with a gated linear unit over both,
//! `activation(x · gateᵀ) * (x · upᵀ)`. `x` is `[..., m, k]`, a weight `[n, k]`, `y` is `[..., m, n]` in f32.
//!
//! `x` may be [quantized rows](crate::quantize_q8), for weights that the CPU multiplies in integers: [`linear`] records them there,
//! and [`linear_input`] records them once for several products.
//! Rows of bf16 are the same numbers in f32: their products have the bits of those.
//! Products are summed in f32. A kernel may quantize rows of f32 itself, or round them and the weights to f16, within the tolerance
//! stated here; [`Linear::exact`] forbids it. Weights of f32 are never rounded.
//! On the CPU a row of a product has the same bits for any number of rows and products beside it.

pub mod cases;
mod cpu;
mod gpu;
mod record;
mod steps;

pub(crate) use record::weight_extents;
pub use record::{Layer, linear, linear_exact, linear_gated, linear_input, linear_shared};

use crate::elementwise::is_float;
use crate::glu::{Activation, Glu};
use crate::matmul::Problem;
use crate::quantize_q8::{self, host_values, infer_quantized, quantized_bytes};
use crate::weight;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Result};
use silicide_gemm::q8::{GROUP, quantized_row_bytes};
use silicide_hal::DeviceInfo;
use silicide_quant::{DType, Encoding};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::LazyLock;

/// The most products of one op.
pub const MAX_PRODUCTS: usize = 3;

/// One product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// The encoding of the weight.
    pub encoding: Encoding,
    /// Whether a vector is added to every row.
    pub bias: bool,
}

/// The op. Inputs: `x` of f32 or bf16, `[..., m, k]`, or its quantized rows; the planes of all weights, one weight after the other; the biases of
/// f32, `[n]`, of products that have one. Outputs: `y` of f32 or bf16, `[..., m, n]`, for each product, or one for both where they are gated;
/// then the quantized rows of a gated `y`, if it is [`quantized`](Linear::quantized).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    /// One to three.
    pub products: SmallVec<[Product; MAX_PRODUCTS]>,
    /// The activation of the first of two products, which is then multiplied with the second.
    pub gate: Option<Activation>,
    /// Multiplies activations as they are, without quantizing or rounding them.
    pub exact: bool,
    /// Whether the rows of a gated `y` are given quantized too.
    pub quantized: bool,
    /// Whether outputs are bf16: the results in f32, after bias and gate, rounded once to the nearest, ties to even.
    pub bf16: bool,
}

/// Where the arguments of a product are among the inputs.
#[derive(Clone, Debug)]
struct ProductSlots {
    weight: Range<usize>,
    bias: Option<usize>,
}

/// Slots by the numbers of planes, biases and outputs `y`. No output stands for a gated `y` and its quantized rows.
static SLOTS: LazyLock<Vec<Vec<Slot>>> = LazyLock::new(|| {
    let slots = |planes: usize, biases: usize, outputs: usize| {
        let (outputs, q) = if outputs == 0 { (1, Some(quantize_q8::Q)) } else { (outputs, None) };
        let planes = std::iter::repeat_n(Slot::input("weight"), planes);
        let biases = std::iter::repeat_n(Slot::input("bias"), biases);
        let outputs = std::iter::repeat_n(Slot::output("y"), outputs);
        std::iter::once(Slot::input("x")).chain(planes).chain(biases).chain(outputs).chain(q).collect()
    };
    let numbers = |index: usize| (index / COUNTS / COUNTS, index / COUNTS % COUNTS, index % COUNTS);
    (0..(3 * MAX_PRODUCTS + 1) * COUNTS * COUNTS).map(numbers).map(|(w, b, y)| slots(w, b, y)).collect()
});

/// None to the most.
const COUNTS: usize = MAX_PRODUCTS + 1;

impl From<Encoding> for Linear {
    /// One product without a bias.
    fn from(encoding: Encoding) -> Linear {
        Linear { products: smallvec![Product { encoding, bias: false }], ..Linear::default() }
    }
}

impl Linear {
    /// The number of inputs that are planes, and that are biases.
    fn counts(&self) -> (usize, usize) {
        let planes = self.products.iter().map(|product| product.encoding.planes()).sum();
        (planes, self.products.iter().filter(|product| product.bias).count())
    }

    /// The number of outputs `y`.
    fn outputs(&self) -> usize {
        if self.gate.is_some() { 1 } else { self.products.len() }
    }

    fn places(&self) -> SmallVec<[ProductSlots; MAX_PRODUCTS]> {
        let (mut plane, mut bias) = (1, 1 + self.counts().0);
        let mut next = |product: &Product| {
            let weight = plane..plane + product.encoding.planes();
            plane = weight.end;
            let place = ProductSlots { weight, bias: product.bias.then_some(bias) };
            bias += usize::from(product.bias);
            place
        };
        self.products.iter().map(&mut next).collect()
    }

    /// Each product, with its place among the inputs.
    fn calls(&self) -> impl Iterator<Item = (&Product, ProductSlots)> {
        self.products.iter().zip(self.places())
    }

    /// Returns the weight rows of product `i`.
    fn weight_rows(&self, io: &Io<'_>, i: usize) -> usize {
        self.product(io, i).shape.last()
    }

    /// Returns type and shape of the output of product `i`.
    fn product(&self, io: &Io<'_>, i: usize) -> TensorInfo {
        io.output(if self.gate.is_some() { 0 } else { i })
    }

    /// The problem of product `i` of a checked call, unless it is out of range.
    fn problem(&self, io: &Io<'_>, i: usize) -> Option<Problem> {
        let (x, y) = (io.input(0).shape, self.product(io, i).shape);
        let (m, n, k) = (x.rows(), y.last(), self.depth(io.inputs));
        let fit = |extent: usize| extent > 0 && u32::try_from(extent).is_ok();
        (fit(m) && fit(n) && fit(k)).then_some(Problem { batch: 1, m, n, k })
    }

    /// The length of the rows that are multiplied; 0 for inputs that `infer` refuses.
    fn depth(&self, inputs: &[TensorInfo]) -> usize {
        let Some(x) = inputs.first() else { return 0 };
        let weight = || {
            let (product, place) = self.calls().next()?;
            weight::check("linear", "weight", product.encoding, inputs.get(place.weight)?).ok()
        };
        if x.dtype == DType::U8 { weight().map_or(0, |weight| weight.last()) } else { x.shape.last() }
    }

    /// The encoding of one product that is all of the op.
    fn single(&self) -> Option<Encoding> {
        match (self.products.as_slice(), self.gate) {
            ([Product { encoding, bias: false }], None) => Some(*encoding),
            _ => None,
        }
    }

    /// One of its products as an op of its own, and the inputs that it has.
    fn alone<T: Clone>(&self, product: &Product, place: &ProductSlots, inputs: &[T]) -> (Linear, Vec<T>) {
        let op = Linear { exact: self.exact, ..Linear::from(product.encoding) };
        let planes = inputs.get(place.weight.clone()).unwrap_or_default();
        (op, inputs.iter().take(1).chain(planes).cloned().collect())
    }

    /// Whether the device computes all products in one launch.
    pub(crate) fn is_one_launch(&self, io: &Io<'_>, on: &DeviceInfo) -> bool {
        JOINED.iter().any(|kernel| kernel.fits(self, io, on).is_ok())
    }
}

/// Kernels for several products, biases and gates.
static JOINED: [&dyn Kernel<Op = Linear>; 4] =
    [&cpu::Joined, &gpu::Few { subgroups: true }, &gpu::Few { subgroups: false }, &gpu::TiledLinear];

fn wrong_shape(slot: &'static str, expected: String, given: &TensorInfo) -> Error {
    Error::Shape { op: "linear", slot, expected, got: given.shape }
}

fn wrong_type(slot: &'static str, expected: &str, got: DType) -> Error {
    Error::DTypeMismatch { op: "linear", slot, expected: expected.to_owned(), got }
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn slots(&self) -> &'static [Slot] {
        let (planes, biases) = self.counts();
        let outputs = if self.quantized { 0 } else { self.outputs() };
        SLOTS.get((planes * COUNTS + biases) * COUNTS + outputs).map_or(&[], Vec::as_slice)
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, count) = ("linear", self.products.len());
        if count == 0 || count > MAX_PRODUCTS || (self.gate.is_some() && count != 2) {
            let what = format!("{count} products, expected 1 to {MAX_PRODUCTS}, and 2 where they are gated");
            return Err(Error::BadParameter { op, what });
        }
        if self.quantized && (self.gate.is_none() || self.bf16) {
            let what = "quantized outputs without a gate, or beside outputs of bf16".to_owned();
            return Err(Error::BadParameter { op, what });
        }
        let (planes, biases) = self.counts();
        let expected = 1 + planes + biases;
        let Some(x) = given.first().filter(|_| given.len() == expected) else {
            return Err(Error::ArgumentCount { op, what: "inputs", expected, got: given.len() });
        };
        let is_quantized = x.dtype == DType::U8;
        if !matches!(x.dtype, DType::F32 | DType::BF16) && !is_quantized {
            return Err(wrong_type("x", "f32, bf16, or u8 of quantized rows", x.dtype));
        }
        let depth = self.depth(given);
        let mut outputs = Outputs::new();
        for (product, place) in self.calls() {
            let planes = given.get(place.weight).unwrap_or_default();
            if let Encoding::Element(dtype) = product.encoding
                && !is_float(dtype)
            {
                return Err(wrong_type("weight", "f32, f16, bf16 or a quantized format", dtype));
            }
            let weight = weight::check(op, "weight", product.encoding, planes)?;
            let &[n, k] = weight.axes() else {
                let expected = "[n, k]".to_owned();
                return Err(Error::Shape { op, slot: "weight", expected, got: weight });
            };
            let row = if is_quantized { quantized_row_bytes(k / GROUP) } else { k };
            let is_whole = k == depth && (!is_quantized || k.is_multiple_of(GROUP));
            if x.shape.axes().last() != Some(&row) || !is_whole || x.elements() == 0 {
                let what = if is_quantized { "quantized rows of whole groups of 32, " } else { "" };
                let expected = format!("{what}[..., m, {row}] for a weight {weight}, no axis of length zero");
                return Err(wrong_shape("x", expected, x));
            }
            if let Some(bias) = place.bias.and_then(|bias| given.get(bias)) {
                if bias.dtype != DType::F32 {
                    return Err(wrong_type("bias", "f32", bias.dtype));
                }
                if bias.shape.axes() != [n] {
                    return Err(wrong_shape("bias", format!("[{n}]"), bias));
                }
            }
            let shape = x.shape.with_last(n).map_err(|source| Error::bad_shape(op, source))?;
            outputs.push(TensorInfo::new(DType::F32, shape));
        }
        if let Some(activation) = self.gate {
            outputs = Op::infer(&Glu::new(activation), &outputs)?;
        }
        if let (true, Some(y)) = (self.quantized, outputs.first().copied()) {
            outputs.push(infer_quantized(op, "y", &y)?);
        }
        if self.bf16 {
            outputs.iter_mut().for_each(|y| y.dtype = DType::BF16);
        }
        Ok(outputs)
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let infos: Vec<TensorInfo> =
            inputs.iter().map(|host| TensorInfo::new(host.dtype, host.shape)).collect();
        let (mut made, depth) = (Vec::new(), self.depth(&infos).max(1));
        for (i, (product, place)) in self.calls().enumerate() {
            let (Some(x), Some(y)) = (inputs.first(), outputs.get(if self.gate.is_some() { 0 } else { i }))
            else {
                return;
            };
            let planes = inputs.get(place.weight).unwrap_or_default();
            let (weight, k, mut y) = (weight::values(product.encoding, planes), depth, y.clone());
            let bias = place.bias.and_then(|bias| inputs.get(bias));
            let x = if x.dtype == DType::U8 { &host_values(x, k) } else { &x.values };
            for (x, y) in x.chunks_exact(k).zip(y.values.chunks_exact_mut(y.shape.last())) {
                for (i, (y, weight)) in y.iter_mut().zip(weight.chunks_exact(k)).enumerate() {
                    let bias = bias.and_then(|bias| bias.values.get(i)).copied().unwrap_or(0.0);
                    *y = x.iter().zip(weight).map(|(x, weight)| x * weight).sum::<f64>() + bias;
                }
            }
            made.push(y);
        }
        match self.gate {
            Some(activation) => {
                Op::reference(&Glu::new(activation), &made, outputs);
                if let [y, q] = outputs {
                    q.values = quantized_bytes(&y.values, y.shape.last());
                }
            }
            None => outputs.iter_mut().zip(made).for_each(|(output, made)| *output = made),
        }
    }

    fn tolerance(&self, io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        if output.dtype == DType::U8 {
            return quantize_q8::TOLERANCE;
        }
        let (k, is_quantized) = (self.depth(io.inputs) as f64, io.input(0).dtype == DType::U8);
        let may_quantize =
            !self.exact && self.products.iter().any(|product| weight::has_integer_product(product.encoding));
        // Each of k additions in f32 rounds a sum that has grown with the square root of k.
        let sums = Tolerance { nmse: 1e-11 + 1e-13 * k, max: 1e-5 + 1e-6 * k.sqrt() };
        let may_round =
            !self.exact && self.products.iter().any(|product| weight::may_round(product.encoding));
        let worst = match (may_quantize, may_round) {
            // Products of quantized rows measured at most 3e-13 and 8e-7.
            _ if is_quantized => sums,
            // On the CPU, activations are quantized to 8 bits: an error of at most 1/254 of the largest of 32.
            (true, _) => Tolerance { nmse: 2e-4, max: 2e-2 },
            (false, true) => weight::ROUNDED,
            (false, false) => sums,
        };
        let sums = match self.gate {
            None => worst,
            // Errors of both are multiplied with the other, which is rarely large where the first is.
            Some(_) => Tolerance { nmse: 4.0 * worst.nmse, max: 6.0 * worst.max },
        };
        weight::stored_as(output.dtype, sums)
    }

    fn decode_output(&self, io: &Io<'_>, i: usize, bytes: &[u8]) -> Option<Vec<f64>> {
        (self.quantized && i == 1).then(|| quantize_q8::quantized_values(bytes, io.output(0).shape.last()))
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let k = self.depth(io.inputs) as u64;
        let products = (0..self.products.len()).map(|i| self.product(io, i).elements() as u64);
        let flops = products.fold(0u64, |all, y| all.saturating_add(y.saturating_mul(2).saturating_mul(k)));
        Work::streaming(io, flops)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        static KERNELS: [&dyn Kernel<Op = Linear>; 12] = [
            &cpu::Integer,
            &cpu::Dense,
            &cpu::Decoded,
            &cpu::Joined,
            &gpu::Few { subgroups: true },
            &gpu::Few { subgroups: false },
            &gpu::TiledLinear,
            gpu::MATRIX[0],
            gpu::MATRIX[1],
            gpu::MATRIX[2],
            &steps::Steps,
            &steps::Bf16Linear,
        ];
        &KERNELS
    }
}

#[cfg(test)]
mod tests;
