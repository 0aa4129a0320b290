//! The operations on integers that the kernels need, and their portable form.
//!
//! [`Unit::multiply`] and [`Unit::unpack`] are functions of their own, compiled once for each instruction set and what they are
//! for; other methods are `#[inline(always)]`: code only gets an instruction set by being inlined into a function that has it.

use super::format::{self, Codes, Layout, Part};
use super::panel::{self, Block};
use super::product::Product;
use super::source::Source;
use super::stream;
use crate::f32::vector::{Lanes8, Vector};
use crate::isa::{Portable, Simd};
use silicide_quant::Format;
use std::ops::Range;

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
    /// Rows of the register tile, at most [`panel::MAX_ROWS`].
    const ROWS: usize;
    /// What [`Unit::scaled`] wants sums to start from.
    const START: i32;
    /// Whether [`Unit::dot`] must be told of signed bytes.
    const SIGNED: bool;
    /// Whether few rows are multiplied as a stream: where instructions are the limit, memory is not, and panels do.
    const STREAMS: bool = true;
    /// Whether words of columns are stored side by side, as [`Unit::adjacent`] reads them.
    const SIDE_BY_SIDE: bool = true;

    /// Sixteen bytes from each column, columns being `stride` bytes apart: word `i` has bytes `4i..4i + 4` of each.
    unsafe fn transpose(from: *const u8, stride: usize) -> [Self::Words; 4];
    /// Four bytes of each column, side by side.
    unsafe fn adjacent(from: *const u8) -> Self::Words;
    /// Lower halves of bytes.
    unsafe fn low(words: Self::Words) -> Self::Words;
    /// Upper halves of bytes.
    unsafe fn high(words: Self::Words) -> Self::Words;
    /// Unsigned bytes less 128: signed ones.
    unsafe fn centred(words: Self::Words) -> Self::Words;
    /// Signed bytes, as [`Unit::dot`] wants them.
    unsafe fn bytes(words: Self::Words) -> Self::Words;
    /// The bits of `mask` of every byte, counted from bit `shift`; no more than the byte has.
    unsafe fn bits(words: Self::Words, shift: u32, mask: u8) -> Self::Words;
    /// The bits of `mask` of every column's word, counted from bit `shift`.
    unsafe fn field(words: Self::Words, shift: u32, mask: u8) -> Self::Words;
    /// What the table has for every byte, which is below 16.
    unsafe fn lookup(words: Self::Words, table: &[u8; 16]) -> Self::Words;
    /// Nibbles, the lower one of each byte first: eight to a word, so two words.
    unsafe fn pairs(words: Self::Words) -> [Self::Words; 2];
    /// Bit `shift + i` of each column's word as bit 4 of its byte `i`.
    unsafe fn spread(words: Self::Words, shift: u32) -> Self::Words;
    /// The bits of both, those of `upper` moved up by so many.
    unsafe fn join<const SHIFT: u32>(words: Self::Words, upper: Self::Words) -> Self::Words;
    /// Every column's word, which is a number, less `zero`.
    unsafe fn number(words: Self::Words, zero: i32) -> Self::Floats;
    /// The signed byte from bit `shift` on of every column's word.
    unsafe fn signed(words: Self::Words, shift: u32) -> Self::Floats;
    /// The half-precision number from bit `shift` on, 0 or 16, of every column's word.
    unsafe fn half(words: Self::Words, shift: u32) -> Self::Floats;
    /// Words that were stored.
    unsafe fn load(from: *const u8) -> Self::Words;
    /// Stores words.
    unsafe fn store(words: Self::Words, to: *mut u8);
    /// The same sum in all columns.
    unsafe fn splat(from: *const i32) -> Self::Sums;
    /// Adds the products of each column's four codes with four activations. Codes are below 128, or, if `BYTES`, come from
    /// [`Unit::bytes`].
    unsafe fn dot<const BYTES: bool>(sums: Self::Sums, words: Self::Words, x: *const i8) -> Self::Sums;
    /// What [`Unit::scaled`] wants to know of scales.
    unsafe fn offset(scales: Self::Floats) -> Self::Floats;
    /// Sums that began at [`Unit::START`], times scales of at most 22 bits of precision; rounded once.
    unsafe fn scaled(sums: Self::Sums, scales: Self::Floats, offset: Self::Floats) -> Self::Floats;
    /// [`format::unpack`].
    unsafe fn unpack<F: Codes, S: Source>(part: &Part);
    /// [`stream::stream`].
    unsafe fn stream<F: Codes, S: Source, const ROWS: usize>(product: &Product, columns: Range<usize>);
    /// Multiplies few rows with columns in a format whose codes are looked up in books, without panels; says whether it could.
    #[inline(always)]
    unsafe fn look_up(_: Format, _: &Product, _: Range<usize>) -> bool {
        false
    }
    /// The same for affine codes of so many bits, with scales and biases in planes.
    #[inline(always)]
    unsafe fn look_up_affine(_: usize, _: &Product, _: Range<usize>) -> bool {
        false
    }
    /// [`panel::multiply`].
    unsafe fn multiply(layout: Layout, block: &Block);
}

// SAFETY: plain Rust, which every machine of the target runs.
unsafe impl Unit for Portable {
    type Floats = Lanes8;
    type Words = [[u8; 8]; 4];
    type Sums = [i32; 8];
    const ZERO: i32 = 0;
    const ROWS: usize = 2;
    const START: i32 = 0;
    const SIGNED: bool = false;
    const STREAMS: bool = false;
    const SIDE_BY_SIDE: bool = false;

    #[inline(always)]
    unsafe fn transpose(from: *const u8, stride: usize) -> [Self::Words; 4] {
        let columns: [[u8; 16]; 8] = std::array::from_fn(|i| {
            // SAFETY: the caller's promise covers sixteen bytes of each of eight columns.
            unsafe { from.add(i * stride).cast::<[u8; 16]>().read_unaligned() }
        });
        std::array::from_fn(|word| std::array::from_fn(|byte| columns.map(|column| column[4 * word + byte])))
    }

    #[inline(always)]
    unsafe fn adjacent(from: *const u8) -> Self::Words {
        // SAFETY: the caller's promise covers four bytes of each of eight columns.
        let columns = unsafe { from.cast::<[[u8; 4]; 8]>().read_unaligned() };
        std::array::from_fn(|byte| columns.map(|column| column[byte]))
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
    unsafe fn centred(words: Self::Words) -> Self::Words {
        words.map(|bytes| bytes.map(|byte| byte ^ 128))
    }

    #[inline(always)]
    unsafe fn bytes(words: Self::Words) -> Self::Words {
        words
    }

    #[inline(always)]
    unsafe fn bits(words: Self::Words, shift: u32, mask: u8) -> Self::Words {
        words.map(|bytes| bytes.map(|byte| (byte >> shift) & mask))
    }

    #[inline(always)]
    unsafe fn field(words: Self::Words, shift: u32, mask: u8) -> Self::Words {
        let mut fields = [[0; 8]; 4];
        for lane in 0..8 {
            let word = u32::from_le_bytes(words.map(|bytes| bytes[lane]));
            fields[0][lane] = (word >> shift) as u8 & mask;
        }
        fields
    }

    #[inline(always)]
    unsafe fn lookup(words: Self::Words, table: &[u8; 16]) -> Self::Words {
        words.map(|bytes| bytes.map(|byte| table[usize::from(byte & 15)]))
    }

    #[inline(always)]
    unsafe fn pairs(words: Self::Words) -> [Self::Words; 2] {
        let (low, high) =
            (words.map(|bytes| bytes.map(|byte| byte & 15)), words.map(|bytes| bytes.map(|byte| byte >> 4)));
        [[low[0], high[0], low[1], high[1]], [low[2], high[2], low[3], high[3]]]
    }

    #[inline(always)]
    unsafe fn spread(words: Self::Words, shift: u32) -> Self::Words {
        std::array::from_fn(|i| {
            let bit = shift as usize + i;
            words[bit / 8 % 4].map(|byte| ((byte >> (bit % 8)) & 1) << 4)
        })
    }

    #[inline(always)]
    unsafe fn join<const SHIFT: u32>(words: Self::Words, upper: Self::Words) -> Self::Words {
        std::array::from_fn(|i| std::array::from_fn(|lane| words[i][lane] | upper[i][lane] << SHIFT))
    }

    #[inline(always)]
    unsafe fn number(words: Self::Words, zero: i32) -> Lanes8 {
        let floats: [f32; 8] =
            std::array::from_fn(|lane| (i32::from_le_bytes(words.map(|bytes| bytes[lane])) - zero) as f32);
        // SAFETY: eight floats are a vector.
        unsafe { Lanes8::load(floats.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn signed(words: Self::Words, shift: u32) -> Lanes8 {
        let floats = words[shift as usize / 8 % 4].map(|byte| f32::from(byte as i8));
        // SAFETY: eight floats are a vector.
        unsafe { Lanes8::load(floats.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn half(words: Self::Words, shift: u32) -> Lanes8 {
        let at = shift as usize / 8 % 4;
        let halves: [u16; 8] =
            std::array::from_fn(|lane| u16::from_le_bytes([words[at][lane], words[(at + 1) % 4][lane]]));
        // SAFETY: eight halves are a vector.
        unsafe { Lanes8::load_f16(halves.as_ptr()) }
    }

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
    unsafe fn offset(scales: Lanes8) -> Lanes8 {
        scales
    }

    #[inline(always)]
    unsafe fn scaled(sums: Self::Sums, scales: Lanes8, _: Lanes8) -> Lanes8 {
        let floats = sums.map(|sum| sum as f32);
        // SAFETY: eight floats are a vector.
        unsafe { Lanes8::load(floats.as_ptr()).multiply_add(scales, Lanes8::zero()) }
    }

    unsafe fn unpack<F: Codes, S: Source>(part: &Part) {
        // SAFETY: the caller's promise.
        unsafe { format::unpack::<Portable, F, S>(part) }
    }

    unsafe fn stream<F: Codes, S: Source, const ROWS: usize>(product: &Product, columns: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { stream::stream::<Portable, F, S, ROWS>(product, columns) }
    }

    unsafe fn multiply(layout: Layout, block: &Block) {
        // SAFETY: the caller's promise.
        unsafe { panel::multiply::<Portable>(layout, block) }
    }
}
