//! Functions that record `linear`. On the CPU they record the quantized rows of `x` first, where the products are in integers.

use super::{Linear, MAX_PRODUCTS, Product};
use crate::glu::Activation;
use crate::quantize_q8::{WeightExtents, for_products};
use crate::weight;
use silicide_core::kernel::TensorInfo;
use silicide_core::{AsWeight, Recorder, Result, Weight};
use silicide_quant::Encoding;
use smallvec::{SmallVec, smallvec};

/// Records `x · weightᵀ + bias`: `[..., m, k]` by `[n, k]` is `[..., m, n]`. The weight is a [`Weight`] or a tensor.
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
    let x = linear_input(recorder, x, &[weight])?;
    let inputs: SmallVec<[&R::Value; 5]> =
        std::iter::once(&x).chain(weight.as_planes()).chain(bias).collect();
    recorder.run_one(op, &inputs)
}

/// Records the input of several products with `weights`, each of which a call of [`linear`] or
/// [`expert_linear`](crate::expert_linear()) then records: the quantized rows of `x`, if the device computes all of them in integers, and
/// otherwise `x`. So `x` is quantized once. Graphs do so themselves, by common-subexpression elimination.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_ops as ops; pub use silicide_quant as quant; }
/// use silicide::quant::{DType, Format};
/// use silicide::{Buffer, CommandEncoder, Device, ops};
///
/// let device = Device::cpu()?;
/// let x = Buffer::from_slice(&device, [2, 32], &[1.0f32; 64])?;
/// let weight = Buffer::new(&device, DType::Block(Format::Q8_0), [16, 32])?;
/// let mut encoder = CommandEncoder::new(&device);
/// let input = ops::linear_input(&mut encoder, &x, &[&weight, &weight])?;
/// let keys = ops::linear(&mut encoder, &input, &weight, None)?;
/// let values = ops::linear(&mut encoder, &input, &weight, None)?;
/// encoder.submit()?.wait()?;
/// assert_eq!(keys.to_vec::<f32>()?, values.to_vec::<f32>()?);
/// # Ok::<(), silicide::Error>(())
/// ```
pub fn linear_input<R: Recorder, W: AsWeight<R::Value>>(
    recorder: &mut R,
    x: &R::Value,
    weights: &[&W],
) -> Result<R::Value> {
    let extents = weights
        .iter()
        .map(|&weight| weight_extents(recorder, W::encoding_in(weight, recorder), W::as_planes(weight)));
    let q = match extents.collect::<Option<SmallVec<[WeightExtents; MAX_PRODUCTS]>>>() {
        Some(extents) => for_products(recorder, x, &extents)?,
        None => None,
    };
    Ok(q.unwrap_or_else(|| x.clone()))
}

/// The encoding and the shape of a weight, if its planes are those of one.
pub(crate) fn weight_extents<R: Recorder>(
    recorder: &R,
    encoding: Encoding,
    planes: &[R::Value],
) -> Option<WeightExtents> {
    let planes: SmallVec<[TensorInfo; 3]> = planes.iter().map(|plane| recorder.info(plane)).collect();
    weight::check("linear", "weight", encoding, &planes).ok().map(|shape| WeightExtents { encoding, shape })
}

/// [`linear`] with activations as they are: no kernel quantizes them.
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
    Linear { products: smallvec![Product { encoding, bias }], exact, ..Linear::default() }
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
    let x = for_layers(recorder, x, layers)?;
    let (op, inputs) = several(&x, layers);
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
    let x = for_layers(recorder, x, &layers)?;
    let (op, inputs) = several(&x, &layers);
    recorder.run_one(Linear { gate: Some(activation), ..op }, &inputs)
}

/// The input of the products of all layers.
fn for_layers<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    layers: &[Layer<'_, R::Value>],
) -> Result<R::Value> {
    let weights: SmallVec<[&Weight<R::Value>; MAX_PRODUCTS]> =
        layers.iter().map(|layer| layer.weight).collect();
    linear_input(recorder, x, &weights)
}

/// The op of several layers without a gate, and its inputs.
fn several<'a, V>(x: &'a V, layers: &[Layer<'a, V>]) -> (Linear, SmallVec<[&'a V; 8]>) {
    let product =
        |layer: &Layer<'_, V>| Product { encoding: layer.weight.encoding(), bias: layer.bias.is_some() };
    let planes = layers.iter().flat_map(|layer| layer.weight.planes());
    let biases = layers.iter().filter_map(|layer| layer.bias);
    let inputs = std::iter::once(x).chain(planes).chain(biases).collect();
    (Linear { products: layers.iter().map(product).collect(), ..Linear::default() }, inputs)
}
