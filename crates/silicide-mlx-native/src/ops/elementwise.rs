//! Sums, products and conversions, element by element.

use super::support::{cast_into, float, positive};
use crate::encoder::{CapturedOpKind, Dispatch};
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
use silicide::Recorder;
use silicide::ops::binary::Binary;
use silicide::ops::unary::Unary;

/// From one element type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CastDirection {
    F16ToF32,
    F32ToF16,
    BF16ToF32,
    F32ToBF16,
    BF16ToF16,
    F16ToBF16,
}

impl CastDirection {
    fn types(self) -> (DType, DType) {
        match self {
            CastDirection::F16ToF32 => (DType::F16, DType::F32),
            CastDirection::F32ToF16 => (DType::F32, DType::F16),
            CastDirection::BF16ToF32 => (DType::BF16, DType::F32),
            CastDirection::F32ToBF16 => (DType::F32, DType::BF16),
            CastDirection::BF16ToF16 => (DType::BF16, DType::F16),
            CastDirection::F16ToBF16 => (DType::F16, DType::BF16),
        }
    }
}

fn binary(
    encoder: &mut CommandEncoder,
    function: Binary,
    [a, b, output]: [&MlxBuffer; 3],
    n: usize,
    dtype: DType,
) -> Result<()> {
    let (kernel, kind) = match (function, dtype) {
        (Binary::Add, DType::F32) => ("elementwise_add_f32", CapturedOpKind::ElemAdd),
        (Binary::Add, DType::BF16) => ("elementwise_add_bf16", CapturedOpKind::ElemAdd),
        (_, DType::F32) => ("elementwise_mul_f32", CapturedOpKind::ElemMul),
        (_, DType::BF16) => ("elementwise_mul_bf16", CapturedOpKind::ElemMul),
        _ => refuse!("elementwise: unsupported dtype {dtype}"),
    };
    positive(kernel, &[("n_elements", n)])?;
    let dtype = dtype.silicide();
    let (x, y, z) = (a.tensor(dtype, &[n])?, b.tensor(dtype, &[n])?, output.tensor(dtype, &[n])?);
    let dispatch = Dispatch::new(kernel, n, &[a, b], &[output]).kind(kind);
    encoder.dispatch(dispatch, move |recorder| recorder.run_into(function, &[&x, &y], &[&z]))
}

/// Encodes `output = a + b` over the first `n_elements` of f32 or bf16.
pub fn elementwise_add(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    a: &MlxBuffer,
    b: &MlxBuffer,
    output: &MlxBuffer,
    n_elements: usize,
    dtype: DType,
) -> Result<()> {
    binary(encoder, Binary::Add, [a, b, output], n_elements, dtype)
}

/// Encodes `output = a * b` over the first `n_elements` of f32 or bf16.
pub fn elementwise_mul(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    a: &MlxBuffer,
    b: &MlxBuffer,
    output: &MlxBuffer,
    n_elements: usize,
    dtype: DType,
) -> Result<()> {
    binary(encoder, Binary::Mul, [a, b, output], n_elements, dtype)
}

/// Encodes a conversion of the first `n_elements`.
pub fn cast(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    input: &MlxBuffer,
    output: &MlxBuffer,
    n_elements: usize,
    direction: CastDirection,
) -> Result<()> {
    positive("cast", &[("n_elements", n_elements)])?;
    let (from, to) = direction.types();
    let (x, y) =
        (input.tensor(from.silicide(), &[n_elements])?, output.tensor(to.silicide(), &[n_elements])?);
    let dispatch = Dispatch::new("cast", n_elements, &[input], &[output]);
    encoder.dispatch(dispatch, move |recorder| cast_into(recorder, &x, &y))
}

/// Encodes `output = scalar * input` over the first `n_elements` of f32.
pub fn scalar_mul_f32(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    input: &MlxBuffer,
    output: &MlxBuffer,
    n_elements: usize,
    scalar: f32,
) -> Result<()> {
    float("scalar_mul_f32", "input", input)?;
    positive("scalar_mul_f32", &[("n_elements", n_elements)])?;
    let shape = [n_elements];
    unary(encoder, "scalar_mul_f32", Unary::Scale { factor: scalar }, [input, output], &shape)
}

/// Encodes a function of each element, of the type of `input`.
pub(super) fn unary(
    encoder: &mut CommandEncoder,
    kernel: &str,
    function: Unary,
    [input, output]: [&MlxBuffer; 2],
    shape: &[usize],
) -> Result<()> {
    let dtype = input.dtype().silicide();
    let (x, y) = (input.tensor(dtype, shape)?, output.tensor(dtype, shape)?);
    let dispatch = Dispatch::new(kernel, x.elements(), &[input], &[output]);
    encoder.dispatch(dispatch, move |recorder| recorder.run_into(function, &[&x], &[&y]))
}
