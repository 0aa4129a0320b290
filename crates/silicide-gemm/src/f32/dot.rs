//! Dot products along the depth, for attention: scores of queries against stored keys, which are read once, in memory order.
//!
//! ```text
//! for row i of lhs, for row j of rows:
//!     part[lane] = sum over l = lane, lane + LANES, ... of lhs[i][l] * rows[j][l]
//!     out[i][j] = sum of part[lane], in a fixed order
//! ```
//!
//! Lanes are elements of the depth, so the order of sums is not that of [`DenseGemm`](super::DenseGemm). An output's bits do not depend
//! on which other rows are computed beside it.

use super::element::{Element, load_part};
use super::lanes::{DenseLanes, OutputTile};
use super::product::{CheckedDense, DenseCall, F32Kernels, same};
use super::weights::DenseRows;
use crate::isa::Task;
use crate::prefetch::{LINE, fetch};
use crate::view::{GemmError, Matrix, MatrixMut};

/// Rows of the LHS that share one pass over the stored rows.
const MAX_ROWS: usize = 5;
/// The most stored rows beside each other.
const MAX_COLUMNS: usize = 8;
/// Bytes of stored rows that stay in L1, for more rows of the LHS than are multiplied at once.
const NEAR: usize = 16 << 10;
/// Prefetch distance in bytes to L1: a load that waits for L2 holds one of the few requests that those to memory need.
pub(super) const NEARER: usize = 2048;

/// Computes `out = lhs . rows^T` by dot products along the depth. `ahead` is the prefetch distance in bytes.
#[inline(always)]
pub fn dot_products<I: F32Kernels>(
    isa: I,
    lhs: Matrix<'_, f32>,
    rows: DenseRows<'_>,
    mut out: MatrixMut<'_, f32>,
    ahead: Option<usize>,
) -> Result<(), GemmError> {
    let [n, k] = rows.extents();
    same("lhs", "columns", k, lhs.columns())?;
    same("out", "rows", lhs.rows(), out.rows())?;
    same("out", "columns", n, out.columns())?;
    let out = OutputTile { start: out.as_mut_ptr(), stride: out.stride(), accumulate: false };
    isa.compute(CheckedDense(DenseCall::Dot { lhs, rows, out, ahead }));
    Ok(())
}

/// Rows of the LHS times stored rows. [`dot_products`] compared the extents.
#[derive(Clone, Copy)]
pub(super) struct DotTask<'a, I, T> {
    pub(super) isa: I,
    pub(super) lhs: Matrix<'a, f32>,
    pub(super) rows: Matrix<'a, T>,
    pub(super) out: OutputTile,
    pub(super) ahead: Option<usize>,
}

impl<I: DenseLanes, T: Element> DotTask<'_, I, T> {
    /// Computes all products, some rows of the LHS at a time.
    #[inline(always)]
    pub(super) fn by_rows(&self) {
        let (m, n) = (self.lhs.rows(), self.rows.rows());
        let passes = m.div_ceil(MAX_ROWS);
        let bytes = self.rows.stride().max(1) * size_of::<T>();
        let near = if passes == 1 {
            n.max(1)
        } else {
            (NEAR / bytes).next_multiple_of(MAX_COLUMNS).max(MAX_COLUMNS)
        };
        for column in (0..n).step_by(near) {
            let mut row = 0;
            for pass in 0..passes {
                let end = (pass + 1) * m / passes;
                let lhs = self.lhs.tile(row..end, 0..self.lhs.columns());
                let rows = self.rows.tile(column..(column + near).min(n), 0..self.rows.columns());
                let (Some(lhs), Some(rows)) = (lhs, rows) else { return };
                let ahead = self.ahead.filter(|_| pass == 0);
                let (isa, part) =
                    (self.isa, DotTask { lhs, rows, out: self.out.skip(row, column), ahead, ..*self });
                match end - row {
                    1 => isa.run(DotRows::<I, T, 1>(part)),
                    2 => isa.run(DotRows::<I, T, 2>(part)),
                    3 => isa.run(DotRows::<I, T, 3>(part)),
                    4 => isa.run(DotRows::<I, T, 4>(part)),
                    _ => isa.run(DotRows::<I, T, MAX_ROWS>(part)),
                }
                row = end;
            }
        }
    }
}

/// `ROWS` rows of the LHS, which are all, times stored rows.
struct DotRows<'a, I, T, const ROWS: usize>(DotTask<'a, I, T>);

impl<I: DenseLanes, T: Element, const ROWS: usize> Task for DotRows<'_, I, T, ROWS> {
    type Output = ();

    /// As many stored rows are beside each other as there are registers for sums: the LHS is read once for all of them.
    #[inline(always)]
    fn run(self) {
        match (ROWS, I::REGISTERS >= 32) {
            (1, _) | (3..5, true) => self.columns::<4>(),
            // With four, sums would be in memory now and then.
            (5.., true) => self.columns::<3>(),
            (2, true) => self.columns::<MAX_COLUMNS>(),
            (2, false) => self.columns::<4>(),
            _ => self.columns::<2>(),
        }
    }
}

impl<I: DenseLanes, T: Element, const ROWS: usize> DotRows<'_, I, T, ROWS> {
    /// Computes all products, `COLUMNS` stored rows at a time.
    #[inline(always)]
    fn columns<const COLUMNS: usize>(&self) {
        let n = self.0.rows.rows();
        let whole = n - n % COLUMNS;
        for column in (0..whole).step_by(COLUMNS) {
            // SAFETY: there are `n` stored rows.
            unsafe { self.dots::<COLUMNS>(column) };
        }
        for column in whole..n {
            // SAFETY: `column` is below `n`, the number of stored rows.
            unsafe { self.dots::<1>(column) };
        }
    }

    /// Computes the products with `COLUMNS` stored rows from `column` on.
    ///
    /// # Safety
    /// There are as many stored rows.
    #[inline(always)]
    unsafe fn dots<const COLUMNS: usize>(&self, column: usize) {
        let DotTask { isa, lhs, rows, out, ahead } = self.0;
        let depth = lhs.columns();
        let whole = depth - depth % I::LANES;
        let line = const { LINE / size_of::<T>() };
        let x = lhs.as_ptr();
        let from: [*const T; COLUMNS] =
            std::array::from_fn(|i| rows.as_ptr().wrapping_add((column + i) * rows.stride()));
        // SAFETY: the LHS has ROWS rows of `depth` elements, `rows` have as many, and the caller vouches for stored rows; there is an
        // output for each pair.
        unsafe {
            let mut sums = [[isa.zeros(); COLUMNS]; ROWS];
            for first in (0..whole).step_by(line) {
                if let Some(ahead) = ahead {
                    for from in from {
                        let next = from.wrapping_add(first).cast::<u8>();
                        fetch::<false>(next.wrapping_add(ahead));
                        fetch::<true>(next.wrapping_add(NEARER));
                    }
                }
                for at in (first..whole.min(first + line)).step_by(I::LANES) {
                    let stored = from.map(|from| T::load(isa, from.add(at)));
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let x = isa.load(x.add(row * lhs.stride() + at));
                        for (sum, stored) in sums.iter_mut().zip(stored) {
                            *sum = isa.fma(x, stored, *sum);
                        }
                    }
                }
            }
            if whole < depth {
                let left = depth - whole;
                for (i, from) in from.into_iter().enumerate() {
                    let stored = load_part(isa, from.add(whole), left);
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let x = load_part(isa, x.add(row * lhs.stride() + whole), left);
                        sums[i] = isa.fma(x, stored, sums[i]);
                    }
                }
            }
            // Lanes of four sums are added up at a time: one by one costs most of what short rows cost.
            for (row, sums) in sums.iter().enumerate() {
                for first in (0..COLUMNS).step_by(4) {
                    // For fewer than four, the last stands in.
                    let [a, b, c, d]: [I::Floats; 4] =
                        std::array::from_fn(|i| sums[(first + i).min(COLUMNS - 1)]);
                    let to = out.skip(row, column + first).start;
                    for (i, sum) in isa.lane_sums(a, b, c, d).into_iter().enumerate().take(COLUMNS - first) {
                        *to.add(i) = sum;
                    }
                }
            }
        }
    }
}
