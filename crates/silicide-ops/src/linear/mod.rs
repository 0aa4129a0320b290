//! Linear layers: `y = x · weightᵀ + bias`, with activations `x` in f32 and a weight in any [`Encoding`].
//!
//! The op has one to three products of one input, each with a bias or without; or two of them with a gated linear unit over both,
//! `activation(x · gateᵀ) * (x · upᵀ)`. `x` is `[..., m, k]`, a weight `[n, k]`, `y` is `[..., m, n]` in f32.
//!
//! Products are summed in f32. A kernel may round activations first to what its arithmetic takes, within the tolerance stated here;
//! [`Linear::exact`] forbids it. On the CPU a row of a product has the same bits for any number of rows and products beside it.

pub mod cases;
mod cpu;
mod gpu;
mod steps;

use crate::elementwise::is_float;
use crate::glu::{Activation, Glu};
use crate::matmul::Problem;
use crate::weight;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{AsWeight, Error, Recorder, Result, Weight};
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

/// The op. Inputs: `x` of f32, `[..., m, k]`; the planes of all weights, one weight after the other; the biases of f32, `[n]`, of
/// products that have one. Outputs: `y` of f32, `[..., m, n]`, for each product, or one for both where they are gated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// One to three.
    pub products: SmallVec<[Product; MAX_PRODUCTS]>,
    /// The activation of the first of two products, which is then multiplied with the second.
    pub gate: Option<Activation>,
    /// Multiply activations as they are, without rounding.
    pub exact: bool,
}

/// Where the arguments of a product are among the inputs.
#[derive(Clone, Debug)]
struct Place {
    weight: Range<usize>,
    bias: Option<usize>,
}

/// Slots by the numbers of planes, biases and outputs.
static SLOTS: LazyLock<Vec<Vec<Slot>>> = LazyLock::new(|| {
    let slots = |planes: usize, biases: usize, outputs: usize| {
        let planes = std::iter::repeat_n(Slot::input("weight"), planes);
        let biases = std::iter::repeat_n(Slot::input("bias"), biases);
        let outputs = std::iter::repeat_n(Slot::output("y"), outputs);
        std::iter::once(Slot::input("x")).chain(planes).chain(biases).chain(outputs).collect()
    };
    let numbers = |index: usize| (index / COUNTS / COUNTS, index / COUNTS % COUNTS, index % COUNTS);
    (0..(3 * MAX_PRODUCTS + 1) * COUNTS * COUNTS).map(numbers).map(|(w, b, y)| slots(w, b, y)).collect()
});

/// None to the most.
const COUNTS: usize = MAX_PRODUCTS + 1;

impl From<Encoding> for Linear {
    /// One product without a bias.
    fn from(encoding: Encoding) -> Linear {
        Linear { products: smallvec![Product { encoding, bias: false }], gate: None, exact: false }
    }
}

impl Linear {
    /// The number of inputs that are planes, and that are biases.
    fn counts(&self) -> (usize, usize) {
        let planes = self.products.iter().map(|product| product.encoding.planes()).sum();
        (planes, self.products.iter().filter(|product| product.bias).count())
    }

    /// The number of outputs.
    fn outputs(&self) -> usize {
        if self.gate.is_some() { 1 } else { self.products.len() }
    }

    fn places(&self) -> SmallVec<[Place; MAX_PRODUCTS]> {
        let (mut plane, mut bias) = (1, 1 + self.counts().0);
        let mut next = |product: &Product| {
            let weight = plane..plane + product.encoding.planes();
            plane = weight.end;
            let place = Place { weight, bias: product.bias.then_some(bias) };
            bias += usize::from(product.bias);
            place
        };
        self.products.iter().map(&mut next).collect()
    }

    /// Each product, with its place among the inputs.
    fn calls(&self) -> impl Iterator<Item = (&Product, Place)> {
        self.products.iter().zip(self.places())
    }

    /// Returns type and shape of the output of product `i`.
    fn product(&self, io: &Io<'_>, i: usize) -> TensorInfo {
        io.output(if self.gate.is_some() { 0 } else { i })
    }

    /// The problem of product `i` of a checked call, unless it is out of range.
    fn problem(&self, io: &Io<'_>, i: usize) -> Option<Problem> {
        let (x, y) = (io.input(0).shape, self.product(io, i).shape);
        let (m, n, k) = (x.rows(), y.last(), x.last());
        let fit = |extent: usize| extent > 0 && u32::try_from(extent).is_ok();
        (fit(m) && fit(n) && fit(k)).then_some(Problem { batch: 1, m, n, k })
    }

    /// The encoding of one product that is all of the op.
    fn single(&self) -> Option<Encoding> {
        match (self.products.as_slice(), self.gate) {
            ([Product { encoding, bias: false }], None) => Some(*encoding),
            _ => None,
        }
    }

    /// One of its products as an op of its own, and the inputs that it has.
    fn alone<T: Clone>(&self, product: &Product, place: &Place, inputs: &[T]) -> (Linear, Vec<T>) {
        let op = Linear { exact: self.exact, ..Linear::from(product.encoding) };
        let planes = inputs.get(place.weight.clone()).unwrap_or_default();
        (op, inputs.iter().take(1).chain(planes).cloned().collect())
    }

    /// Whether the device computes all products in one launch.
    pub(crate) fn is_one_launch(&self, io: &Io<'_>, on: &DeviceInfo) -> bool {
        JOINED.iter().any(|kernel| kernel.fits(self, io, on).is_ok())
    }

    /// Whether a device computes a product alone in 8x8 matrices, which are faster than several products in one launch.
    pub(crate) fn is_in_matrices(&self, io: &Io<'_>, on: &DeviceInfo) -> bool {
        self.single().is_some() && crate::matmul::matrix::is_best(self.problem(io, 0), on)
    }
}

/// Kernels for several products, biases and gates.
static JOINED: [&dyn Kernel<Op = Linear>; 4] =
    [&cpu::Joined, &gpu::Few { subgroups: true }, &gpu::Few { subgroups: false }, &gpu::Tiled];

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
        SLOTS.get((planes * COUNTS + biases) * COUNTS + self.outputs()).map_or(&[], Vec::as_slice)
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, count) = ("linear", self.products.len());
        if count == 0 || count > MAX_PRODUCTS || (self.gate.is_some() && count != 2) {
            let what = format!("{count} products, expected 1 to {MAX_PRODUCTS}, and 2 where they are gated");
            return Err(Error::BadParameter { op, what });
        }
        let (planes, biases) = self.counts();
        let expected = 1 + planes + biases;
        let Some(x) = given.first().filter(|_| given.len() == expected) else {
            return Err(Error::ArgumentCount { op, what: "inputs", expected, got: given.len() });
        };
        if x.dtype != DType::F32 {
            return Err(wrong_type("x", "f32", x.dtype));
        }
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
            if x.shape.axes().last() != Some(&k) || x.elements() == 0 {
                let expected = format!("[..., m, {k}] for a weight {weight}, no axis of length zero");
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
        match (self.gate, outputs.as_slice()) {
            (None, _) => Ok(outputs),
            (Some(activation), both) => Op::infer(&Glu { activation }, both),
        }
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let mut made = Vec::new();
        for (i, (product, place)) in self.calls().enumerate() {
            let (Some(x), Some(y)) = (inputs.first(), outputs.get(if self.gate.is_some() { 0 } else { i }))
            else {
                return;
            };
            let planes = inputs.get(place.weight).unwrap_or_default();
            let (weight, k, mut y) = (weight::values(product.encoding, planes), x.shape.last(), y.clone());
            let bias = place.bias.and_then(|bias| inputs.get(bias));
            for (x, y) in x.values.chunks_exact(k).zip(y.values.chunks_exact_mut(y.shape.last())) {
                for (i, (y, weight)) in y.iter_mut().zip(weight.chunks_exact(k)).enumerate() {
                    let bias = bias.and_then(|bias| bias.values.get(i)).copied().unwrap_or(0.0);
                    *y = x.iter().zip(weight).map(|(x, weight)| x * weight).sum::<f64>() + bias;
                }
            }
            made.push(y);
        }
        match self.gate {
            Some(activation) => Op::reference(&Glu { activation }, &made, outputs),
            None => outputs.iter_mut().zip(made).for_each(|(output, made)| *output = made),
        }
    }

    fn tolerance(&self, io: &Io<'_>, _: &TensorInfo) -> Tolerance {
        let k = io.input(0).shape.last() as f64;
        let worst = match !self.exact && self.products.iter().any(|product| weight::rounds(product.encoding))
        {
            // On the CPU, activations are rounded to 8 bits: an error of at most 1/254 of the largest of 32.
            true => Tolerance { nmse: 2e-4, max: 2e-2 },
            // Each of k additions in f32 rounds a sum that has grown with the square root of k.
            false => Tolerance { nmse: 1e-11 + 1e-13 * k, max: 1e-5 + 1e-6 * k.sqrt() },
        };
        match self.gate {
            None => worst,
            // Errors of both are multiplied with the other, which is rarely large where the first is.
            Some(_) => Tolerance { nmse: 4.0 * worst.nmse, max: 6.0 * worst.max },
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let k = io.input(0).shape.last() as u64;
        let products = (0..self.products.len()).map(|i| self.product(io, i).elements() as u64);
        let flops = products.fold(0u64, |all, y| all.saturating_add(y.saturating_mul(2).saturating_mul(k)));
        Work::streaming(io, flops)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[
            &cpu::Integer,
            &cpu::Dense,
            &cpu::Decoded,
            &cpu::Joined,
            &gpu::Few { subgroups: true },
            &gpu::Few { subgroups: false },
            &gpu::Tiled,
            &gpu::Matrix,
            &steps::Steps,
        ]
    }
}

/// Records `x · weightᵀ + bias`: `[..., m, k]` by `[n, k]` gives `[..., m, n]`. The weight is a [`Weight`] or a tensor.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_ops as ops; }
/// use silicide::{Buffer, CommandEncoder, Device, ops};
///
/// let device = Device::cpu()?;
/// let x = Buffer::from_slice(&device, [2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
/// let weight = Buffer::from_slice(&device, [1, 2], &[10.0f32, 1.0])?;
/// let bias = Buffer::from_slice(&device, [1], &[0.5f32])?;
/// let mut encoder = CommandEncoder::new(&device);
/// let y = ops::linear(&mut encoder, &x, &weight, Some(&bias))?;
/// encoder.submit()?.wait()?;
/// assert_eq!(y.to_vec::<f32>()?, [12.5, 34.5]);
/// # Ok::<(), silicide::Error>(())
/// ```
pub fn linear<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weight: &impl AsWeight<R::Value>,
    bias: Option<&R::Value>,
) -> Result<R::Value> {
    let op = one(weight.encoding_in(recorder), bias.is_some(), false);
    let inputs: SmallVec<[&R::Value; 5]> = std::iter::once(x).chain(weight.as_planes()).chain(bias).collect();
    recorder.run_one(op, &inputs)
}

/// [`linear`] with activations as they are: no kernel rounds them.
pub fn linear_exact<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weight: &impl AsWeight<R::Value>,
    bias: Option<&R::Value>,
) -> Result<R::Value> {
    let op = one(weight.encoding_in(recorder), bias.is_some(), true);
    let inputs: SmallVec<[&R::Value; 5]> = std::iter::once(x).chain(weight.as_planes()).chain(bias).collect();
    recorder.run_one(op, &inputs)
}

fn one(encoding: Encoding, bias: bool, exact: bool) -> Linear {
    Linear { products: smallvec![Product { encoding, bias }], gate: None, exact }
}

/// A weight and a bias, for ops of several products.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a, V> {
    /// The weight.
    pub weight: &'a Weight<V>,
    /// The bias.
    pub bias: Option<&'a V>,
}

/// Records one to three products of one input as one op. Graphs do so themselves ([`fuse`](crate::fuse)).
pub fn linear_shared<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    layers: &[Layer<'_, R::Value>],
) -> Result<SmallVec<[R::Value; 2]>> {
    let (op, inputs) = several(x, layers);
    recorder.run(op, &inputs)
}

/// Records `activation(x · gateᵀ) * (x · upᵀ)` as one op. Graphs do so themselves ([`fuse`](crate::fuse)).
pub fn linear_gated<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    gate: Layer<'_, R::Value>,
    up: Layer<'_, R::Value>,
    activation: Activation,
) -> Result<R::Value> {
    let layers = [gate, up];
    let (op, inputs) = several(x, &layers);
    recorder.run_one(Linear { gate: Some(activation), ..op }, &inputs)
}

/// The op of several layers without a gate, and its inputs.
fn several<'a, V>(x: &'a V, layers: &[Layer<'a, V>]) -> (Linear, SmallVec<[&'a V; 8]>) {
    let product =
        |layer: &Layer<'_, V>| Product { encoding: layer.weight.encoding(), bias: layer.bias.is_some() };
    let planes = layers.iter().flat_map(|layer| layer.weight.planes());
    let biases = layers.iter().filter_map(|layer| layer.bias);
    let inputs = std::iter::once(x).chain(planes).chain(biases).collect();
    (Linear { products: layers.iter().map(product).collect(), gate: None, exact: false }, inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::{Format, MlxFormat, MlxMode, RowEncoding, Shape};

    fn info(dtype: DType, axes: &[usize]) -> TensorInfo {
        TensorInfo::new(dtype, Shape::new(axes).unwrap())
    }

    fn op(count: usize, bias: bool, gate: Option<Activation>) -> Linear {
        let product = Product { encoding: Encoding::Element(DType::F16), bias };
        Linear { products: smallvec![product; count], gate, exact: false }
    }

    #[test]
    fn refusals_name_the_argument() {
        let (a, b, bias) = (info(DType::F32, &[2, 64]), info(DType::F16, &[9, 64]), info(DType::F32, &[9]));
        let slot = |op: Linear, inputs: &[TensorInfo]| match Op::infer(&op, inputs) {
            Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
            Err(Error::ArgumentCount { what, .. }) => what,
            Err(Error::BadParameter { .. }) => "products",
            other => panic!("{other:?}"),
        };
        assert_eq!(slot(op(1, true, None), &[a, b]), "inputs");
        assert_eq!(slot(op(1, true, None), &[a, b, info(DType::F32, &[8])]), "bias");
        assert_eq!(slot(op(1, true, None), &[a, b, info(DType::F16, &[9])]), "bias");
        assert_eq!(slot(op(1, false, None), &[a, info(DType::F16, &[1, 9, 64])]), "weight");
        assert_eq!(slot(op(2, false, None), &[a, b, info(DType::F16, &[9, 32])]), "x");
        assert_eq!(slot(op(2, false, Some(Activation::Silu)), &[a, b, info(DType::F16, &[8, 64])]), "up");
        assert_eq!(slot(op(3, false, Some(Activation::Silu)), &[a, b, b, b]), "products");
        assert_eq!(slot(op(4, false, None), &[a, b, b, b, b]), "products");
        assert_eq!(slot(op(1, false, None), &[info(DType::F32, &[0, 64]), b]), "x");
        assert_eq!(slot(op(1, false, None), &[a, info(DType::F16, &[0, 64])]), "weight");
        assert_eq!(
            slot(op(1, false, None), &[info(DType::F32, &[2, 0]), info(DType::F16, &[9, 0])]),
            "weight"
        );
        assert_eq!(slot(op(1, false, None), &[info(DType::F16, &[2, 64]), b]), "x");
        assert_eq!(slot(op(1, false, None), &[a, info(DType::BF16, &[9, 64])]), "weight");
        let outputs = Op::infer(&op(2, true, None), &[a, b, b, bias, bias]).unwrap();
        assert_eq!(outputs.to_vec(), [info(DType::F32, &[2, 9]); 2]);
    }

    #[test]
    fn refusals_name_the_plane() {
        let x = info(DType::F32, &[2, 64]);
        let slot = |encoding: Encoding, planes: &[TensorInfo]| match Op::infer(
            &Linear::from(encoding),
            &[&[x], planes].concat(),
        ) {
            Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
            Err(Error::BadParameter { .. }) => "encoding",
            other => panic!("{other:?}"),
        };
        let affine = Encoding::Planes(MlxFormat::new(MlxMode::Affine, 4, 64, DType::F16).unwrap());
        let (packed, scales) = (info(DType::U32, &[9, 8]), info(DType::F16, &[9, 1]));
        assert_eq!(slot(affine, &[info(DType::I32, &[9, 8]), scales, scales]), "packed");
        assert_eq!(slot(affine, &[packed, info(DType::F16, &[9, 2]), scales]), "scales");
        assert_eq!(slot(affine, &[packed, scales, info(DType::F32, &[9, 1])]), "biases");
        assert_eq!(slot(Encoding::Element(DType::I8), &[info(DType::I8, &[9, 64])]), "weight");
        let interleaved = |format, rows| Encoding::Interleaved { of: RowEncoding::Block(format), rows };
        let bytes = info(DType::U8, &[24, 68]);
        assert_eq!(slot(interleaved(Format::Q8_0, 16), &[bytes]), "weight");
        assert_eq!(slot(interleaved(Format::Q8_0, 8), &[bytes]), "encoding");
    }

    #[test]
    fn slots_are_as_many_as_arguments() {
        for (count, bias) in [(1, false), (3, true), (2, true)] {
            let slots = Op::slots(&op(count, bias, None));
            assert_eq!(slots.len(), 1 + count * (2 + usize::from(bias)));
            assert_eq!(slots.iter().filter(|slot| slot.access.writes()).count(), count);
        }
        assert_eq!(Op::slots(&op(2, false, Some(Activation::Silu))).len(), 4);
    }
}
