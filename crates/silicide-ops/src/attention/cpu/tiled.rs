//! Many queries: a tile is some queries of heads that share a head of keys. It takes their blocks of keys in order of position: block by block
//! into a group, group by group into the outputs.

use super::rows::{BlockResult, ROWS, RowRange, TileRows};
use super::softmax::Softmax;
use super::{BLOCKS, Call, HEADER, OUT, PAGE, TILED_QUANTIZED};
use crate::cpu::Simd;
use crate::quantize_q8::{BoundRow, quantize_part};
use silicide_gemm::Matrix;
use silicide_gemm::f32::{F32Kernels, fold_parts};
use silicide_gemm::q8::GROUP;
use silicide_hal::Tile;
use std::ops::Range;

/// Heads of a tile at most.
pub(super) const MOST_HEADS: usize = 16;

/// Which queries a tile has.
struct Queries {
    tokens: Range<usize>,
    heads: Range<usize>,
    kv_head: usize,
}

impl Queries {
    /// The parameters after the header are the most tokens and heads of a tile.
    #[inline(always)]
    fn of(tile: &Tile<'_>, call: &Call<'_>) -> Queries {
        let [column, kv_head, chunk] = tile.index.map(|i| i as usize);
        let [most_tokens, most_heads] = [0, 1].map(|i| tile.param(HEADER + i) as usize);
        // Later queries see more: the longest tiles first, so that no thread is left with one at the end.
        let first = (tile.grid[0] as usize - 1 - column) * most_tokens;
        let (group, base) = (call.extents.group(), kv_head * call.extents.group());
        Queries {
            tokens: first..(first + most_tokens).min(call.extents.tokens),
            heads: base + chunk * most_heads..base + ((chunk + 1) * most_heads).min(group),
            kv_head,
        }
    }
}

/// A tile: tokens, a head of keys, some of the heads that share it.
///
/// # Safety
/// The CPU has `S`; the tile is of a launch that the kernel planned.
#[inline(always)]
pub(super) unsafe fn tile_queries<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: the kernel planned the launch, by the caller, so `plan_header` made its first parameters.
    let (call, isa) = unsafe { (Call::of(tile), S::assume()) };
    let queries = Queries::of(tile, &call);
    let (extents, seen) = (call.extents, call.seen(queries.tokens.clone()));
    let count = queries.tokens.len() * queries.heads.len();
    let range = RowRange { first_token: queries.tokens.start, heads: queries.heads.clone(), start: 0, count };
    let output = |row: usize| {
        let [token, head] = range.at(row);
        let start = (token * extents.heads + head) * extents.value_dim;
        // SAFETY: `needs` requires an output for each token and head; those of the tile's queries are this tile's.
        unsafe { tile.write::<f32>(OUT, start..start + extents.value_dim) }
    };
    (0..count).for_each(|row| output(row).fill(0.0));
    // SAFETY: the rows are of this launch, and this is the only use of the workspace.
    let mut rows = unsafe { TileRows::gather(&call, range.clone()) };
    let mut totals = [Softmax::NOTHING; ROWS];
    let (mut block, end) = (seen.start / PAGE, seen.end.div_ceil(PAGE));
    while block < end && !seen.is_empty() {
        let group = block..end.min((block / BLOCKS + 1) * BLOCKS);
        rows.clear();
        for block in group.clone() {
            // SAFETY: the CPU has `S`, by the caller; the grid has a row of tiles for each head of keys.
            unsafe { rows.take_block::<S>(&call, queries.kv_head, block, BlockResult::Folded) };
        }
        for (row, state, sums) in rows.parts(group.start * PAGE..group.end * PAGE, extents.value_dim) {
            let Some(total) = totals.get_mut(row) else { return };
            // Outside of the closure, which is compiled without the instruction set.
            let factors = [total.fold::<S>(state)];
            let part = Matrix::new("part", sums, [1, sums.len()], sums.len());
            let done = part.and_then(|part| fold_parts(isa, output(row), part, &factors));
            if done.is_err() {
                *total = Softmax::NAN;
            }
        }
        block = group.end;
    }
    for (row, total) in totals.into_iter().enumerate().take(count) {
        call.finish::<S>(range.at(row)[1], total, output(row));
    }
}

/// [`tile_queries`], after which the tile quantizes its outputs for a product. The last parameter is the groups of a token's row.
///
/// # Safety
/// As for [`tile_queries`]; a tile has whole groups.
#[inline(always)]
pub(super) unsafe fn tile_quantized<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: this function has the conditions of `tile_queries`; `Call::of` needs one of them, the planned header.
    let call = unsafe {
        tile_queries::<S>(tile);
        Call::of(tile)
    };
    let (queries, groups) = (Queries::of(tile, &call), tile.param(HEADER + 2) as usize);
    let part = |head: usize| head * call.extents.value_dim / GROUP;
    for token in queries.tokens.clone() {
        let [from, to] = [OUT, TILED_QUANTIZED].map(|binding| BoundRow { binding, row: token });
        let part = part(queries.heads.start)..part(queries.heads.end);
        // SAFETY: these groups were just written by this tile, and no other tile touches them.
        unsafe { quantize_part(tile, from, to, groups, part) };
    }
}
