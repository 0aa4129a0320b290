//! Few queries: a tile takes some blocks of keys, for all queries that share a head of keys, and leaves a part for each of its queries: the
//! largest score, the sum of weights, and the weighted sum of values. A second launch folds the parts.
//!
//! Parts are groups of blocks, folded by the tile. Of few blocks there would be too few groups to share among threads: then each block is a
//! part. Which of the two is used changes no bit.

use super::rows::{RowRange, Taken, TileRows, most_rows};
use super::softmax::Softmax;
use super::{BLOCKS, Call, Extents, HEADER, OUT, PAGE, PARTS, QUANTIZED};
use crate::attention::MOST_DIM;
use crate::cpu::Simd;
use crate::quantize_q8::{BoundRow, quantize_part};
use silicide_gemm::Matrix;
use silicide_gemm::f32::{F32Kernels, fold_parts};
use silicide_gemm::q8::GROUP;
use silicide_hal::Tile;
use std::ops::Range;

/// Up to this many blocks, a block is a part.
const FEW_BLOCKS: usize = 32;
/// Blocks of a tile, where a block is a part.
const BLOCKS_OF_TILE: usize = 2;

/// Words of a part: largest score, sum, and values.
pub(super) fn part_words(value_dim: usize) -> usize {
    2 + value_dim
}

/// The most tiles, and parts, of a head's keys, of which at most `keys` are seen.
pub(super) fn most_tiles(keys: usize) -> [usize; 2] {
    // Keys that do not begin a block or a group reach into one more.
    let [blocks, groups] = [PAGE, PAGE * BLOCKS].map(|keys_of| keys.div_ceil(keys_of) + 1);
    let fine = blocks.min(FEW_BLOCKS);
    let tiles = fine.div_ceil(BLOCKS_OF_TILE);
    if blocks > FEW_BLOCKS { [tiles.max(groups), fine.max(groups)] } else { [tiles, fine] }
}

/// The blocks that some query sees, and how they are shared among tiles.
struct Split {
    blocks: Range<usize>,
}

impl Split {
    #[inline(always)]
    fn of(call: &Call<'_>) -> Split {
        let seen = call.seen(0..call.extents.tokens);
        let end = if seen.is_empty() { seen.start / PAGE } else { seen.end.div_ceil(PAGE) };
        Split { blocks: seen.start / PAGE..end }
    }

    /// Whether a block is a part.
    #[inline(always)]
    fn by_block(&self) -> bool {
        self.blocks.len() <= FEW_BLOCKS
    }

    /// Returns the blocks of a tile; none of one past the last.
    #[inline(always)]
    fn tile(&self, index: usize) -> Range<usize> {
        let Range { start, end } = self.blocks;
        if self.by_block() {
            let first = start + index * BLOCKS_OF_TILE;
            return first.min(end)..(first + BLOCKS_OF_TILE).min(end);
        }
        let group = start / BLOCKS + index;
        (group * BLOCKS).max(start).min(end)..((group + 1) * BLOCKS).min(end)
    }

    /// Returns the part that a block belongs to.
    #[inline(always)]
    fn part(&self, block: usize) -> usize {
        if self.by_block() { block - self.blocks.start } else { block / BLOCKS - self.blocks.start / BLOCKS }
    }
}

/// Where the part of a row lies, in words: rows of a head are tokens, then heads of the group.
#[inline(always)]
fn part_range(extents: &Extents, part: usize, kv_head: usize, row: usize) -> Range<usize> {
    let (rows, words) = (extents.tokens * extents.group(), part_words(extents.value_dim));
    let start = ((part * extents.kv_heads + kv_head) * rows + row) * words;
    start..start + words
}

/// A tile: blocks, a head of keys, some queries.
///
/// # Safety
/// The CPU has `S`; the tile is of a launch that the kernel planned.
#[inline(always)]
pub(super) unsafe fn split_keys<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: the kernel planned the launch, by the caller, so `plan_header` made its first parameters.
    let call = unsafe { Call::of(tile) };
    let [index, kv_head, chunk] = tile.index.map(|i| i as usize);
    let (extents, split) = (call.extents, Split::of(&call));
    let blocks = split.tile(index);
    if blocks.is_empty() {
        // The launch that folds does not read the parts of other tiles.
        return;
    }
    let (all, most) = (extents.tokens * extents.group(), most_rows(extents.dim, extents.value_dim));
    let heads = kv_head * extents.group()..(kv_head + 1) * extents.group();
    let range = RowRange { first_token: 0, heads, start: chunk * most, count: most.min(all - chunk * most) };
    // SAFETY: the rows are of this launch, and this is the only use of the workspace.
    let mut rows = unsafe { TileRows::gather(&call, range) };
    let store = |rows: &TileRows<'_>, blocks: Range<usize>| {
        let part = split.part(blocks.start);
        for (row, state, sums) in rows.parts(blocks.start * PAGE..blocks.end * PAGE, extents.value_dim) {
            // SAFETY: the part is of this tile's row alone; `most_tiles` sized the parts.
            let to = unsafe {
                tile.write::<f32>(OUT, part_range(&extents, part, kv_head, rows.range.start + row))
            };
            if let [largest, sum, values @ ..] = to {
                (*largest, *sum) = (state.largest, state.sum);
                values.copy_from_slice(sums);
            }
        }
    };
    // SAFETY: the CPU has `S`, by the caller; the grid has a row of tiles for each head of keys.
    unsafe {
        if split.by_block() {
            for block in blocks {
                rows.take_block::<S>(&call, kv_head, block, Taken::Alone);
                store(&rows, block..block + 1);
            }
        } else {
            for block in blocks.clone() {
                rows.take_block::<S>(&call, kv_head, block, Taken::Folded);
            }
            store(&rows, blocks);
        }
    }
}

/// Parts of a row, from one on.
struct Parts {
    start: *const f32,
    /// Words from one part to the next.
    stride: usize,
    value_dim: usize,
}

impl Parts {
    /// Returns the parts from `part` on, of a row of a head of keys.
    ///
    /// # Safety
    /// The call is of a launch that folds parts, which has the part.
    #[inline(always)]
    unsafe fn of(call: &Call<'_>, [part, kv_head, row]: [usize; 3]) -> Parts {
        let extents = call.extents;
        let range = part_range(&extents, part, kv_head, row);
        let stride = extents.tokens * extents.heads * part_words(extents.value_dim);
        // SAFETY: the binding has the part, by the caller.
        let start = unsafe { call.tile.start(PARTS).cast::<f32>().add(range.start) };
        Parts { start, stride, value_dim: extents.value_dim }
    }

    /// # Safety
    /// The launch before wrote part `part`, counted from the first.
    #[inline(always)]
    unsafe fn softmax(&self, part: usize) -> Softmax {
        // SAFETY: a part has two words before its values, by the caller.
        unsafe {
            let at = self.start.add(part * self.stride);
            Softmax { largest: at.read(), sum: at.add(1).read() }
        }
    }

    /// # Safety
    /// The launch before wrote the first `count` parts, which are not none.
    #[inline(always)]
    unsafe fn values<'a>(&self, count: usize) -> Matrix<'a, f32> {
        // SAFETY: a part has `value_dim` values after two words, and parts are `stride` apart, by the caller.
        unsafe { Matrix::from_raw_parts(self.start.add(2), [count, self.value_dim], self.stride) }
    }
}

/// A tile of folding: the heads of one token that share a head of keys.
///
/// # Safety
/// As for [`split_keys`].
#[inline(always)]
pub(super) unsafe fn fold_tile<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: the kernel planned the launch, by the caller, so `plan_header` made its first parameters.
    let (call, isa) = unsafe { (Call::of(tile), S::assume()) };
    let [token, kv_head, _] = tile.index.map(|i| i as usize);
    let (extents, split) = (call.extents, Split::of(&call));
    let (group, value_dim) = (extents.group(), extents.value_dim);
    let seen = call.seen(token..token + 1);
    let blocks = if seen.is_empty() { 0..0 } else { seen.start / PAGE..seen.end.div_ceil(PAGE) };
    let mut memory = [0.0; MOST_DIM];
    let sums = &mut memory[..value_dim];
    for member in 0..group {
        let head = kv_head * group + member;
        let out = (token * extents.heads + head) * value_dim;
        // SAFETY: the output is of this tile alone.
        let y = unsafe { tile.write::<f32>(OUT, out..out + value_dim) };
        y.fill(0.0);
        let mut total = Softmax::NOTHING;
        let row = token * group + member;
        let mut first = blocks.start;
        while first < blocks.end {
            let end = (first / BLOCKS + 1) * BLOCKS;
            // SAFETY: the launch before wrote the parts of all blocks that the row sees.
            let parts = unsafe { Parts::of(&call, [split.part(first), kv_head, row]) };
            let done = if split.by_block() {
                let (mut state, mut factors) = (Softmax::NOTHING, [[0.0; 2]; BLOCKS]);
                let count = end.min(blocks.end) - first;
                for (part, factors) in factors.iter_mut().enumerate().take(count) {
                    // SAFETY: `part` is below `count`, the parts of this group that the launch before wrote.
                    *factors = state.fold::<S>(unsafe { parts.softmax(part) });
                }
                sums.fill(0.0);
                // SAFETY: the launch before wrote `count` parts of this group.
                let done = fold_parts(isa, sums, unsafe { parts.values(count) }, &factors[..count]);
                debug_assert_eq!(done, Ok(()));
                // Outside of the closure, which is compiled without the instruction set.
                let factors = [total.fold::<S>(state)];
                let group = Matrix::new("sums", sums, [1, value_dim], value_dim);
                group.and_then(|group| fold_parts(isa, y, group, &factors))
            } else {
                // SAFETY: the launch before wrote one part for the group.
                let (state, values) = unsafe { (parts.softmax(0), parts.values(1)) };
                fold_parts(isa, y, values, &[total.fold::<S>(state)])
            };
            debug_assert_eq!(done, Ok(()));
            first = end;
        }
        call.finish::<S>(head, total, y);
    }
}

/// [`fold_tile`], after which the tile quantizes its outputs for a product. The last parameter is the groups of a token's row.
///
/// # Safety
/// As for [`split_keys`]; a tile has whole groups.
#[inline(always)]
pub(super) unsafe fn fold_quantized<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: this function has the conditions of `fold_tile`; `Call::of` needs one of them, the planned header.
    let extents = unsafe {
        fold_tile::<S>(tile);
        Call::of(tile).extents
    };
    let ([token, kv_head, _], groups) = (tile.index.map(|i| i as usize), tile.param(HEADER) as usize);
    let each = extents.group() * extents.value_dim / GROUP;
    let part = kv_head * each..(kv_head + 1) * each;
    let [from, to] = [OUT, QUANTIZED].map(|binding| BoundRow { binding, row: token });
    // SAFETY: these groups were just written by this tile, and no other tile touches them.
    unsafe { quantize_part(tile, from, to, groups, part) };
}
