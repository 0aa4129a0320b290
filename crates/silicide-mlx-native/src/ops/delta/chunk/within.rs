//! Steps within a chunk: products of keys, inverses, and what keys and values add.

use super::*;

/// Products of the keys of a chunk.
pub mod gated_delta_net_kkt {
    use super::*;
    use crate::encoder::Dispatch;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxDevice};

    crate::ops::support::register!();

    /// The longest heads of keys.
    pub const MAX_K: u32 = 256;
    /// Heads of keys are a multiple of it.
    pub const DEFAULT_BK: u32 = 64;

    /// Extents.
    #[derive(Clone, Copy, Debug)]
    pub struct GatedDeltaNetKktParams {
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
        /// Tokens of a chunk: 64.
        pub bt: u32,
    }

    impl GatedDeltaNetKktParams {
        /// Returns the number of chunks.
        pub fn num_chunks(&self) -> u32 {
            self.t
                .checked_div(self.bt)
                .map_or(0, |chunks| chunks + u32::from(!self.t.is_multiple_of(self.bt)))
        }
    }

    /// Encodes `a[i][j] = beta[i] * (k[i] . k[j]) * exp(g[i] - g[j])` for `j < i`, 0 elsewhere, in each chunk: `k` bf16 `[B, T, Hg, K]`,
    /// `beta`, `g` f32 `[B, T, H]`, `a` f32 `[B, T, H, BT]`.
    pub fn dispatch_gated_delta_net_kkt(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        k: &MlxBuffer,
        beta: &MlxBuffer,
        g: &MlxBuffer,
        a: &MlxBuffer,
        _params_buf: &MlxBuffer,
        p: GatedDeltaNetKktParams,
    ) -> Result<()> {
        let what = "gated_delta_net_kkt";
        let chunks = Chunks::new(what, [p.b, p.t, p.hg, p.h, p.k, 1, p.bt])?;
        heads_of(what, "K", p.k, MAX_K, DEFAULT_BK)?;
        let Chunks { b, t, hg, h, k: dim, .. } = chunks;
        sized(
            what,
            &[
                ("k", k, DType::BF16, b * t * hg * dim),
                ("beta", beta, DType::F32, b * t * h),
                ("g", g, DType::F32, b * t * h),
                ("A", a, DType::F32, b * t * h * BT),
            ],
        )?;
        let (keys, to) = (chunks.tokens(k, hg, dim)?, chunks.tokens(a, h, BT)?);
        let (rates, sums) = (chunks.scalars(beta)?, chunks.scalars(g)?);
        let dispatch = Dispatch::new(what, b * t * h * BT, &[k, beta, g], &[a]);
        encoder.dispatch(dispatch, move |recorder| {
            let keys = split(recorder, &keys)?;
            let (rates, sums) = (split_scalars(recorder, &rates)?, split_scalars(recorder, &sums)?);
            let a = strict(recorder, &keys, &rates, &sums)?;
            let a = permute(recorder, &a, &[0, 2, 1, 3])?;
            cast_into(recorder, &a, &to)
        })
    }

    /// [`dispatch_gated_delta_net_kkt`] of split tensors.
    fn strict(recorder: &mut Recorder, keys: &Buffer, rates: &Buffer, sums: &Buffer) -> Made {
        let scores = product(recorder, keys, keys)?;
        let decayed = ops::causal_decay(recorder, &scores, sums, false)?;
        scaled(recorder, &decayed, rates)
    }

    /// Allocates the parameters.
    pub fn build_gated_delta_net_kkt_params(
        device: &MlxDevice,
        p: GatedDeltaNetKktParams,
    ) -> Result<MlxBuffer> {
        let values = [p.b, p.t, p.hg, p.h, p.k, p.bt, p.num_chunks(), DEFAULT_BK];
        words(device, &values)
    }
}

/// Inverses of the triangular matrices of chunks.
pub mod chunk_gated_delta_rule_tri_solve_invert {
    use super::*;
    use crate::encoder::Dispatch;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxDevice};

    crate::ops::support::register!();

    /// Tokens of a chunk.
    pub const FIXED_BT: u32 = BT as u32;

    /// Extents.
    #[derive(Clone, Copy, Debug)]
    pub struct ChunkTriSolveInvertParams {
        /// Batch.
        pub b: u32,
        /// Tokens: a multiple of `bt`.
        pub t: u32,
        /// Heads.
        pub h: u32,
        /// Tokens of a chunk: 64.
        pub bt: u32,
    }

    impl ChunkTriSolveInvertParams {
        /// Returns the number of chunks.
        pub fn num_chunks(&self) -> u32 {
            self.t
                .checked_div(self.bt)
                .map_or(0, |chunks| chunks + u32::from(!self.t.is_multiple_of(self.bt)))
        }
    }

    /// Encodes `a_inv = (1 + a_strict)^-1` for each chunk and head; both f32 `[B, T, H, BT]`, of which only what is below the diagonal is
    /// read.
    pub fn dispatch_chunk_tri_solve_invert(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        a_strict: &MlxBuffer,
        a_inv: &MlxBuffer,
        _params_buf: &MlxBuffer,
        p: ChunkTriSolveInvertParams,
    ) -> Result<()> {
        let what = "chunk_tri_solve_invert";
        let chunks = Chunks::new(what, [p.b, p.t, 1, p.h, 1, 1, p.bt])?;
        let elements = chunks.b * chunks.t * chunks.h * BT;
        sized(what, &[("A_strict", a_strict, DType::F32, elements), ("A_inv", a_inv, DType::F32, elements)])?;
        let (from, to) = (chunks.tokens(a_strict, chunks.h, BT)?, chunks.tokens(a_inv, chunks.h, BT)?);
        let unit = unit(encoder.device().silicide())?;
        let dispatch = Dispatch::new(what, elements, &[a_strict], &[a_inv]);
        encoder.dispatch(dispatch, move |recorder| {
            let a = split(recorder, &from)?;
            let inverse = inverted(recorder, &a, &unit)?;
            let inverse = permute(recorder, &inverse, &[0, 2, 1, 3])?;
            cast_into(recorder, &inverse, &to)
        })
    }

    /// Allocates the parameters.
    pub fn build_chunk_tri_solve_invert_params(
        device: &MlxDevice,
        p: ChunkTriSolveInvertParams,
    ) -> Result<MlxBuffer> {
        words(device, &[p.b, p.t, p.h, p.bt])
    }
}

/// What keys and values of a chunk add, given those before them.
pub mod gated_delta_net_recompute_wu {
    use super::*;
    use crate::encoder::Dispatch;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxDevice};

    crate::ops::support::register!();

    /// The longest heads of keys.
    pub const MAX_K: u32 = 256;
    /// The longest heads of values.
    pub const MAX_V: u32 = 256;
    /// Heads of keys are a multiple of it.
    pub const DEFAULT_BK: u32 = 64;
    /// Heads of values are a multiple of it.
    pub const DEFAULT_BV: u32 = 64;

    /// Extents.
    #[derive(Clone, Copy, Debug)]
    pub struct GatedDeltaNetRecomputeWuParams {
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

    impl GatedDeltaNetRecomputeWuParams {
        /// Returns the number of chunks.
        pub fn num_chunks(&self) -> u32 {
            self.t
                .checked_div(self.bt)
                .map_or(0, |chunks| chunks + u32::from(!self.t.is_multiple_of(self.bt)))
        }
    }

    /// Encodes `w = a (beta exp(g) k)` and `u = a (beta v)` for each chunk and head: `k`, `v`, `w`, `u` bf16, `beta`, `g`, `a` f32.
    pub fn dispatch_gated_delta_net_recompute_wu(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        k: &MlxBuffer,
        v: &MlxBuffer,
        beta: &MlxBuffer,
        g: &MlxBuffer,
        a: &MlxBuffer,
        w: &MlxBuffer,
        u: &MlxBuffer,
        _params_buf: &MlxBuffer,
        p: GatedDeltaNetRecomputeWuParams,
    ) -> Result<()> {
        let what = "gated_delta_net_recompute_wu";
        let chunks = Chunks::new(what, [p.b, p.t, p.hg, p.h, p.k, p.v, p.bt])?;
        heads_of(what, "K", p.k, MAX_K, DEFAULT_BK)?;
        heads_of(what, "V", p.v, MAX_V, DEFAULT_BV)?;
        let Chunks { b, t, hg, h, k: key_dim, v: value_dim, .. } = chunks;
        sized(
            what,
            &[
                ("k", k, DType::BF16, b * t * hg * key_dim),
                ("v", v, DType::BF16, b * t * h * value_dim),
                ("beta", beta, DType::F32, b * t * h),
                ("g", g, DType::F32, b * t * h),
                ("A", a, DType::F32, b * t * h * BT),
                ("w", w, DType::BF16, b * t * h * key_dim),
                ("u", u, DType::BF16, b * t * h * value_dim),
            ],
        )?;
        let (keys, values) = (chunks.tokens(k, hg, key_dim)?, chunks.tokens(v, h, value_dim)?);
        let (rates, sums) = (chunks.scalars(beta)?, chunks.scalars(g)?);
        let (left, w_to, u_to) =
            (chunks.tokens(a, h, BT)?, chunks.tokens(w, h, key_dim)?, chunks.tokens(u, h, value_dim)?);
        let dispatch = Dispatch::new(what, b * t * h * key_dim, &[k, v, beta, g, a], &[w, u]);
        encoder.dispatch(dispatch, move |recorder| {
            let (keys, values) = (split(recorder, &keys)?, split(recorder, &values)?);
            let (rates, sums) = (split_scalars(recorder, &rates)?, split_scalars(recorder, &sums)?);
            let a = split(recorder, &left)?;
            let w = w_turned(recorder, &keys, &rates, &sums, &a)?;
            let u = u_turned(recorder, &values, &rates, &a)?;
            for (turned, to) in [(w, &w_to), (u, &u_to)] {
                let joined = permute(recorder, &turned, &[0, 3, 1, 2])?;
                cast_into(recorder, &joined, to)?;
            }
            Ok(())
        })
    }

    /// `w^T` of split tensors, `[rows, H, K, BT]`.
    fn w_turned(recorder: &mut Recorder, keys: &Buffer, rates: &Buffer, sums: &Buffer, a: &Buffer) -> Made {
        let &[rows, h, _] = rates.shape().axes() else { return Ok(keys.clone()) };
        let &[_, hg, _, dim] = keys.shape().axes() else { return Ok(keys.clone()) };
        // Heads that share keys scale them each in its own way.
        let ids: Vec<u32> = (0..rows * h).map(|i| (i / h * hg + i % h / (h / hg)) as u32).collect();
        let ids = Buffer::from_slice(recorder.device(), [rows * h], &ids)?;
        let table = reshaped(keys, &[rows * hg, BT * dim])?;
        let expanded = ops::gather_rows(recorder, &table, &ids, silicide::DType::F32)?;
        let expanded = reshaped(&expanded, &[rows, h, BT, dim])?;
        let growth = exp(recorder, sums)?;
        let factors = ops::mul(recorder, rates, &growth)?;
        u_turned(recorder, &expanded, &factors, a)
    }

    /// `u^T` of split tensors, `[rows, H, V, BT]`.
    fn u_turned(recorder: &mut Recorder, values: &Buffer, rates: &Buffer, a: &Buffer) -> Made {
        let learnt = scaled(recorder, values, rates)?;
        let turned = permute(recorder, &learnt, &[0, 1, 3, 2])?;
        product(recorder, &turned, a)
    }

    /// Allocates the parameters.
    pub fn build_gated_delta_net_recompute_wu_params(
        device: &MlxDevice,
        p: GatedDeltaNetRecomputeWuParams,
    ) -> Result<MlxBuffer> {
        words(device, &[p.b, p.t, p.hg, p.h, p.k, p.v, p.bt, p.num_chunks()])
    }
}
