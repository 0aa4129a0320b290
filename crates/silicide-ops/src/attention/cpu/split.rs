//! Few queries: a run of keys is a tile, for all queries that share a head of keys. Each tile leaves a part for each of its
//! queries: the largest score, the sum of weights, and the weighted sum of values. A second launch joins the parts.

use super::store::Stored;
use super::weigh::Seen;
use super::{Call, Extents, HEADER, K, OUT, PARTS, Q, ROUNDED, V, bytes_of};
use crate::cpu::{Simd, stream};
use crate::matmul::cpu::integer::activations::round_part;
use crate::matmul::cpu::vector::Unit;
use crate::attention::MOST_DIM;
use silicide_hal::Tile;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Keys of a tile.
pub(super) const KEYS: usize = 192;
/// Keys that are weighed at a time: they and their values stay in the caches.
const BLOCK: usize = 96;
/// Keys that are multiplied at a time, while as many values, or keys of the next block, are on their way.
const PIECE: usize = 24;
/// Queries of a tile.
pub(super) const ROWS: usize = 16;

/// Words of a part: largest score, sum, and values.
pub(super) fn part_words(value_dim: usize) -> usize {
    2 + value_dim
}

/// Room for what a tile works on.
#[repr(align(64))]
struct Room {
    queries: MaybeUninit<[f32; ROWS * MOST_DIM]>,
    wide: MaybeUninit<[f32; PIECE * MOST_DIM]>,
    scores: [f32; ROWS * BLOCK],
    sums: MaybeUninit<[f32; ROWS * MOST_DIM]>,
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
pub(super) unsafe fn split_keys<S: Simd + Unit>(tile: &Tile<'_>) {
    // SAFETY: the caller's promise.
    let call = unsafe { Call::of(tile) };
    let [split, kv_head, chunk] = tile.index.map(|i| i as usize);
    let extents = call.extents;
    let all = extents.tokens * extents.group();
    let rows = chunk * ROWS..((chunk + 1) * ROWS).min(all);
    let seen = call.seen(0..extents.tokens);
    let mut keys = (seen.start + split * KEYS).min(seen.end)..(seen.start + (split + 1) * KEYS).min(seen.end);
    if keys.is_empty() {
        // Nobody will ask for these parts.
        return;
    }
    let mut room = Room {
        queries: MaybeUninit::uninit(),
        wide: MaybeUninit::uninit(),
        scores: [0.0; ROWS * BLOCK],
        sums: MaybeUninit::uninit(),
    };
    let mut states = [Seen::NOTHING; ROWS];
    let apart = Stored::padded(extents.value_dim);
    let (queries, wide) = (room.queries.as_mut_ptr().cast::<f32>(), room.wide.as_mut_ptr().cast::<f32>());
    // SAFETY: room for as many sums of the longest kind; all bits zero are zeros.
    let sums = unsafe {
        let sums = room.sums.as_mut_ptr().cast::<f32>();
        sums.write_bytes(0, rows.len() * apart);
        std::slice::from_raw_parts_mut(sums, rows.len() * apart)
    };
    // SAFETY: each row has a query of `dim` elements, and there is room for it.
    unsafe { gather(&call, kv_head, rows.clone(), queries) };
    while !keys.is_empty() {
        let (slot, count) = call.together(&keys, BLOCK);
        let first = kv_head * extents.capacity + slot;
        let at = keys.start;
        for piece in (0..count).step_by(PIECE) {
            let here = (first + piece, PIECE.min(count - piece));
            fetch_rows(tile, (V, call.types[1]), here, extents.value_dim);
            // SAFETY: the keys are in slots of this head, which nobody writes; there is room for all rows.
            unsafe {
                let stored = Stored::of(tile, (K, call.types[0]), here, extents.dim, wide);
                let scores = room.scores.as_mut_ptr().add(piece);
                stored.multiply::<S::Vector>(queries, rows.len(), scores, BLOCK);
            }
        }
        for (row, ((scores, state), sums)) in
            rows.clone().zip(room.scores.chunks_exact_mut(BLOCK).zip(&mut states).zip(sums.chunks_exact_mut(apart)))
        {
            let scores = scores.get_mut(..count).unwrap_or_default();
            let kept = state.weigh::<S>(&call.rule, scores, visible(&call, row, at));
            if kept != 1.0 {
                sums.iter_mut().for_each(|sum| *sum *= kept);
            }
        }
        keys.start += count;
        for piece in (0..count).step_by(PIECE) {
            let here = (first + piece, PIECE.min(count - piece));
            let ahead = (keys.start + piece).min(keys.end)..(keys.start + piece + PIECE).min(keys.end);
            let (slot, fetched) = call.together(&ahead, PIECE);
            let next = (kv_head * extents.capacity + slot, fetched);
            fetch_rows(tile, (K, call.types[0]), next, extents.dim);
            // SAFETY: as above.
            unsafe {
                let stored = Stored::of(tile, (V, call.types[1]), here, extents.value_dim, wide);
                let weights = room.scores.as_ptr().add(piece);
                stored.add_weighted::<S::Vector>(weights, BLOCK, rows.len(), sums.as_mut_ptr());
            }
        }
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

/// Asks for rows of a binding, of this type and length, to be brought near: where another page begins the machine's own
/// guess ends.
#[inline(always)]
fn fetch_rows(tile: &Tile<'_>, (binding, code): (usize, u32), (first, count): (usize, usize), dim: usize) {
    let (start, bytes) = (bytes_of(code, first * dim), bytes_of(code, count * dim));
    for line in (0..bytes).step_by(64) {
        stream::fetch(tile.start(binding).wrapping_add(start + line));
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
        // SAFETY: the core bound a query for each token and head; the rest is the caller's promise.
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
    // SAFETY: the caller's promise.
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

/// Activations that are rounded under one scale.
pub(super) const RUN: usize = 32;

/// [`join_parts`], after which the tile rounds its outputs for a product. The last parameter is the runs of a token's row.
///
/// # Safety
/// As for [`split_keys`]; a tile has whole runs.
#[inline(always)]
pub(super) unsafe fn join_rounded<S: Simd>(tile: &Tile<'_>) {
    // SAFETY: the caller's promise.
    let extents = unsafe {
        join_parts::<S>(tile);
        Call::of(tile).extents
    };
    let ([token, kv_head, _], runs) = (tile.index.map(|i| i as usize), tile.param(HEADER) as usize);
    let each = extents.group() * extents.value_dim / RUN;
    // SAFETY: these runs were just written by this tile, and nobody else touches them.
    unsafe { round_part(tile, (token, OUT), (token, ROUNDED), runs, kv_head * each..(kv_head + 1) * each) };
}
