//! [`Unit`] with the intrinsics of aarch64: NEON with dot products. Eight columns in two registers.

use super::format::{self, Codes, Layout, Part};
use super::panel::{self, Block};
use super::product::Product;
use super::source::Source;
use super::stream;
use super::unit::Unit;
use crate::f32::vector::{Lanes8, Vector};
use crate::isa::Neon;
use std::arch::aarch64::*;
use std::arch::asm;
use std::ops::Range;

/// Sixteen bytes of each of four columns: word `i` has bytes `4i..4i + 4` of each.
#[inline(always)]
unsafe fn transpose_four(from: *const u8, stride: usize) -> [uint8x16_t; 4] {
    // SAFETY: the caller's promise covers sixteen bytes of each column.
    unsafe {
        let column = |i: usize| vreinterpretq_u32_u8(vld1q_u8(from.add(i * stride)));
        let (a, b, c, d) = (column(0), column(1), column(2), column(3));
        let pairs = |a, b| (vreinterpretq_u64_u32(vtrn1q_u32(a, b)), vreinterpretq_u64_u32(vtrn2q_u32(a, b)));
        let ((even_ab, odd_ab), (even_cd, odd_cd)) = (pairs(a, b), pairs(c, d));
        [
            vreinterpretq_u8_u64(vtrn1q_u64(even_ab, even_cd)),
            vreinterpretq_u8_u64(vtrn1q_u64(odd_ab, odd_cd)),
            vreinterpretq_u8_u64(vtrn2q_u64(even_ab, even_cd)),
            vreinterpretq_u8_u64(vtrn2q_u64(odd_ab, odd_cd)),
        ]
    }
}

/// Adds the products of four signed bytes to each lane. The intrinsic is not stable.
#[inline(always)]
unsafe fn dot_four(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction is the caller's promise; it touches these registers only.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sums, in(vreg) a, in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// Two registers as a vector.
#[inline(always)]
unsafe fn lanes(low: float32x4_t, high: float32x4_t) -> Lanes8 {
    let mut floats = [0.0; 8];
    // SAFETY: eight floats are two registers, and a vector.
    unsafe {
        vst1q_f32(floats.as_mut_ptr(), low);
        vst1q_f32(floats.as_mut_ptr().add(4), high);
        Lanes8::load(floats.as_ptr())
    }
}

/// Numbers as floats.
#[inline(always)]
unsafe fn floats(numbers: [int32x4_t; 2]) -> Lanes8 {
    // SAFETY: the caller's promise.
    unsafe { lanes(vcvtq_f32_s32(numbers[0]), vcvtq_f32_s32(numbers[1])) }
}

/// The words of columns, moved down by so many bits.
#[inline(always)]
unsafe fn shifted(bytes: uint8x16_t, by: u32) -> uint32x4_t {
    // SAFETY: the caller's promise. A shift to the left by a negative number is one to the right.
    unsafe { vshlq_u32(vreinterpretq_u32_u8(bytes), vdupq_n_s32(-(by as i32))) }
}

// SAFETY: the methods' promise is the intrinsics' (the instruction set) and the pointers' own.
unsafe impl Unit for Neon {
    type Floats = Lanes8;
    type Words = [uint8x16_t; 2];
    type Sums = [int32x4_t; 2];
    // The instruction takes signed codes, and those below 128 are the same number either way.
    const ZERO: i32 = 0;
    // By two vectors of two registers: 12 sums in integers and 12 in floats, 4 registers of weights and 1 of
    // activations: 29 of 32.
    const ROWS: usize = 3;
    const START: i32 = 0;
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn transpose(from: *const u8, stride: usize) -> [Self::Words; 4] {
        // SAFETY: the caller's promise covers eight columns.
        let (low, high) =
            unsafe { (transpose_four(from, stride), transpose_four(from.add(4 * stride), stride)) };
        std::array::from_fn(|i| [low[i], high[i]])
    }

    #[inline(always)]
    unsafe fn adjacent(from: *const u8) -> Self::Words {
        // SAFETY: the caller's promise covers four bytes of each of eight columns.
        unsafe { [vld1q_u8(from), vld1q_u8(from.add(16))] }
    }

    #[inline(always)]
    unsafe fn low(words: Self::Words) -> Self::Words {
        // SAFETY: the caller's promise.
        words.map(|bytes| unsafe { vandq_u8(bytes, vdupq_n_u8(15)) })
    }

    #[inline(always)]
    unsafe fn high(words: Self::Words) -> Self::Words {
        // SAFETY: the caller's promise.
        words.map(|bytes| unsafe { vshrq_n_u8::<4>(bytes) })
    }

    #[inline(always)]
    unsafe fn centred(words: Self::Words) -> Self::Words {
        // SAFETY: the caller's promise.
        words.map(|bytes| unsafe { veorq_u8(bytes, vdupq_n_u8(128)) })
    }

    #[inline(always)]
    unsafe fn bytes(words: Self::Words) -> Self::Words {
        words
    }

    #[inline(always)]
    unsafe fn bits(words: Self::Words, shift: u32, mask: u8) -> Self::Words {
        // SAFETY: the caller's promise. A shift to the left by a negative number is one to the right.
        words.map(|bytes| unsafe { vandq_u8(vshlq_u8(bytes, vdupq_n_s8(-(shift as i8))), vdupq_n_u8(mask)) })
    }

    #[inline(always)]
    unsafe fn field(words: Self::Words, shift: u32, mask: u8) -> Self::Words {
        // SAFETY: the caller's promise.
        words.map(|bytes| unsafe {
            vreinterpretq_u8_u32(vandq_u32(shifted(bytes, shift), vdupq_n_u32(u32::from(mask))))
        })
    }

    #[inline(always)]
    unsafe fn lookup(words: Self::Words, table: &[u8; 16]) -> Self::Words {
        // SAFETY: the caller's promise; the table has sixteen bytes.
        words.map(|bytes| unsafe { vqtbl1q_u8(vld1q_u8(table.as_ptr()), bytes) })
    }

    #[inline(always)]
    unsafe fn pairs(words: Self::Words) -> [Self::Words; 2] {
        // SAFETY: the caller's promise.
        let halves = words.map(|bytes| unsafe {
            let (low, high) = (vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes));
            // Two words of each column, one after the other; then the first of each and the second of each.
            let (left, right) =
                (vreinterpretq_u32_u8(vzip1q_u8(low, high)), vreinterpretq_u32_u8(vzip2q_u8(low, high)));
            (vreinterpretq_u8_u32(vuzp1q_u32(left, right)), vreinterpretq_u8_u32(vuzp2q_u32(left, right)))
        });
        [halves.map(|(first, _)| first), halves.map(|(_, second)| second)]
    }

    #[inline(always)]
    unsafe fn spread(words: Self::Words, shift: u32) -> Self::Words {
        // SAFETY: the caller's promise.
        words.map(|bytes| unsafe {
            let bits = vandq_u32(shifted(bytes, shift), vdupq_n_u32(15));
            // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
            let copies = vmulq_u32(bits, vdupq_n_u32(0x0204_0810));
            vandq_u8(vreinterpretq_u8_u32(copies), vdupq_n_u8(16))
        })
    }

    #[inline(always)]
    unsafe fn join<const SHIFT: u32>(words: Self::Words, upper: Self::Words) -> Self::Words {
        // SAFETY: the caller's promise.
        std::array::from_fn(|i| unsafe { vorrq_u8(words[i], vshlq_u8(upper[i], vdupq_n_s8(SHIFT as i8))) })
    }

    #[inline(always)]
    unsafe fn number(words: Self::Words, zero: i32) -> Lanes8 {
        // SAFETY: the caller's promise.
        unsafe { floats(words.map(|bytes| vsubq_s32(vreinterpretq_s32_u8(bytes), vdupq_n_s32(zero)))) }
    }

    #[inline(always)]
    unsafe fn signed(words: Self::Words, shift: u32) -> Lanes8 {
        // SAFETY: the caller's promise.
        unsafe {
            floats(words.map(|bytes| {
                let top = vshlq_s32(vreinterpretq_s32_u8(bytes), vdupq_n_s32(24 - shift as i32));
                vshrq_n_s32::<24>(top)
            }))
        }
    }

    #[inline(always)]
    unsafe fn half(words: Self::Words, shift: u32) -> Lanes8 {
        let mut halves = [0; 8];
        // SAFETY: eight halves are two registers of half the size, and a vector.
        unsafe {
            // Narrowing keeps the lower half of each word.
            vst1_u16(halves.as_mut_ptr(), vmovn_u32(shifted(words[0], shift)));
            vst1_u16(halves.as_mut_ptr().add(4), vmovn_u32(shifted(words[1], shift)));
            Lanes8::load_f16(halves.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Words {
        // SAFETY: the caller's promise.
        unsafe { [vld1q_u8(from), vld1q_u8(from.add(16))] }
    }

    #[inline(always)]
    unsafe fn store(words: Self::Words, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            vst1q_u8(to, words[0]);
            vst1q_u8(to.add(16), words[1]);
        }
    }

    #[inline(always)]
    unsafe fn splat(from: *const i32) -> Self::Sums {
        // SAFETY: the caller's promise.
        [unsafe { vdupq_n_s32(from.read_unaligned()) }; 2]
    }

    #[inline(always)]
    unsafe fn dot<const BYTES: bool>(sums: Self::Sums, words: Self::Words, x: *const i8) -> Self::Sums {
        // SAFETY: the caller's promise.
        unsafe {
            let x = vreinterpretq_s8_s32(vdupq_n_s32(x.cast::<i32>().read_unaligned()));
            std::array::from_fn(|i| dot_four(sums[i], vreinterpretq_s8_u8(words[i]), x))
        }
    }

    #[inline(always)]
    unsafe fn offset(scales: Lanes8) -> Lanes8 {
        scales
    }

    #[inline(always)]
    unsafe fn scaled(sums: Self::Sums, scales: Lanes8, _: Lanes8) -> Lanes8 {
        // SAFETY: the caller's promise.
        unsafe { floats(sums).multiply_add(scales, Lanes8::zero()) }
    }

    #[target_feature(enable = "neon,dotprod")]
    unsafe fn unpack<F: Codes, S: Source>(part: &Part) {
        // SAFETY: the caller's promise.
        unsafe { format::unpack::<Neon, F, S>(part) }
    }

    #[target_feature(enable = "neon,dotprod")]
    unsafe fn stream<F: Codes, S: Source, const ROWS: usize>(product: &Product, columns: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { stream::stream::<Neon, F, S, ROWS>(product, columns) }
    }

    #[target_feature(enable = "neon,dotprod")]
    unsafe fn multiply(layout: Layout, block: &Block) {
        // SAFETY: the caller's promise.
        unsafe { panel::multiply::<Neon>(layout, block) }
    }
}
