//! Attention over compressed caches on the host: a plain loop, to compare with.

use crate::error::{Result, refuse};
use crate::turboquant::wide_levels;

/// Extents, scale, mask and format, as of
/// [`FlashAttnVecTqHbParams`](crate::ops::flash_attn_vec_tq_hb::FlashAttnVecTqHbParams).
#[derive(Clone, Copy, Debug)]
pub struct TqHbOracleParams {
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
    /// 2: a window.
    pub mask_type: u32,
    /// Keys that the query sees back, if `mask_type` is 2; 0 for all.
    pub sliding_window: u32,
    /// Without effect, as in mlx-native.
    pub softcap: f32,
    /// The slot of the oldest key of a ring.
    pub ring_start: u32,
    /// The factor that heads of 512 were encoded with.
    pub scale_factor_d512: f32,
    /// Bits of a code: 5, 6 or 8.
    pub codebook_bits: u32,
}

/// Computes attention of `q`, `[num_heads, head_dim]`, which is rotated already. The result is in the rotated domain.
pub fn flash_attn_vec_tq_hb_oracle(
    q: &[f32],
    k_packed: &[u8],
    k_norms: &[f32],
    v_packed: &[u8],
    v_norms: &[f32],
    output: &mut [f32],
    params: &TqHbOracleParams,
) -> Result<()> {
    let p = params;
    let what = "tq_oracle";
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
    let Some(levels) = wide_levels(p.codebook_bits) else {
        refuse!("{what}: codebook_bits must be 5, 6, or 8, got {}", p.codebook_bits)
    };
    let [dim, heads, kv_heads, capacity, keys] =
        [p.head_dim, p.num_heads, p.num_kv_heads, p.kv_capacity, p.kv_seq_len].map(|extent| extent as usize);
    let blocks = dim / 256;
    let slots = kv_heads.saturating_mul(capacity);
    for (name, length, needed) in [
        ("q", q.len(), heads.saturating_mul(dim)),
        ("k_packed", k_packed.len(), slots.saturating_mul(dim)),
        ("v_packed", v_packed.len(), slots.saturating_mul(dim)),
        ("k_norms", k_norms.len(), slots.saturating_mul(blocks)),
        ("v_norms", v_norms.len(), slots.saturating_mul(blocks)),
        ("output", output.len(), heads.saturating_mul(dim)),
    ] {
        if length < needed {
            refuse!("{what}: {name} has {length} < {needed} required");
        }
    }
    let factor = if dim == 512 { p.scale_factor_d512.recip() } else { 1.0 / (dim as f32).sqrt() };
    // A row of a cache.
    let decoded = |codes: &[u8], norms: &[f32], row: usize| -> Vec<f32> {
        let codes = codes.iter().skip(row * dim).take(dim);
        let norm = |element: usize| norms.get(row * blocks + element / 256).copied().unwrap_or(0.0);
        let level = |code: &u8| levels.get(usize::from(*code) % levels.len()).copied().unwrap_or(0.0);
        codes.enumerate().map(|(element, code)| level(code) * norm(element) * factor).collect()
    };
    let first = match p.mask_type {
        2 if p.sliding_window > 0 => keys.saturating_sub(p.sliding_window as usize),
        _ => 0,
    };
    let start = p.ring_start as usize % capacity;
    let shown: Vec<usize> = (0..keys)
        .filter(|slot| {
            let position = (slot + capacity - start) % capacity;
            position >= first && position < keys
        })
        .collect();
    for (head, (q, y)) in q.chunks_exact(dim).zip(output.chunks_exact_mut(dim)).take(heads).enumerate() {
        let row = head / (heads / kv_heads) * capacity;
        let score = |slot: &usize| {
            let key = decoded(k_packed, k_norms, row + slot);
            p.scale * q.iter().zip(key).map(|(q, k)| q * k).sum::<f32>()
        };
        let scores: Vec<f32> = shown.iter().map(score).collect();
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        y.fill(0.0);
        let mut sum = 0.0;
        for (slot, score) in shown.iter().zip(scores) {
            let weight = (score - largest).exp();
            sum += weight;
            let value = decoded(v_packed, v_norms, row + slot);
            y.iter_mut().zip(value).for_each(|(y, v)| *y += weight * v);
        }
        if sum > 0.0 {
            y.iter_mut().for_each(|y| *y /= sum);
        }
    }
    Ok(())
}
