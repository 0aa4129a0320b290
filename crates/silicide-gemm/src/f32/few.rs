//! Few rows: every weight column is read once, in memory order, and multiplied with the rows it meets.
//!
//! Nothing is packed: the weights' way through memory is what costs. An output is the sum of `LANES` partial sums,
//! each over every `LANES`-th word of the depth, added in a fixed order; so its bits do not depend on which other
//! rows and columns are computed beside it. They differ in the last places from those of the register tile, which
//! sums the depth word by word.

use super::pack::{F32, Weight, load_part};
use super::vector::{Unit, Vector};
use crate::prefetch::{LINE, fetch};

/// Rows that share one pass over the weights.
const TOGETHER: usize = 5;
/// The most columns that are beside each other.
const MOST_COLUMNS: usize = 8;

/// Some rows of activations and some weight columns.
#[derive(Clone, Copy)]
pub struct Rows<T> {
    /// First activation.
    pub a: *const f32,
    /// First weight.
    pub b: *const T,
    /// First output.
    pub y: *mut f32,
    /// Elements to multiply of a row of activations and of a weight column.
    pub depth: usize,
    /// Activations from one row to the next.
    pub a_stride: usize,
    /// Weights from one column to the next.
    pub b_stride: usize,
    /// Outputs from one row to the next.
    pub y_stride: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Whether to add to the outputs rather than to overwrite them.
    pub accumulate: bool,
    /// How many bytes ahead weights are asked for, while those before them are multiplied; none if they are near anyway.
    pub ahead: Option<usize>,
}

/// Bytes of weights that more rows than are multiplied together pass over while they are near.
const NEAR: usize = 16 << 10;

/// How many bytes ahead what has come to the second cache is asked for again, to the first: a load that waits for the second
/// holds one of the few requests that those to memory need.
pub(super) const NEARER: usize = 2048;

/// How far ahead to ask for weights of such depth: what is multiplied next, and far enough.
pub const fn ahead<W: Weight>(depth: usize) -> usize {
    let bytes = MOST_COLUMNS / 2 * depth * size_of::<W::Stored>();
    if bytes < 8192 { 8192 } else { bytes }
}

/// Multiplies all rows with all columns.
///
/// # Safety
///
/// The unit's instruction set is present; activations, weights and outputs have the given extents; nobody else
/// touches the outputs.
#[inline(always)]
pub unsafe fn multiply<U: Unit, W: Weight>(all: &Rows<W::Stored>) {
    let passes = all.rows.div_ceil(TOGETHER);
    let bytes = all.b_stride.max(1) * size_of::<W::Stored>();
    let near = if passes == 1 {
        all.columns.max(1)
    } else {
        (NEAR / bytes).next_multiple_of(MOST_COLUMNS).max(MOST_COLUMNS)
    };
    for column in (0..all.columns).step_by(near) {
        let mut row = 0;
        for pass in 0..passes {
            let end = (pass + 1) * all.rows / passes;
            // SAFETY: the rows and columns are part of all.
            unsafe {
                let part = Rows {
                    a: all.a.add(row * all.a_stride),
                    b: all.b.add(column * all.b_stride),
                    y: all.y.add(row * all.y_stride + column),
                    columns: near.min(all.columns - column),
                    ahead: all.ahead.filter(|_| pass == 0),
                    ..*all
                };
                match end - row {
                    1 => U::few::<W, 1>(&part),
                    2 => U::few::<W, 2>(&part),
                    3 => U::few::<W, 3>(&part),
                    4 => U::few::<W, 4>(&part),
                    _ => U::few::<W, TOGETHER>(&part),
                }
            }
            row = end;
        }
    }
}

/// Multiplies `ROWS` rows with all columns. As many columns are beside each other as there are registers for sums: activations
/// are read once for all of them.
///
/// # Safety
///
/// As for [`multiply`], and there are so many rows.
#[inline(always)]
pub(super) unsafe fn columns<V: Vector, W: Weight, const ROWS: usize>(all: &Rows<W::Stored>) {
    // SAFETY: the caller's promise.
    unsafe {
        match (ROWS, V::REGISTERS >= 32) {
            (1, _) | (3..5, true) => blocks::<V, W, ROWS, 4>(all),
            // With four, sums would be in memory now and then.
            (5.., true) => blocks::<V, W, ROWS, 3>(all),
            (2, true) => blocks::<V, W, ROWS, MOST_COLUMNS>(all),
            (2, false) => blocks::<V, W, ROWS, 4>(all),
            _ => blocks::<V, W, ROWS, 2>(all),
        }
    }
}

/// [`columns`], so many at a time.
#[inline(always)]
unsafe fn blocks<V: Vector, W: Weight, const ROWS: usize, const COLUMNS: usize>(all: &Rows<W::Stored>) {
    let mut column = 0;
    while column < all.columns {
        // SAFETY: the columns are part of all.
        unsafe {
            let part = Rows { b: all.b.add(column * all.b_stride), y: all.y.add(column), ..*all };
            if all.columns - column >= COLUMNS {
                dots::<V, W, ROWS, COLUMNS>(&part);
                column += COLUMNS;
            } else {
                dots::<V, W, ROWS, 1>(&part);
                column += 1;
            }
        }
    }
}

/// The dot products of `ROWS` rows and `COLUMNS` columns.
#[inline(always)]
unsafe fn dots<V: Vector, W: Weight, const ROWS: usize, const COLUMNS: usize>(part: &Rows<W::Stored>) {
    let whole = part.depth - part.depth % V::LANES;
    let line = const { LINE / size_of::<W::Stored>() };
    // SAFETY: the caller's promise: rows and columns have `depth` elements, at the strides given.
    unsafe {
        let mut sums = [[V::zero(); COLUMNS]; ROWS];
        for from in (0..whole).step_by(line) {
            if let Some(ahead) = part.ahead {
                for column in 0..COLUMNS {
                    let next = part.b.wrapping_add(column * part.b_stride + from);
                    fetch::<false>(next.cast::<u8>().wrapping_add(ahead));
                    fetch::<true>(next.cast::<u8>().wrapping_add(NEARER));
                }
            }
            for at in (from..whole.min(from + line)).step_by(V::LANES) {
                let mut weights = [V::zero(); COLUMNS];
                for (column, weights) in weights.iter_mut().enumerate() {
                    *weights = W::load::<V>(part.b.add(column * part.b_stride + at));
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = V::load(part.a.add(row * part.a_stride + at));
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        *sum = a.multiply_add(weights, *sum);
                    }
                }
            }
        }
        if whole < part.depth {
            let left = part.depth - whole;
            for column in 0..COLUMNS {
                let weights = load_part::<V, W>(part.b.add(column * part.b_stride + whole), left);
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = load_part::<V, F32>(part.a.add(row * part.a_stride + whole), left);
                    sums[column] = a.multiply_add(weights, sums[column]);
                }
            }
        }
        // Lanes of four sums are added up at a time: one by one costs most of what short rows cost.
        for (row, sums) in sums.iter().enumerate() {
            for first in (0..COLUMNS).step_by(4) {
                let four = std::array::from_fn(|i| sums[(first + i).min(COLUMNS - 1)]);
                let y = part.y.add(row * part.y_stride + first);
                for (i, sum) in V::sums(four).into_iter().enumerate().take(COLUMNS - first) {
                    *y.add(i) = if part.accumulate { *y.add(i) + sum } else { sum };
                }
            }
        }
    }
}
