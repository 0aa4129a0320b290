//! Norms and sums in one dispatch.

use super::support::{Recorded, count, positive, reshaped, typed, wide};
use crate::encoder::Dispatch;
use crate::error::Result;
use crate::metal::DeviceRef;
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
use silicide::ops::binary::Binary;
use silicide::ops::rms_norm::RmsNorm;
use silicide::ops::weighted_sum::weighted_sum;
use silicide::record::CommandEncoder as Recorder;
use silicide::{Buffer, DType as Element, Recorder as _};

/// `residual + rms_norm(x) * weight`, into `y`.
pub(super) fn add_norm(
    recorder: &mut Recorder,
    eps: f32,
    [residual, x, weight]: [&Buffer; 3],
    y: &Buffer,
) -> Recorded {
    let normed = recorder.run_one(RmsNorm::new(eps, true), &[x, weight])?;
    recorder.run_into(Binary::Add, &[residual, &normed], &[y])
}

/// Buffers of the end of a layer: attn_out, residual, w2, w3, layer_scalar, mlp_down, hidden.
type EndBuffers<'a> = [&'a MlxBuffer; 7];

/// The tensors of the end of a layer.
struct EndOfLayer {
    attn_out: Buffer,
    residual: Buffer,
    w2: Buffer,
    w3: Buffer,
    layer_scalar: Buffer,
    mlp_down: Buffer,
    hidden: Buffer,
    eps: f32,
}

impl EndOfLayer {
    /// Returns the tensors of `[rows, dim]`; the layer's scalar is one number, or a vector.
    fn new(buffers: EndBuffers<'_>, shape: [usize; 2], is_vector: bool, eps: f32) -> Result<EndOfLayer> {
        let [attn_out, residual, w2, w3, layer_scalar, mlp_down, hidden] = buffers;
        let matrix = |buffer: &MlxBuffer| buffer.tensor(Element::F32, &shape);
        let vector = |buffer: &MlxBuffer, elements| buffer.tensor(Element::F32, &[elements]);
        Ok(EndOfLayer {
            attn_out: matrix(attn_out)?,
            residual: matrix(residual)?,
            w2: vector(w2, shape[1])?,
            w3: vector(w3, shape[1])?,
            layer_scalar: vector(layer_scalar, if is_vector { shape[1] } else { 1 })?,
            mlp_down: matrix(mlp_down)?,
            hidden: matrix(hidden)?,
            eps,
        })
    }

    /// Records both norms of `moe_accum`, and the factor.
    fn record(&self, recorder: &mut Recorder, moe_accum: &Buffer) -> Recorded {
        add_norm(recorder, self.eps, [&self.attn_out, moe_accum, &self.w2], &self.mlp_down)?;
        let normed = recorder.run_one(RmsNorm::new(self.eps, true), &[&self.mlp_down, &self.w3])?;
        let sum = recorder.run_one(Binary::Add, &[&self.residual, &normed])?;
        recorder.run_into(Binary::Mul, &[&sum, &self.layer_scalar], &[&self.hidden])
    }
}

/// Encodes `mlp_down = attn_out + norm(moe_accum) * w2` and `hidden = (residual + norm(mlp_down) * w3) * layer_scalar`.
pub fn dispatch_fused_post_ff_norm2_endlayer_f32(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    attn_out: &MlxBuffer,
    moe_accum: &MlxBuffer,
    residual: &MlxBuffer,
    w2: &MlxBuffer,
    w3: &MlxBuffer,
    layer_scalar: &MlxBuffer,
    mlp_down: &MlxBuffer,
    hidden: &MlxBuffer,
    eps: f32,
    rows: u32,
    dim: u32,
    scalar_is_vector: bool,
) -> Result<()> {
    let what = "fused_post_ff_norm2_endlayer_f32";
    let (rows, dim) = (rows as usize, dim as usize);
    positive(what, &[("rows", rows), ("dim", dim)])?;
    let buffers = [attn_out, residual, w2, w3, layer_scalar, mlp_down, hidden];
    let end = EndOfLayer::new(buffers, [rows, dim], scalar_is_vector, eps)?;
    let accum = moe_accum.tensor(Element::F32, &[rows, dim])?;
    let reads = [attn_out, moe_accum, residual, w2, w3, layer_scalar];
    let dispatch = Dispatch::new(what, rows * dim, &reads, &[mlp_down, hidden]);
    encoder.dispatch(dispatch, move |recorder| end.record(recorder, &accum))
}

/// As [`dispatch_fused_post_ff_norm2_endlayer_f32`], where `moe_accum` is the sum of `expert_outputs`, `[rows, top_k, dim]`, under
/// `routing_weights`.
pub fn dispatch_fused_moe_wsum_post_ff_norm2_endlayer_f32_v2(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    expert_outputs: &MlxBuffer,
    routing_weights: &MlxBuffer,
    attn_out: &MlxBuffer,
    residual: &MlxBuffer,
    w2: &MlxBuffer,
    w3: &MlxBuffer,
    layer_scalar: &MlxBuffer,
    mlp_down: &MlxBuffer,
    hidden: &MlxBuffer,
    eps: f32,
    rows: u32,
    dim: u32,
    top_k: u32,
    scalar_is_vector: bool,
) -> Result<()> {
    let what = "fused_moe_wsum_post_ff_norm2_endlayer_f32_v2";
    let (rows, dim, used) = (rows as usize, dim as usize, top_k as usize);
    positive(what, &[("rows", rows), ("dim", dim), ("top_k", used)])?;
    let buffers = [attn_out, residual, w2, w3, layer_scalar, mlp_down, hidden];
    let end = EndOfLayer::new(buffers, [rows, dim], scalar_is_vector, eps)?;
    let experts = expert_outputs.tensor(Element::F32, &[rows, used, dim])?;
    let weights = routing_weights.tensor(Element::F32, &[rows, used])?;
    let reads = [expert_outputs, routing_weights, attn_out, residual, w2, w3, layer_scalar];
    let dispatch = Dispatch::new(what, rows * dim, &reads, &[mlp_down, hidden]);
    encoder.dispatch(dispatch, move |recorder| {
        let accum = weighted_sum(recorder, &experts, &weights)?;
        end.record(recorder, &accum)
    })
}

/// Encodes `residual_out = hidden + norm(attn_out) * post_attn_w`, and three norms of it under three weights.
pub fn dispatch_fused_post_attn_triple_norm_f32(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    hidden: &MlxBuffer,
    attn_out: &MlxBuffer,
    post_attn_w: &MlxBuffer,
    weight_a: &MlxBuffer,
    weight_b: &MlxBuffer,
    weight_c: &MlxBuffer,
    residual_out: &MlxBuffer,
    output_a: &MlxBuffer,
    output_b: &MlxBuffer,
    output_c: &MlxBuffer,
    eps: f32,
    rows: u32,
    dim: u32,
) -> Result<()> {
    let what = "fused_post_attn_triple_norm_f32";
    let (rows, dim) = (rows as usize, dim as usize);
    positive(what, &[("rows", rows), ("dim", dim)])?;
    let matrix = |buffer: &MlxBuffer| buffer.tensor(Element::F32, &[rows, dim]);
    let vector = |buffer: &MlxBuffer| buffer.tensor(Element::F32, &[dim]);
    let (h, attention, sum) = (matrix(hidden)?, matrix(attn_out)?, matrix(residual_out)?);
    let post = vector(post_attn_w)?;
    let norms = [
        (vector(weight_a)?, matrix(output_a)?),
        (vector(weight_b)?, matrix(output_b)?),
        (vector(weight_c)?, matrix(output_c)?),
    ];
    let reads = [hidden, attn_out, post_attn_w, weight_a, weight_b, weight_c];
    let writes = [residual_out, output_a, output_b, output_c];
    encoder.dispatch(Dispatch::new(what, rows * dim, &reads, &writes), move |recorder| {
        add_norm(recorder, eps, [&h, &attention, &post], &sum)?;
        let norm = RmsNorm::new(eps, true);
        norms.iter().try_for_each(|(weight, y)| recorder.run_into(norm, &[&sum, weight], &[y]))
    })
}

/// Sums and norms in one dispatch, and the routing of experts.
pub mod fused_norm_add {
    use super::{
        Binary, DType, Dispatch, Element, RmsNorm, add_norm, count, positive, reshaped, typed, wide,
    };
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::Recorder;
    use silicide::ops::gather_rows;
    use silicide::ops::route::{Route, route};

    super::super::support::register!();

    /// Rows of a norm.
    struct NormRows {
        rows: u32,
        dim: u32,
        eps: f32,
    }

    fn norm_add(
        encoder: &mut CommandEncoder,
        what: &str,
        dtype: DType,
        [residual, input, weight, output]: [&MlxBuffer; 4],
        NormRows { rows, dim, eps }: NormRows,
    ) -> Result<()> {
        let (rows, dim) = (rows as usize, dim as usize);
        positive(what, &[("rows", rows), ("dim", dim)])?;
        let matrix = |buffer: &MlxBuffer| buffer.tensor(dtype.silicide(), &[rows, dim]);
        let (r, x, y) = (matrix(residual)?, matrix(input)?, matrix(output)?);
        let w = weight.tensor(weight.dtype().silicide(), &[dim])?;
        let dispatch = Dispatch::new(what, rows * dim, &[residual, input, weight], &[output]);
        encoder.dispatch(dispatch, move |recorder| {
            if dtype == DType::F32 {
                return add_norm(recorder, eps, [&r, &x, &w], &y);
            }
            // The sum is rounded once.
            let (x, w) = (wide(recorder, &x)?, wide(recorder, &w)?);
            let normed = recorder.run_one(RmsNorm::new(eps, true), &[&x, &w])?;
            let sum = recorder.run_one(Binary::Add, &[&normed, &r])?;
            super::super::support::cast_into(recorder, &sum, &y)
        })
    }

    /// Declares a sum with a norm, of one type.
    macro_rules! norm_adds {
        ($($(#[$doc:meta])* $function:ident, $kernel:literal, $type:ident;)*) => {$(
            $(#[$doc])*
            pub fn $function(
                encoder: &mut CommandEncoder,
                _registry: &mut KernelRegistry,
                _device: &DeviceRef,
                residual: &MlxBuffer,
                input: &MlxBuffer,
                weight: &MlxBuffer,
                output: &MlxBuffer,
                dim: u32,
                rows: u32,
                eps: f32,
            ) -> Result<()> {
                let buffers = [residual, input, weight, output];
                norm_add(encoder, $kernel, DType::$type, buffers, NormRows { rows, dim, eps })
            }
        )*};
    }

    norm_adds! {
        /// Encodes `output = residual + rms_norm(input) * weight` in f32.
        dispatch_fused_norm_add_f32, "fused_norm_add_f32", F32;
        /// Encodes `output = residual + rms_norm(input) * weight` in bf16.
        dispatch_fused_norm_add_bf16, "fused_norm_add_bf16", BF16;
    }

    /// Encodes `output = (residual + rms_norm(input) * weight) * scalar`, where the scalar is one number or a vector.
    pub fn dispatch_fused_norm_add_scalar_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        residual: &MlxBuffer,
        input: &MlxBuffer,
        weight: &MlxBuffer,
        output: &MlxBuffer,
        scalar: &MlxBuffer,
        rows: u32,
        dim: u32,
        eps: f32,
        scalar_is_vector: bool,
    ) -> Result<()> {
        let what = "fused_norm_add_scalar_f32";
        let (rows, dim) = (rows as usize, dim as usize);
        positive(what, &[("rows", rows), ("dim", dim)])?;
        let matrix = |buffer: &MlxBuffer| buffer.tensor(Element::F32, &[rows, dim]);
        let (r, x, y) = (matrix(residual)?, matrix(input)?, matrix(output)?);
        let w = weight.tensor(Element::F32, &[dim])?;
        let factor = scalar.tensor(Element::F32, &[if scalar_is_vector { dim } else { 1 }])?;
        let dispatch = Dispatch::new(what, rows * dim, &[residual, input, weight, scalar], &[output]);
        encoder.dispatch(dispatch, move |recorder| {
            let normed = recorder.run_one(RmsNorm::new(eps, true), &[&x, &w])?;
            let sum = recorder.run_one(Binary::Add, &[&r, &normed])?;
            recorder.run_into(Binary::Mul, &[&sum, &factor], &[&y])
        })
    }

    fn routing(
        encoder: &mut CommandEncoder,
        what: &str,
        [logits, ids, weights, scale]: [&MlxBuffer; 4],
        [experts, used, tokens]: [u32; 3],
    ) -> Result<()> {
        let [experts, used, tokens] = [experts, used, tokens].map(|extent| extent as usize);
        positive(what, &[("num_experts", experts), ("top_k", used), ("n_tokens", tokens)])?;
        typed(what, "logits", logits, DType::F32)?;
        let pairs = count(what, &[tokens, used])?;
        let x = logits.tensor(Element::F32, &[tokens, experts])?;
        let (names, y) = (ids.tensor(Element::U32, &[pairs])?, weights.tensor(Element::F32, &[pairs])?);
        let factors = scale.tensor(Element::F32, &[experts, 1])?;
        let dispatch = Dispatch::new(what, tokens * experts, &[logits, scale], &[ids, weights]);
        encoder.dispatch(dispatch, move |recorder| {
            let (chosen, shares) = route(recorder, Route::softmax(used), &x, None)?;
            let chosen = reshaped(&chosen, &[pairs])?;
            let scales = gather_rows(recorder, &factors, &chosen, Element::F32)?;
            recorder.copy(&chosen, &names)?;
            let (shares, scales) = (reshaped(&shares, &[pairs])?, reshaped(&scales, &[pairs])?);
            recorder.run_into(Binary::Mul, &[&shares, &scales], &[&y])
        })
    }

    /// Encodes the ids of the `top_k` experts with the largest logits, and their softmax weights, renormalised, times the expert's scale.
    pub fn dispatch_fused_moe_routing_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        logits: &MlxBuffer,
        expert_ids: &MlxBuffer,
        routing_weights: &MlxBuffer,
        per_expert_scale: &MlxBuffer,
        num_experts: u32,
        top_k: u32,
    ) -> Result<()> {
        let buffers = [logits, expert_ids, routing_weights, per_expert_scale];
        routing(encoder, "fused_moe_routing_f32", buffers, [num_experts, top_k, 1])
    }

    /// As [`dispatch_fused_moe_routing_f32`], for several tokens.
    pub fn dispatch_fused_moe_routing_batch_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        logits: &MlxBuffer,
        expert_ids: &MlxBuffer,
        routing_weights: &MlxBuffer,
        per_expert_scale: &MlxBuffer,
        num_experts: u32,
        top_k: u32,
        n_tokens: u32,
    ) -> Result<()> {
        let buffers = [logits, expert_ids, routing_weights, per_expert_scale];
        routing(encoder, "fused_moe_routing_batch_f32", buffers, [num_experts, top_k, n_tokens])
    }
}

/// A sum and its norm.
pub mod fused_residual_norm {
    use super::{Binary, Dispatch, Element, RmsNorm, positive, wide};
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::Recorder;

    super::super::support::register!();

    /// Encodes `sum = residual + input` and `normed_output = rms_norm(sum) * weight` in bf16.
    pub fn dispatch_fused_residual_norm_bf16(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        residual: &MlxBuffer,
        input: &MlxBuffer,
        weight: &MlxBuffer,
        normed_output: &MlxBuffer,
        sum_output: Option<&MlxBuffer>,
        rows: u32,
        dim: u32,
        eps: f32,
    ) -> Result<()> {
        let what = "fused_residual_norm_bf16";
        let (rows, dim) = (rows as usize, dim as usize);
        positive(what, &[("rows", rows), ("dim", dim)])?;
        let matrix = |buffer: &MlxBuffer| buffer.tensor(Element::BF16, &[rows, dim]);
        let (r, x, y) = (matrix(residual)?, matrix(input)?, matrix(normed_output)?);
        let w = weight.tensor(weight.dtype().silicide(), &[dim])?;
        let sum = sum_output.map(matrix).transpose()?;
        let writes: Vec<&MlxBuffer> = [normed_output].into_iter().chain(sum_output).collect();
        let dispatch = Dispatch::new(what, rows * dim, &[residual, input, weight], &writes);
        encoder.dispatch(dispatch, move |recorder| {
            // The norm is taken of the sum before it is rounded.
            let (r, w) = (wide(recorder, &r)?, wide(recorder, &w)?);
            let exact = recorder.run_one(Binary::Add, &[&r, &x])?;
            if let Some(sum) = &sum {
                super::super::support::cast_into(recorder, &exact, sum)?;
            }
            let normed = recorder.run_one(RmsNorm::new(eps, true), &[&exact, &w])?;
            super::super::support::cast_into(recorder, &normed, &y)
        })
    }
}
