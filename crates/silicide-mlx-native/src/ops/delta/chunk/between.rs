//! Steps between chunks: states, and results.

use super::*;

/// States between chunks.
pub mod gated_delta_net_chunk {
    use super::*;
    use crate::encoder::Dispatch;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxDevice};

    crate::ops::support::register!();

    /// The length of heads of keys.
    pub const MAX_K: u32 = 128;
    /// The longest heads of values.
    pub const MAX_V: u32 = 256;
    /// Heads of values are a multiple of it.
    pub const DEFAULT_BV: u32 = 32;

    /// Extents.
    #[derive(Clone, Copy, Debug)]
    pub struct GatedDeltaNetChunkParams {
        /// Batch.
        pub b: u32,
        /// Tokens: a multiple of `bt`.
        pub t: u32,
        /// Heads of keys.
        pub hg: u32,
        /// Heads of values.
        pub h: u32,
        /// Elements of a head of keys.
        pub k: u32,
        /// Elements of a head of values.
        pub v: u32,
        /// Tokens of a chunk: 64.
        pub bt: u32,
    }

    impl GatedDeltaNetChunkParams {
        /// Returns the number of chunks.
        pub fn num_chunks(&self) -> u32 {
            self.t
                .checked_div(self.bt)
                .map_or(0, |chunks| chunks + u32::from(!self.t.is_multiple_of(self.bt)))
        }

        /// Returns how many heads of values use a head of keys.
        pub fn group_ratio(&self) -> u32 {
            self.h.checked_div(self.hg).unwrap_or(0)
        }
    }

    /// Encodes the states: `h_out`, bf16 `[B, NT, H, V, K]`, before each chunk; `v_new = u - w S^T`, bf16 `[B, T, H, V]`; and
    /// `final_state`, f32 `[B, H, V, K]`, after the last. `k`, `w`, `u` are bf16, `g` and `h0` f32.
    pub fn dispatch_gated_delta_net_chunk_inter_state(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        k: &MlxBuffer,
        w: &MlxBuffer,
        u: &MlxBuffer,
        g: &MlxBuffer,
        h0: &MlxBuffer,
        h_out: &MlxBuffer,
        v_new: &MlxBuffer,
        final_state: &MlxBuffer,
        _params_buf: &MlxBuffer,
        p: GatedDeltaNetChunkParams,
    ) -> Result<()> {
        keys_of("gated_delta_net_chunk", p.k, MAX_K)?;
        inter_state(encoder, [k, w, u, g, h0], [h_out, v_new, final_state], p)
    }

    /// [`dispatch_gated_delta_net_chunk_inter_state`] for keys of any length.
    pub(in crate::ops::delta) fn inter_state(
        encoder: &mut CommandEncoder,
        inputs: [&MlxBuffer; 5],
        outputs: [&MlxBuffer; 3],
        p: GatedDeltaNetChunkParams,
    ) -> Result<()> {
        let what = "gated_delta_net_chunk";
        let ([k, w, u, g, h0], [h_out, v_new, final_state]) = (inputs, outputs);
        let chunks = Chunks::new(what, [p.b, p.t, p.hg, p.h, p.k, p.v, p.bt])?;
        heads_of(what, "V", p.v, MAX_V, DEFAULT_BV)?;
        let Chunks { b, t, hg, h, k: key_dim, v: value_dim } = chunks;
        let state = b * h * value_dim * key_dim;
        sized(
            what,
            &[
                ("k", k, DType::BF16, b * t * hg * key_dim),
                ("w", w, DType::BF16, b * t * h * key_dim),
                ("u", u, DType::BF16, b * t * h * value_dim),
                ("v_new", v_new, DType::BF16, b * t * h * value_dim),
                ("g", g, DType::F32, b * t * h),
                ("h0", h0, DType::F32, state),
                ("final_state", final_state, DType::F32, state),
                ("h_out", h_out, DType::BF16, state * chunks.chunks()),
            ],
        )?;
        let (f32s, bf16s) = (silicide::DType::F32, silicide::DType::BF16);
        let of_state = [h, value_dim, key_dim];
        let one = h * value_dim * key_dim;
        let mut batches = Vec::new();
        for batch in 0..b {
            let mut steps = Vec::new();
            for row in batch * chunks.chunks()..(batch + 1) * chunks.chunks() {
                let tokens = |buffer: &MlxBuffer, heads: usize, dim: usize| {
                    buffer.tensor_at(row * BT * heads * dim * 2, bf16s, &[1, BT, heads, dim])
                };
                steps.push((
                    [tokens(k, hg, key_dim)?, tokens(w, h, key_dim)?, tokens(u, h, value_dim)?],
                    g.tensor_at(row * BT * h * 4, f32s, &[BT, h])?,
                    g.tensor_at(((row + 1) * BT - 1) * h * 4, f32s, &[h])?,
                    h_out.tensor_at(row * one * 2, bf16s, &of_state)?,
                    tokens(v_new, h, value_dim)?,
                ));
            }
            let before = h0.tensor_at(batch * one * 4, f32s, &of_state)?;
            let after = final_state.tensor_at(batch * one * 4, f32s, &of_state)?;
            batches.push((before, steps, after));
        }
        let dispatch = Dispatch::new(what, b * t * h, &inputs, &outputs);
        encoder.dispatch(dispatch, move |recorder| {
            for (before, steps, after) in &batches {
                let mut state = before.clone();
                for ([keys, w, u], sums, last, snapshot, v_to) in steps {
                    cast_into(recorder, &state, snapshot)?;
                    let heads = |x: &Buffer, axes: [usize; 3]| reshaped(x, &axes);
                    let w = split(recorder, w)?;
                    let w = heads(&w, [h, BT, key_dim])?;
                    let seen = product(recorder, &state, &w)?;
                    let u = split_turned(recorder, u)?;
                    let u = heads(&u, [h, value_dim, BT])?;
                    // [H, V, BT]
                    let fresh = ops::sub(recorder, &u, &seen)?;
                    let joined = permute(recorder, &fresh, &[2, 0, 1])?;
                    cast_into(recorder, &reshaped(&joined, &[1, BT, h, value_dim])?, v_to)?;
                    // exp(g_last - g), by token and head.
                    let rest = ops::sub(recorder, sums, last)?;
                    let rest = unary(recorder, Unary::Neg, &rest)?;
                    let decay = exp(recorder, &rest)?;
                    let decay = permute(recorder, &decay, &[1, 0])?;
                    let by_token = permute(recorder, &fresh, &[0, 2, 1])?;
                    let gated = scaled(recorder, &by_token, &decay)?;
                    let gated = permute(recorder, &gated, &[0, 2, 1])?;
                    let keys = split_turned(recorder, keys)?;
                    let keys = heads(&keys, [hg, key_dim, BT])?;
                    let added = product(recorder, &gated, &keys)?;
                    let factor = exp(recorder, last)?;
                    let flat = reshaped(&state, &[h, value_dim * key_dim])?;
                    let kept = scaled(recorder, &flat, &factor)?;
                    state = ops::add(recorder, &reshaped(&kept, &of_state)?, &added)?;
                }
                cast_into(recorder, &state, after)?;
            }
            Ok(())
        })
    }

    /// Allocates the parameters.
    pub fn build_gated_delta_net_chunk_params(
        device: &MlxDevice,
        p: GatedDeltaNetChunkParams,
    ) -> Result<MlxBuffer> {
        words(device, &[p.b, p.t, p.hg, p.h, p.k, p.v, p.bt, p.num_chunks()])
    }
}

/// Results of chunks.
pub mod gated_delta_net_chunk_o {
    use super::*;
    use crate::encoder::Dispatch;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxDevice};

    crate::ops::support::register!();

    /// The length of heads of keys.
    pub const MAX_K: u32 = 128;
    /// The longest heads of values.
    pub const MAX_V: u32 = 256;
    /// A step of heads of keys.
    pub const DEFAULT_BK: u32 = 32;
    /// Heads of values are a multiple of it.
    pub const DEFAULT_BV: u32 = 32;

    /// Extents and the factor of results.
    #[derive(Clone, Copy, Debug)]
    pub struct GatedDeltaNetChunkOParams {
        /// Batch.
        pub b: u32,
        /// Tokens: a multiple of `bt`.
        pub t: u32,
        /// Heads of keys.
        pub hg: u32,
        /// Heads of values.
        pub h: u32,
        /// Elements of a head of keys.
        pub k: u32,
        /// Elements of a head of values.
        pub v: u32,
        /// Tokens of a chunk: 64.
        pub bt: u32,
        /// The factor of results.
        pub scale: f32,
    }

    impl GatedDeltaNetChunkOParams {
        /// Returns the number of chunks.
        pub fn num_chunks(&self) -> u32 {
            self.t
                .checked_div(self.bt)
                .map_or(0, |chunks| chunks + u32::from(!self.t.is_multiple_of(self.bt)))
        }

        /// Returns the number of tiles of values.
        pub fn num_v_tiles(&self) -> u32 {
            self.v / DEFAULT_BV
        }
    }

    /// Encodes `o = scale * (exp(g) q h^T + tril(q k^T exp(g[i] - g[j])) v)` for each chunk and head: `q`, `k`, `v`, `h`, `o` bf16, `g` f32.
    pub fn dispatch_gated_delta_net_chunk_o(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        h: &MlxBuffer,
        g: &MlxBuffer,
        o: &MlxBuffer,
        _params_buf: &MlxBuffer,
        p: GatedDeltaNetChunkOParams,
    ) -> Result<()> {
        keys_of("gated_delta_net_chunk_o", p.k, MAX_K)?;
        results(encoder, [q, k, v, h, g], o, p)
    }

    /// [`dispatch_gated_delta_net_chunk_o`] for keys of any length.
    pub(in crate::ops::delta) fn results(
        encoder: &mut CommandEncoder,
        inputs: [&MlxBuffer; 5],
        o: &MlxBuffer,
        p: GatedDeltaNetChunkOParams,
    ) -> Result<()> {
        let what = "gated_delta_net_chunk_o";
        let [q, k, v, states, g] = inputs;
        let chunks = Chunks::new(what, [p.b, p.t, p.hg, p.h, p.k, p.v, p.bt])?;
        heads_of(what, "V", p.v, MAX_V, DEFAULT_BV)?;
        if !p.scale.is_finite() {
            refuse!("{what}: scale must be finite, got {}", p.scale);
        }
        let Chunks { b, t, hg, h, k: key_dim, v: value_dim } = chunks;
        sized(
            what,
            &[
                ("q", q, DType::BF16, b * t * hg * key_dim),
                ("k", k, DType::BF16, b * t * hg * key_dim),
                ("v", v, DType::BF16, b * t * h * value_dim),
                ("h", states, DType::BF16, chunks.rows() * h * value_dim * key_dim),
                ("g", g, DType::F32, b * t * h),
                ("o", o, DType::BF16, b * t * h * value_dim),
            ],
        )?;
        let (queries, keys) = (chunks.tokens(q, hg, key_dim)?, chunks.tokens(k, hg, key_dim)?);
        let (values, to) = (chunks.tokens(v, h, value_dim)?, chunks.tokens(o, h, value_dim)?);
        let states = states.tensor(silicide::DType::BF16, &[chunks.rows(), h, value_dim, key_dim])?;
        let sums = chunks.scalars(g)?;
        let scale = p.scale;
        let dispatch = Dispatch::new(what, b * t * h * value_dim, &inputs, &[o]);
        encoder.dispatch(dispatch, move |recorder| {
            let (queries, keys) = (split(recorder, &queries)?, split(recorder, &keys)?);
            let values = split_turned(recorder, &values)?;
            let states = wide(recorder, &states)?;
            let sums = split_scalars(recorder, &sums)?;
            let scores = product(recorder, &queries, &keys)?;
            let scores = ops::causal_decay(recorder, &scores, &sums, true)?;
            // Both as [rows, H, V, BT].
            let inside = product(recorder, &values, &scores)?;
            let before = product(recorder, &states, &queries)?;
            let by_token = |recorder: &mut Recorder, x: &Buffer| permute(recorder, x, &[0, 1, 3, 2]);
            let (inside, before) = (by_token(recorder, &inside)?, by_token(recorder, &before)?);
            let growth = exp(recorder, &sums)?;
            let before = scaled(recorder, &before, &growth)?;
            let sum = ops::add(recorder, &inside, &before)?;
            let result = unary(recorder, Unary::Scale { factor: scale }, &sum)?;
            let joined = permute(recorder, &result, &[0, 2, 1, 3])?;
            cast_into(recorder, &joined, &to)
        })
    }

    /// Allocates the parameters.
    pub fn build_gated_delta_net_chunk_o_params(
        device: &MlxDevice,
        p: GatedDeltaNetChunkOParams,
    ) -> Result<MlxBuffer> {
        let extents = [p.b, p.t, p.hg, p.h, p.k, p.v, p.bt, p.num_chunks(), DEFAULT_BK, DEFAULT_BV];
        let values: Vec<u32> = extents.into_iter().chain([p.scale.to_bits()]).collect();
        words(device, &values)
    }
}
