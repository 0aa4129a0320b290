//! Mixtures of experts: activations, sums and routing.

use super::support::{cast_into, count, positive, shape};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::Result;
use crate::{DType, MlxBuffer};
use silicide::ops::glu::{Activation, Glu};
use silicide::ops::strided_copy::{Layout, strided_copy};
use silicide::ops::weighted_sum::WeightedSum;
use silicide::{DType as Element, Recorder};

/// Encodes `gelu(gate) * up`, where a row has both.
fn gated_rows(
    encoder: &mut CommandEncoder,
    what: &str,
    [gate_up, output]: [&MlxBuffer; 2],
    dtype: DType,
    [rows, width]: [usize; 2],
) -> Result<()> {
    positive(what, &[("rows", rows), ("intermediate", width)])?;
    super::support::typed(what, "gate_up", gate_up, dtype)?;
    super::support::typed(what, "output", output, dtype)?;
    let x = gate_up.tensor(dtype.silicide(), &[count(what, &[rows, 2, width])?])?;
    let y = output.tensor(dtype.silicide(), &[rows, width])?;
    let dispatch = Dispatch::new(what, rows * width, &[gate_up], &[output]);
    encoder.dispatch(dispatch, move |recorder| {
        let half = |start: usize| Layout::new(start, &[2 * width, 1]);
        let gate = strided_copy(recorder, &x, shape(&[rows, width])?, half(0))?;
        let up = strided_copy(recorder, &x, shape(&[rows, width])?, half(width))?;
        recorder.run_into(Glu::new(Activation::GeluTanh), &[&gate, &up], &[&y])
    })
}

/// Encodes the sum of each token's experts under their weights.
fn weighted(
    encoder: &mut CommandEncoder,
    what: &str,
    [experts, weights, output]: [&MlxBuffer; 3],
    [tokens, used, width]: [usize; 3],
) -> Result<()> {
    positive(what, &[("n_tokens", tokens), ("top_k", used), ("hidden_size", width)])?;
    let dtype = super::support::float(what, "expert_outputs", experts)?;
    super::support::typed(what, "weights", weights, DType::F32)?;
    let to = super::support::float(what, "output", output)?;
    let x = experts.tensor(dtype, &[tokens, used, width])?;
    let w = weights.tensor(Element::F32, &[tokens, used])?;
    let y = output.tensor(to, &[tokens, width])?;
    let dispatch = Dispatch::new(what, tokens * width, &[experts, weights], &[output]);
    encoder.dispatch(dispatch, move |recorder| {
        let x = silicide::ops::cast(recorder, &x, Element::F32)?;
        if to == Element::F32 {
            return recorder.run_into(WeightedSum, &[&x, &w], &[&y]);
        }
        let sum = recorder.run_one(WeightedSum, &[&x, &w])?;
        cast_into(recorder, &sum, &y)
    })
}

/// Activations and sums of experts.
pub mod moe_dispatch {
    use super::{
        Activation, CommandEncoder, DType, Dispatch, Element, MlxBuffer, gated_rows, positive, weighted,
    };
    use crate::KernelRegistry;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use silicide::Recorder;
    use silicide::ops::fill::Fill;

    super::super::support::register!();

    /// Encodes `gelu(gate_out) * up_out` in bf16.
    pub fn fused_gelu_mul_bf16_encode(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        gate_out: &MlxBuffer,
        up_out: &MlxBuffer,
        output: &MlxBuffer,
        n_elements: usize,
    ) -> Result<()> {
        let what = "fused_gelu_mul_bf16";
        super::super::support::typed(what, "gate_out", gate_out, DType::BF16)?;
        let buffers = [gate_out, up_out, output];
        super::super::activations::gated(encoder, what, Activation::GeluTanh, buffers, n_elements)
    }

    /// Encodes `gelu(gate) * up` in f32 for `top_k` rows `[gate, up]`.
    pub fn moe_swiglu_batch_encode(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        gate_up: &MlxBuffer,
        output: &MlxBuffer,
        intermediate: usize,
        top_k: usize,
    ) -> Result<()> {
        gated_rows(encoder, "moe_swiglu_batch", [gate_up, output], DType::F32, [top_k, intermediate])
    }

    /// Encodes `gelu(gate) * up` in bf16 for `n_tokens * top_k` rows `[gate, up]`.
    pub fn moe_swiglu_seq_bf16_encode(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        gate_up: &MlxBuffer,
        output: &MlxBuffer,
        intermediate: usize,
        top_k: usize,
        n_tokens: usize,
    ) -> Result<()> {
        let rows = super::count("moe_swiglu_seq_bf16", &[n_tokens, top_k])?;
        gated_rows(encoder, "moe_swiglu_seq_bf16", [gate_up, output], DType::BF16, [rows, intermediate])
    }

    /// Encodes the sum of `top_k` rows under their weights.
    pub fn moe_weighted_sum_encode(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        expert_outputs: &MlxBuffer,
        weights: &MlxBuffer,
        output: &MlxBuffer,
        hidden_size: usize,
        top_k: usize,
    ) -> Result<()> {
        let extents = [1, top_k, hidden_size];
        weighted(encoder, "moe_weighted_sum", [expert_outputs, weights, output], extents)
    }

    /// Encodes the sums of each token's `top_k` rows of bf16 under their weights of f32.
    pub fn moe_weighted_sum_seq_bf16_input_encode(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        expert_outputs: &MlxBuffer,
        weights: &MlxBuffer,
        output: &MlxBuffer,
        hidden_size: usize,
        top_k: usize,
        n_tokens: usize,
    ) -> Result<()> {
        let what = "moe_weighted_sum_seq_bf16_input";
        super::super::support::typed(what, "expert_outputs", expert_outputs, DType::BF16)?;
        weighted(encoder, what, [expert_outputs, weights, output], [n_tokens, top_k, hidden_size])
    }

    /// Encodes zeros over `n_elements` of f32.
    pub fn moe_zero_buffer_encode(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        output: &MlxBuffer,
        n_elements: usize,
    ) -> Result<()> {
        positive("moe_zero_buffer", &[("n_elements", n_elements)])?;
        let y = output.tensor(Element::F32, &[n_elements])?;
        let op = Fill { dtype: Element::F32, shape: y.shape(), value: 0.0 };
        let dispatch = Dispatch::new("moe_zero_buffer", n_elements, &[], &[output]);
        encoder.dispatch(dispatch, move |recorder| recorder.run_into(op, &[], &[&y]))
    }
}

/// Routing from hidden states.
pub mod moe_gate {
    use super::{CommandEncoder, Dispatch, Element, MlxBuffer, cast_into, count, positive};
    use crate::KernelRegistry;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use silicide::Recorder;
    use silicide::ops::binary::Binary;
    use silicide::ops::rms_norm::RmsNorm;
    use silicide::ops::route::{Gate, Route, route};
    use silicide::ops::{gather_rows, linear_exact};

    super::super::support::register!();

    /// Extents.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct MoeGateParams {
        /// Elements of a hidden state.
        pub hidden_dim: usize,
        /// Experts.
        pub n_experts: usize,
        /// Experts of a token.
        pub top_k: usize,
        /// Tokens.
        pub seq_len: usize,
        /// Added to the mean square.
        pub rms_eps: f32,
    }

    /// Encodes norm, router and choice: ids of the `top_k` best experts, and the softmax over them times each expert's scale.
    pub fn moe_gate(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        hidden_state: &MlxBuffer,
        router_weights: &MlxBuffer,
        norm_weight: &MlxBuffer,
        per_expert_scale: &MlxBuffer,
        out_expert_ids: &MlxBuffer,
        out_weights: &MlxBuffer,
        params: &MoeGateParams,
    ) -> Result<()> {
        let what = "moe_gate";
        let MoeGateParams { hidden_dim, n_experts, top_k, seq_len, rms_eps } = *params;
        let extents =
            [("hidden_dim", hidden_dim), ("n_experts", n_experts), ("top_k", top_k), ("seq_len", seq_len)];
        positive(what, &extents)?;
        let float = super::super::support::float;
        let x = hidden_state.tensor(float(what, "hidden_state", hidden_state)?, &[seq_len, hidden_dim])?;
        let router = router_weights
            .tensor(float(what, "router_weights", router_weights)?, &[n_experts, hidden_dim])?;
        let norm = norm_weight.tensor(float(what, "norm_weight", norm_weight)?, &[hidden_dim])?;
        let scales =
            per_expert_scale.tensor(float(what, "per_expert_scale", per_expert_scale)?, &[n_experts, 1])?;
        let pairs = count(what, &[seq_len, top_k])?;
        let ids = out_expert_ids.tensor(Element::U32, &[pairs])?;
        let weights = out_weights.tensor(float(what, "out_weights", out_weights)?, &[pairs])?;
        let reads = [hidden_state, router_weights, norm_weight, per_expert_scale];
        let dispatch = Dispatch::new(what, pairs, &reads, &[out_expert_ids, out_weights]);
        encoder.dispatch(dispatch, move |recorder| {
            let wide = super::super::support::wide;
            let (x, norm) = (wide(recorder, &x)?, wide(recorder, &norm)?);
            let normed = recorder.run_one(RmsNorm::new(rms_eps, true), &[&x, &norm])?;
            let logits = linear_exact(recorder, &normed, &router, None)?;
            let rule = Route { gate: Gate::SoftmaxOfChosen, ..Route::softmax(top_k) };
            let (chosen, shares) = route(recorder, rule, &logits, None)?;
            let flat = super::super::support::reshaped;
            let (chosen, shares) = (flat(&chosen, &[pairs])?, flat(&shares, &[pairs])?);
            recorder.copy(&chosen, &ids)?;
            let factors = silicide::ops::cast(recorder, &scales, Element::F32)?;
            let factors = gather_rows(recorder, &factors, &chosen, Element::F32)?;
            let scaled = recorder.run_one(Binary::Mul, &[&shares, &flat(&factors, &[pairs])?])?;
            cast_into(recorder, &scaled, &weights)
        })
    }
}
