//! Scores of attention: rows of queries times keys, which lie in lanes.
//!
//! ```text
//! for row i, for key j:
//!     sum = 0
//!     for l in 0..dim: sum = fma(q[i][l], k[j][l], sum)           # portable code of x86-64 rounds the product too
//!     out[i][j] = sum
//!
//! a set of sixteen keys:  | k[0][0] k[1][0] .. k[15][0] | k[0][1] k[1][1] .. k[15][1] | ..
//! ```
//!
//! Lanes are keys, so nothing is summed across lanes, and one row and many run the same loop. A key that is NaN reaches its own scores
//! alone. [`transpose_keys`] makes sets of keys that lie row by row.

use super::element::{Element, STEP, load_step};
use super::lanes::{DenseLanes, OutputTile, add_outer, sums_beside};
use super::product::{CheckedDense, DenseCall, F32Kernels, same};
use super::weights::DenseRows;
use crate::isa::Task;
use crate::prefetch::{LINE, fetch};
use crate::q8::INTERLEAVE;
use crate::view::{GemmError, Matrix, MatrixMut};

/// Keys of a set.
pub const KEY_LANES: usize = INTERLEAVE;

/// Computes the scores of rows of queries, `lhs`, with keys. A row of `sets` is a set of [`KEY_LANES`] keys, and `out` has a column for
/// each key. `ahead` is the prefetch distance in bytes.
#[inline(always)]
pub fn key_scores<I: F32Kernels>(
    isa: I,
    lhs: Matrix<'_, f32>,
    sets: DenseRows<'_>,
    mut out: MatrixMut<'_, f32>,
    ahead: Option<usize>,
) -> Result<(), GemmError> {
    let [count, columns] = sets.extents();
    same("sets", "columns", lhs.columns() * KEY_LANES, columns)?;
    same("out", "rows", lhs.rows(), out.rows())?;
    same("out", "columns", count * KEY_LANES, out.columns())?;
    let out = OutputTile { start: out.as_mut_ptr(), stride: out.stride(), accumulate: false };
    isa.compute(CheckedDense(DenseCall::KeyScores { lhs, sets, out, ahead }));
    Ok(())
}

/// Rows times sets of keys. [`key_scores`] compared the extents.
#[derive(Clone, Copy)]
pub(super) struct ScoreTask<'a, I, T> {
    pub(super) isa: I,
    pub(super) lhs: Matrix<'a, f32>,
    pub(super) sets: Matrix<'a, T>,
    pub(super) out: OutputTile,
    pub(super) ahead: Option<usize>,
}

impl<I: DenseLanes, T: Element> ScoreTask<'_, I, T> {
    /// Computes all scores, a strip of rows at a time.
    #[inline(always)]
    pub(super) fn by_strips(&self) {
        let m = self.lhs.rows();
        let strips = m.div_ceil(I::MAX_STRIP);
        let mut row = 0;
        for strip in 0..strips {
            let end = (strip + 1) * m / strips;
            let Some(lhs) = self.lhs.tile(row..end, 0..self.lhs.columns()) else { return };
            let ahead = self.ahead.filter(|_| row == 0);
            let (isa, part) = (self.isa, ScoreTask { lhs, out: self.out.skip(row, 0), ahead, ..*self });
            const { assert!(I::MAX_STRIP <= 6) };
            // Arms above the instruction set's strip are not compiled.
            macro_rules! arm {
                ($rows:literal) => {
                    if const { $rows <= I::MAX_STRIP } {
                        isa.run(StripScores::<I, T, $rows>(part));
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

/// `ROWS` rows, which are all.
struct StripScores<'a, I, T, const ROWS: usize>(ScoreTask<'a, I, T>);

impl<I: DenseLanes, T: Element, const ROWS: usize> Task for StripScores<'_, I, T, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let vectors = self.0.sets.rows() * KEY_LANES / I::LANES;
        let mut first = 0;
        // SAFETY: `LANES` divides a set, so there are `vectors` vectors of keys, and as many of outputs.
        unsafe {
            while first < vectors {
                let (key, left) = (first * I::LANES, vectors - first);
                // A condition that is a constant by itself: the arm that it excludes is not compiled.
                first += if const { sums_beside::<I>(ROWS) == 8 } && left >= 8 {
                    self.vectors::<8>(key)
                } else if const { sums_beside::<I>(ROWS) == 4 } && left >= 4 {
                    self.vectors::<4>(key)
                } else if const { sums_beside::<I>(ROWS) == 3 } && left >= 3 {
                    self.vectors::<3>(key)
                } else if const { sums_beside::<I>(ROWS) >= 2 } && left >= 2 {
                    self.vectors::<2>(key)
                } else {
                    self.vectors::<1>(key)
                };
            }
        }
    }
}

impl<I: DenseLanes, T: Element, const ROWS: usize> StripScores<'_, I, T, ROWS> {
    /// Computes `VECTORS` vectors of scores from key `key` on, of all rows. Returns `VECTORS`.
    ///
    /// # Safety
    /// There are as many keys and outputs; the LHS has `ROWS` rows.
    #[inline(always)]
    unsafe fn vectors<const VECTORS: usize>(&self, key: usize) -> usize {
        let ScoreTask { isa, lhs, sets, out, ahead } = self.0;
        let dim = lhs.columns();
        let sets_here = const { (VECTORS * I::LANES).div_ceil(KEY_LANES) };
        let mut from = [sets.as_ptr(); VECTORS];
        for (vector, from) in from.iter_mut().enumerate() {
            let key = key + vector * I::LANES;
            *from = from.wrapping_add(key / KEY_LANES * sets.stride() + key % KEY_LANES);
        }
        let mut x = [lhs.as_ptr(); ROWS];
        for (row, x) in x.iter_mut().enumerate() {
            *x = x.wrapping_add(row * lhs.stride());
        }
        let mut sums = [[isa.zeros(); VECTORS]; ROWS];
        for first in (0..dim).step_by(STEP) {
            if let Some(ahead) = ahead {
                for set in 0..sets_here {
                    let next = from[set * KEY_LANES / I::LANES].wrapping_add(first * KEY_LANES).cast::<u8>();
                    for line in (0..STEP * KEY_LANES * size_of::<T>()).step_by(LINE) {
                        fetch::<true>(next.wrapping_add(ahead + line));
                    }
                }
            }
            for at in first..dim.min(first + STEP) {
                // SAFETY: `at` is below `dim`: rows of the LHS have `dim` elements, and a set has `dim` vectors of sixteen, as `key_scores`
                // has checked.
                add_outer(
                    isa,
                    &mut sums,
                    |row| unsafe { x[row].wrapping_add(at).read_unaligned() },
                    |vector| unsafe { T::load(isa, from[vector].wrapping_add(at * KEY_LANES)) },
                );
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            for (vector, sum) in sums.into_iter().enumerate() {
                // SAFETY: there are `VECTORS` vectors of outputs from `key` on, in `ROWS` rows (`# Safety`).
                unsafe { isa.store(sum, out.skip(row, key + vector * I::LANES).start) };
            }
        }
        VECTORS
    }
}

/// Copies keys that lie row by row to a set of f32 in `set`: key `i` of `rows`, which has at most [`KEY_LANES`], to lane `i`. Lanes
/// without a key become zero.
#[inline(always)]
pub fn transpose_keys<I: F32Kernels>(isa: I, rows: DenseRows<'_>, set: &mut [f32]) -> Result<(), GemmError> {
    let [count, dim] = rows.extents();
    if count > KEY_LANES {
        return Err(GemmError::Bounds {
            argument: "rows",
            what: "rows",
            least: 1,
            most: KEY_LANES,
            got: count,
        });
    }
    if set.len() < dim * KEY_LANES {
        return Err(GemmError::Length { argument: "set", needed: dim * KEY_LANES, got: set.len() });
    }
    isa.compute(CheckedDense(DenseCall::TransposeKeys { rows, set }));
    Ok(())
}

/// Makes a set of keys. [`transpose_keys`] checked the extents.
pub(super) struct TransposeKeys<'a, I, T> {
    pub(super) isa: I,
    pub(super) rows: Matrix<'a, T>,
    pub(super) set: &'a mut [f32],
}

impl<I: DenseLanes, T: Element> Task for TransposeKeys<'_, I, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, rows, set } = self;
        let dim = rows.columns();
        for lane in (0..KEY_LANES).step_by(I::LANES) {
            for first in (0..dim).step_by(STEP) {
                let keys = load_step(isa, &rows, lane, first);
                for (at, keys) in (first..dim).zip(keys) {
                    // SAFETY: `transpose_keys` has checked that `set` has `dim` vectors of sixteen elements.
                    unsafe { isa.store(keys, set.as_mut_ptr().add(at * KEY_LANES + lane)) };
                }
            }
        }
    }
}
