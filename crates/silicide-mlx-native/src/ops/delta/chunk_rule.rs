//! The gated delta rule over whole chunks of tokens.

use super::super::support::{cast_into, count, reshaped, wide};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::{DType, MlxBuffer};
use chunk_gated_delta_rule::{ChunkGatedDeltaRuleParams, FIXED_BT, L2_NORM_EPS};
use silicide::Recorder as _;
use silicide::ops::delta_net::{DeltaNet, KeyHeads};
use silicide::ops::{rms_norm::RmsNorm, unary};

/// Encodes the rule token by token: the same sums as in chunks, without what chunks round in between.
fn encode(
    encoder: &mut CommandEncoder,
    what: &str,
    inputs: [&MlxBuffer; 6],
    outputs: [&MlxBuffer; 2],
    p: &ChunkGatedDeltaRuleParams,
) -> Result<()> {
    let ([q, k, v, g, beta, h0], [o, final_state]) = (inputs, outputs);
    let extents = [p.b, p.t, p.hg, p.h, p.k, p.v];
    let [b, t, hg, h, key_dim, value_dim] = extents.map(|extent| extent as usize);
    if extents.contains(&0) || p.bt == 0 {
        refuse!("{what}: all dims must be > 0");
    }
    if !h.is_multiple_of(hg) {
        refuse!("{what}: h ({h}) must be a multiple of hg ({hg})");
    }
    if p.v > chunk_gated_delta_rule::MAX_V {
        refuse!("{what}: V ({value_dim}) must be <= MAX_V ({})", chunk_gated_delta_rule::MAX_V);
    }
    if p.bt != FIXED_BT || !p.t.is_multiple_of(p.bt) {
        refuse!("{what}: bt ({}) must be {FIXED_BT}, and t ({t}) a multiple of it", p.bt);
    }
    let (of_keys, of_values) = ([b, t, hg, key_dim], [b, t, h, value_dim]);
    let (of_scalars, of_state) = ([b, t, h], [b, h, value_dim, key_dim]);
    let (keys, values) = (count(what, &of_keys)?, count(what, &of_values)?);
    let (scalars, state) = (count(what, &of_scalars)?, count(what, &of_state)?);
    super::sized(
        what,
        &[
            ("q", q, DType::BF16, keys),
            ("k", k, DType::BF16, keys),
            ("v", v, DType::BF16, values),
            ("g_log_decay", g, DType::F32, scalars),
            ("beta", beta, DType::F32, scalars),
            ("h0", h0, DType::F32, state),
            ("o", o, DType::BF16, values),
            ("final_state", final_state, DType::F32, state),
        ],
    )?;
    let (f32s, bf16s) = (silicide::DType::F32, silicide::DType::BF16);
    let (queries, keys) = (q.tensor(bf16s, &of_keys)?, k.tensor(bf16s, &of_keys)?);
    let (from, to) = (v.tensor(bf16s, &of_values)?, o.tensor(bf16s, &of_values)?);
    let (decay, rates) = (g.tensor(f32s, &of_scalars)?, beta.tensor(f32s, &of_scalars)?);
    let (before, after) = (h0.tensor(f32s, &of_state)?, final_state.tensor(f32s, &of_state)?);
    let (rule, normed) = (DeltaNet { scale: p.scale, key_heads: KeyHeads::Grouped }, p.use_qk_l2norm);
    encoder.dispatch(Dispatch::new(what, values, &inputs, &outputs), move |recorder| {
        let mut of_keys = Vec::new();
        for x in [&queries, &keys] {
            let mut x = wide(recorder, x)?;
            if normed {
                // x / sqrt(sum + eps) is x / sqrt(mean + eps / dim) / sqrt(dim).
                let shape = x.shape().axes().to_vec();
                let dim = key_dim as f32;
                let rows = reshaped(&x, &[b * t * hg, key_dim])?;
                let unit = recorder.run_one(RmsNorm::new(L2_NORM_EPS / dim, false), &[&rows])?;
                let unit = unary::unary(recorder, unary::Unary::Scale { factor: dim.sqrt().recip() }, &unit)?;
                x = reshaped(&unit, &shape)?;
            }
            of_keys.push(x);
        }
        let values = wide(recorder, &from)?;
        let [queries, keys] = of_keys.as_slice() else { return Ok(()) };
        let inputs = [queries, keys, &values, &decay, &rates, &before];
        let y = silicide::Buffer::new(recorder.device(), f32s, values.shape())?;
        recorder.run_into(rule, &inputs, &[&y, &after])?;
        cast_into(recorder, &y, &to)
    })
}

/// The gated delta rule over chunks of 64 tokens.
pub mod chunk_gated_delta_rule {
    use super::encode;
    use crate::error::{Result, refuse};
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::super::support::register!();

    /// The length of heads of keys.
    pub const MAX_K: u32 = 128;
    /// The longest heads of values.
    pub const MAX_V: u32 = 256;
    /// Tokens of a chunk.
    pub const FIXED_BT: u32 = 64;
    /// Epsilon of the norm of queries and keys.
    pub const L2_NORM_EPS: f32 = 1.0e-6;

    /// Extents and options.
    #[derive(Clone, Copy, Debug)]
    pub struct ChunkGatedDeltaRuleParams {
        /// Batch.
        pub b: u32,
        /// Tokens: a multiple of `bt`.
        pub t: u32,
        /// Heads of keys.
        pub hg: u32,
        /// Heads of values: head `h` uses head `h / (H / Hg)` of keys.
        pub h: u32,
        /// Elements of a head of keys.
        pub k: u32,
        /// Elements of a head of values.
        pub v: u32,
        /// Tokens of a chunk: 64.
        pub bt: u32,
        /// The factor of results.
        pub scale: f32,
        /// Whether queries and keys are brought to unit length first.
        pub use_qk_l2norm: bool,
    }

    impl ChunkGatedDeltaRuleParams {
        /// Returns the number of chunks.
        pub fn num_chunks(&self) -> u32 {
            self.t
                .checked_div(self.bt)
                .map_or(0, |chunks| chunks + u32::from(!self.t.is_multiple_of(self.bt)))
        }
    }

    /// Encodes the rule: `q`, `k` bf16 `[B, T, Hg, K]`, `v`, `o` bf16 `[B, T, H, V]`, `g_log_decay`, `beta` f32 `[B, T, H]`, `h0` and
    /// `final_state` f32 `[B, H, V, K]`.
    pub fn dispatch_chunk_gated_delta_rule_fwd(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        g_log_decay: &MlxBuffer,
        beta: &MlxBuffer,
        h0: &MlxBuffer,
        o: &MlxBuffer,
        final_state: &MlxBuffer,
        p: ChunkGatedDeltaRuleParams,
    ) -> Result<()> {
        let what = "chunk_gated_delta_rule_fwd";
        if p.k != MAX_K {
            refuse!("{what}: K ({}) must equal MAX_K = {MAX_K} exactly", p.k);
        }
        encode(encoder, what, [q, k, v, g_log_decay, beta, h0], [o, final_state], &p)
    }

    /// Extents of calls that mlx-native keeps scratch memory for. Here it holds no memory.
    pub struct ChunkInternalArena {
        /// Batch.
        pub b_capacity: u32,
        /// Tokens.
        pub t_capacity: u32,
        /// Heads of keys.
        pub hg_capacity: u32,
        /// Heads of values.
        pub h_capacity: u32,
        /// Elements of a head of keys.
        pub k_capacity: u32,
        /// Elements of a head of values.
        pub v_capacity: u32,
        /// Tokens of a chunk.
        pub bt_capacity: u32,
    }

    impl ChunkInternalArena {
        /// Checks the extents and keeps them.
        pub fn new(
            _device: &MlxDevice,
            b: u32,
            t: u32,
            hg: u32,
            h: u32,
            k: u32,
            v: u32,
            bt: u32,
        ) -> Result<ChunkInternalArena> {
            let what = "ChunkInternalArena::new";
            if [b, t, hg, h, k, v, bt].contains(&0) {
                refuse!("{what}: all dims must be > 0");
            }
            if k != MAX_K || v > MAX_V || bt != FIXED_BT || !t.is_multiple_of(bt) || !h.is_multiple_of(hg) {
                refuse!("{what}: no call takes t={t}, hg={hg}, h={h}, k={k}, v={v}, bt={bt}");
            }
            Ok(ChunkInternalArena {
                b_capacity: b,
                t_capacity: t,
                hg_capacity: hg,
                h_capacity: h,
                k_capacity: k,
                v_capacity: v,
                bt_capacity: bt,
            })
        }

        /// Refuses other extents than those of [`ChunkInternalArena::new`].
        pub fn validate_fits(&self, b: u32, t: u32, hg: u32, h: u32, k: u32, v: u32, bt: u32) -> Result<()> {
            let capacity = [self.b_capacity, self.t_capacity, self.hg_capacity, self.h_capacity];
            let rest = [self.k_capacity, self.v_capacity, self.bt_capacity];
            if capacity != [b, t, hg, h] || rest != [k, v, bt] {
                refuse!(
                    "ChunkInternalArena::validate_fits: shape mismatch: capacity {capacity:?} {rest:?}, call {:?} {:?}",
                    [b, t, hg, h],
                    [k, v, bt]
                );
            }
            Ok(())
        }
    }

    /// As [`dispatch_chunk_gated_delta_rule_fwd`], for queries and keys that need no norm.
    pub fn dispatch_chunk_gated_delta_rule_fwd_with_arena(
        encoder: &mut CommandEncoder,
        registry: &mut KernelRegistry,
        device: &MlxDevice,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        g_log_decay: &MlxBuffer,
        beta: &MlxBuffer,
        h0: &MlxBuffer,
        o: &MlxBuffer,
        final_state: &MlxBuffer,
        arena: &mut ChunkInternalArena,
        p: ChunkGatedDeltaRuleParams,
    ) -> Result<()> {
        if p.use_qk_l2norm {
            refuse!(
                "dispatch_chunk_gated_delta_rule_fwd_with_arena: use_qk_l2norm=true is for the form without arena"
            );
        }
        arena.validate_fits(p.b, p.t, p.hg, p.h, p.k, p.v, p.bt)?;
        dispatch_chunk_gated_delta_rule_fwd(
            encoder,
            registry,
            device,
            q,
            k,
            v,
            g_log_decay,
            beta,
            h0,
            o,
            final_state,
            p,
        )
    }
}

/// Forms for heads of keys of 256 elements.
pub mod chunk_gated_delta_rule_bank_split {
    use super::super::{gated_delta_net_chunk, gated_delta_net_chunk_o};
    use super::{ChunkGatedDeltaRuleParams, encode};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::super::support::register!();

    /// The length of heads of keys.
    pub const BANK_SPLIT_K: u32 = 256;
    /// Halves of a head in mlx-native.
    pub const NUM_BANKS: u32 = 2;

    fn only_256(what: &str, k: u32) -> Result<()> {
        if k != BANK_SPLIT_K {
            refuse!("{what}: K ({k}) must equal BANK_SPLIT_K = {BANK_SPLIT_K} exactly");
        }
        Ok(())
    }

    /// As [`dispatch_chunk_gated_delta_rule_fwd`](super::chunk_gated_delta_rule::dispatch_chunk_gated_delta_rule_fwd), for keys of 256.
    pub fn dispatch_chunk_gated_delta_rule_fwd_k256_bank_split(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        g_log_decay: &MlxBuffer,
        beta: &MlxBuffer,
        h0: &MlxBuffer,
        o: &MlxBuffer,
        final_state: &MlxBuffer,
        p: ChunkGatedDeltaRuleParams,
    ) -> Result<()> {
        only_256("chunk_bank_split", p.k)?;
        encode(encoder, "chunk_bank_split", [q, k, v, g_log_decay, beta, h0], [o, final_state], &p)
    }

    /// As [`dispatch_gated_delta_net_chunk_inter_state`](gated_delta_net_chunk::dispatch_gated_delta_net_chunk_inter_state), for keys of 256.
    pub fn dispatch_chunk_inter_state_k256(
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
        p: gated_delta_net_chunk::GatedDeltaNetChunkParams,
    ) -> Result<()> {
        only_256("dispatch_chunk_inter_state_k256", p.k)?;
        gated_delta_net_chunk::inter_state(encoder, [k, w, u, g, h0], [h_out, v_new, final_state], p)
    }

    /// As [`dispatch_gated_delta_net_chunk_o`](gated_delta_net_chunk_o::dispatch_gated_delta_net_chunk_o), for keys of 256.
    pub fn dispatch_chunk_o_k256(
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
        p: gated_delta_net_chunk_o::GatedDeltaNetChunkOParams,
    ) -> Result<()> {
        only_256("dispatch_chunk_o_k256", p.k)?;
        gated_delta_net_chunk_o::results(encoder, [q, k, v, h, g], o, p)
    }
}
