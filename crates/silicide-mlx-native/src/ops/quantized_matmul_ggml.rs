//! Products with GGML blocks: `output = input * weightᵀ`, in f32, with activations as they are.
//!
//! The bits of an output row do not depend on the rows beside it on the CPU, and on GPUs for up to [`MM_ROUTING_THRESHOLD`] rows, as in
//! mlx-native. GPU kernels of silicide add in an order that depends on the number of rows, so such rows are products of their own there.

use super::support::{positive, reshaped, typed};
use crate::encoder::Dispatch;
use crate::error::{MlxError, Result, refuse};
use crate::gguf::check_block_weight;
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};
use silicide::DType as Element;
use silicide::Recorder;
use silicide::ops::linear::Linear;
use silicide::ops::matmul::Matmul;
use silicide::ops::strided_copy::{Layout, strided_copy};
use silicide::quant::Encoding;

pub use crate::gguf::GgmlType;
pub use crate::routing::{GgmlRoutingPolicy, GgmlTensorMmPreference};

/// The most rows that mlx-native multiplies as vectors.
pub const MM_ROUTING_THRESHOLD: u32 = 8;

/// Extents and block type of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlQuantizedMatmulParams {
    /// Rows of activations.
    pub m: u32,
    /// Rows of weights.
    pub n: u32,
    /// Depth.
    pub k: u32,
    /// The block type.
    pub ggml_type: GgmlType,
}

/// Extents and block type of several products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlBatchedQuantizedMatmulParams {
    /// Products.
    pub batch: u32,
    /// Rows of activations of each.
    pub m: u32,
    /// Rows of weights of each.
    pub n: u32,
    /// Depth.
    pub k: u32,
    /// The block type.
    pub ggml_type: GgmlType,
}

/// Where the activations of several products lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlBatchedQuantizedMatmulInputStrides {
    /// Bytes from one row to the next.
    pub row_bytes: u64,
    /// Bytes from the rows of one product to those of the next.
    pub batch_bytes: u64,
}

/// Extents and block type of a product whose activations lie head by head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlQuantizedMatmulPerm021Params {
    /// Rows of activations.
    pub m: u32,
    /// Rows of weights.
    pub n: u32,
    /// Depth: heads times `head_dim`.
    pub k: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// The block type.
    pub ggml_type: GgmlType,
}

/// Checks types and extents. Returns them as they index.
fn check(
    what: &str,
    (input, weight, output): (&MlxBuffer, &MlxBuffer, &MlxBuffer),
    params: &GgmlQuantizedMatmulParams,
) -> Result<[usize; 3]> {
    let extents = [params.m as usize, params.n as usize, params.k as usize];
    positive(what, &[("M", extents[0]), ("N", extents[1]), ("K", extents[2])])?;
    check_block_weight(what, weight.dtype(), params.ggml_type, extents[2])?;
    if input.dtype() != DType::F32 {
        refuse!("{what}: requires F32 input and output, got {}", input.dtype());
    }
    if output.dtype() != DType::F32 {
        refuse!("{what}: requires F32 input and output, got {}", output.dtype());
    }
    Ok(extents)
}

fn kernel(ggml: GgmlType, rows: usize) -> String {
    let name = format!("{ggml:?}");
    let route = if rows <= MM_ROUTING_THRESHOLD as usize { "mv" } else { "mm" };
    let (head, tail) = name.split_once('_').unwrap_or((&name, ""));
    let tail = if head.starts_with("IQ") { tail.to_lowercase() } else { tail.to_owned() };
    format!("kernel_mul_{route}_{}_{tail}_f32", head.to_lowercase())
}

/// Encodes `output[m, n] = input[m, k] * weight[n, k]ᵀ`. The weight is blocks in a buffer of U8.
pub fn quantized_matmul_ggml(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlQuantizedMatmulParams,
) -> Result<()> {
    let [m, n, k] = check("quantized_matmul_ggml", (input, weight, output), params)?;
    let w = weight.tensor(params.ggml_type.silicide(), &[n, k])?;
    let apart = encoder.device().silicide().info().is_gpu() && m <= MM_ROUTING_THRESHOLD as usize;
    let (products, rows) = if apart { (m, 1) } else { (1, m) };
    let mut parts = Vec::new();
    for first in (0..products).map(|product| product * rows) {
        let x = input.tensor_at(first * k * size_of::<f32>(), Element::F32, &[rows, k])?;
        let y = output.tensor_at(first * n * size_of::<f32>(), Element::F32, &[rows, n])?;
        parts.push((x, y));
    }
    let op = Linear { exact: true, ..Linear::from(Encoding::from(w.dtype())) };
    let kernel = kernel(params.ggml_type, m);
    encoder.dispatch(Dispatch::new(&kernel, m * n, &[input, weight], &[output]), move |recorder| {
        parts.iter().try_for_each(|(x, y)| recorder.run_into(op.clone(), &[x, &w], &[y]))
    })
}

/// Declares functions that are [`quantized_matmul_ggml`] under another name.
macro_rules! same_product {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(
            encoder: &mut CommandEncoder,
            registry: &mut KernelRegistry,
            device: &MlxDevice,
            input: &MlxBuffer,
            weight: &MlxBuffer,
            output: &MlxBuffer,
            params: &GgmlQuantizedMatmulParams,
        ) -> Result<()> {
            quantized_matmul_ggml(encoder, registry, device, input, weight, output, params)
        }
    )*};
}

same_product! {
    /// [`quantized_matmul_ggml`]: silicide chooses the kernel itself.
    dispatch_mm_for_test;
    /// [`quantized_matmul_ggml`]: silicide chooses the kernel itself.
    dispatch_mm_simd_for_test;
    /// [`quantized_matmul_ggml`]: silicide chooses the kernel itself.
    dispatch_mm_q4_0_tensor_64x32_for_test;
}

/// [`quantized_matmul_ggml`]; the choices of kernels are without effect.
pub fn quantized_matmul_ggml_with_policy(
    encoder: &mut CommandEncoder,
    registry: &mut KernelRegistry,
    device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlQuantizedMatmulParams,
    _routing: &GgmlRoutingPolicy,
) -> Result<()> {
    quantized_matmul_ggml(encoder, registry, device, input, weight, output, params)
}

/// Encodes products of each batch with a weight of its own.
pub fn quantized_matmul_ggml_batched_mm(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlBatchedQuantizedMatmulParams,
) -> Result<()> {
    batched(encoder, (input, weight, output), params, None)
}

/// [`quantized_matmul_ggml_batched_mm`].
pub fn quantized_matmul_ggml_batched_mv(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlBatchedQuantizedMatmulParams,
) -> Result<()> {
    batched(encoder, (input, weight, output), params, None)
}

/// As [`quantized_matmul_ggml_batched_mm`]; the rows of activations lie at strides of 32 bytes or multiples.
pub fn quantized_matmul_ggml_batched_mm_strided_input(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlBatchedQuantizedMatmulParams,
    input_strides: &GgmlBatchedQuantizedMatmulInputStrides,
) -> Result<()> {
    let strides = [input_strides.batch_bytes, input_strides.row_bytes];
    if strides.iter().any(|stride| *stride == 0 || !stride.is_multiple_of(32)) {
        refuse!(
            "quantized_matmul_ggml_batched: input strides must be multiples of 32 bytes, got {strides:?}"
        );
    }
    let elements = strides.map(|stride| usize::try_from(stride / 4).unwrap_or(usize::MAX));
    batched(encoder, (input, weight, output), params, Some(elements))
}

fn batched(
    encoder: &mut CommandEncoder,
    (input, weight, output): (&MlxBuffer, &MlxBuffer, &MlxBuffer),
    params: &GgmlBatchedQuantizedMatmulParams,
    strides: Option<[usize; 2]>,
) -> Result<()> {
    let what = "quantized_matmul_ggml_batched";
    let GgmlBatchedQuantizedMatmulParams { batch, m, n, k, ggml_type } = *params;
    let one = GgmlQuantizedMatmulParams { m, n, k, ggml_type };
    let [m, n, k] = check(what, (input, weight, output), &one)?;
    let batch = batch as usize;
    positive(what, &[("batch", batch)])?;
    let y = output.tensor(Element::F32, &[batch, m, n])?;
    let w = weight.tensor(ggml_type.silicide(), &[batch, n, k])?;
    let dense =
        silicide::Shape::new(&[batch, m, k]).map_err(|error| MlxError::argument(error.to_string()))?;
    let (x, layout) = match strides {
        None => (input.tensor(Element::F32, dense.axes())?, None),
        Some([of_batch, of_row]) => {
            if of_row < k || of_batch / m < of_row {
                refuse!("{what}: rows of {k} do not fit strides of {of_batch} and {of_row} elements");
            }
            let elements = input.data_byte_len() / 4;
            (input.tensor(Element::F32, &[elements])?, Some(Layout::new(0, &[of_batch, of_row, 1])))
        }
    };
    let op = Matmul { exact: true };
    let dispatch = Dispatch::new(what, batch * m * n, &[input, weight], &[output]);
    encoder.dispatch(dispatch, move |recorder| match layout {
        None => recorder.run_into(op, &[&x, &w], &[&y]),
        Some(layout) => {
            let x = strided_copy(recorder, &x, dense, layout)?;
            recorder.run_into(op, &[&x, &w], &[&y])
        }
    })
}

/// Encodes products of each batch with one weight.
pub fn quantized_matmul_ggml_broadcast_batched_mm(
    encoder: &mut CommandEncoder,
    registry: &mut KernelRegistry,
    device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlBatchedQuantizedMatmulParams,
) -> Result<()> {
    let GgmlBatchedQuantizedMatmulParams { batch, m, n, k, ggml_type } = *params;
    let Some(m) = batch.checked_mul(m) else { refuse!("{batch} * {m} rows cannot be counted") };
    let params = GgmlQuantizedMatmulParams { m, n, k, ggml_type };
    quantized_matmul_ggml(encoder, registry, device, input, weight, output, &params)
}

/// Encodes products of each batch with a weight of Q2_K of its own.
pub fn quantized_matmul_q2_k_batched_mv(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    output: &MlxBuffer,
    batch: u32,
    m: u32,
    n: u32,
    k: u32,
) -> Result<()> {
    let params = GgmlBatchedQuantizedMatmulParams { batch, m, n, k, ggml_type: GgmlType::Q2_K };
    batched(encoder, (input, weight, output), &params, None)
}

/// Encodes a product of bf16 activations `[k / head_dim, m, head_dim]`, head by head, with a weight `[n, k]`.
pub fn quantized_matmul_mm_tensor_perm021(
    encoder: &mut CommandEncoder,
    registry: &mut KernelRegistry,
    device: &MlxDevice,
    input_bf16: &MlxBuffer,
    weight: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlQuantizedMatmulPerm021Params,
) -> Result<()> {
    quantized_matmul_mm_tensor_perm021_broadcast_batched(
        encoder, registry, device, input_bf16, weight, output, 1, params,
    )
}

/// As [`quantized_matmul_mm_tensor_perm021`], for `batch` sets of activations and one weight.
pub fn quantized_matmul_mm_tensor_perm021_broadcast_batched(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input_bf16: &MlxBuffer,
    weight: &MlxBuffer,
    output: &MlxBuffer,
    batch: u32,
    params: &GgmlQuantizedMatmulPerm021Params,
) -> Result<()> {
    let what = "quantized_matmul_mm_tensor_perm021";
    let GgmlQuantizedMatmulPerm021Params { m, n, k, head_dim, ggml_type } = *params;
    if !matches!(ggml_type, GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 | GgmlType::Q6_K) {
        refuse!("{what}: unsupported type {ggml_type:?}");
    }
    let [batch, m, n, k, dim] = [batch, m, n, k, head_dim].map(|extent| extent as usize);
    positive(what, &[("batch", batch), ("M", m), ("N", n), ("K", k), ("head_dim", dim)])?;
    if !dim.is_multiple_of(32) || !k.is_multiple_of(dim) {
        refuse!("{what}: head_dim = {dim} must be divisible by 32 and divide K = {k}");
    }
    check_block_weight(what, weight.dtype(), ggml_type, k)?;
    typed(what, "input", input_bf16, DType::BF16)?;
    typed(what, "output", output, DType::F32)?;
    let x = input_bf16.tensor(Element::BF16, &[batch, k / dim, m, dim])?;
    let (w, y) =
        (weight.tensor(ggml_type.silicide(), &[n, k])?, output.tensor(Element::F32, &[batch, m, n])?);
    let op = Linear { exact: true, ..Linear::from(Encoding::from(w.dtype())) };
    encoder.dispatch(Dispatch::new(what, batch * m * n, &[input_bf16, weight], &[output]), move |recorder| {
        let rows = silicide::ops::permute::permute(recorder, &x, &[0, 2, 1, 3])?;
        recorder.run_into(op.clone(), &[&reshaped(&rows, &[batch, m, k])?, &w], &[&y])
    })
}
