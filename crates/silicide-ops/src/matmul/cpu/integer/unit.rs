//! The operations on integers that the kernels need, and their portable form.
//!
//! Methods are `#[inline(always)]`: code only gets an instruction set by being inlined into a function that has it.

use crate::cpu::{Portable, Simd};
use crate::matmul::cpu::vector::{Lanes8, Vector};

/// The most lanes of any unit.
pub(super) const MAX_LANES: usize = 16;

/// What goes beside the rounded activations of a block, so that unsigned codes stand for signed numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Their sum under their scale, as f32: weights have a minimum.
    Sum,
    /// What dot products start from where this code stands for zero, as i32: as many times their negated sum.
    Zero(u8),
    /// The same for signed bytes, whose zero is the unit's own.
    Bytes,
    /// As for a zero of 32, for each half of the block: weights have a scale per 16.
    Halves,
}

impl Side {
    /// A word for it, that [`Side::from_word`] knows.
    pub(super) const fn word(self) -> u32 {
        match self {
            Side::Sum => 0,
            Side::Zero(zero) => zero as u32,
            Side::Bytes => 256,
            Side::Halves => 257,
        }
    }

    /// What a word stands for.
    #[inline(always)]
    pub(super) fn from_word(word: u32) -> Side {
        match word {
            0 => Side::Sum,
            257 => Side::Halves,
            zero => u8::try_from(zero).map_or(Side::Bytes, Side::Zero),
        }
    }
}

/// An instruction set with integer dot products. Lanes are columns.
///
/// # Safety
///
/// Methods need the instruction set that the implementation is for. Pointers must be valid for what is read or
/// written, at any alignment.
pub(super) unsafe trait Unit: Simd {
    /// Floats, one to a column.
    type Floats: Vector;
    /// Four codes of each column.
    type Words: Copy;
    /// A sum for each column.
    type Sums: Copy;
    /// What is added to signed bytes by [`Unit::bytes`].
    const ZERO: i32;
    /// Rows of the register tile for many rows, at most [`super::panel::MAX_ROWS`].
    const ROWS: usize;

    /// Sixteen bytes from each column, columns being `stride` bytes apart: word `i` has bytes `4i..4i + 4` of each.
    unsafe fn transpose(from: *const u8, stride: usize) -> [Self::Words; 4];
    /// Lower halves of bytes.
    unsafe fn low(words: Self::Words) -> Self::Words;
    /// Upper halves of bytes.
    unsafe fn high(words: Self::Words) -> Self::Words;
    /// Signed bytes, as [`Unit::dot`] wants them.
    unsafe fn bytes(words: Self::Words) -> Self::Words;
    /// The two or fewer bits of `mask` of every byte, counted from bit `shift`, as bits 4 and 5.
    unsafe fn bits(words: Self::Words, shift: u32, mask: u8) -> Self::Words;
    /// Bit `shift + i` of each column's word as bit 4 of its byte `i`.
    unsafe fn spread(words: Self::Words, shift: u32) -> Self::Words;
    /// The bits of both.
    unsafe fn or(words: Self::Words, other: Self::Words) -> Self::Words;
    /// Has a line of memory brought nearer, which need not exist.
    unsafe fn prefetch(at: *const u8);
    /// Words that were stored.
    unsafe fn load(from: *const u8) -> Self::Words;
    /// Stores words.
    unsafe fn store(words: Self::Words, to: *mut u8);
    /// No sum yet.
    unsafe fn zero() -> Self::Sums;
    /// The same sum in all columns.
    unsafe fn splat(from: *const i32) -> Self::Sums;
    /// Adds the products of each column's four codes with four activations. Codes are below 128, or, if `BYTES`, come from
    /// [`Unit::bytes`].
    unsafe fn dot<const BYTES: bool>(sums: Self::Sums, words: Self::Words, x: *const i8) -> Self::Sums;
    /// The sums as floats.
    unsafe fn floats(sums: Self::Sums) -> Self::Floats;
}

/// Declares a unit in plain Rust.
macro_rules! portable {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        // SAFETY: plain Rust, which every machine of the target runs.
        unsafe impl Unit for $name {
            type Floats = Lanes8;
            type Words = [[u8; 8]; 4];
            type Sums = [i32; 8];
            const ZERO: i32 = 0;
            const ROWS: usize = 2;

            #[inline(always)]
            unsafe fn transpose(from: *const u8, stride: usize) -> [Self::Words; 4] {
                let columns: [[u8; 16]; 8] = std::array::from_fn(|i| {
                    // SAFETY: the caller's promise covers sixteen bytes of each of eight columns.
                    unsafe { from.add(i * stride).cast::<[u8; 16]>().read_unaligned() }
                });
                std::array::from_fn(|word| {
                    std::array::from_fn(|byte| columns.map(|column| column[4 * word + byte]))
                })
            }

            #[inline(always)]
            unsafe fn low(words: Self::Words) -> Self::Words {
                words.map(|bytes| bytes.map(|byte| byte & 15))
            }

            #[inline(always)]
            unsafe fn high(words: Self::Words) -> Self::Words {
                words.map(|bytes| bytes.map(|byte| byte >> 4))
            }

            #[inline(always)]
            unsafe fn bytes(words: Self::Words) -> Self::Words {
                words
            }

            #[inline(always)]
            unsafe fn bits(words: Self::Words, shift: u32, mask: u8) -> Self::Words {
                words.map(|bytes| bytes.map(|byte| ((byte >> shift) & mask) << 4))
            }

            #[inline(always)]
            unsafe fn spread(words: Self::Words, shift: u32) -> Self::Words {
                std::array::from_fn(|i| {
                    let bit = shift as usize + i;
                    words[bit / 8 % 4].map(|byte| ((byte >> (bit % 8)) & 1) << 4)
                })
            }

            #[inline(always)]
            unsafe fn or(words: Self::Words, other: Self::Words) -> Self::Words {
                std::array::from_fn(|i| std::array::from_fn(|lane| words[i][lane] | other[i][lane]))
            }

            #[inline(always)]
            unsafe fn prefetch(_: *const u8) {}

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self::Words {
                // SAFETY: the caller's promise.
                unsafe { from.cast::<Self::Words>().read_unaligned() }
            }

            #[inline(always)]
            unsafe fn store(words: Self::Words, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { to.cast::<Self::Words>().write_unaligned(words) }
            }

            #[inline(always)]
            unsafe fn zero() -> Self::Sums {
                [0; 8]
            }

            #[inline(always)]
            unsafe fn splat(from: *const i32) -> Self::Sums {
                // SAFETY: the caller's promise.
                [unsafe { from.read_unaligned() }; 8]
            }

            #[inline(always)]
            unsafe fn dot<const BYTES: bool>(sums: Self::Sums, words: Self::Words, x: *const i8) -> Self::Sums {
                // SAFETY: the caller's promise.
                let x = unsafe { x.cast::<[i8; 4]>().read_unaligned() }.map(i16::from);
                // Codes below 128 are the same number, signed or not; no product of 8 bits exceeds 16.
                std::array::from_fn(|i| {
                    let product = |j: usize| i32::from(i16::from(words[j][i] as i8) * x[j]);
                    sums[i] + (product(0) + product(1)) + (product(2) + product(3))
                })
            }

            #[inline(always)]
            unsafe fn floats(sums: Self::Sums) -> Lanes8 {
                let floats = sums.map(|sum| sum as f32);
                // SAFETY: eight floats are a vector.
                unsafe { Lanes8::load(floats.as_ptr()) }
            }
        }
    };
}

portable!(Portable);
portable!(
    #[cfg(target_arch = "aarch64")]
    Neon
);
#[cfg(target_arch = "aarch64")]
use crate::cpu::Neon;
