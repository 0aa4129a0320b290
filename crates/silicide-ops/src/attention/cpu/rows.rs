//! The rows of a tile, and what a block of keys adds to them. A row is a query: a token and a head.

use super::page::{Page, PageWorkspace};
use super::softmax::Softmax;
use super::{Call, Extents, PAGE, Q};
use crate::attention::Attention;
use crate::cpu::Simd;
use silicide_gemm::f32::{F32Kernels, KEY_LANES, SUM_PADDING, WeightedValues, key_scores};
use silicide_gemm::{Matrix, MatrixMut};
use std::ops::Range;

/// Rows of a tile at most.
pub(super) const ROWS: usize = 128;
/// Elements of the queries, and of the sums, of a tile at most.
const ELEMENTS: usize = 1 << 14;
/// Rows whose scores are computed beside each other: as many as the microkernels take.
const STRIP: usize = 6;
/// Up to this many rows, keys and values are read in place: decoding a block does not pay.
const IN_PLACE_ROWS: usize = 2 * STRIP;

/// Workspace of a tile.
#[repr(C, align(64))]
pub(super) struct TileWorkspace {
    queries: [f32; ELEMENTS],
    sums: [f32; ELEMENTS],
    scores: [f32; STRIP * PAGE],
    seen: [[usize; 2]; ROWS],
    states: [Softmax; ROWS],
    page: PageWorkspace,
}

/// Elements from one row of sums to the next.
fn padded(value_dim: usize) -> usize {
    value_dim.next_multiple_of(SUM_PADDING)
}

/// Returns the rows that a tile has room for.
pub(super) fn most_rows(dim: usize, value_dim: usize) -> usize {
    (ELEMENTS / dim.max(padded(value_dim)).max(1)).clamp(1, ROWS)
}

/// Which rows: from row `start` on, of those of the tokens from `first_token` on and of `heads`; the heads of a token are neighbours.
#[derive(Clone)]
pub(super) struct RowRange {
    pub(super) first_token: usize,
    pub(super) heads: Range<usize>,
    pub(super) start: usize,
    pub(super) count: usize,
}

impl RowRange {
    /// Returns the token and the head of row `row`.
    #[inline(always)]
    pub(super) fn at(&self, row: usize) -> [usize; 2] {
        let (row, heads) = (self.start + row, self.heads.len());
        [self.first_token + row / heads, self.heads.start + row % heads]
    }
}

/// Whether a block is folded into the sums of earlier ones, or replaces them.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum BlockResult {
    Folded,
    Alone,
}

/// The rows of a tile with their softmax and sums.
pub(super) struct TileRows<'a> {
    pub(super) range: RowRange,
    /// The positions that each row sees.
    seen: &'a mut [[usize; 2]],
    /// The softmax of the blocks that were taken.
    states: &'a mut [Softmax],
    /// Weighted values of these blocks, `padded` apart.
    sums: &'a mut [f32],
    queries: &'a mut [f32],
    scores: &'a mut [[f32; PAGE]],
    page: *mut PageWorkspace,
}

impl<'a> TileRows<'a> {
    /// Gathers the queries of `range`, at most [`most_rows`], in the workspace.
    ///
    /// # Safety
    /// The launch has the rows of `range`, and the tile's workspace a [`TileWorkspace`], to which there is no other reference.
    #[inline(always)]
    pub(super) unsafe fn gather(call: &Call<'a>, range: RowRange) -> TileRows<'a> {
        let Extents { heads, dim, value_dim, .. } = call.extents;
        let count = range.count;
        // SAFETY: there is no other reference into the workspace, by the caller. Its fields are numbers, of which all bits zero are one, and zeros
        // are written before a slice is made; `most_rows` rows have room.
        let (queries, sums, scores, seen, states, page) = unsafe {
            let workspace = call.tile.workspace::<TileWorkspace>().as_mut_ptr();
            (
                zeros((&raw mut (*workspace).queries).cast::<f32>(), count * dim),
                zeros((&raw mut (*workspace).sums).cast::<f32>(), count * padded(value_dim)),
                zeros((&raw mut (*workspace).scores).cast::<[f32; PAGE]>(), count.min(STRIP)),
                zeros((&raw mut (*workspace).seen).cast::<[usize; 2]>(), count),
                zeros((&raw mut (*workspace).states).cast::<Softmax>(), count),
                &raw mut (*workspace).page,
            )
        };
        states.fill(Softmax::NOTHING);
        for (row, (query, seen)) in queries.chunks_exact_mut(dim).zip(&mut *seen).enumerate() {
            let [token, head] = range.at(row);
            let from = (token * heads + head) * dim;
            // SAFETY: `needs` requires a query for each token and head.
            query.copy_from_slice(unsafe { call.tile.read_part::<f32>(Q, from..from + dim) });
            let positions = call.work.range(token);
            *seen = [positions.start, positions.end];
        }
        TileRows { range, seen, states, sums, queries, scores, page }
    }

    /// Forgets the blocks that were taken.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.states.fill(Softmax::NOTHING);
        self.sums.fill(0.0);
    }

    /// Returns the rows that see a position of `positions`, with their softmax and sums of `value_dim` elements.
    #[inline(always)]
    pub(super) fn parts(
        &self,
        positions: Range<usize>,
        value_dim: usize,
    ) -> impl Iterator<Item = (usize, Softmax, &[f32])> {
        let sums = self.sums.chunks_exact(padded(value_dim));
        let rows = self.seen.iter().zip(&*self.states).zip(sums).enumerate();
        rows.filter_map(move |(row, ((&[start, end], state), sums))| {
            let is_seen = start.max(positions.start) < end.min(positions.end);
            is_seen.then_some((row, *state, sums.get(..value_dim)?))
        })
    }

    /// Takes block `block` of keys of a head, which some row sees.
    ///
    /// # Safety
    /// The CPU has `S`, and `kv_head` is a head of the cache.
    #[inline(always)]
    pub(super) unsafe fn take_block<S: Simd + F32Kernels>(
        &mut self,
        call: &Call<'a>,
        kv_head: usize,
        block: usize,
        taken: BlockResult,
    ) {
        let Extents { dim, value_dim, .. } = call.extents;
        let (base, count, apart) = (block * PAGE, self.range.count, padded(value_dim));
        let inside = |&[start, end]: &[usize; 2]| [start.max(base), end.min(base + PAGE)];
        let positions = hull(self.seen.iter().map(inside));
        if positions.is_empty() {
            return;
        }
        // SAFETY: the CPU has `S`, by the caller. The positions are of one block. The workspace is this tile's, and the page is used in this
        // function alone.
        let (isa, page) = unsafe {
            let in_place = count <= IN_PLACE_ROWS;
            (S::assume(), call.page::<S>(kv_head, base, positions, in_place, self.page))
        };
        let Some(page) = page else { return self.spoil() };
        let strips = count.div_ceil(STRIP);
        for strip in 0..strips {
            let rows = strip * count / strips..(strip + 1) * count / strips;
            let mut visible = [[0; 2]; STRIP];
            for (visible, seen) in visible.iter_mut().zip(self.seen.get(rows.clone()).unwrap_or_default()) {
                let [start, end] = inside(seen);
                *visible = if start < end { [start - base, end - base] } else { [0; 2] };
            }
            let strip = Strip {
                queries: self.queries.get(rows.start * dim..rows.end * dim).unwrap_or_default(),
                visible: visible.get(..rows.len()).unwrap_or_default(),
                states: self.states.get_mut(rows.clone()).unwrap_or_default(),
                sums: self.sums.get_mut(rows.start * apart..rows.end * apart).unwrap_or_default(),
                scores: self.scores,
                dim,
                ahead: if rows.start == 0 { page.ahead } else { [None; 2] },
            };
            if strip.take(isa, &call.rule, &page, taken).is_none() {
                return self.spoil();
            }
        }
    }

    /// Makes the blocks that were taken NaN, for all rows: a microkernel refused one.
    #[cold]
    fn spoil(&mut self) {
        self.states.fill(Softmax::NAN);
        self.sums.fill(f32::NAN);
    }
}

/// Some rows of a tile, at most [`STRIP`].
struct Strip<'s> {
    queries: &'s [f32],
    /// The keys of the block that each row sees.
    visible: &'s [[usize; 2]],
    states: &'s mut [Softmax],
    sums: &'s mut [f32],
    scores: &'s mut [[f32; PAGE]],
    dim: usize,
    ahead: [Option<usize>; 2],
}

impl Strip<'_> {
    /// Takes a block: scores, weights, weighted values. None if a microkernel refuses extents.
    #[inline(always)]
    fn take<S: Simd + F32Kernels>(
        self,
        isa: S,
        rule: &Attention,
        page: &Page<'_>,
        taken: BlockResult,
    ) -> Option<()> {
        let Strip { queries, visible, states, sums, scores, dim, ahead } = self;
        let count = visible.len();
        let keys = hull(visible.iter().copied());
        if keys.is_empty() {
            return Some(());
        }
        let sets = keys.start / KEY_LANES..keys.end.div_ceil(KEY_LANES);
        let columns = sets.start * KEY_LANES..sets.end * KEY_LANES;
        let stored =
            page.keys.tile(sets.start - page.first_set..sets.end - page.first_set, 0..dim * KEY_LANES)?;
        let out = scores.as_flattened_mut().get_mut(columns.start..).unwrap_or_default();
        let out = MatrixMut::new("scores", out, [count, columns.len()], PAGE).ok()?;
        let queries = Matrix::new("queries", queries, [count, dim], dim).ok()?;
        key_scores(isa, queries, stored, out, ahead[0]).ok()?;
        let mut factors = [[0.0; 2]; STRIP];
        for (((scores, state), &[start, end]), factors) in
            scores.iter_mut().zip(states).zip(visible).zip(&mut factors)
        {
            if start < end {
                let part = Softmax::weigh::<S>(rule, scores, start..end);
                match taken {
                    BlockResult::Folded => *factors = state.fold::<S>(part),
                    BlockResult::Alone => *state = part,
                }
            }
        }
        let apart = sums.len() / count;
        let values = WeightedValues {
            weights: Matrix::new("weights", scores.as_flattened(), [count, PAGE], PAGE).ok()?,
            ranges: visible,
            values: page.values,
            first: page.first,
            factors: factors.get(..count).filter(|_| taken == BlockResult::Folded),
            ahead: ahead[1],
        };
        values.fold(isa, MatrixMut::new("sums", sums, [count, apart], apart).ok()?).ok()
    }
}

/// Returns the least range that has all of `ranges` that are not empty.
#[inline(always)]
pub(super) fn hull(ranges: impl Iterator<Item = [usize; 2]>) -> Range<usize> {
    let (mut first, mut last) = (usize::MAX, 0);
    for [start, end] in ranges {
        if start < end {
            (first, last) = (first.min(start), last.max(end));
        }
    }
    first.min(last)..last
}

/// Returns memory as zeros.
///
/// # Safety
/// There is room for `count` elements, which are the caller's alone, and all bits zero are a `T`.
#[inline(always)]
pub(super) unsafe fn zeros<'a, T>(start: *mut T, count: usize) -> &'a mut [T] {
    // SAFETY: `count` elements at `start` are memory of nothing else, and zeros are a `T` (`# Safety`).
    unsafe {
        start.write_bytes(0, count);
        std::slice::from_raw_parts_mut(start, count)
    }
}
