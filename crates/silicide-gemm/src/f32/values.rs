//! Weighted values of attention: the part of a block of keys, folded into sums.
//!
//! ```text
//! for sum i, which adds keys lo[i]..hi[i]:
//!     part = 0
//!     for r in lo[i]..hi[i]: part = fma(weights[i][r], values[r], part)
//!     sums[i] = fma(part, there[i], fma(sums[i], here[i], 0))     # or sums[i] = part
//! ```
//!
//! Lanes are elements of a value, and a part adds one key after the other. So its bits depend neither on the sums that are computed
//! beside it, nor on the keys that others add. Values of keys outside its range are not multiplied: what memory has there, NaN
//! included, does not reach it. Sums without keys are left alone.

use super::SUM_PADDING;
use super::element::{Element, load_part};
use super::lanes::{DenseLanes, OutputTile, add_outer, sums_beside};
use super::product::{CheckedDense, DenseCall, F32Kernels, same};
use super::weights::DenseRows;
use crate::isa::Task;
use crate::prefetch::{LINE, fetch};
use crate::view::{GemmError, Matrix, MatrixMut};
use std::ops::Range;

/// The values of a block of keys, and their weights in some sums.
#[derive(Clone, Copy, Debug)]
pub struct WeightedValues<'a> {
    /// A row for each sum, an element for each key of the block.
    pub weights: Matrix<'a, f32>,
    /// The first and the end of the keys that each sum adds.
    pub ranges: &'a [[usize; 2]],
    /// Values of consecutive keys.
    pub values: DenseRows<'a>,
    /// The key of the first of `values`.
    pub first: usize,
    /// The factors `[here, there]` of each sum and of its part. None: a part replaces its sum.
    pub factors: Option<&'a [[f32; 2]]>,
    /// The prefetch distance in bytes.
    pub ahead: Option<usize>,
}

impl WeightedValues<'_> {
    /// Folds the parts into `sums`, whose rows are padded to [`SUM_PADDING`]. The padding is written too.
    #[inline(always)]
    pub fn fold<I: F32Kernels>(&self, isa: I, mut sums: MatrixMut<'_, f32>) -> Result<(), GemmError> {
        let ([count, dim], rows) = (self.values.extents(), self.weights.rows());
        same("sums", "rows", rows, sums.rows())?;
        same("sums", "columns", dim.next_multiple_of(SUM_PADDING), sums.columns())?;
        same("ranges", "length", rows, self.ranges.len())?;
        same("factors", "length", rows, self.factors.map_or(rows, <[_]>::len))?;
        let most = self.weights.columns().min(self.first.saturating_add(count));
        for &[start, end] in self.ranges.iter().filter(|[start, end]| start < end) {
            if start < self.first || end > most {
                let (argument, what) = ("ranges", "keys");
                let got = if start < self.first { start } else { end };
                return Err(GemmError::Bounds { argument, what, least: self.first, most, got });
            }
        }
        let sums = OutputTile { start: sums.as_mut_ptr(), stride: sums.stride(), accumulate: true };
        isa.compute(CheckedDense(DenseCall::FoldValues { call: *self, sums }));
        Ok(())
    }
}

/// Some sums. [`WeightedValues::fold`] compared the extents.
#[derive(Clone, Copy)]
pub(super) struct ValueTask<'a, I, T> {
    pub(super) isa: I,
    pub(super) call: WeightedValues<'a>,
    pub(super) values: Matrix<'a, T>,
    pub(super) sums: OutputTile,
}

impl<I: DenseLanes, T: Element> ValueTask<'_, I, T> {
    /// Computes all sums, a strip at a time.
    #[inline(always)]
    pub(super) fn by_strips(&self) {
        let m = self.call.weights.rows();
        let strips = m.div_ceil(I::MAX_STRIP);
        let mut row = 0;
        for strip in 0..strips {
            let end = (strip + 1) * m / strips;
            let Some(weights) = self.call.weights.tile(row..end, 0..self.call.weights.columns()) else {
                return;
            };
            let ranges = self.call.ranges.get(row..end).unwrap_or_default();
            let factors = self.call.factors.and_then(|factors| factors.get(row..end));
            let ahead = self.call.ahead.filter(|_| row == 0);
            let call = WeightedValues { weights, ranges, factors, ahead, ..self.call };
            let (isa, part) = (self.isa, ValueTask { call, sums: self.sums.skip(row, 0), ..*self });
            const { assert!(I::MAX_STRIP <= 6) };
            // Arms above the instruction set's strip are not compiled.
            macro_rules! arm {
                ($rows:literal) => {
                    if const { $rows <= I::MAX_STRIP } {
                        isa.run(StripValues::<I, T, $rows>(part));
                    }
                };
            }
            match end - row {
                1 => arm!(1),
                2 => arm!(2),
                3 => arm!(3),
                4 => arm!(4),
                5 => arm!(5),
                _ => arm!(6),
            }
            row = end;
        }
    }
}

/// `ROWS` sums, which are all.
struct StripValues<'a, I, T, const ROWS: usize>(ValueTask<'a, I, T>);

impl<I: DenseLanes, T: Element, const ROWS: usize> Task for StripValues<'_, I, T, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Ok(ranges) = <[[usize; 2]; ROWS]>::try_from(self.0.call.ranges) else { return };
        let keys = StripKeys::of(&ranges);
        let dim = self.0.values.columns();
        let mut column = 0;
        // SAFETY: values have `dim` elements; sums are padded to whole vectors. `keys` is of these ranges, which are inside the values.
        unsafe {
            while column < dim {
                let left = dim - column;
                // Conditions that are constants by themselves: the arms that they exclude are not compiled.
                column += I::LANES
                    * if const { sums_beside::<I>(ROWS) == 8 } && left >= 8 * I::LANES {
                        self.vectors::<8, true>(column, &keys, &ranges)
                    } else if const { sums_beside::<I>(ROWS) == 4 } && left >= 4 * I::LANES {
                        self.vectors::<4, true>(column, &keys, &ranges)
                    } else if const { sums_beside::<I>(ROWS) == 3 } && left >= 3 * I::LANES {
                        self.vectors::<3, true>(column, &keys, &ranges)
                    } else if const { sums_beside::<I>(ROWS) >= 2 } && left >= 2 * I::LANES {
                        self.vectors::<2, true>(column, &keys, &ranges)
                    } else if left >= I::LANES {
                        self.vectors::<1, true>(column, &keys, &ranges)
                    } else {
                        self.vectors::<1, false>(column, &keys, &ranges)
                    };
            }
        }
    }
}

/// The keys of a strip in three runs: those that some rows add, those that all add, those that some add.
struct StripKeys {
    before: Range<usize>,
    common: Range<usize>,
    after: Range<usize>,
}

impl StripKeys {
    #[inline(always)]
    fn of(ranges: &[[usize; 2]]) -> StripKeys {
        let (mut start, mut end, mut opens, mut closes) = (usize::MAX, 0, 0, usize::MAX);
        for &[low, high] in ranges {
            if low < high {
                (start, end) = (start.min(low), end.max(high));
            }
            (opens, closes) = (opens.max(low), closes.min(high));
        }
        let start = start.min(end);
        if opens >= closes {
            return StripKeys { before: start..end, common: end..end, after: end..end };
        }
        StripKeys { before: start..opens, common: opens..closes, after: closes..end }
    }
}

impl<I: DenseLanes, T: Element, const ROWS: usize> StripValues<'_, I, T, ROWS> {
    /// Computes `VECTORS` vectors of each sum from element `column` on, which are `WHOLE` or end in padding. Returns `VECTORS`.
    ///
    /// # Safety
    /// Values have an element `column`, and as many as the vectors if `WHOLE`; sums have whole vectors. `keys` is of `ranges`, whose keys
    /// are those of values and weights.
    #[inline(always)]
    unsafe fn vectors<const VECTORS: usize, const WHOLE: bool>(
        &self,
        column: usize,
        keys: &StripKeys,
        ranges: &[[usize; 2]; ROWS],
    ) -> usize {
        let ValueTask { isa, call, sums, .. } = self.0;
        let mut parts = [[isa.zeros(); VECTORS]; ROWS];
        for key in keys.before.clone() {
            // SAFETY: the key is one of `ranges`, by the caller.
            unsafe { self.add_key::<VECTORS, WHOLE, true>(&mut parts, column, key, ranges) };
        }
        for key in keys.common.clone() {
            // SAFETY: every range has the key.
            unsafe { self.add_key::<VECTORS, WHOLE, false>(&mut parts, column, key, ranges) };
        }
        for key in keys.after.clone() {
            // SAFETY: the key is one of `ranges`, by the caller.
            unsafe { self.add_key::<VECTORS, WHOLE, true>(&mut parts, column, key, ranges) };
        }
        for (row, (parts, [start, end])) in parts.into_iter().zip(ranges).enumerate() {
            if start >= end {
                continue;
            }
            let factors = call.factors.and_then(|factors| factors.get(row));
            for (i, part) in parts.into_iter().enumerate() {
                let to = sums.skip(row, column + i * I::LANES).start;
                // SAFETY: there is a sum for each row, in whole vectors, by the caller.
                unsafe {
                    let sum = match factors {
                        Some(factors) => fold_vector(isa, isa.load(to), part, factors),
                        None => part,
                    };
                    isa.store(sum, to);
                }
            }
        }
        VECTORS
    }

    /// Adds a key to the parts of rows that have it, which are all unless `SOME`.
    ///
    /// # Safety
    /// As for [`StripValues::vectors`]; the key is one of `ranges`.
    #[inline(always)]
    unsafe fn add_key<const VECTORS: usize, const WHOLE: bool, const SOME: bool>(
        &self,
        parts: &mut [[I::Floats; VECTORS]; ROWS],
        column: usize,
        key: usize,
        ranges: &[[usize; 2]; ROWS],
    ) {
        let ValueTask { isa, call: WeightedValues { weights, first, ahead, .. }, values, .. } = self.0;
        let from = values.as_ptr().wrapping_add((key - first) * values.stride() + column);
        if let Some(ahead) = ahead {
            let from = from.cast::<u8>();
            for line in (0..VECTORS * I::LANES * size_of::<T>()).step_by(LINE) {
                fetch::<true>(from.wrapping_add(ahead + line));
            }
        }
        // SAFETY: the key's value has these elements, by the caller; of a vector that is not whole, as many as are left.
        let load = |i: usize| unsafe {
            let from = from.wrapping_add(i * I::LANES);
            if const { WHOLE } { T::load(isa, from) } else { load_part(isa, from, values.columns() - column) }
        };
        // SAFETY: there is a weight for each row and key, by the caller.
        let weight = |row: usize| unsafe {
            weights.as_ptr().wrapping_add(row * weights.stride() + key).read_unaligned()
        };
        if const { !SOME } {
            return add_outer(isa, parts, weight, load);
        }
        for (row, (parts, [start, end])) in parts.iter_mut().zip(ranges).enumerate() {
            if (*start..*end).contains(&key) {
                let weight = isa.broadcast(weight(row));
                for (i, part) in parts.iter_mut().enumerate() {
                    *part = isa.fma(weight, load(i), *part);
                }
            }
        }
    }
}

/// Folds a vector of a part into one of a sum.
#[inline(always)]
fn fold_vector<I: DenseLanes>(
    isa: I,
    sum: I::Floats,
    part: I::Floats,
    [here, there]: &[f32; 2],
) -> I::Floats {
    let sum = isa.fma(sum, isa.broadcast(*here), isa.zeros());
    isa.fma(part, isa.broadcast(*there), sum)
}

/// Folds parts, the rows of `parts`, into a sum, one after the other: `sum = fma(part, there, fma(sum, here, 0))` with the factors of each
/// part, as [`WeightedValues::fold`] does.
#[inline(always)]
pub fn fold_parts<I: F32Kernels>(
    isa: I,
    sum: &mut [f32],
    parts: Matrix<'_, f32>,
    factors: &[[f32; 2]],
) -> Result<(), GemmError> {
    same("parts", "columns", sum.len(), parts.columns())?;
    same("factors", "length", parts.rows(), factors.len())?;
    isa.compute(CheckedDense(DenseCall::FoldParts { sum, parts, factors }));
    Ok(())
}

/// Folds parts into a sum. [`fold_parts`] compared the extents.
pub(super) struct FoldParts<'a, I> {
    pub(super) isa: I,
    pub(super) sum: &'a mut [f32],
    pub(super) parts: Matrix<'a, f32>,
    pub(super) factors: &'a [[f32; 2]],
}

impl<I: DenseLanes> Task for FoldParts<'_, I> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, sum, parts, factors } = self;
        let len = sum.len();
        let sums = OutputTile { start: sum.as_mut_ptr(), stride: len, accumulate: true };
        for first in (0..len).step_by(I::LANES) {
            let (to, count) = (sums.skip(0, first), len - first);
            // SAFETY: the sum and every part have `count` more elements from `first` on.
            unsafe {
                let mut sum = to.load(isa, count);
                for (row, factors) in factors.iter().enumerate() {
                    let part = parts.as_ptr().wrapping_add(row * parts.stride() + first);
                    sum = fold_vector(isa, sum, load_part(isa, part, count), factors);
                }
                to.store(isa, sum, count);
            }
        }
    }
}
