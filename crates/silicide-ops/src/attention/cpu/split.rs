//! Few queries: a tile is an item of the work list and a head of keys. It takes the item's blocks for all queries that share the head, and
//! leaves parts for each of its queries: the largest score, the sum of weights, and the weighted sum of values. A second launch folds the parts.
//!
//! ```text
//! parts of an item of 1 or 2 blocks:     each block by itself       # lists of up to MOST_PAIRS items; else of 1 block
//! of more blocks, which are of a group:  one, folded
//! ```
//!
//! Of few blocks there would be too few groups to share among threads, so their items are pairs. Which of the two is used changes no bit.

use super::rows::{BlockResult, RowRange, TileRows, most_rows};
use super::softmax::Softmax;
use super::{BLOCKS, Call, Extents, HEADER, OUT, PAGE, PARTS, QUANTIZED};
use crate::attention::work::{Item, MOST_PAIRS};
use crate::attention::{ITEM_QUERIES, MOST_DIM};
use crate::cpu::Simd;
use crate::quantize_q8::{BoundRow, quantize_part};
use silicide_gemm::Matrix;
use silicide_gemm::f32::{F32Kernels, fold_parts};
use silicide_gemm::q8::GROUP;
use silicide_hal::Tile;
use std::ops::Range;

/// Words of a part: largest score, sum, and values.
pub(super) fn part_words(value_dim: usize) -> usize {
    2 + value_dim
}

/// The parts that memory is planned for; lists with fewer items never need more.
pub(super) fn most_parts(items: usize) -> usize {
    let pairs = items.min(MOST_PAIRS) * 2;
    pairs.max(items)
}

/// Where parts lie: by item, then block of the item, then head of keys, then the rows of an item, which are tokens, then heads of the group.
#[derive(Clone, Copy)]
struct PartLayout {
    /// The most parts of an item.
    of_item: usize,
    kv_heads: usize,
    rows: usize,
    value_dim: usize,
}

impl PartLayout {
    #[inline(always)]
    fn of(extents: &Extents) -> PartLayout {
        PartLayout {
            of_item: if extents.items <= MOST_PAIRS { 2 } else { 1 },
            kv_heads: extents.kv_heads,
            rows: extents.tokens.min(ITEM_QUERIES) * extents.group(),
            value_dim: extents.value_dim,
        }
    }

    /// Whether each block of an item is a part.
    #[inline(always)]
    fn by_block(&self, item: &Item) -> bool {
        item.blocks.len() <= self.of_item
    }

    /// Words from the first part of a row to the next.
    #[inline(always)]
    fn stride(&self) -> usize {
        self.kv_heads * self.rows * part_words(self.value_dim)
    }

    /// Returns the words of a part of row `row` of an item.
    #[inline(always)]
    fn range(&self, part: usize, kv_head: usize, row: usize) -> Range<usize> {
        let words = part_words(self.value_dim);
        let start = part * self.stride() + (kv_head * self.rows + row) * words;
        start..start + words
    }
}

/// A tile: an item, a head of keys, some of the rows.
///
/// # Safety
/// The CPU has `S`; the tile is of a launch that the kernel planned.
#[inline(always)]
pub(super) unsafe fn split_keys<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: the kernel planned the launch, by the caller, so `plan_header` made its first parameters.
    let call = unsafe { Call::of(tile) };
    let [index, kv_head, chunk] = tile.index.map(|i| i as usize);
    let (extents, layout) = (call.extents, PartLayout::of(&call.extents));
    let Item { queries, blocks } = call.work.item(index);
    let (all, most) = (queries.len() * extents.group(), most_rows(extents.dim, extents.value_dim));
    let (start, count) = (chunk * most, most.min(all.saturating_sub(chunk * most)));
    if blocks.is_empty() || count == 0 {
        return;
    }
    let heads = kv_head * extents.group()..(kv_head + 1) * extents.group();
    let range = RowRange { first_token: queries.start, heads, start, count };
    // SAFETY: the rows are of this launch, and this is the only use of the workspace.
    let mut rows = unsafe { TileRows::gather(&call, range) };
    let store = |rows: &TileRows<'_>, part: usize, blocks: Range<usize>| {
        for (row, state, sums) in rows.parts(blocks.start * PAGE..blocks.end * PAGE, extents.value_dim) {
            let words = layout.range(part, kv_head, rows.range.start + row);
            // SAFETY: `most_parts` sized the parts, of which every item has `of_item`. This one is of this tile's item, head and row alone.
            let to = unsafe { tile.write::<f32>(OUT, words) };
            if let [largest, sum, values @ ..] = to {
                (*largest, *sum) = (state.largest, state.sum);
                values.copy_from_slice(sums);
            }
        }
    };
    let first = index * layout.of_item;
    // SAFETY: the CPU has `S`, by the caller; the grid has a row of tiles for each head of keys.
    unsafe {
        if layout.by_block(&Item { queries, blocks: blocks.clone() }) {
            for (part, block) in (first..).zip(blocks) {
                rows.take_block::<S>(&call, kv_head, block, BlockResult::Alone);
                store(&rows, part, block..block + 1);
            }
        } else {
            for block in blocks.clone() {
                rows.take_block::<S>(&call, kv_head, block, BlockResult::Folded);
            }
            store(&rows, first, blocks);
        }
    }
}

/// Consecutive parts of a row, at most [`BLOCKS`], each a block of one group.
#[derive(Default)]
struct PartRun {
    group: usize,
    first: usize,
    count: usize,
}

/// What is folded of a row: blocks into a group, groups into the outputs.
struct RowFold<'a, S> {
    isa: S,
    /// The parts of all items, which the launch before wrote.
    parts: &'a [f32],
    layout: PartLayout,
    kv_head: usize,
    /// The number of the row in an item.
    row: usize,
    /// The blocks of a group that were not folded yet.
    run: PartRun,
    /// The softmax of the blocks of the group that were folded; their values are `sums`.
    state: Softmax,
    /// Whether blocks of the group were folded.
    is_open: bool,
    sums: &'a mut [f32],
    /// The groups that were folded.
    total: Softmax,
    y: &'a mut [f32],
}

impl<'a, S: Simd + F32Kernels> RowFold<'a, S> {
    /// Adds a part. None if there is no such part, or if a microkernel refuses extents.
    #[inline(always)]
    fn take(&mut self, part: usize, block: usize, by_block: bool) -> Option<()> {
        let group = block / BLOCKS;
        if !by_block {
            self.end_group()?;
            let (part, values) = (self.softmax(part)?, self.values(part, 1)?);
            let factors = [self.total.fold::<S>(part)];
            return fold_parts(self.isa, self.y, values, &factors).ok();
        }
        let run = &self.run;
        if run.group != group {
            self.end_group()?;
        } else if run.first + run.count != part || run.count == BLOCKS {
            self.end_run()?;
        }
        if self.run.count == 0 {
            self.run = PartRun { group, first: part, count: 0 };
        }
        self.run.count += 1;
        Some(())
    }

    /// Folds the parts of the run into the group.
    #[inline(always)]
    fn end_run(&mut self) -> Option<()> {
        let PartRun { first, count, .. } = self.run;
        if count == 0 {
            return Some(());
        }
        let mut factors = [[0.0; 2]; BLOCKS];
        let factors = factors.get_mut(..count)?;
        for (part, factors) in (first..).zip(&mut *factors) {
            *factors = self.state.fold::<S>(self.softmax(part)?);
        }
        (self.run.count, self.is_open) = (0, true);
        let values = self.values(first, count)?;
        fold_parts(self.isa, self.sums, values, factors).ok()
    }

    /// Folds the group into the outputs.
    #[inline(always)]
    fn end_group(&mut self) -> Option<()> {
        self.end_run()?;
        if !self.is_open {
            return Some(());
        }
        self.is_open = false;
        let factors = [self.total.fold::<S>(self.state)];
        let group = Matrix::new("sums", self.sums, [1, self.layout.value_dim], self.layout.value_dim).ok()?;
        fold_parts(self.isa, self.y, group, &factors).ok()?;
        self.state = Softmax::NOTHING;
        self.sums.fill(0.0);
        Some(())
    }

    /// Returns the largest score and the sum of a part.
    #[inline(always)]
    fn softmax(&self, part: usize) -> Option<Softmax> {
        match self.parts.get(self.layout.range(part, self.kv_head, self.row))? {
            &[largest, sum, ..] => Some(Softmax { largest, sum }),
            _ => None,
        }
    }

    /// Returns the values of `count` parts of the row from `part` on.
    #[inline(always)]
    fn values(&self, part: usize, count: usize) -> Option<Matrix<'a, f32>> {
        let start = self.layout.range(part, self.kv_head, self.row).start + 2;
        let values = self.parts.get(start..)?;
        Matrix::new("parts", values, [count, self.layout.value_dim], self.layout.stride()).ok()
    }
}

/// A tile of folding: the heads of one token that share a head of keys.
///
/// # Safety
/// As for [`split_keys`].
#[inline(always)]
pub(super) unsafe fn fold_tile<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: the kernel planned the launch, by the caller, so `plan_header` made its first parameters.
    // Nothing writes the parts in this launch, and the launch before filled those of the items.
    let (call, isa, parts) = unsafe { (Call::of(tile), S::assume(), tile.read::<f32>(PARTS)) };
    let [token, kv_head, _] = tile.index.map(|i| i as usize);
    let (extents, layout) = (call.extents, PartLayout::of(&call.extents));
    let (group, value_dim) = (extents.group(), extents.value_dim);
    let seen = call.work.range(token);
    let items = call.work.items_of(token);
    let mut memory = [0.0; MOST_DIM];
    for member in 0..group {
        let head = kv_head * group + member;
        let out = (token * extents.heads + head) * value_dim;
        // SAFETY: the output is of this tile alone.
        let y = unsafe { tile.write::<f32>(OUT, out..out + value_dim) };
        y.fill(0.0);
        let sums = &mut memory[..value_dim];
        sums.fill(0.0);
        let (run, state, total) = (PartRun::default(), Softmax::NOTHING, Softmax::NOTHING);
        let mut fold =
            RowFold { isa, parts, layout, kv_head, row: 0, run, state, is_open: false, sums, total, y };
        let mut done = Some(());
        for index in items.clone() {
            let item = call.work.item(index);
            if !item.queries.contains(&token) {
                done = None;
                break;
            }
            let row = (token - item.queries.start) * group + member;
            if row != fold.row {
                // Pending parts are those of the row in the items before.
                done = done.and_then(|()| fold.end_run());
                fold.row = row;
            }
            let by_block = layout.by_block(&item);
            let first = index * layout.of_item;
            let count = if by_block { item.blocks.len() } else { 1 };
            for part in 0..count {
                let (block, end) = if by_block {
                    (item.blocks.start + part, item.blocks.start + part + 1)
                } else {
                    (item.blocks.start, item.blocks.end)
                };
                if seen.start.max(block * PAGE) >= seen.end.min(end * PAGE) {
                    continue;
                }
                done = done.and_then(|()| fold.take(first + part, block, by_block));
            }
        }
        done = done.and_then(|()| fold.end_group());
        let RowFold { total, y, .. } = fold;
        call.finish::<S>(head, if done.is_some() { total } else { Softmax::NAN }, y);
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
