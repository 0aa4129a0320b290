//! Few rows: every weight column is read once, in memory order, and multiplied with the rows it meets.
//!
//! Nothing is packed: the weights' way through memory is what costs. An output is the sum of `LANES` partial sums,
//! each over every `LANES`-th word of the depth, added in a fixed order; so its bits do not depend on which other
//! rows and columns are computed beside it. They differ in the last places from those of the register tile, which
//! sums the depth word by word.

use super::pack::{F32, Weight, load_part};
use super::vector::Vector;

/// Rows that share one pass over the weights.
const TOGETHER: usize = 4;

/// Some rows of activations and some weight columns.
#[derive(Clone, Copy)]
pub(crate) struct Rows<T> {
    /// First activation.
    pub(crate) a: *const f32,
    /// First weight.
    pub(crate) b: *const T,
    /// First output.
    pub(crate) y: *mut f32,
    /// Elements to multiply of a row of activations and of a weight column.
    pub(crate) depth: usize,
    /// Activations from one row to the next.
    pub(crate) a_stride: usize,
    /// Weights from one column to the next.
    pub(crate) b_stride: usize,
    /// Outputs from one row to the next.
    pub(crate) y_stride: usize,
    /// Rows.
    pub(crate) rows: usize,
    /// Columns.
    pub(crate) columns: usize,
    /// Whether to add to the outputs rather than to overwrite them.
    pub(crate) accumulate: bool,
}

/// Multiplies all rows with all columns.
///
/// # Safety
///
/// The vector's instruction set is present; activations, weights and outputs have the given extents; nobody else
/// touches the outputs.
#[inline(always)]
pub(crate) unsafe fn multiply<V: Vector, W: Weight>(all: &Rows<W::Stored>) {
    // As many columns beside each other as there are registers for sums: activations are read once for all of them.
    // SAFETY: the caller's promise.
    unsafe {
        if V::REGISTERS >= 32 {
            multiply_blocks::<V, W, 4, 8, 6>(all);
        } else {
            multiply_blocks::<V, W, 4, 4, 3>(all);
        }
    }
}

/// [`multiply`] with `ONE` columns at a time for one row, `TWO` for two rows, `MORE` for more.
#[inline(always)]
unsafe fn multiply_blocks<V: Vector, W: Weight, const ONE: usize, const TWO: usize, const MORE: usize>(
    all: &Rows<W::Stored>,
) {
    let block = match all.rows {
        1 => ONE,
        2 => TWO,
        _ => MORE,
    };
    let passes = all.rows.div_ceil(TOGETHER);
    let mut column = 0;
    while column < all.columns {
        let columns = if all.columns - column >= block { block } else { 1 };
        let mut row = 0;
        for pass in 0..passes {
            let end = (pass + 1) * all.rows / passes;
            // SAFETY: the rows and columns are part of all.
            unsafe {
                let part = Rows {
                    a: all.a.add(row * all.a_stride),
                    b: all.b.add(column * all.b_stride),
                    y: all.y.add(row * all.y_stride + column),
                    ..*all
                };
                match (end - row, columns) {
                    (1, 1) => dots::<V, W, 1, 1>(&part),
                    (2, 1) => dots::<V, W, 2, 1>(&part),
                    (3, 1) => dots::<V, W, 3, 1>(&part),
                    (_, 1) => dots::<V, W, TOGETHER, 1>(&part),
                    (1, _) => dots::<V, W, 1, ONE>(&part),
                    (2, _) if passes == 1 => dots::<V, W, 2, TWO>(&part),
                    (2, _) => dots::<V, W, 2, MORE>(&part),
                    (3, _) => dots::<V, W, 3, MORE>(&part),
                    _ => dots::<V, W, TOGETHER, MORE>(&part),
                }
            }
            row = end;
        }
        column += columns;
    }
}

/// The dot products of `ROWS` rows and `COLUMNS` columns.
#[inline(always)]
unsafe fn dots<V: Vector, W: Weight, const ROWS: usize, const COLUMNS: usize>(part: &Rows<W::Stored>) {
    let whole = part.depth - part.depth % V::LANES;
    // SAFETY: the caller's promise: rows and columns have `depth` elements, at the strides given.
    unsafe {
        let mut sums = [[V::zero(); COLUMNS]; ROWS];
        for at in (0..whole).step_by(V::LANES) {
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
        for (row, sums) in sums.iter().enumerate() {
            for (column, sum) in sums.iter().enumerate() {
                let y = part.y.add(row * part.y_stride + column);
                *y = if part.accumulate { *y + sum.sum() } else { sum.sum() };
            }
        }
    }
}
