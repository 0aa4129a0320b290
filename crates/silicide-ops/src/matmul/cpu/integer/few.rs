//! Few rows: the codes of one run of weights, in as many columns as there are lanes, go from memory to registers and
//! meet all rows there.

use super::activations::{BLOCK_BYTES, SCALE, SIDE};
use super::format::{Codes, Columns, STAGED, Scales, dot, start};
use super::panel::store;
use super::unit::{Side, Unit};
use crate::matmul::cpu::vector::Vector;
use silicide_hal::Tile;

/// Rows that share one pass over the weights.
const TOGETHER: usize = 8;
/// Bytes that memory moves at a time.
const LINE: usize = 64;

/// Rows of rounded activations, and their outputs in a group of columns.
#[derive(Clone, Copy)]
struct Rows {
    a: *const u8,
    y: *mut f32,
    y_stride: usize,
    blocks: usize,
    /// Columns to write: the last ones of the group.
    columns: usize,
    /// What is read after this group.
    next: *const u8,
}

/// A tile: some columns of one batch, all rows.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are rounded activations, weights and outputs of the extents in the
/// parameters, with at least as many columns as there are lanes.
#[inline(always)]
pub(super) unsafe fn few_rows<U: Unit, F: Codes>(tile: &Tile<'_>) {
    let [m, n, blocks, tile_columns] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
    let [x, _, batch] = tile.index.map(|i| i as usize);
    let lanes = U::Floats::LANES;
    let stride = blocks / F::RUNS * F::BLOCK;
    let mut scales = Scales::new();
    let end = ((x + 1) * tile_columns).min(n);
    for column in (x * tile_columns..end).step_by(lanes) {
        // The last lanes of a group that is not whole; the others are computed again, and not written.
        let skip = lanes - lanes.min(end - column);
        for row in (0..m).step_by(TOGETHER) {
            // SAFETY: the planner made the grid for these extents; tiles have different columns or batches.
            unsafe {
                let columns = Columns { start: tile.start(1).add((batch * n + column - skip) * stride), stride };
                let rows = Rows {
                    a: tile.start(0).add((batch * m + row) * blocks * BLOCK_BYTES),
                    y: tile.start(2).cast::<f32>().add((batch * m + row) * n + column),
                    y_stride: n,
                    blocks,
                    columns: lanes - skip,
                    next: columns.start.wrapping_add(lanes * stride),
                };
                match (m - row).min(TOGETHER) {
                    1 => multiply::<U, F, 1>(columns, rows, &mut scales),
                    2 => multiply::<U, F, 2>(columns, rows, &mut scales),
                    3 => multiply::<U, F, 3>(columns, rows, &mut scales),
                    4 => multiply::<U, F, 4>(columns, rows, &mut scales),
                    5 => multiply::<U, F, 5>(columns, rows, &mut scales),
                    6 => multiply::<U, F, 6>(columns, rows, &mut scales),
                    7 => multiply::<U, F, 7>(columns, rows, &mut scales),
                    _ => multiply::<U, F, TOGETHER>(columns, rows, &mut scales),
                }
            }
        }
    }
}

/// The outputs of `ROWS` rows in one group of columns.
#[inline(always)]
unsafe fn multiply<U: Unit, F: Codes, const ROWS: usize>(columns: Columns, rows: Rows, scales: &mut Scales) {
    let lanes = U::Floats::LANES;
    // SAFETY: the caller's promise: rows and columns have `blocks` blocks.
    unsafe {
        let mut sums = [U::Floats::zero(); ROWS];
        for first in (0..rows.blocks).step_by(STAGED) {
            let count = STAGED.min(rows.blocks - first);
            F::scales::<U>(columns, first, count, scales);
            for i in 0..count {
                let (scale, second) = scales.at::<U, F>(i);
                let codes = F::codes::<U>(columns, first + i);
                // The next group, in the order of memory.
                for line in 0..(lanes * F::BYTES).div_ceil(LINE) {
                    U::prefetch(rows.next.wrapping_add((first + i) * lanes * F::BYTES + line * LINE));
                }
                for (row, sum) in sums.iter_mut().enumerate() {
                    let a = rows.a.add((row * rows.blocks + first + i) * BLOCK_BYTES);
                    let mut dots = start::<U, F>(a.add(SIDE));
                    let mut scaled = U::Floats::zero();
                    for (word, codes) in codes.iter().enumerate() {
                        if F::SIDE == Side::Halves && word == 4 {
                            scaled = U::floats(dots).multiply_add(scale, scaled);
                            dots = start::<U, F>(a.add(SIDE + 4));
                        }
                        dots = dot::<U, F>(dots, *codes, a.add(4 * word));
                    }
                    let last = if F::SIDE == Side::Halves { second } else { scale };
                    let scaled = U::floats(dots).multiply_add(last, scaled);
                    *sum = scaled.multiply_add(U::Floats::splat(a.add(SCALE).cast()), *sum);
                    if F::SIDE == Side::Sum {
                        *sum = second.multiply_add(U::Floats::splat(a.add(SIDE).cast()), *sum);
                    }
                }
            }
        }
        for (row, sum) in sums.iter().enumerate() {
            store(*sum, rows.y.add(row * rows.y_stride), rows.columns);
        }
    }
}
