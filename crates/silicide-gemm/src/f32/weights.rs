//! Weights of dense products: rows of f32, f16 or bf16, in place or interleaved.
//!
//! In place, as files have them, a row is an output. Interleaved, sixteen rows lie side by side:
//!
//! ```text
//! in place:     | w[0][0] w[0][1] ..        |     interleaved:  | w[0][0] w[1][0] .. w[15][0] |
//!               | w[1][0] w[1][1] ..        |                   | w[0][1] w[1][1] .. w[15][1] |
//!               ..                                              ..
//! ```
//!
//! A vector of outputs then reads one stream and moves nothing between lanes. The size is the same. Rows after the last whole set of sixteen, the
//! tail, stay in place.

use super::product::same;
use crate::q8::INTERLEAVE;
use crate::view::{GemmError, Matrix};
use silicide_quant::{DType, bf16, f16};
use std::ops::Range;

/// Rows of f32, f16 or bf16.
#[derive(Clone, Copy, Debug)]
pub enum DenseRows<'a> {
    /// Rows of f32.
    F32(Matrix<'a, f32>),
    /// Rows of f16.
    F16(Matrix<'a, f16>),
    /// Rows of bf16.
    BF16(Matrix<'a, bf16>),
}

/// Evaluates an expression with the matrix of [`DenseRows`], whatever its type.
macro_rules! by_element {
    ($rows:expr, $matrix:ident => $body:expr) => {
        match $rows {
            DenseRows::F32($matrix) => $body,
            DenseRows::F16($matrix) => $body,
            DenseRows::BF16($matrix) => $body,
        }
    };
}
pub(super) use by_element;

impl<'a> DenseRows<'a> {
    /// Returns rows of `dtype` in memory, or none for a type that is not f32, f16 or bf16.
    ///
    /// # Safety
    /// As for [`Matrix::from_raw_parts`].
    #[inline(always)]
    pub unsafe fn from_raw_parts(
        dtype: DType,
        start: *const u8,
        extents: [usize; 2],
        stride: usize,
    ) -> Option<DenseRows<'a>> {
        // SAFETY: elements of `dtype` lie at `start` in these extents, aligned to them (`# Safety`); each arm reads its own type.
        unsafe {
            match dtype {
                DType::F32 => Some(DenseRows::F32(Matrix::from_raw_parts(start.cast(), extents, stride))),
                DType::F16 => Some(DenseRows::F16(Matrix::from_raw_parts(start.cast(), extents, stride))),
                DType::BF16 => Some(DenseRows::BF16(Matrix::from_raw_parts(start.cast(), extents, stride))),
                _ => None,
            }
        }
    }

    /// Rows and elements of a row.
    #[inline(always)]
    pub(super) fn extents(&self) -> [usize; 2] {
        by_element!(self, rows => [rows.rows(), rows.columns()])
    }

    /// Returns a part of the rows, if it is inside.
    #[inline(always)]
    pub fn tile(&self, rows: Range<usize>, columns: Range<usize>) -> Option<DenseRows<'a>> {
        Some(match self {
            DenseRows::F32(all) => DenseRows::F32(all.tile(rows, columns)?),
            DenseRows::F16(all) => DenseRows::F16(all.tile(rows, columns)?),
            DenseRows::BF16(all) => DenseRows::BF16(all.tile(rows, columns)?),
        })
    }
}

/// The RHS of a dense product: `n` weight rows of `k` elements.
#[derive(Clone, Copy, Debug)]
pub struct DenseWeights<'a> {
    /// Weight rows; if interleaved, sets of sixteen of them.
    pub(super) rows: DenseRows<'a>,
    pub(super) interleaved: bool,
    /// Weight rows in place after those of the sets, of the same type and depth.
    pub(super) tail: Option<DenseRows<'a>>,
}

impl<'a> From<DenseRows<'a>> for DenseWeights<'a> {
    fn from(rows: DenseRows<'a>) -> DenseWeights<'a> {
        DenseWeights { rows, interleaved: false, tail: None }
    }
}

impl<'a> DenseWeights<'a> {
    /// Returns interleaved weights. A row of `sets` is a set of sixteen weight rows: `16 * k` elements. `tail` is the weight rows after them,
    /// in place.
    #[inline(always)]
    pub fn interleaved(
        sets: DenseRows<'a>,
        tail: Option<DenseRows<'a>>,
    ) -> Result<DenseWeights<'a>, GemmError> {
        let [_, columns] = sets.extents();
        if !columns.is_multiple_of(INTERLEAVE) {
            return Err(GemmError::Multiple {
                argument: "sets",
                what: "columns",
                of: INTERLEAVE,
                got: columns,
            });
        }
        if let Some(tail) = tail {
            same("tail", "columns", columns / INTERLEAVE, tail.extents()[1])?;
        }
        Ok(DenseWeights { rows: sets, interleaved: true, tail })
    }

    /// Weight rows, which are outputs, and their depth.
    #[inline(always)]
    pub fn extents(&self) -> [usize; 2] {
        let [rows, columns] = self.rows.extents();
        if !self.interleaved {
            return [rows, columns];
        }
        let tail = self.tail.map_or(0, |tail| tail.extents()[0]);
        [rows * INTERLEAVE + tail, columns / INTERLEAVE]
    }

    /// Returns some weight rows and a part of their depth, if they are inside. Rows of sets that are interleaved are whole sets.
    #[inline(always)]
    pub fn tile(&self, outputs: Range<usize>, depth: Range<usize>) -> Option<DenseWeights<'a>> {
        let Range { start, end } = outputs;
        if !self.interleaved {
            return Some(self.rows.tile(start..end, depth)?.into());
        }
        let whole = self.rows.extents()[0] * INTERLEAVE;
        let tail = |rows: Range<usize>| self.tail?.tile(rows, depth.clone());
        if start >= whole {
            return Some(tail(start - whole..end.checked_sub(whole)?)?.into());
        }
        let sets_end = end.min(whole);
        if !start.is_multiple_of(INTERLEAVE) || !sets_end.is_multiple_of(INTERLEAVE) {
            return None;
        }
        let sets = start / INTERLEAVE..sets_end / INTERLEAVE;
        let rows = self.rows.tile(sets, depth.start * INTERLEAVE..depth.end * INTERLEAVE)?;
        let tail = if end > whole { Some(tail(0..end - whole)?) } else { None };
        Some(DenseWeights { rows, interleaved: true, tail })
    }

    /// Returns the parts that are multiplied one after the other: weight rows, whether they are sets, and the first output of them.
    #[inline(always)]
    pub(super) fn parts(&self) -> impl Iterator<Item = (DenseRows<'a>, bool, usize)> {
        let tail = self.tail.map(|tail| (tail, false, self.rows.extents()[0] * INTERLEAVE));
        std::iter::once((self.rows, self.interleaved, 0)).chain(tail)
    }
}
