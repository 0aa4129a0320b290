//! Weighted sums of stored rows: values of attention, which are read once, in memory order, for all sums.
//!
//! `sums[i][l] += sum over r of weights[i][r] * rows[r][l]`
//!
//! A sum adds one row after the other, so its bits depend neither on the sums that are computed beside it, nor on how rows are cut.

use super::SUM_PADDING;
use super::dot::NEARER;
use super::element::{Element, load_part};
use super::lanes::{DenseLanes, OutputTile};
use super::product::{CheckedDense, DenseCall, F32Kernels, same};
use super::weights::DenseRows;
use crate::isa::Task;
use crate::prefetch::{LINE, fetch};
use crate::view::{GemmError, Matrix, MatrixMut};

/// Sums that share one pass over the rows.
const MAX_SUMS: usize = 4;

/// Adds rows to sums: `sums[i][l] += weights[i][r] * rows[r][l]` for every row `r`. Rows of `sums` are padded to [`SUM_PADDING`], and the
/// padding is written too. `ahead` is the prefetch distance in bytes.
#[inline(always)]
pub fn weighted_sum<I: F32Kernels>(
    isa: I,
    weights: Matrix<'_, f32>,
    rows: DenseRows<'_>,
    mut sums: MatrixMut<'_, f32>,
    ahead: Option<usize>,
) -> Result<(), GemmError> {
    let [count, dim] = rows.extents();
    same("weights", "columns", count, weights.columns())?;
    same("sums", "rows", weights.rows(), sums.rows())?;
    same("sums", "columns", dim.next_multiple_of(SUM_PADDING), sums.columns())?;
    let sums = OutputTile { start: sums.as_mut_ptr(), stride: sums.stride(), accumulate: true };
    isa.compute(CheckedDense(DenseCall::WeightedSum { weights, rows, sums, ahead }));
    Ok(())
}

/// Sums of rows. [`weighted_sum`] compared the extents.
#[derive(Clone, Copy)]
pub(super) struct WeightedTask<'a, I, T> {
    pub(super) isa: I,
    pub(super) weights: Matrix<'a, f32>,
    pub(super) rows: Matrix<'a, T>,
    pub(super) sums: OutputTile,
    pub(super) ahead: Option<usize>,
}

impl<I: DenseLanes, T: Element> WeightedTask<'_, I, T> {
    /// Computes all sums, some at a time.
    #[inline(always)]
    pub(super) fn by_sums(&self) {
        let all = self.weights.rows();
        for first in (0..all).step_by(MAX_SUMS) {
            let end = (first + MAX_SUMS).min(all);
            let Some(weights) = self.weights.tile(first..end, 0..self.weights.columns()) else { return };
            let ahead = self.ahead.filter(|_| first == 0);
            let (isa, part) =
                (self.isa, WeightedTask { weights, sums: self.sums.skip(first, 0), ahead, ..*self });
            match end - first {
                1 => isa.run(WeightedSums::<I, T, 1>(part)),
                2 => isa.run(WeightedSums::<I, T, 2>(part)),
                3 => isa.run(WeightedSums::<I, T, 3>(part)),
                _ => isa.run(WeightedSums::<I, T, MAX_SUMS>(part)),
            }
        }
    }
}

/// `SUMS` sums, which are all.
struct WeightedSums<'a, I, T, const SUMS: usize>(WeightedTask<'a, I, T>);

impl<I: DenseLanes, T: Element, const SUMS: usize> Task for WeightedSums<'_, I, T, SUMS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // As many vectors beside each other as there are registers for sums.
        let most = if I::REGISTERS >= 32 { 4 } else { 2 };
        let dim = self.0.rows.columns();
        let mut column = 0;
        while column < dim {
            let left = dim - column;
            // SAFETY: rows have `dim` elements; the last vector of sums is padded.
            unsafe {
                if left >= most * I::LANES {
                    if most == 4 {
                        self.vectors::<4, true>(column);
                    } else {
                        self.vectors::<2, true>(column);
                    }
                    column += most * I::LANES;
                } else {
                    if left >= I::LANES {
                        self.vectors::<1, true>(column);
                    } else {
                        self.vectors::<1, false>(column);
                    }
                    column += I::LANES;
                }
            }
        }
    }
}

impl<I: DenseLanes, T: Element, const SUMS: usize> WeightedSums<'_, I, T, SUMS> {
    /// Computes `VECTORS` vectors of each sum from `column` on, which are `WHOLE` or end in padding: a copy through memory, and room in
    /// registers where it is only possible.
    ///
    /// # Safety
    /// Rows have an element `column`, and as many as the vectors if `WHOLE`; sums have whole vectors.
    #[inline(always)]
    unsafe fn vectors<const VECTORS: usize, const WHOLE: bool>(&self, column: usize) {
        let WeightedTask { isa, weights, rows, sums, ahead } = self.0;
        let left = rows.columns() - column;
        // SAFETY: the caller vouches for elements and sums; there is a weight for each sum and row.
        unsafe {
            let mut totals = [[isa.zeros(); VECTORS]; SUMS];
            for (sum, totals) in totals.iter_mut().enumerate() {
                for (i, total) in totals.iter_mut().enumerate() {
                    *total = isa.load(sums.skip(sum, column + i * I::LANES).start);
                }
            }
            for row in 0..rows.rows() {
                let from = rows.as_ptr().add(row * rows.stride() + column);
                if let Some(ahead) = ahead {
                    let next = from.cast::<u8>().wrapping_add(ahead);
                    for line in (0..VECTORS * I::LANES * size_of::<T>()).step_by(LINE) {
                        fetch::<false>(next.wrapping_add(line));
                        fetch::<true>(from.cast::<u8>().wrapping_add(NEARER + line));
                    }
                }
                let mut values = [isa.zeros(); VECTORS];
                for (i, value) in values.iter_mut().enumerate() {
                    let from = from.add(i * I::LANES);
                    *value = if WHOLE { T::load(isa, from) } else { load_part(isa, from, left) };
                }
                for (sum, totals) in totals.iter_mut().enumerate() {
                    let weight = weights.as_ptr().add(sum * weights.stride() + row).read_unaligned();
                    for (total, value) in totals.iter_mut().zip(values) {
                        *total = isa.fma(isa.broadcast(weight), value, *total);
                    }
                }
            }
            for (sum, totals) in totals.into_iter().enumerate() {
                for (i, total) in totals.into_iter().enumerate() {
                    isa.store(total, sums.skip(sum, column + i * I::LANES).start);
                }
            }
        }
    }
}
