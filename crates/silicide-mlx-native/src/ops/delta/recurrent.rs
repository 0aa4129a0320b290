//! The gated delta net, token by token.

use super::super::support::{count, positive};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::{DType, MlxBuffer};
use gated_delta_net::GatedDeltaNetParams;
use silicide::Recorder as _;
use silicide::ops::delta_net::{DeltaNet, KeyHeads};
use silicide::ops::unary::Unary;

/// Buffers of a gated delta net.
struct Net<'a> {
    q: &'a MlxBuffer,
    k: &'a MlxBuffer,
    v: &'a MlxBuffer,
    g: &'a MlxBuffer,
    beta: &'a MlxBuffer,
    state_in: &'a MlxBuffer,
    output: &'a MlxBuffer,
    state_out: &'a MlxBuffer,
    /// Takes the state after each token.
    capture: Option<&'a MlxBuffer>,
    scale: f32,
}

impl Net<'_> {
    fn encode(&self, encoder: &mut CommandEncoder, what: &str, p: &GatedDeltaNetParams) -> Result<()> {
        let [dk, dv, key_heads, heads] =
            [p.d_k, p.d_v, p.n_k_heads, p.n_v_heads].map(|extent| extent as usize);
        let [tokens, sequences] = [p.n_tokens, p.n_seqs].map(|extent| extent as usize);
        positive(what, &[("d_k", dk), ("d_v", dv), ("n_k_heads", key_heads), ("n_v_heads", heads)])?;
        positive(what, &[("n_tokens", tokens), ("n_seqs", sequences)])?;
        if !heads.is_multiple_of(key_heads) {
            refuse!("{what}: n_v_heads ({heads}) must be a multiple of n_k_heads ({key_heads})");
        }
        let keys = count(what, &[sequences, tokens, key_heads, dk])?;
        let values = count(what, &[sequences, tokens, heads, dv])?;
        let scalars = count(what, &[sequences, tokens, heads])?;
        let state = count(what, &[sequences, heads, dv, dk])?;
        super::sized(
            what,
            &[
                ("q", self.q, DType::F32, keys),
                ("k", self.k, DType::F32, keys),
                ("v", self.v, DType::F32, values),
                ("output", self.output, DType::F32, values),
                ("g", self.g, DType::F32, scalars),
                ("beta", self.beta, DType::F32, scalars),
                ("state_in", self.state_in, DType::F32, state),
                ("state_out", self.state_out, DType::F32, state),
            ],
        )?;
        let f32s = silicide::DType::F32;
        let at = |buffer: &MlxBuffer, start: usize, shape: &[usize]| buffer.tensor_at(start * 4, f32s, shape);
        // A call, or, where every state is kept, a call for each token; the state after one is the state before the next.
        let step = if self.capture.is_some() { 1 } else { tokens };
        let together = if self.capture.is_some() { 1 } else { sequences };
        let one = state / sequences * together;
        let mut calls = Vec::new();
        for call in 0..sequences / together * (tokens / step) {
            let (sequence, token) = (call / (tokens / step), call % (tokens / step));
            let row = sequence * tokens + token;
            let shape = [together, heads, dv, dk];
            let (of_keys, of_values) = ([together, step, key_heads, dk], [together, step, heads, dv]);
            let of_scalars = [together, step, heads];
            let (before, after) = match self.capture {
                None => (at(self.state_in, 0, &shape)?, at(self.state_out, 0, &shape)?),
                Some(capture) => {
                    let before = match token {
                        0 => at(self.state_in, sequence * one, &shape)?,
                        _ => at(capture, (row - 1) * one, &shape)?,
                    };
                    (before, at(capture, row * one, &shape)?)
                }
            };
            let last = match self.capture {
                Some(_) if token + 1 == tokens => Some(at(self.state_out, sequence * one, &shape)?),
                _ => None,
            };
            let inputs = [
                at(self.q, row * key_heads * dk, &of_keys)?,
                at(self.k, row * key_heads * dk, &of_keys)?,
                at(self.v, row * heads * dv, &of_values)?,
                at(self.g, row * heads, &of_scalars)?,
                at(self.beta, row * heads, &of_scalars)?,
                before,
            ];
            calls.push((inputs, at(self.output, row * heads * dv, &of_values)?, after, last));
        }
        let rule = DeltaNet { scale: self.scale, key_heads: KeyHeads::Tiled };
        let reads = [self.q, self.k, self.v, self.g, self.beta, self.state_in];
        let writes: Vec<&MlxBuffer> = [self.output, self.state_out].into_iter().chain(self.capture).collect();
        let dispatch = Dispatch::new(what, values, &reads, &writes);
        encoder.dispatch(dispatch, move |recorder| {
            for ([q, k, v, g, beta, before], y, after, last) in &calls {
                let decay = recorder.run_one(Unary::Neg, &[g])?;
                recorder.run_into(rule, &[q, k, v, &decay, beta, before], &[y, after])?;
                if let Some(last) = last {
                    recorder.copy(after, last)?;
                }
            }
            Ok(())
        })
    }
}

/// The gated delta net.
pub mod gated_delta_net {
    use super::Net;
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::super::support::register!();

    /// The longest heads.
    pub const MAX_STATE_D: u32 = 128;

    /// Extents.
    #[derive(Clone, Copy, Debug)]
    pub struct GatedDeltaNetParams {
        /// Elements of a head of keys: at most [`MAX_STATE_D`].
        pub d_k: u32,
        /// Elements of a head of values: at most [`MAX_STATE_D`].
        pub d_v: u32,
        /// Heads of keys: head `h` of values uses head `h % n_k_heads`.
        pub n_k_heads: u32,
        /// Heads of values: a multiple of `n_k_heads`.
        pub n_v_heads: u32,
        /// Tokens of a sequence.
        pub n_tokens: u32,
        /// Sequences.
        pub n_seqs: u32,
    }

    /// Encodes the recurrence: `S = exp(-g) S`, `S += beta (v - S k) k^T`, `output = S q`. All f32: `q`, `k` `[n_seqs, n_tokens, n_k_heads,
    /// d_k]`, `v` and `output` `[n_seqs, n_tokens, n_v_heads, d_v]`, `g`, `beta` `[n_seqs, n_tokens, n_v_heads]`, states
    /// `[n_seqs, n_v_heads, d_v, d_k]`.
    pub fn dispatch_gated_delta_net(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        g: &MlxBuffer,
        beta: &MlxBuffer,
        state_in: &MlxBuffer,
        output: &MlxBuffer,
        state_out: &MlxBuffer,
        _params_buf: &MlxBuffer,
        p: GatedDeltaNetParams,
    ) -> Result<()> {
        if p.d_k > MAX_STATE_D || p.d_v > MAX_STATE_D {
            refuse!(
                "gated_delta_net: d_k ({}) and d_v ({}) must be <= MAX_STATE_D ({MAX_STATE_D})",
                p.d_k,
                p.d_v
            );
        }
        let net = Net { q, k, v, g, beta, state_in, output, state_out, capture: None, scale: 1.0 };
        net.encode(encoder, "gated_delta_net", &p)
    }

    /// Allocates the parameters: the extents, and no factor of the output.
    pub fn build_gated_delta_net_params(device: &MlxDevice, p: GatedDeltaNetParams) -> Result<MlxBuffer> {
        build_gated_delta_net_params_with_q_scale(device, p, 0.0)
    }

    /// As [`build_gated_delta_net_params`], with a factor of the output that the decoding form applies; 0 for none.
    pub fn build_gated_delta_net_params_with_q_scale(
        device: &MlxDevice,
        p: GatedDeltaNetParams,
        q_scale: f32,
    ) -> Result<MlxBuffer> {
        let extents = [p.d_k, p.d_v, p.n_k_heads, p.n_v_heads, p.n_tokens, p.n_seqs];
        let [dk, dv, key_heads, heads, tokens, sequences] = extents;
        super::super::words(device, &[dk, dv, key_heads, heads, tokens, sequences, 0, 0, q_scale.to_bits()])
    }

    /// Computes the recurrence on the host. Returns the output, as long as `v`, and the state. What a short slice lacks is NaN.
    pub fn cpu_reference_f32(
        q: &[f32],
        k: &[f32],
        v: &[f32],
        g: &[f32],
        beta: &[f32],
        state_in: &[f32],
        p: GatedDeltaNetParams,
    ) -> (Vec<f32>, Vec<f32>) {
        let [dk, dv, key_heads, heads, tokens, sequences] =
            [p.d_k, p.d_v, p.n_k_heads, p.n_v_heads, p.n_tokens, p.n_seqs].map(|extent| extent as usize);
        let at = |values: &[f32], i: usize| values.get(i).copied().unwrap_or(f32::NAN);
        let mut output = vec![0.0; v.len()];
        let mut state = state_in.to_vec();
        let extents = [sequences, tokens, heads.max(key_heads), dk.max(dv), dk];
        if super::count("gated_delta_net", &extents).is_err() {
            return (output, state);
        }
        for (i, row) in state.chunks_exact_mut(dk.max(1)).take(sequences * heads * dv).enumerate() {
            let (of_head, value) = (i / dv.max(1), i % dv.max(1));
            let (sequence, head) = (of_head / heads.max(1), of_head % heads.max(1));
            for token in sequence * tokens..(sequence + 1) * tokens {
                let keys = (token * key_heads + head % key_heads.max(1)) * dk;
                let scalar = token * heads + head;
                let factor = (-at(g, scalar)).exp();
                row.iter_mut().for_each(|s| *s *= factor);
                let kept: f32 = row.iter().enumerate().map(|(j, s)| s * at(k, keys + j)).sum();
                let delta = at(beta, scalar) * (at(v, scalar * dv + value) - kept);
                row.iter_mut().enumerate().for_each(|(j, s)| *s += delta * at(k, keys + j));
                let seen = row.iter().enumerate().map(|(j, s)| s * at(q, keys + j)).sum();
                if let Some(place) = output.get_mut(scalar * dv + value) {
                    *place = seen;
                }
            }
        }
        (output, state)
    }
}

/// The gated delta net for few tokens.
pub mod gated_delta_net_decode {
    use super::Net;
    use super::gated_delta_net::GatedDeltaNetParams;
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};

    super::super::super::support::register!();

    /// The largest `d_k / 32`.
    pub const MAX_NSG: u32 = 4;

    /// Encodes [`dispatch_gated_delta_net`](super::gated_delta_net::dispatch_gated_delta_net) for keys of 32, 64 or 128 elements. The output
    /// is multiplied by word 8 of `params_buf`, an f32, unless it is 0.
    pub fn dispatch_gated_delta_net_decode(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        g: &MlxBuffer,
        beta: &MlxBuffer,
        state_in: &MlxBuffer,
        output: &MlxBuffer,
        state_out: &MlxBuffer,
        params_buf: &MlxBuffer,
        p: GatedDeltaNetParams,
    ) -> Result<()> {
        let scale = checked(encoder, params_buf, &p)?;
        let net = Net { q, k, v, g, beta, state_in, output, state_out, capture: None, scale };
        net.encode(encoder, "gated_delta_net_decode", &p)
    }

    /// As [`dispatch_gated_delta_net_decode`]; `state_capture`, `[n_seqs, n_tokens, n_v_heads, d_v, d_k]`, takes the state after each token.
    pub fn dispatch_gated_delta_net_decode_with_capture(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        g: &MlxBuffer,
        beta: &MlxBuffer,
        state_in: &MlxBuffer,
        output: &MlxBuffer,
        state_out: &MlxBuffer,
        params_buf: &MlxBuffer,
        state_capture: &MlxBuffer,
        p: GatedDeltaNetParams,
    ) -> Result<()> {
        let what = "gated_delta_net_decode_with_capture";
        let scale = checked(encoder, params_buf, &p)?;
        let extents = [p.n_seqs, p.n_tokens, p.n_v_heads, p.d_v, p.d_k].map(|extent| extent as usize);
        let needed = super::count(what, &extents)?;
        let has = state_capture.element_count();
        if state_capture.dtype() != DType::F32 || has < needed || (p.n_seqs > 1 && has != needed) {
            refuse!(
                "{what}: state_capture must be f32 of {needed} elements, got {has} of {}",
                state_capture.dtype()
            );
        }
        let capture = Some(state_capture);
        let net = Net { q, k, v, g, beta, state_in, output, state_out, capture, scale };
        net.encode(encoder, what, &p)
    }

    /// Checks extents and parameters, and returns the factor of the output.
    fn checked(encoder: &mut CommandEncoder, params: &MlxBuffer, p: &GatedDeltaNetParams) -> Result<f32> {
        let what = "gated_delta_net_decode";
        if !matches!(p.d_k, 32 | 64 | 128) {
            refuse!("{what}: D_k ({}) must be a multiple of 32 (simdgroup width): 32, 64 or 128", p.d_k);
        }
        if !p.d_v.is_multiple_of(p.d_k / 32) {
            refuse!("{what}: D_v ({}) must be a multiple of NSG ({}=D_k/32)", p.d_v, p.d_k / 32);
        }
        if params.dtype() != DType::U32 || params.element_count() < 9 {
            refuse!("{what}: params_buf must be u32 of at least 9 words");
        }
        let scale = encoder.host_values::<u32>(params, 9)?.last().copied().map_or(0.0, f32::from_bits);
        Ok(if scale == 0.0 { 1.0 } else { scale })
    }
}
