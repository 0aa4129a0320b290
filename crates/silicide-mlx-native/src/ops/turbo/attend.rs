//! Attention of one query for each sequence over compressed caches.

use super::super::support::{reshaped, typed};
use super::rotate::{Rotation, matrix, rotated};
use super::{Format, codes_at, norms_at};
use crate::encoder::{CapturedOpKind, CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::{DType, MlxBuffer};
use flash_attn_vec_tq_hb::FlashAttnVecTqHbParams;
use silicide::Buffer;
use silicide::ops::{self, masked_attention::MaskedInputs};

/// Buffers of a call.
#[derive(Clone, Copy)]
struct Cache<'a> {
    q: &'a MlxBuffer,
    k: [&'a MlxBuffer; 2],
    v: [&'a MlxBuffer; 2],
    output: &'a MlxBuffer,
}

/// A query: its row, and its cache.
#[derive(Clone, Copy)]
struct Query {
    index: usize,
    row: usize,
    capacity: u32,
    keys: u32,
    ring_start: u32,
}

fn check(what: &str, p: &FlashAttnVecTqHbParams) -> Result<()> {
    if !matches!(p.head_dim, 256 | 512) {
        refuse!("{what}: head_dim must be 256 or 512, got {}", p.head_dim);
    }
    if p.num_heads == 0 || p.num_kv_heads == 0 {
        refuse!("{what}: num_heads and num_kv_heads must be > 0");
    }
    if !p.num_heads.is_multiple_of(p.num_kv_heads) {
        refuse!("{what}: num_heads ({}) % num_kv_heads ({}) != 0", p.num_heads, p.num_kv_heads);
    }
    if p.kv_seq_len == 0 {
        refuse!("{what}: kv_seq_len must be > 0");
    }
    if p.kv_capacity < p.kv_seq_len {
        refuse!("{what}: kv_capacity ({}) < kv_seq_len ({})", p.kv_capacity, p.kv_seq_len);
    }
    if !matches!(p.codebook_bits, 5 | 6 | 8) {
        refuse!("{what}: codebook_bits must be 5, 6, or 8, got {}", p.codebook_bits);
    }
    if !p.nsg.is_power_of_two() {
        refuse!("{what}: nsg must be a power of 2 (1, 2, 4, ...), got {}", p.nsg);
    }
    if p.nsg > 4 {
        refuse!("{what}: nsg must be ≤ 4 (kernel reduce cap), got {}", p.nsg);
    }
    if !p.scale.is_finite() {
        refuse!("{what}: scale must be finite, got {}", p.scale);
    }
    Ok(())
}

/// Encodes attention of a query. `undo` turns the result back.
fn attend(
    encoder: &mut CommandEncoder,
    what: &str,
    cache: Cache<'_>,
    query: Query,
    p: &FlashAttnVecTqHbParams,
    undo: bool,
) -> Result<()> {
    let device = encoder.device().silicide().clone();
    let format = Format::new(&device, what, p.head_dim, Some(p.codebook_bits), p.scale_factor_d512)?;
    let Cache { q, k, v, output } = cache;
    for (name, buffer) in [("q", q), ("k_norms", k[1]), ("v_norms", v[1]), ("output", output)] {
        typed(what, name, buffer, DType::F32)?;
    }
    let [heads, kv_heads, keys] = [p.num_heads, p.num_kv_heads, query.keys].map(|extent| extent as usize);
    let (dim, capacity) = (format.dim, query.capacity as usize);
    let f32s = silicide::DType::F32;
    let at = super::byte_of(query.index, heads * dim * 4)?;
    let from = q.tensor_at(at, f32s, &[heads, dim])?;
    let to = output.tensor_at(at, f32s, &[1, heads, dim])?;
    // Each head's slots, which are together in a cache that is full.
    let mut parts = Vec::new();
    for [codes, norms] in [k, v] {
        let mut heads = Vec::new();
        for head in 0..kv_heads {
            let row = query.row.saturating_add(head * capacity);
            heads.push((codes_at(codes, &format, row, keys)?, norms_at(norms, &format, row, keys)?));
        }
        parts.push(heads);
    }
    // Slots in the order of their positions begin at the start of the ring; a window shows the last of them.
    let first = match p.mask_type {
        2 if p.sliding_window > 0 => query.keys.saturating_sub(p.sliding_window),
        _ => 0,
    };
    let shown = |slot: u32| {
        let position = (u64::from(slot) + u64::from(query.capacity)
            - u64::from(query.ring_start % query.capacity))
            % u64::from(query.capacity);
        u8::from(position >= u64::from(first) && position < u64::from(query.keys))
    };
    let mask: Vec<u8> = (0..query.keys).map(shown).collect();
    let mask = Buffer::from_slice(&device, [1, keys], &mask)?;
    let forward = if p.fuse_fwht_pre != 0 { Some(matrix(&device, dim, Rotation::Forward)?) } else { None };
    let back = if undo { Some(matrix(&device, dim, Rotation::Back)?) } else { None };
    let scale = p.scale;
    let reads = [q, k[0], k[1], v[0], v[1]];
    let dispatch = Dispatch::new(what, heads * 32, &reads, &[output]).kind(CapturedOpKind::Sdpa);
    encoder.dispatch(dispatch, move |recorder| {
        use silicide::Recorder as _;
        let mut decoded = Vec::new();
        for heads in &parts {
            let whole =
                Buffer::new(recorder.device(), f32s, super::super::support::shape(&[kv_heads, keys, dim])?)?;
            let op = ops::codebook_decode::CodebookDecode { codebook: format.codebook };
            for (head, (codes, norms)) in heads.iter().enumerate() {
                let place = whole.slice(head * keys * dim..(head + 1) * keys * dim)?;
                let place = reshaped(&place, &[keys, dim])?;
                recorder.run_into(op, &[codes, norms, &format.levels], &[&place])?;
            }
            decoded.push(whole);
        }
        let [k, v] = decoded.as_slice() else { return Ok(()) };
        let query = match &forward {
            Some(matrix) => rotated(recorder, &from, matrix)?,
            None => from.clone(),
        };
        let query = reshaped(&query, &[1, heads, dim])?;
        let inputs = MaskedInputs { q: &query, k, v, mask: &mask, sinks: None };
        let y = ops::masked_attention(recorder, &inputs, scale)?;
        let y = match &back {
            Some(matrix) => {
                let rows = rotated(recorder, &reshaped(&y, &[heads, dim])?, matrix)?;
                reshaped(&rows, &[1, heads, dim])?
            }
            None => y,
        };
        recorder.copy(&y, &to)
    })
}

/// Attention over caches of 5, 6 or 8 bits.
pub mod flash_attn_vec_tq_hb {
    use super::{Cache, Query, attend, check};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::super::support::register!();

    /// How many heads of queries share a tile in mlx-native.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum GqaTile {
        /// Two.
        Q2,
    }

    /// Extents, scale, mask and format.
    #[derive(Clone, Copy, Debug)]
    pub struct FlashAttnVecTqHbParams {
        /// Heads of queries.
        pub num_heads: u32,
        /// Heads of keys and values.
        pub num_kv_heads: u32,
        /// Elements of a head: 256 or 512.
        pub head_dim: u32,
        /// Keys.
        pub kv_seq_len: u32,
        /// Slots of a head in the cache.
        pub kv_capacity: u32,
        /// The factor of scores.
        pub scale: f32,
        /// 2: a window, and in batches a ring.
        pub mask_type: u32,
        /// Keys that a query sees back, its own included, if `mask_type` is 2; 0 for all.
        pub sliding_window: u32,
        /// Without effect, as in mlx-native.
        pub softcap: f32,
        /// The slot of the oldest key of a ring.
        pub ring_start: u32,
        /// The factor that heads of 512 were encoded with.
        pub scale_factor_d512: f32,
        /// Bits of a code: 5, 6 or 8.
        pub codebook_bits: u32,
        /// Whether queries are rotated here; otherwise they are rotated already.
        pub fuse_fwht_pre: u32,
        /// 1, 2 or 4, without effect.
        pub nsg: u32,
    }

    /// Returns the `nsg` that mlx-native would choose.
    pub fn compute_nsg(kv_seq_len: u32) -> u32 {
        if kv_seq_len > 1024 { 4 } else { 1 }
    }

    /// Returns the bytes of scratch memory that mlx-native's callers bring. It is not used.
    pub fn tmp_buffer_bytes(num_heads: u32, head_dim: u32) -> usize {
        let extents = [num_heads as usize, 32, (head_dim as usize).saturating_add(2), 4];
        extents.into_iter().fold(1, usize::saturating_mul)
    }

    /// Refuses bits that no codebook has.
    pub fn prewarm_gqa_tile(
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        codebook_bits: u32,
        _tile: GqaTile,
    ) -> Result<()> {
        if !matches!(codebook_bits, 5 | 6 | 8) {
            refuse!("prewarm_gqa_tile: codebook_bits must be 5, 6, or 8, got {codebook_bits}");
        }
        Ok(())
    }

    fn one(p: &FlashAttnVecTqHbParams) -> Query {
        let (capacity, keys) = (p.kv_capacity, p.kv_seq_len);
        Query { index: 0, row: 0, capacity, keys, ring_start: p.ring_start }
    }

    /// Encodes attention of `[num_heads, head_dim]` of f32 over a cache. The result is in the rotated domain.
    pub fn flash_attn_vec_tq_hb(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        q: &MlxBuffer,
        k_packed: &MlxBuffer,
        k_norms: &MlxBuffer,
        v_packed: &MlxBuffer,
        v_norms: &MlxBuffer,
        output: &MlxBuffer,
        _tmp: &MlxBuffer,
        params: &FlashAttnVecTqHbParams,
    ) -> Result<()> {
        let what = "flash_attn_vec_tq_hb";
        check(what, params)?;
        let cache = Cache { q, k: [k_packed, k_norms], v: [v_packed, v_norms], output };
        attend(encoder, what, cache, one(params), params, false)
    }

    /// As [`flash_attn_vec_tq_hb`], for heads of 256 that share keys by `tile`, without mask and ring.
    pub fn flash_attn_vec_tq_hb_gqa(
        encoder: &mut CommandEncoder,
        registry: &mut KernelRegistry,
        device: &MlxDevice,
        q: &MlxBuffer,
        k_packed: &MlxBuffer,
        k_norms: &MlxBuffer,
        v_packed: &MlxBuffer,
        v_norms: &MlxBuffer,
        output: &MlxBuffer,
        tmp: &MlxBuffer,
        params: &FlashAttnVecTqHbParams,
        tile: GqaTile,
    ) -> Result<()> {
        let (what, p) = ("flash_attn_vec_tq_hb_gqa", params);
        check(what, p)?;
        if p.head_dim != 256 {
            refuse!("{what}: head_dim must be 256, got {}", p.head_dim);
        }
        let plain = [p.mask_type, p.sliding_window, p.ring_start, p.fuse_fwht_pre] == [0; 4];
        if !plain || p.softcap != 0.0 {
            refuse!(
                "{what}: v1 requires full unmasked attention, ring_start=0, softcap=0, and caller-rotated Q"
            );
        }
        let GqaTile::Q2 = tile;
        let group = p.num_heads / p.num_kv_heads;
        if !group.is_multiple_of(2) {
            refuse!("{what}: tile 2 must divide heads_per_kv {group} and num_heads {}", p.num_heads);
        }
        flash_attn_vec_tq_hb(
            encoder, registry, device, q, k_packed, k_norms, v_packed, v_norms, output, tmp, params,
        )
    }

    /// As [`flash_attn_vec_tq_hb`]; the result is turned back.
    pub fn flash_attn_vec_tq_hb_with_fused_undo(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        q: &MlxBuffer,
        k_packed: &MlxBuffer,
        k_norms: &MlxBuffer,
        v_packed: &MlxBuffer,
        v_norms: &MlxBuffer,
        output: &MlxBuffer,
        _tmp: &MlxBuffer,
        params: &FlashAttnVecTqHbParams,
    ) -> Result<()> {
        let what = "flash_attn_vec_tq_hb_with_fused_undo";
        check(what, params)?;
        let cache = Cache { q, k: [k_packed, k_norms], v: [v_packed, v_norms], output };
        attend(encoder, what, cache, one(params), params, true)
    }

    /// As [`flash_attn_vec_tq_hb_with_fused_undo`], for a query of each of `n_q` sequences: `slot_id_arr` and `seq_pos_arr` are u32, read while
    /// encoding. A query past a cache that is no ring is an error.
    pub fn flash_attn_vec_tq_hb_batched(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        n_q: u32,
        q: &MlxBuffer,
        k_packed: &MlxBuffer,
        k_norms: &MlxBuffer,
        v_packed: &MlxBuffer,
        v_norms: &MlxBuffer,
        output: &MlxBuffer,
        _tmp: &MlxBuffer,
        slot_id_arr: &MlxBuffer,
        seq_pos_arr: &MlxBuffer,
        params: &FlashAttnVecTqHbParams,
    ) -> Result<()> {
        let cache = Cache { q, k: [k_packed, k_norms], v: [v_packed, v_norms], output };
        let slots = encoder.host_values::<u32>(slot_id_arr, n_q as usize)?;
        let rows = params.num_kv_heads as usize * params.kv_capacity as usize;
        let caches = slots
            .into_iter()
            .map(|slot| ((slot as usize).saturating_mul(rows), params.kv_capacity))
            .collect();
        batch(encoder, "flash_attn_vec_tq_hb_batched", cache, caches, seq_pos_arr, params)
    }

    /// As [`flash_attn_vec_tq_hb_batched`], for caches of different capacities in one arena of `arena_token_capacity` rows.
    pub fn flash_attn_vec_tq_hb_batched_banked(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        n_q: u32,
        q: &MlxBuffer,
        k_packed: &MlxBuffer,
        k_norms: &MlxBuffer,
        v_packed: &MlxBuffer,
        v_norms: &MlxBuffer,
        output: &MlxBuffer,
        _tmp: &MlxBuffer,
        base_token_rows: &MlxBuffer,
        capacities: &MlxBuffer,
        seq_pos_arr: &MlxBuffer,
        arena_token_capacity: u32,
        params: &FlashAttnVecTqHbParams,
    ) -> Result<()> {
        let what = "flash_attn_vec_tq_hb_batched_banked";
        let cache = Cache { q, k: [k_packed, k_norms], v: [v_packed, v_norms], output };
        let rows = encoder.host_values::<u32>(base_token_rows, n_q as usize)?;
        let sizes = encoder.host_values::<u32>(capacities, n_q as usize)?;
        let mut caches = Vec::new();
        for (row, capacity) in rows.into_iter().zip(sizes) {
            let end = u64::from(row) + u64::from(params.num_kv_heads) * u64::from(capacity);
            if end > u64::from(arena_token_capacity) {
                refuse!("{what}: rows {row} to {end} are outside of an arena of {arena_token_capacity}");
            }
            caches.push((row as usize, capacity));
        }
        batch(encoder, what, cache, caches, seq_pos_arr, params)
    }

    /// Encodes a query for each cache: its first row and its capacity.
    fn batch(
        encoder: &mut CommandEncoder,
        what: &str,
        cache: Cache<'_>,
        caches: Vec<(usize, u32)>,
        positions: &MlxBuffer,
        params: &FlashAttnVecTqHbParams,
    ) -> Result<()> {
        check(what, params)?;
        if caches.is_empty() {
            refuse!("{what}: n_q must be greater than zero");
        }
        let positions = encoder.host_values::<u32>(positions, caches.len())?;
        let mut queries = Vec::new();
        for (index, ((row, capacity), position)) in caches.into_iter().zip(positions).enumerate() {
            let (ring, produced) = (params.mask_type == 2, u64::from(position) + 1);
            if capacity == 0 || (!ring && produced > u64::from(capacity)) {
                refuse!(
                    "{what}: position {position} of query {index} is outside of a capacity of {capacity}"
                );
            }
            let keys = produced.min(u64::from(capacity)) as u32;
            let full = ring && produced >= u64::from(capacity);
            let ring_start = if full { (produced % u64::from(capacity)) as u32 } else { 0 };
            queries.push(Query { index, row, capacity, keys, ring_start });
        }
        queries.into_iter().try_for_each(|query| attend(encoder, what, cache, query, params, true))
    }
}
