//! Attention over contiguous keys and values.

use super::support::{cast_into, count, float, positive};
use crate::MlxBuffer;
use crate::encoder::{CapturedOpKind, CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use silicide::ops::attention::{Attend, Attention, Visibility, WorkList};
use silicide::{DType as Element, Recorder};

/// Queries `[batch, heads, queries, dim]` and keys `[batch, kv_heads, capacity, dim]`, of which the first `keys` are there.
struct Heads {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    queries: usize,
    keys: usize,
    capacity: usize,
    scale: f32,
    causal: bool,
    window: Option<u32>,
}

fn attend(
    encoder: &mut CommandEncoder,
    what: &str,
    [q, k, v, output]: [&MlxBuffer; 4],
    of: Heads,
) -> Result<()> {
    let Heads { batch, heads, kv_heads, dim, queries, keys, capacity, scale, causal, window } = of;
    positive(
        what,
        &[("batch_size", batch), ("n_heads", heads), ("n_kv_heads", kv_heads), ("head_dim", dim)],
    )?;
    positive(what, &[("seq_len", queries), ("kv_seq_len", keys)])?;
    if !heads.is_multiple_of(kv_heads) {
        refuse!("{what}: n_heads = {heads} must be a multiple of n_kv_heads = {kv_heads}");
    }
    if keys > capacity || (causal && queries > keys) {
        refuse!("{what}: {queries} queries and {keys} keys do not fit a capacity of {capacity}");
    }
    if !scale.is_finite() {
        refuse!("{what}: scale must be finite, got {scale}");
    }
    let (from, cached, to) = (float(what, "q", q)?, float(what, "k", k)?, float(what, "output", output)?);
    if v.dtype() != k.dtype() {
        refuse!("{what}: k and v must have one type, got {} and {}", k.dtype(), v.dtype());
    }
    let device = encoder.device().silicide().clone();
    let visibility = Visibility { causal, window, capacity };
    // Queries that are not causal see all keys, however many queries there are.
    let work = if causal {
        WorkList::buffer(&device, &visibility, keys - queries, queries)?
    } else {
        let mut list = WorkList::new(capacity, device.info());
        list.set((0..queries).map(|_| 0..keys))?;
        silicide::Buffer::from_slice(&device, [list.entries(), 4], list.words())?
    };
    let bytes = |dtype: Element, extents: &[usize]| -> Result<usize> {
        Ok(count(what, extents)?.saturating_mul(dtype.block_bytes()))
    };
    let (q_step, kv_step) =
        (bytes(from, &[heads, queries, dim])?, bytes(cached, &[kv_heads, capacity, dim])?);
    let y_step = bytes(to, &[heads, queries, dim])?;
    let mut sequences = Vec::new();
    for i in 0..batch {
        sequences.push((
            q.tensor_at(i * q_step, from, &[heads, queries, dim])?,
            k.tensor_at(i * kv_step, cached, &[kv_heads, capacity, dim])?,
            v.tensor_at(i * kv_step, cached, &[kv_heads, capacity, dim])?,
            output.tensor_at(i * y_step, to, &[heads, queries, dim])?,
        ));
    }
    let op = Attend::new(Attention { scale, softcap: None }, false);
    let dispatch =
        Dispatch::new(what, batch * heads * queries, &[q, k, v], &[output]).kind(CapturedOpKind::Sdpa);
    encoder.dispatch(dispatch, move |recorder| {
        for (q, k, v, y) in &sequences {
            let wide = silicide::ops::cast(recorder, q, Element::F32)?;
            let rows = silicide::ops::permute::permute(recorder, &wide, &[1, 0, 2])?;
            let mixed = recorder.run_one(op, &[&rows, k, v, &work])?;
            let by_head = silicide::ops::permute::permute(recorder, &mixed, &[1, 0, 2])?;
            cast_into(recorder, &by_head, y)?;
        }
        Ok(())
    })
}

/// Attention.
pub mod sdpa {
    use super::{Heads, attend};
    use crate::error::Result;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::support::register!();

    /// Extents, scale and mask.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SdpaParams {
        /// Heads of queries.
        pub n_heads: u32,
        /// Heads of keys and values.
        pub n_kv_heads: u32,
        /// Elements of a head.
        pub head_dim: u32,
        /// Queries.
        pub seq_len: u32,
        /// Keys.
        pub kv_seq_len: u32,
        /// The factor of scores.
        pub scale: f32,
        /// Rows of a head in the cache; 0 for `kv_seq_len`.
        pub kv_capacity: u32,
        /// Whether a query sees no key after it; the queries are the last keys.
        pub do_causal: bool,
    }

    /// Encodes attention of queries `[batch, n_heads, seq_len, head_dim]` over `[batch, n_kv_heads, kv_capacity, head_dim]`.
    pub fn sdpa(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        output: &MlxBuffer,
        params: &SdpaParams,
        batch_size: u32,
    ) -> Result<()> {
        let p = params;
        let capacity = if p.kv_capacity == 0 { p.kv_seq_len } else { p.kv_capacity };
        let heads = Heads {
            batch: batch_size as usize,
            heads: p.n_heads as usize,
            kv_heads: p.n_kv_heads as usize,
            dim: p.head_dim as usize,
            queries: p.seq_len as usize,
            keys: p.kv_seq_len as usize,
            capacity: capacity as usize,
            scale: p.scale,
            causal: p.do_causal,
            window: None,
        };
        attend(encoder, "sdpa", [q, k, v, output], heads)
    }
}

/// Attention under a window.
pub mod sdpa_sliding {
    use super::{Heads, attend};
    use crate::error::{Result, refuse};
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::support::register!();

    /// Extents, scale and window.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SdpaSlidingParams {
        /// Heads of queries.
        pub n_heads: u32,
        /// Heads of keys and values.
        pub n_kv_heads: u32,
        /// Elements of a head.
        pub head_dim: u32,
        /// Queries.
        pub seq_len: u32,
        /// Keys.
        pub kv_seq_len: u32,
        /// Keys that a query sees back, its own included.
        pub window_size: u32,
        /// The factor of scores.
        pub scale: f32,
        /// Rows of a head in the cache; 0 for `kv_seq_len`.
        pub kv_capacity: u32,
    }

    /// Encodes causal attention under a window.
    pub fn sdpa_sliding(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        output: &MlxBuffer,
        params: &SdpaSlidingParams,
        batch_size: u32,
    ) -> Result<()> {
        let p = params;
        if p.window_size == 0 {
            refuse!("sdpa_sliding: window_size must be greater than zero");
        }
        let capacity = if p.kv_capacity == 0 { p.kv_seq_len } else { p.kv_capacity };
        let heads = Heads {
            batch: batch_size as usize,
            heads: p.n_heads as usize,
            kv_heads: p.n_kv_heads as usize,
            dim: p.head_dim as usize,
            queries: p.seq_len as usize,
            keys: p.kv_seq_len as usize,
            capacity: capacity as usize,
            scale: p.scale,
            causal: true,
            window: Some(p.window_size),
        };
        attend(encoder, "sdpa_sliding", [q, k, v, output], heads)
    }
}
