//! Weights multiplied in integers: activations are rounded to 8 bits under a scale per 32, and dot products of 32 codes
//! are exact in 32 bits.
//!
//! | file | what |
//! |---|---|
//! | `quantize` | rounding rows of activations, for all formats alike |
//! | `format` | what formats say of themselves: how codes, scales and minimums of some columns are unpacked |
//! | `source` | where the blocks of columns are: column after column, or interleaved |
//! | `legacy`, `k`, `levels`, `affine` | formats that are taken apart by shifts and tables of sixteen |
//! | `spelled` | all others |
//! | `gathered` | multiplying few rows with those others, without spelling them |
//! | `interleave` | interleaving blocks of sixteen columns |
//! | `unit` | the operations on integers that kernels need, and their portable form; `x86` and `neon` have the others |
//! | `panel` | multiplying a panel with rows: register tiles, for each layout of panels |
//! | `stream` | multiplying few rows with codes in registers |
//! | `product` | what a tile does otherwise: unpack some columns, multiply them with rows, go on |
//!
//! Formats meet only where they are unpacked, so that everything else is compiled once for each instruction set. For few rows
//! panels are small and stay in the first cache, and for fewest there are none: memory is the limit.
//!
//! Every output is the sum over runs of 32, one after the other, of scaled dot products; tiles, rows beside it and the size of
//! panels do not change its bits.
//!
//! What rounding does: an activation moves by at most 1/254 of the largest of its run. A run of
//! activations with a NaN or an infinity makes the outputs of its row NaN.

mod affine;
mod format;
#[cfg(target_arch = "x86_64")]
mod gathered;
mod interleave;
mod k;
mod legacy;
mod levels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod panel;
mod product;
mod quantize;
mod source;
mod spelled;
mod stream;
mod unit;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use format::{LEN, MAX_RUNS};
pub use interleave::Parts;
pub use panel::MAX_ROWS;
pub use product::{COLUMN_BYTES, MAX_COLUMNS, Product, ProductWorkspace};
pub use quantize::{Row, round_run, sums};
pub use source::{Columns, Planes, TOGETHER};

use crate::f32::vector::MAX_LANES;
use crate::isa::Simd;
use format::{Codes, Layout, Part};
use k::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K, Tq2_0};
use legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use levels::{Iq4Nl, Mxfp4, Nvfp4, Q1_0};
use panel::VECTORS;
use silicide_quant::{Format, MlxFormat};
use source::{Interleaved, Strided};
use std::ops::Range;
use unit::Unit;

/// Rows that are multiplied with codes in registers.
const STREAM_ROWS: usize = 4;
/// Runs of a panel for few rows, to stay in the first cache.
pub const FEW_RUNS: usize = 16;
/// Columns of a panel, or several.
pub const PANEL: usize = VECTORS * MAX_LANES;
/// A product has at least so many columns.
pub const LEAST_COLUMNS: usize = MAX_LANES;

/// An instruction set that multiplies in integers: each function is compiled once for it.
///
/// # Safety
///
/// The functions may only run where the instruction set is present.
pub unsafe trait Integers: Simd {
    /// Computes the outputs of some columns in a format: as a stream, or by panels.
    ///
    /// # Safety
    ///
    /// The instruction set is present; rows, columns and outputs have the extents that the product says, and columns up to the end
    /// of the range are at least [`LEAST_COLUMNS`]; nothing else touches these outputs or the workspace meanwhile.
    unsafe fn multiply(format: Format, product: &Product, columns: Range<usize>);

    /// Computes the outputs of some columns of affine codes, whose scales and biases are in planes.
    ///
    /// # Safety
    ///
    /// As for [`Integers::multiply`].
    unsafe fn multiply_affine(format: MlxFormat, product: &Product, columns: Range<usize>);

    /// Interleaves a block of each of [`TOGETHER`] columns, which are `stride` bytes apart.
    ///
    /// # Safety
    ///
    /// The instruction set is present, and the blocks are there.
    unsafe fn interleave(parts: Parts, from: *const u8, stride: usize, to: &mut [u8]);
}

/// Compiles the functions of [`Integers`] for an instruction set.
macro_rules! integers {
    ($(#[$meta:meta])* $name:ident $(, $features:literal)?) => {
        $(#[$meta])*
        // SAFETY: the functions need what their features say.
        unsafe impl Integers for crate::isa::$name {
            $(#[target_feature(enable = $features)])?
            unsafe fn multiply(format: Format, product: &Product, columns: Range<usize>) {
                // SAFETY: the caller's promise.
                unsafe { multiply::<Self>(format, product, columns) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn multiply_affine(format: MlxFormat, product: &Product, columns: Range<usize>) {
                // SAFETY: the caller's promise.
                unsafe { affine::multiply::<Self>(format, product, columns) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn interleave(parts: Parts, from: *const u8, stride: usize, to: &mut [u8]) {
                // SAFETY: the caller's promise.
                unsafe { interleave::interleave::<Self>(parts, from, stride, to) }
            }
        }
    };
}

integers!(
    #[cfg(target_arch = "x86_64")]
    Avx512,
    "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c"
);
integers!(
    #[cfg(target_arch = "x86_64")]
    Avx2,
    "avx2,fma,f16c"
);
integers!(
    #[cfg(target_arch = "aarch64")]
    Neon,
    "neon,dotprod"
);
integers!(Portable);

/// Declares the table of formats.
macro_rules! table {
    ($($format:ident),* $(,)?) => {
        /// The layout that a format unpacks to, if it has integer products.
        const fn layout(format: Format) -> Option<Layout> {
            match format {
                $(Format::$format => Some($format::LAYOUT),)*
                _ => spelled::layout(format),
            }
        }

        /// Where words begin in the blocks of a format that can be interleaved.
        const fn words_at(format: Format) -> Option<usize> {
            match format {
                $(Format::$format => Some($format::WORDS_AT),)*
                _ => None,
            }
        }

        /// Unpacks a part of columns in a format.
        ///
        /// # Safety
        ///
        /// As for [`Unit::unpack`].
        unsafe fn unpack<U: Unit>(format: Format, part: &Part) {
            // SAFETY: the caller's promise.
            unsafe {
                match (format, part.columns.interleaved) {
                    $((Format::$format, None) => U::unpack::<$format, Strided>(part),)*
                    $((Format::$format, Some(_)) => U::unpack::<$format, Interleaved>(part),)*
                    (format, _) => spelled::unpack::<U>(format, part),
                }
            }
        }

        /// Multiplies few rows with a stream of columns in a format; says whether it could.
        ///
        /// # Safety
        ///
        /// As for [`Product::multiply`].
        unsafe fn stream<U: Unit>(format: Format, product: &Product, columns: Range<usize>) -> bool {
            if !U::STREAMS {
                return false;
            }
            if product.runs > stream::MOST_RUNS {
                return false;
            }
            // SAFETY: the caller's promise.
            unsafe {
                match (format, product.weights.interleaved, product.rows) {
                    $((Format::$format, None, 1) => U::stream::<$format, Strided, 1>(product, columns),)*
                    $((Format::$format, Some(_), 1) => U::stream::<$format, Interleaved, 1>(product, columns),)*
                    $((Format::$format, Some(_), 2..=STREAM_ROWS) => {
                        U::stream::<$format, Interleaved, STREAM_ROWS>(product, columns);
                    })*
                    _ => return U::look_up(format, product, columns),
                }
            }
            true
        }
    };
}

table!(Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K, Iq4Nl, Iq4Xs, Tq2_0, Mxfp4, Nvfp4, Q1_0);

/// Computes the outputs of some columns in a format: as a stream, or by panels.
///
/// # Safety
///
/// As for [`Product::multiply`].
#[inline(always)]
unsafe fn multiply<U: Unit>(format: Format, product: &Product, columns: Range<usize>) {
    let Some(layout) = layout(format) else { return };
    // SAFETY: the caller's promise.
    unsafe {
        if !stream::<U>(format, product, columns.clone()) {
            product.multiply::<U, Format>(columns, layout, unpack::<U>, format);
        }
    }
}

/// Whether there are integer products of a format.
pub fn has_codes(format: Format) -> bool {
    layout(format).is_some()
}
