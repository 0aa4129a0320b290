//! Many rows: the codes of some columns are unpacked into a panel on the tile's own stack, and meet all its rows there.
//!
//! A panel is a sequence of sub-panels of [`VECTORS`] vectors of columns. A sub-panel is a sequence of runs of 32 weights: eight rows of
//! words, four codes of each column side by side; then the scales, then the minimums or second scales.

use super::activations::{BLOCK_BYTES, SCALE, SIDE};
use super::format::{Codes, Columns, STAGED, Scales, dot, start};
use super::unit::{Side, Unit};
use crate::matmul::cpu::vector::{MAX_LANES, Vector};
use silicide_hal::Tile;
use std::mem::MaybeUninit;

/// Columns of a tile.
pub(super) const TILE_COLUMNS: usize = 32;
/// A multiple of the height of every register tile.
pub(super) const STRIPS: usize = 12;
/// The most rows of any register tile.
pub(super) const MAX_ROWS: usize = 6;
/// Vectors in a row of the register tile.
const VECTORS: usize = 2;
/// Words of a run in a panel, for each column: codes, scale, minimum or second scale.
const WORDS: usize = 10;
/// Runs in a panel.
const RUNS: usize = 256;

/// Room for a panel: 320 KiB, to stay in the second-level cache.
#[repr(align(64))]
struct Panel(MaybeUninit<[f32; TILE_COLUMNS * WORDS * RUNS]>);

/// A block of outputs: some rows and the columns of a sub-panel.
#[derive(Clone, Copy)]
struct Block {
    a: *const u8,
    /// Bytes from one row of rounded activations to the next.
    a_stride: usize,
    panel: *const f32,
    runs: usize,
    y: *mut f32,
    y_stride: usize,
    rows: usize,
    columns: usize,
    accumulate: bool,
}

/// A tile: some columns and some rows of one batch.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are rounded activations, weights and outputs of the extents in the
/// parameters, with at least as many columns as there are lanes.
#[inline(always)]
pub(super) unsafe fn many_rows<U: Unit, F: Codes>(tile: &Tile<'_>) {
    let [m, n, blocks, tile_rows] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
    let [x, y, batch] = tile.index.map(|i| i as usize);
    let (start, row) = (x * TILE_COLUMNS, y * tile_rows);
    let (width, stride) = (VECTORS * U::Floats::LANES, blocks / F::RUNS * F::BLOCK);
    let mut panel = Panel(MaybeUninit::uninit());
    let panel = panel.0.as_mut_ptr().cast::<f32>();
    for first in (0..blocks).step_by(RUNS) {
        let runs = RUNS.min(blocks - first);
        for column in (start..(start + TILE_COLUMNS).min(n)).step_by(width) {
            // SAFETY: the planner made the grid for these extents; tiles have different rows, columns or batches. The
            // panel has room for a sub-panel, and the multiplication reads only what was packed.
            unsafe {
                let columns = width.min(n - column);
                let weights = tile.start(1).add(batch * n * stride);
                for vector in 0..columns.div_ceil(U::Floats::LANES) {
                    // A group that is not whole begins earlier, with columns that are computed and not written.
                    let from = (column + vector * U::Floats::LANES).min(n - U::Floats::LANES);
                    let group = Columns { start: weights.add(from * stride), stride };
                    pack::<U, F>(group, first, runs, panel.add(vector * U::Floats::LANES));
                }
                multiply::<U, F>(&Block {
                    a: tile.start(0).add(((batch * m + row) * blocks + first) * BLOCK_BYTES),
                    a_stride: blocks * BLOCK_BYTES,
                    panel,
                    runs,
                    y: tile.start(2).cast::<f32>().add((batch * m + row) * n + column),
                    y_stride: n,
                    rows: tile_rows.min(m - row),
                    columns,
                    accumulate: first > 0,
                });
            }
        }
    }
}

/// Unpacks `runs` runs from `first` on of a group of columns; `to` is the first word of its vector in the sub-panel.
#[inline(always)]
unsafe fn pack<U: Unit, F: Codes>(columns: Columns, first: usize, runs: usize, to: *mut f32) {
    let width = VECTORS * U::Floats::LANES;
    let mut scales = Scales::new();
    for start in (0..runs).step_by(STAGED) {
        let count = STAGED.min(runs - start);
        // SAFETY: the caller's promise: the columns have these runs, and the sub-panel room for them.
        unsafe {
            F::scales::<U>(columns, first + start, count, &mut scales);
            for i in 0..count {
                let (scale, second) = scales.at::<U, F>(i);
                let to = to.add((start + i) * WORDS * width);
                for (word, codes) in F::codes::<U>(columns, first + start + i).iter().enumerate() {
                    U::store(*codes, to.add(word * width).cast());
                }
                scale.store(to.add(8 * width));
                second.store(to.add(9 * width));
            }
        }
    }
}

/// Computes a block, in strips of nearly equal height.
#[inline(always)]
unsafe fn multiply<U: Unit, F: Codes>(block: &Block) {
    const { assert!(U::ROWS <= MAX_ROWS && STRIPS.is_multiple_of(U::ROWS)) };
    // Scales of halves take registers of their own.
    let most = if F::SIDE == Side::Halves { U::ROWS.div_ceil(2) } else { U::ROWS };
    let strips = block.rows.div_ceil(most);
    let mut row = 0;
    for strip in 0..strips {
        let end = (strip + 1) * block.rows / strips;
        // SAFETY: the strip is part of the block.
        unsafe {
            let part = Block {
                a: block.a.add(row * block.a_stride),
                y: block.y.add(row * block.y_stride),
                rows: end - row,
                ..*block
            };
            if block.columns > U::Floats::LANES {
                multiply_rows::<U, F, 2>(&part);
            } else {
                multiply_rows::<U, F, 1>(&part);
            }
        }
        row = end;
    }
}

/// [`multiply_tile`] for the block's number of rows.
#[inline(always)]
unsafe fn multiply_rows<U: Unit, F: Codes, const COUNT: usize>(block: &Block) {
    // SAFETY: the caller's promise.
    unsafe {
        match block.rows {
            1 => multiply_tile::<U, F, 1, COUNT>(block),
            2 => multiply_tile::<U, F, 2, COUNT>(block),
            3 if U::ROWS >= 3 => multiply_tile::<U, F, 3, COUNT>(block),
            4 if U::ROWS >= 4 => multiply_tile::<U, F, 4, COUNT>(block),
            5 if U::ROWS >= 5 => multiply_tile::<U, F, 5, COUNT>(block),
            6 if U::ROWS >= 6 => multiply_tile::<U, F, 6, COUNT>(block),
            _ => {}
        }
    }
}

/// One register tile, of `ROWS` rows and `COUNT` vectors, over all runs of the panel.
#[inline(always)]
unsafe fn multiply_tile<U: Unit, F: Codes, const ROWS: usize, const COUNT: usize>(block: &Block) {
    let lanes = U::Floats::LANES;
    let width = VECTORS * lanes;
    // SAFETY: the caller's promise: the panel has the runs, rows and columns are inside theirs.
    unsafe {
        let mut sums = [[U::Floats::zero(); COUNT]; ROWS];
        if block.accumulate {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = load(block.y.add(row * block.y_stride + i * lanes), block.columns - i * lanes);
                }
            }
        }
        for run in 0..block.runs {
            let panel = block.panel.add(run * WORDS * width);
            let a = block.a.add(run * BLOCK_BYTES);
            let mut dots = [[U::zero(); COUNT]; ROWS];
            let mut scaled = [[U::Floats::zero(); COUNT]; ROWS];
            for (row, dots) in dots.iter_mut().enumerate() {
                *dots = [start::<U, F>(a.add(row * block.a_stride + SIDE)); COUNT];
            }
            for word in 0..8 {
                if F::SIDE == Side::Halves && word == 4 {
                    for i in 0..COUNT {
                        let scale = U::Floats::load(panel.add(8 * width + i * lanes));
                        for (row, dots) in dots.iter_mut().enumerate() {
                            scaled[row][i] = U::floats(dots[i]).multiply_add(scale, U::Floats::zero());
                            dots[i] = start::<U, F>(a.add(row * block.a_stride + SIDE + 4));
                        }
                    }
                }
                let mut codes = [U::load(panel.add(word * width).cast()); COUNT];
                for (i, codes) in codes.iter_mut().enumerate().skip(1) {
                    *codes = U::load(panel.add(word * width + i * lanes).cast());
                }
                for (row, dots) in dots.iter_mut().enumerate() {
                    let a = a.add(row * block.a_stride + 4 * word);
                    for (dots, codes) in dots.iter_mut().zip(codes) {
                        *dots = dot::<U, F>(*dots, codes, a);
                    }
                }
            }
            for i in 0..COUNT {
                let at = i * lanes;
                let last = if F::SIDE == Side::Halves { 9 } else { 8 };
                let scale = U::Floats::load(panel.add(last * width + at));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let activations = U::Floats::splat(a.add(row * block.a_stride + SCALE).cast());
                    let scaled = U::floats(dots[row][i]).multiply_add(scale, scaled[row][i]);
                    sums[i] = scaled.multiply_add(activations, sums[i]);
                }
                if F::SIDE == Side::Sum {
                    let minimum = U::Floats::load(panel.add(9 * width + at));
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let activations = U::Floats::splat(a.add(row * block.a_stride + SIDE).cast());
                        sums[i] = minimum.multiply_add(activations, sums[i]);
                    }
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (i, sum) in sums.iter().enumerate() {
                store(*sum, block.y.add(row * block.y_stride + i * lanes), block.columns - i * lanes);
            }
        }
    }
}

/// A vector whose last `left` lanes are what is at `from`; all of them, if there are more.
#[inline(always)]
unsafe fn load<V: Vector>(from: *const f32, left: usize) -> V {
    // SAFETY: the caller's promise; no more than the vector's lanes are copied.
    unsafe {
        if left >= V::LANES {
            return V::load(from);
        }
        let mut words = [0f32; MAX_LANES];
        std::ptr::copy_nonoverlapping(from, words.as_mut_ptr().add(V::LANES - left), left);
        V::load(words.as_ptr())
    }
}

/// Writes the last `left` lanes; all of them, if there are fewer.
#[inline(always)]
pub(super) unsafe fn store<V: Vector>(vector: V, to: *mut f32, left: usize) {
    // SAFETY: the caller's promise; no more than the vector's lanes are copied.
    unsafe {
        if left >= V::LANES {
            return vector.store(to);
        }
        let mut words = [0f32; MAX_LANES];
        vector.store(words.as_mut_ptr());
        std::ptr::copy_nonoverlapping(words.as_ptr().add(V::LANES - left), to, left);
    }
}
