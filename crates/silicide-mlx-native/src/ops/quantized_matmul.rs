//! Products with MLX's affine weights: codes, and scales and biases of bf16 for groups of a row.
//!
//! As in mlx-native, activations are rounded to bf16, and weights to bf16 after they are decoded; products are summed in f32. The `simd`
//! form keeps weights in f32.

use super::support::positive;
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{MlxError, Result, refuse};
use crate::{DType, KernelRegistry, MlxBuffer, MlxDevice};
use silicide::ops::dequantize::Dequantize;
use silicide::ops::matmul::Matmul;
use silicide::quant::{Encoding, MlxFormat, MlxMode};
use silicide::{Buffer, DType as Element, Recorder};

/// Extents and packing of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizedMatmulParams {
    /// Rows of activations.
    pub m: u32,
    /// Depth.
    pub k: u32,
    /// Rows of weights.
    pub n: u32,
    /// Codes under one scale.
    pub group_size: u32,
    /// Bits of a code: 4, 6 or 8.
    pub bits: u32,
}

/// A packed weight of `rows * k` codes.
#[derive(Clone)]
pub(super) struct Packed {
    planes: [Buffer; 3],
    encoding: Encoding,
}

impl Packed {
    pub(super) fn new(
        what: &str,
        [weight, scales, biases]: [&MlxBuffer; 3],
        [bits, group]: [usize; 2],
        [rows, k]: [usize; 2],
    ) -> Result<Packed> {
        if !matches!(bits, 4 | 6 | 8) {
            refuse!("{what}: bits must be 4, 6 or 8, got {bits}");
        }
        if group == 0 || !k.is_multiple_of(group) {
            refuse!("{what}: K = {k} must be a multiple of group_size = {group}");
        }
        let format = MlxFormat::new(MlxMode::Affine, bits, group, Element::BF16);
        let format = format.map_err(|error| MlxError::argument(format!("{what}: {error}")))?;
        let words = k.checked_mul(bits).filter(|bits| bits.is_multiple_of(32)).map(|bits| bits / 32);
        let Some(words) = words else {
            refuse!("{what}: K = {k} is no whole number of words of {bits}-bit codes")
        };
        let planes = [
            weight.tensor(Element::U32, &[rows, words])?,
            scales.tensor(Element::BF16, &[rows, k / group])?,
            biases.tensor(Element::BF16, &[rows, k / group])?,
        ];
        Ok(Packed { planes, encoding: Encoding::Planes(format) })
    }

    /// The values, as `to`.
    pub(super) fn values(
        &self,
        recorder: &mut silicide::record::CommandEncoder,
        to: Element,
    ) -> std::result::Result<Buffer, silicide::Error> {
        let [codes, scales, biases] = &self.planes;
        recorder.run_one(Dequantize { encoding: self.encoding, to }, &[codes, scales, biases])
    }
}

fn product(
    encoder: &mut CommandEncoder,
    what: &str,
    [input, weight, scales, biases]: [&MlxBuffer; 4],
    params: &QuantizedMatmulParams,
    weights_as: Element,
) -> Result<MlxBuffer> {
    let QuantizedMatmulParams { m, k, n, group_size, bits } = *params;
    let [m, k, n, group, bits] = [m, k, n, group_size, bits].map(|extent| extent as usize);
    positive(what, &[("M", m), ("K", k), ("N", n)])?;
    let packed = Packed::new(what, [weight, scales, biases], [bits, group], [n, k])?;
    if input.dtype() != DType::F32 {
        refuse!("{what}: input must be f32, got {}", input.dtype());
    }
    let x = input.tensor(Element::F32, &[m, k])?;
    let bytes = super::support::count(what, &[m, n, 4])?;
    let output = encoder.device().alloc_buffer(bytes, DType::F32, vec![m, n])?;
    let y = output.tensor(Element::F32, &[m, n])?;
    let dispatch = Dispatch::new(what, m * n, &[input, weight, scales, biases], &[&output]);
    encoder.dispatch(dispatch, move |recorder| {
        let rounded = silicide::ops::cast(recorder, &x, Element::BF16)?;
        let rounded = silicide::ops::cast(recorder, &rounded, Element::F32)?;
        let values = packed.values(recorder, weights_as)?;
        recorder.run_into(Matmul { exact: true }, &[&rounded, &values], &[&y])
    })?;
    Ok(output)
}

/// Encodes `input * weightᵀ` into a new buffer of f32 `[m, n]`.
pub fn quantized_matmul(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    scales: &MlxBuffer,
    biases: &MlxBuffer,
    params: &QuantizedMatmulParams,
) -> Result<MlxBuffer> {
    product(encoder, "quantized_matmul", [input, weight, scales, biases], params, Element::BF16)
}

/// As [`quantized_matmul`], with weights in f32 for 4 and 8 bits, `n` divisible by 8 and `k` by 256.
pub fn quantized_matmul_simd(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    scales: &MlxBuffer,
    biases: &MlxBuffer,
    params: &QuantizedMatmulParams,
) -> Result<MlxBuffer> {
    let p = params;
    let wide = matches!(p.bits, 4 | 8) && p.n.is_multiple_of(8) && p.k.is_multiple_of(256);
    let weights_as = if wide { Element::F32 } else { Element::BF16 };
    product(encoder, "quantized_matmul_simd", [input, weight, scales, biases], params, weights_as)
}

/// Products with experts.
pub mod quantized_matmul_id {
    use super::{DType, Dispatch, Element, Encoding, Packed, positive};
    use crate::error::{Result, refuse};
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};
    use silicide::Recorder;
    use silicide::ops::expert_linear::ExpertLinear;

    super::super::support::register!();

    /// Extents and packing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct QuantizedMatmulIdParams {
        /// Rows of activations.
        pub m: u32,
        /// Depth.
        pub k: u32,
        /// Rows of an expert's weight.
        pub n: u32,
        /// Codes under one scale.
        pub group_size: u32,
        /// Bits of a code: 4, 6 or 8.
        pub bits: u32,
        /// Experts of a row.
        pub n_expert_used: u32,
        /// Experts.
        pub num_experts: u32,
    }

    /// Encodes `input[i] * weight[ids[i, s]]ᵀ` into a new buffer of f32 `[m * n_expert_used, n]`.
    pub fn quantized_matmul_id(
        encoder: &mut CommandEncoder,
        registry: &mut KernelRegistry,
        device: &MlxDevice,
        input: &MlxBuffer,
        weight: &MlxBuffer,
        scales: &MlxBuffer,
        biases: &MlxBuffer,
        ids: &MlxBuffer,
        params: &QuantizedMatmulIdParams,
    ) -> Result<MlxBuffer> {
        let [m, n, used] = [params.m, params.n, params.n_expert_used].map(|extent| extent as usize);
        positive("quantized_matmul_id", &[("M", m), ("N", n), ("n_expert_used", used)])?;
        let rows = super::super::support::count("quantized_matmul_id", &[m, used])?;
        let bytes = super::super::support::count("quantized_matmul_id", &[rows, n, 4])?;
        let output = device.alloc_buffer(bytes, DType::F32, vec![rows, n])?;
        quantized_matmul_id_into(
            encoder, registry, device, input, weight, scales, biases, ids, &output, params,
        )?;
        Ok(output)
    }

    /// As [`quantized_matmul_id`], into a buffer that exists.
    pub fn quantized_matmul_id_into(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        input: &MlxBuffer,
        weight: &MlxBuffer,
        scales: &MlxBuffer,
        biases: &MlxBuffer,
        ids: &MlxBuffer,
        output: &MlxBuffer,
        params: &QuantizedMatmulIdParams,
    ) -> Result<()> {
        let what = "quantized_matmul_id";
        let QuantizedMatmulIdParams { m, k, n, group_size, bits, n_expert_used, num_experts } = *params;
        let [m, k, n, group, bits] = [m, k, n, group_size, bits].map(|extent| extent as usize);
        let (used, experts) = (n_expert_used as usize, num_experts as usize);
        positive(what, &[("M", m), ("K", k), ("N", n), ("n_expert_used", used), ("num_experts", experts)])?;
        for (name, buffer, dtype) in
            [("input", input, DType::F32), ("ids", ids, DType::U32), ("output", output, DType::F32)]
        {
            if buffer.dtype() != dtype {
                refuse!("{what}: {name} must be {dtype}, got {}", buffer.dtype());
            }
        }
        let rows = super::super::support::count(what, &[experts, n])?;
        let packed = Packed::new(what, [weight, scales, biases], [bits, group], [rows, k])?;
        let (x, names) = (input.tensor(Element::F32, &[m, k])?, ids.tensor(Element::U32, &[m, used])?);
        let y = output.tensor(Element::F32, &[m, used, n])?;
        let dispatch = Dispatch::new(what, y.elements(), &[input, weight, scales, biases, ids], &[output]);
        encoder.dispatch(dispatch, move |recorder| {
            let rounded = silicide::ops::cast(recorder, &x, Element::BF16)?;
            let rounded = silicide::ops::cast(recorder, &rounded, Element::F32)?;
            let values = packed.values(recorder, Element::BF16)?;
            let stack = super::super::support::reshaped(&values, &[experts, n, k])?;
            let op = ExpertLinear::new(Encoding::from(Element::BF16)).with_exact(true);
            recorder.run_into(op, &[&rounded, &stack, &names], &[&y])
        })
    }
}

/// Rows of an affine table.
pub mod embedding {
    use super::{DType, Dispatch, Element, Packed, positive};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::Recorder;
    use silicide::ops::gather_rows::GatherRows;

    super::super::support::register!();

    /// Extents and packing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EmbeddingGatherParams {
        /// Values of a row.
        pub embed_dim: usize,
        /// Codes under one scale.
        pub group_size: usize,
        /// Bits of a code: 4 or 6.
        pub bits: u8,
        /// Rows to look up.
        pub n_tokens: usize,
    }

    /// Encodes the rows that `token_ids` names, in f32. The table has as many rows as its scales have.
    pub fn embedding_gather(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        weight_packed: &MlxBuffer,
        scales: &MlxBuffer,
        biases: &MlxBuffer,
        token_ids: &MlxBuffer,
        output: &MlxBuffer,
        params: &EmbeddingGatherParams,
    ) -> Result<()> {
        let what = "embedding_gather";
        let EmbeddingGatherParams { embed_dim: dim, group_size: group, bits, n_tokens: tokens } = *params;
        positive(what, &[("embed_dim", dim), ("group_size", group), ("n_tokens", tokens)])?;
        if !matches!(bits, 4 | 6) {
            refuse!("{what}: bits must be 4 or 6, got {bits}");
        }
        let quantum = if bits == 4 { 8 } else { 4 };
        if !dim.is_multiple_of(quantum) {
            refuse!("{what}: embed_dim = {dim} is not a multiple of the packing quantum {quantum}");
        }
        if token_ids.dtype() != DType::U32 {
            refuse!("{what}: token_ids must be u32, got {}", token_ids.dtype());
        }
        if output.dtype() != DType::F32 {
            refuse!("{what}: output must be f32, got {}", output.dtype());
        }
        let row = dim.div_ceil(group) * 2;
        let rows = scales.data_byte_len() / row.max(1);
        positive(what, &[("rows of the table", rows)])?;
        let packed = Packed::new(what, [weight_packed, scales, biases], [bits.into(), group], [rows, dim])?;
        super::super::embeddings::check_ids(encoder, what, token_ids, tokens, rows)?;
        let names = token_ids.tensor(Element::U32, &[tokens])?;
        let y = output.tensor(Element::F32, &[tokens, dim])?;
        let reads = [weight_packed, scales, biases, token_ids];
        let dispatch = Dispatch::new(what, tokens * dim, &reads, &[output]);
        encoder.dispatch(dispatch, move |recorder| {
            let [codes, scales, biases] = &packed.planes;
            let op = GatherRows { encoding: packed.encoding, to: Element::F32 };
            recorder.run_into(op, &[codes, scales, biases, &names], &[&y])
        })
    }
}
