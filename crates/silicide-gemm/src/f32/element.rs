//! Elements of dense weights: f32, f16 and bf16, widened to f32 as they are loaded; and the transposition of weight rows in registers.
//!
//! Lanes are outputs in every product, so weights that lie row by row are transposed: [`STEP`] elements of each of `LANES` rows.
//!
//! ```text
//! row 0:      | w[0][k]  w[0][k+1] .. w[0][k+7] |      vector i = element k + i of each row
//! row 1:      | w[1][k]  w[1][k+1] .. w[1][k+7] |
//! ...
//! ```
//!
//! Elements of 16 bits are transposed in pairs, as words, and then taken apart: half the shuffles of widening first.

use super::lanes::DenseLanes;
use super::vector::{MAX_LANES, Vector};
use crate::view::Matrix;
use silicide_quant::{bf16, f16};

/// Elements of depth that are transposed at a time.
pub(crate) const STEP: usize = 8;

/// An element of dense weights.
pub(crate) trait Element: Copy {
    /// Zero.
    const ZERO: Self;

    /// Loads `LANES` elements as f32.
    ///
    /// # Safety
    /// `LANES` elements can be read, at any alignment.
    unsafe fn load<I: DenseLanes>(isa: I, from: *const Self) -> I::Floats;

    /// Loads [`STEP`] elements of each of `LANES` rows that are `stride` elements apart: vector `i` holds element `i` of each row.
    ///
    /// # Safety
    /// `STEP` elements of each of the rows can be read, at any alignment.
    unsafe fn load_transposed<I: DenseLanes>(isa: I, from: *const Self, stride: usize) -> [I::Floats; STEP];
}

/// Implements [`Element`] by operations of [`FloatLanes`](crate::isa::FloatLanes) and [`Vector`].
macro_rules! element {
    ($name:ty, $zero:expr, $load:ident, $transpose:ident) => {
        impl Element for $name {
            const ZERO: Self = $zero;

            #[inline(always)]
            unsafe fn load<I: DenseLanes>(isa: I, from: *const Self) -> I::Floats {
                // SAFETY: the caller vouches for `LANES` elements.
                unsafe { isa.$load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn load_transposed<I: DenseLanes>(
                _: I,
                from: *const Self,
                stride: usize,
            ) -> [I::Floats; STEP] {
                // SAFETY: the token proves the instruction set of `Floats`; the caller vouches for the rows.
                unsafe { <I::Floats as Vector>::$transpose(from.cast(), stride) }
            }
        }
    };
}

element!(f32, 0.0, load, transpose_8);
element!(f16, f16::ZERO, load_f16, transpose_8_f16);
element!(bf16, bf16::ZERO, load_bf16, transpose_8_bf16);

/// Loads the first `count` elements as f32; other lanes are zero.
///
/// # Safety
/// `count.min(LANES)` elements can be read.
#[inline(always)]
pub(crate) unsafe fn load_part<I: DenseLanes, T: Element>(isa: I, from: *const T, count: usize) -> I::Floats {
    // SAFETY: `count` elements are readable, by the caller; the array has `MAX_LANES`.
    unsafe {
        if count >= I::LANES {
            return T::load(isa, from);
        }
        let mut part = [T::ZERO; MAX_LANES];
        std::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), count);
        T::load(isa, part.as_ptr())
    }
}

/// Loads up to [`STEP`] elements of up to `LANES` rows from row `row`, element `at` on, transposed. Lanes without a row and vectors
/// past the depth are zero.
#[inline(always)]
pub(crate) fn load_step<I: DenseLanes, T: Element>(
    isa: I,
    rows: &Matrix<'_, T>,
    row: usize,
    at: usize,
) -> [I::Floats; STEP] {
    let count = rows.rows().saturating_sub(row).min(I::LANES);
    let words = rows.columns().saturating_sub(at).min(STEP);
    let from = rows.as_ptr().wrapping_add(row * rows.stride() + at);
    if count == I::LANES && words == STEP {
        // SAFETY: the view has `LANES` rows from `row` on, with `STEP` elements from `at` on.
        return unsafe { T::load_transposed(isa, from, rows.stride()) };
    }
    let mut part = [[T::ZERO; STEP]; MAX_LANES];
    for (i, part) in part.iter_mut().enumerate().take(count) {
        // SAFETY: the view has row `row + i` with `words` elements from `at` on; `part` has room for `STEP`.
        unsafe {
            std::ptr::copy_nonoverlapping(from.wrapping_add(i * rows.stride()), part.as_mut_ptr(), words);
        };
    }
    // SAFETY: `part` has a row of `STEP` elements for every lane.
    unsafe { T::load_transposed(isa, part.as_ptr().cast(), STEP) }
}
