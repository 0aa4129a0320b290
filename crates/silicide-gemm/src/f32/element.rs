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
use crate::isa::MAX_LANES;
use crate::view::Matrix;
use silicide_quant::{DType, bf16, f16};

/// Elements of depth that are transposed at a time.
pub(crate) const STEP: usize = 8;

/// An element of dense weights.
pub(crate) trait Element: Copy {
    /// Zero.
    const ZERO: Self;
    /// The type: f32, f16 or bf16.
    const DTYPE: DType;

    /// Loads `LANES` elements as f32.
    ///
    /// # Safety
    /// `LANES` elements can be read, at any alignment.
    #[inline(always)]
    unsafe fn load<I: DenseLanes>(isa: I, from: *const Self) -> I::Floats {
        // SAFETY: `LANES` elements can be read, by this function's contract; those of `DTYPE` have 16 bits, or are f32s.
        unsafe {
            match Self::DTYPE {
                DType::F16 => isa.f16_floats(isa.load_halves(from.cast())),
                DType::BF16 => isa.bf16_floats(isa.load_halves(from.cast())),
                _ => isa.load(from.cast()),
            }
        }
    }

    /// Loads [`STEP`] elements of each of `LANES` rows that are `stride` elements apart: vector `i` holds element `i` of each row.
    ///
    /// # Safety
    /// `STEP` elements of each of the rows can be read, at any alignment.
    #[inline(always)]
    unsafe fn load_transposed<I: DenseLanes>(isa: I, from: *const Self, stride: usize) -> [I::Floats; STEP] {
        let (from, stride) = (from.cast::<u8>(), stride * size_of::<Self>());
        // SAFETY: `STEP` elements of each row can be read, by this function's contract: 16 bytes, or twice as many of f32.
        unsafe {
            let [first, second, third, fourth] = isa.load_transposed(from, stride);
            // Not by `map`: its closure would be compiled without the instruction set, and called.
            match Self::DTYPE {
                DType::F16 => {
                    let ([a, b], [c, d]) = (isa.f16_pairs(first), isa.f16_pairs(second));
                    let ([e, f], [g, h]) = (isa.f16_pairs(third), isa.f16_pairs(fourth));
                    [a, b, c, d, e, f, g, h]
                }
                DType::BF16 => {
                    let ([a, b], [c, d]) = (isa.bf16_pairs(first), isa.bf16_pairs(second));
                    let ([e, f], [g, h]) = (isa.bf16_pairs(third), isa.bf16_pairs(fourth));
                    [a, b, c, d, e, f, g, h]
                }
                _ => {
                    let (a, b) = (isa.f32_words(first), isa.f32_words(second));
                    let (c, d) = (isa.f32_words(third), isa.f32_words(fourth));
                    let [e, f, g, h] = isa.load_transposed(from.add(16), stride);
                    let (e, f) = (isa.f32_words(e), isa.f32_words(f));
                    [a, b, c, d, e, f, isa.f32_words(g), isa.f32_words(h)]
                }
            }
        }
    }
}

/// Implements [`Element`].
macro_rules! element {
    ($name:ty, $zero:expr, $dtype:ident) => {
        impl Element for $name {
            const ZERO: Self = $zero;
            const DTYPE: DType = DType::$dtype;
        }
        const _: () = assert!(size_of::<$name>() == DType::$dtype.size());
    };
}

element!(f32, 0.0, F32);
element!(f16, f16::ZERO, F16);
element!(bf16, bf16::ZERO, BF16);

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
    let mut part;
    // One transposition, of memory or of the copy, so that its code is there once.
    let (from, stride) = if count == I::LANES && words == STEP {
        (from, rows.stride())
    } else {
        part = [[T::ZERO; STEP]; MAX_LANES];
        for (i, part) in part.iter_mut().enumerate().take(count) {
            // SAFETY: the view has row `row + i` with `words` elements from `at` on; `part` has room for `STEP`.
            unsafe {
                let from = from.wrapping_add(i * rows.stride());
                std::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), words);
            };
        }
        (part.as_ptr().cast::<T>(), STEP)
    };
    // SAFETY: `STEP` elements of `LANES` rows: the view has them from `row` and `at` on, or `part` does.
    unsafe { T::load_transposed(isa, from, stride) }
}
