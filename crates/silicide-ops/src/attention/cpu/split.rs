//! Few queries: a run of keys is a tile, for all queries that share a head of keys. Each tile leaves a part for each of its
//! queries: the largest score, the sum of weights, and the weighted sum of values. A second launch joins the parts.

use super::store::{Run, Stored};
use super::weigh::Seen;
use super::{Call, Extents, HEADER, OUT, PARTS, Q, QUANTIZED};
use crate::attention::MOST_DIM;
use crate::cpu::Simd;
use crate::quantize_q8::{BoundRow, quantize_part};
use silicide_gemm::f32::F32Kernels;
use silicide_gemm::q8::GROUP;
use silicide_hal::Tile;
use std::ops::Range;

/// Keys of a tile, which are weighed together where they lie together.
pub(super) const KEYS: usize = 192;
/// Keys, or values, that are decoded at a time where they are in blocks.
const PIECE: usize = 24;
/// Queries of a tile.
pub(super) const ROWS: usize = 16;

/// Words of a part: largest score, sum, and values.
pub(super) fn part_words(value_dim: usize) -> usize {
    2 + value_dim
}

/// Workspace of a tile.
#[repr(C, align(64))]
pub(super) struct SplitWorkspace {
    queries: [f32; ROWS * MOST_DIM],
    /// Keys or values, decoded.
    wide: [f32; PIECE * MOST_DIM],
    scores: [f32; ROWS * KEYS],
    sums: [f32; ROWS * MOST_DIM],
}

/// Where the part of a row lies, in words: rows of a head are tokens, then heads of the group.
#[inline(always)]
fn part_start(extents: &Extents, split: usize, kv_head: usize, row: usize) -> usize {
    let rows = extents.tokens * extents.group();
    ((split * extents.kv_heads + kv_head) * rows + row) * part_words(extents.value_dim)
}

/// A tile: keys, a head of them, some queries.
///
/// # Safety
/// The instruction set is present; the tile is of a launch that the kernel planned.
#[inline(always)]
pub(super) unsafe fn split_keys<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: the kernel planned the launch, by the caller, so `plan_header` made its first parameters.
    let call = unsafe { Call::of(tile) };
    let [split, kv_head, chunk] = tile.index.map(|i| i as usize);
    let extents = call.extents;
    let all = extents.tokens * extents.group();
    let rows = chunk * ROWS..((chunk + 1) * ROWS).min(all);
    let seen = call.seen(0..extents.tokens);
    let mut keys = (seen.start + split * KEYS).min(seen.end)..(seen.start + (split + 1) * KEYS).min(seen.end);
    if keys.is_empty() {
        // `join_parts` does not read these parts.
        return;
    }
    // SAFETY: the only reference into the workspace.
    let workspace = unsafe { tile.workspace::<SplitWorkspace>() }.as_mut_ptr();
    let mut states = [Seen::NOTHING; ROWS];
    let apart = Stored::padded(extents.value_dim);
    // SAFETY: fields of the workspace.
    let (queries, wide) = unsafe {
        ((&raw mut (*workspace).queries).cast::<f32>(), (&raw mut (*workspace).wide).cast::<f32>())
    };
    // SAFETY: room for as many sums of the longest kind and scores of as many keys; all bits zero are zeros.
    let (sums, scores) = unsafe {
        let sums = (&raw mut (*workspace).sums).cast::<f32>();
        let scores = (&raw mut (*workspace).scores).cast::<f32>();
        sums.write_bytes(0, rows.len() * apart);
        scores.write_bytes(0, rows.len() * KEYS);
        let zeros = |start: *mut f32, each: usize| std::slice::from_raw_parts_mut(start, rows.len() * each);
        (zeros(sums, apart), zeros(scores, KEYS))
    };
    // SAFETY: each row has a query of `dim` elements, and there is room for it.
    unsafe { gather(&call, kv_head, rows.clone(), queries) };
    let [k, v] = call.caches();
    while !keys.is_empty() {
        let (slot, count) = call.together(&keys, KEYS);
        let run = Run { first: kv_head * extents.capacity + slot, count };
        for (at, part) in run.parts(k.together(PIECE)) {
            // SAFETY: the keys are in slots of this head, which no tile writes; `scores` has `KEYS` elements for every row.
            unsafe {
                let stored = Stored::of(tile, k, part, wide);
                stored.multiply::<S>(queries, rows.len(), scores.as_mut_ptr().add(at), KEYS);
            }
        }
        for (row, ((scores, state), sums)) in
            rows.clone().zip(scores.chunks_exact_mut(KEYS).zip(&mut states).zip(sums.chunks_exact_mut(apart)))
        {
            let scores = scores.get_mut(..count).unwrap_or_default();
            let kept = state.weigh::<S>(&call.rule, scores, visible(&call, row, keys.start));
            if kept != 1.0 {
                sums.iter_mut().for_each(|sum| *sum *= kept);
            }
        }
        for (at, part) in run.parts(v.together(PIECE)) {
            // SAFETY: the values are in slots of this head, which no tile writes; `sums` has `apart` elements for every row.
            unsafe {
                let stored = Stored::of(tile, v, part, wide);
                stored.add_weighted::<S>(scores.as_ptr().add(at), KEYS, rows.len(), sums.as_mut_ptr());
            }
        }
        keys.start += count;
    }
    for ((row, state), sums) in rows.zip(states).zip(sums.chunks_exact(apart)) {
        let start = part_start(&extents, split, kv_head, row);
        // SAFETY: the part is of this tile's row alone.
        let part = unsafe { tile.write::<f32>(OUT, start..start + part_words(extents.value_dim)) };
        if let [largest, sum, values @ ..] = part {
            *largest = state.largest;
            *sum = state.sum as f32;
            values.copy_from_slice(sums.get(..values.len()).unwrap_or_default());
        }
    }
}

/// Which keys of a block that begins at position `at` the query of a row sees.
#[inline(always)]
fn visible(call: &Call<'_>, row: usize, at: usize) -> Range<usize> {
    let token = row / call.extents.group();
    let seen = call.seen(token..token + 1);
    seen.start.saturating_sub(at)..seen.end.saturating_sub(at)
}

/// Puts the queries of some rows side by side.
///
/// # Safety
/// There is room for them.
#[inline(always)]
unsafe fn gather(call: &Call<'_>, kv_head: usize, rows: Range<usize>, to: *mut f32) {
    let Extents { heads, dim, .. } = call.extents;
    let group = call.extents.group();
    for (i, row) in rows.enumerate() {
        let from = (row / group * heads + kv_head * group + row % group) * dim;
        // SAFETY: `needs` requires a query for each token and head; `to` has room for one per row, by the caller.
        unsafe {
            let query = call.tile.read_part::<f32>(Q, from..from + dim);
            std::ptr::copy_nonoverlapping(query.as_ptr(), to.add(i * dim), dim);
        }
    }
}

/// A tile of joining: the heads of one token that share a head of keys.
///
/// # Safety
/// As for [`split_keys`].
#[inline(always)]
pub(super) unsafe fn join_parts<S: Simd>(tile: &Tile<'_>) {
    // SAFETY: the kernel planned the launch, by the caller, so `plan_header` made its first parameters.
    let call = unsafe { Call::of(tile) };
    let [token, kv_head, _] = tile.index.map(|i| i as usize);
    let (extents, group) = (call.extents, call.extents.group());
    let splits = call.seen(0..extents.tokens).len().div_ceil(KEYS);
    for member in 0..group {
        let head = kv_head * group + member;
        let out = (token * extents.heads + head) * extents.value_dim;
        // SAFETY: the output is of this tile alone.
        let y = unsafe { tile.write::<f32>(OUT, out..out + extents.value_dim) };
        y.fill(0.0);
        let mut state = Seen::NOTHING;
        for split in 0..splits {
            let start = part_start(&extents, split, kv_head, token * group + member);
            // SAFETY: the launch before wrote the parts of all splits with keys.
            let part = unsafe { tile.read_part::<f32>(PARTS, start..start + part_words(extents.value_dim)) };
            let [largest, sum, values @ ..] = part else { continue };
            let [here, there] = state.join(Seen { largest: *largest, sum: f64::from(*sum) });
            for (y, value) in y.iter_mut().zip(values) {
                *y = S::mul_add(*value, there, *y * here);
            }
        }
        let here = call.sink(head).map_or(1.0, |sink| state.join(Seen::of_sink(sink))[0]);
        let share = here * state.share();
        y.iter_mut().for_each(|y| *y *= share);
    }
}

/// [`join_parts`], after which the tile quantizes its outputs for a product. The last parameter is the groups of a token's row.
///
/// # Safety
/// As for [`split_keys`]; a tile has whole groups.
#[inline(always)]
pub(super) unsafe fn join_quantized<S: Simd>(tile: &Tile<'_>) {
    // SAFETY: this function has the conditions of `join_parts`; `Call::of` needs one of them, the planned header.
    let extents = unsafe {
        join_parts::<S>(tile);
        Call::of(tile).extents
    };
    let ([token, kv_head, _], groups) = (tile.index.map(|i| i as usize), tile.param(HEADER) as usize);
    let each = extents.group() * extents.value_dim / GROUP;
    let part = kv_head * each..(kv_head + 1) * each;
    let [from, to] = [OUT, QUANTIZED].map(|binding| BoundRow { binding, row: token });
    // SAFETY: these groups were just written by this tile, and no other tile touches them.
    unsafe { quantize_part(tile, from, to, groups, part) };
}
