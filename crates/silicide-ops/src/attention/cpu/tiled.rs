//! Many queries: a tile is a block of queries of the heads that share a head of keys. It goes through the keys a block at a
//! time: packs them, multiplies all its queries with them, weighs the scores, packs the values and adds them, weighted, to
//! the outputs. Both products are those of the register tile that multiplies matrices.

use super::store::{Run, Stored};
use super::weigh::Seen;
use super::{Call, Extents, HEADER, OUT, Q};
use crate::attention::MOST_DIM;
use crate::cpu::Simd;
use silicide_gemm::f32::F32Kernels;
use silicide_gemm::{Matrix, MatrixMut};
use silicide_hal::Tile;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Queries of a tile, over all its heads.
pub(super) const ROWS: usize = 128;
/// Heads of a tile at most.
pub(super) const MOST_HEADS: usize = 16;
/// Keys of a block; a multiple of the width of every register tile.
const KEYS: usize = 96;
/// Elements of a panel; long heads have shorter blocks, so that panels stay in L2.
const PANEL: usize = KEYS / 2 * MOST_DIM;

/// Workspace of a tile.
#[repr(C, align(64))]
pub(super) struct TiledWorkspace {
    panel: [MaybeUninit<f32>; PANEL],
    /// Keys or values, decoded.
    wide: [f32; PANEL],
    scores: [f32; ROWS * KEYS],
}

/// The queries of a tile: some tokens of some heads.
struct Queries {
    tokens: Range<usize>,
    heads: Range<usize>,
}

/// A tile: tokens, a head of keys, some of the heads that share it.
///
/// # Safety
/// The instruction set is present; the tile is of a launch that the kernel planned.
#[inline(always)]
pub(super) unsafe fn tile_queries<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: the kernel planned the launch, by the caller, so `plan_header` made its first parameters.
    let call = unsafe { Call::of(tile) };
    let [column, kv_head, chunk] = tile.index.map(|i| i as usize);
    let extents = call.extents;
    let [most_tokens, most_heads] = [0, 1].map(|i| tile.param(HEADER + i) as usize);
    // Later queries see more: the longest tiles first, so that no thread is left with one at the end.
    let first = (tile.grid[0] as usize - 1 - column) * most_tokens;
    let (group, base) = (extents.group(), kv_head * extents.group());
    let queries = Queries {
        tokens: first..(first + most_tokens).min(extents.tokens),
        heads: base + chunk * most_heads..base + ((chunk + 1) * most_heads).min(group),
    };
    let most_keys = if extents.dim.max(extents.value_dim) > MOST_DIM / 2 { KEYS / 2 } else { KEYS };
    // SAFETY: the only reference into the workspace.
    let workspace = unsafe { tile.workspace::<TiledWorkspace>() }.as_mut_ptr();
    let mut states = [Seen::NOTHING; ROWS];
    let mut keys = call.seen(queries.tokens.clone());
    // SAFETY: the outputs of the queries are of this tile alone.
    unsafe {
        if keys.is_empty() {
            finish(&call, &queries, |_, y| y.fill(0.0));
            return;
        }
        let mut accumulate = false;
        while !keys.is_empty() {
            let (slot, count) = call.together(&keys, most_keys);
            let place = Place {
                slots: Run { first: kv_head * extents.capacity + slot, count },
                at: keys.start,
                accumulate,
            };
            add_keys::<S>(&call, &queries, &place, workspace, &mut states);
            accumulate = true;
            keys.start += count;
        }
        let mut rows = states.iter_mut();
        finish(&call, &queries, |head, y| {
            let Some(state) = rows.next() else { return };
            let here = call.sink(head).map_or(1.0, |sink| state.join(Seen::of_sink(sink))[0]);
            let share = here * state.share();
            y.iter_mut().for_each(|y| *y *= share);
        });
    }
}

/// A block of keys: row of the first in the cache and how many, the first one's position, whether there were others.
struct Place {
    slots: Run,
    at: usize,
    accumulate: bool,
}

/// Calls `each` for every output row of the queries, in the order of their states.
///
/// # Safety
/// They are the caller's alone.
#[inline(always)]
unsafe fn finish(call: &Call<'_>, queries: &Queries, mut each: impl FnMut(usize, &mut [f32])) {
    let Extents { heads, value_dim, .. } = call.extents;
    for head in queries.heads.clone() {
        for token in queries.tokens.clone() {
            let start = (token * heads + head) * value_dim;
            // SAFETY: `needs` requires an output for each token and head; those of `queries` are this tile's, by the caller.
            each(head, unsafe { call.tile.write::<f32>(OUT, start..start + value_dim) });
        }
    }
}

/// Takes a block of keys and values into the outputs of the queries.
///
/// # Safety
/// The instruction set is present; the block is in the cache; workspace and outputs are the caller's alone.
#[inline(always)]
unsafe fn add_keys<S: Simd + F32Kernels>(
    call: &Call<'_>,
    queries: &Queries,
    place: &Place,
    workspace: *mut TiledWorkspace,
    states: &mut [Seen; ROWS],
) {
    let (tile, Extents { heads, dim, value_dim, .. }) = (call.tile, call.extents);
    let (tokens, count) = (queries.tokens.len(), place.slots.count);
    // SAFETY: fields of the workspace, which is the caller's alone.
    let (panel, wide, scores) = unsafe {
        (
            &mut (*workspace).panel,
            (&raw mut (*workspace).wide).cast::<f32>(),
            (&raw mut (*workspace).scores).cast::<f32>(),
        )
    };
    let [k, v] = call.caches();
    // SAFETY: scores have room for all rows; queries, keys, values and outputs lie in their bindings. The products write every score that is
    // read.
    unsafe {
        let isa = S::assume();
        // Panels have room for blocks of the longest heads.
        let Some(keys) = Stored::of(tile, k, place.slots, wide).pack_columns::<S>(panel) else { return };
        for (i, head) in queries.heads.clone().enumerate() {
            let a = tile.start(Q).cast::<f32>().add((queries.tokens.start * heads + head) * dim);
            let a = Matrix::from_raw_parts(a, [tokens, dim], heads * dim);
            let y = MatrixMut::from_raw_parts(scores.add(i * tokens * KEYS), [tokens, count], KEYS);
            let done = keys.multiply(isa, a, y, false);
            debug_assert_eq!(done, Ok(()));
        }
        let mut rows = states.iter_mut().enumerate();
        finish(call, queries, |_, y| {
            let Some((row, state)) = rows.next() else { return };
            let seen =
                call.seen(queries.tokens.start + row % tokens..queries.tokens.start + row % tokens + 1);
            let visible = seen.start.saturating_sub(place.at)..seen.end.saturating_sub(place.at);
            let scores = std::slice::from_raw_parts_mut(scores.add(row * KEYS), count);
            let kept = state.weigh::<S>(&call.rule, scores, visible);
            if kept != 1.0 && place.accumulate {
                y.iter_mut().for_each(|y| *y *= kept);
            }
        });
        let Some(values) = Stored::of(tile, v, place.slots, wide).pack_depth::<S>(panel) else { return };
        for (i, head) in queries.heads.clone().enumerate() {
            let a = Matrix::from_raw_parts(scores.add(i * tokens * KEYS), [tokens, count], KEYS);
            let y = tile.start(OUT).cast::<f32>().add((queries.tokens.start * heads + head) * value_dim);
            let y = MatrixMut::from_raw_parts(y, [tokens, value_dim], heads * value_dim);
            let done = values.multiply(isa, a, y, place.accumulate);
            debug_assert_eq!(done, Ok(()));
        }
    }
}
