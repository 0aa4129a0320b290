//! IQ2: levels in eights from a book, signs beside them.

use super::{Scaled, Stretch, even_signs, half, scaled, signs};
use silicide_quant::books;
use std::arch::x86_64::*;

/// What scales are multiplied by.
const FACTOR: f32 = 0.25;

/// Words of a book, one to a lane of 64 bits.
#[inline(always)]
unsafe fn look_up<const N: usize>(book: &'static [u64; N], words: __m512i) -> __m512i {
    const { assert!(N.is_power_of_two()) };
    // SAFETY: the caller's promise; words are inside the book.
    unsafe {
        let words = _mm512_and_si512(words, _mm512_set1_epi64(N as i64 - 1));
        _mm512_i64gather_epi64::<8>(words, book.as_ptr().cast())
    }
}

/// The nibbles of eight bytes, of one half of runs.
#[inline(always)]
unsafe fn nibbles(at: *const u8, half: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(at.cast()));
        if half == 0 { _mm256_and_si256(bytes, _mm256_set1_epi32(15)) } else { _mm256_srli_epi32::<4>(bytes) }
    }
}

/// A run is four codes, and a word of four times seven signs and a scale.
#[derive(Clone, Copy)]
pub(super) struct Iq2Xxs {
    at: *const u8,
    words: __m512i,
    signs: __m512i,
}

// SAFETY: reads a block of 66 bytes.
unsafe impl Stretch for Iq2Xxs {
    const BYTES: usize = 66;
    const HALVES: bool = false;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Iq2Xxs {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_loadu_si512(at.add(2).cast());
            Iq2Xxs { at, words, signs: even_signs(words, 32, 7) }
        }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_srl_epi64(self.words, _mm_cvtsi32_si128(8 * part as i32));
            look_up(&books::IQ2_XXS, words)
        }
    }

    #[inline(always)]
    unsafe fn signs(self, part: usize) -> __mmask64 {
        // SAFETY: the caller's promise.
        unsafe { signs(self.signs, part) }
    }
}

// SAFETY: reads the same block.
unsafe impl Scaled for Iq2Xxs {
    #[inline(always)]
    unsafe fn scales(self, _: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let numbers = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<60>(self.words));
            scaled(half(self.at.cast::<u16>().read_unaligned()), FACTOR, numbers)
        }
    }
}

/// A run is four words of nine bits of code and seven signs.
#[derive(Clone, Copy)]
pub(super) struct Iq2Xs {
    at: *const u8,
    words: __m512i,
    signs: __m512i,
}

// SAFETY: reads a block of 74 bytes.
unsafe impl Stretch for Iq2Xs {
    const BYTES: usize = 74;
    const HALVES: bool = true;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Iq2Xs {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_loadu_si512(at.add(2).cast());
            Iq2Xs { at, words, signs: even_signs(words, 9, 16) }
        }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_srl_epi64(self.words, _mm_cvtsi32_si128(16 * part as i32));
            look_up(&books::IQ2_XS, words)
        }
    }

    #[inline(always)]
    unsafe fn signs(self, part: usize) -> __mmask64 {
        // SAFETY: the caller's promise.
        unsafe { signs(self.signs, part) }
    }
}

// SAFETY: reads the same block.
unsafe impl Scaled for Iq2Xs {
    #[inline(always)]
    unsafe fn scales(self, side: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            scaled(half(self.at.cast::<u16>().read_unaligned()), FACTOR, nibbles(self.at.add(66), side))
        }
    }
}

/// Four codes to a run, as many bytes of signs elsewhere, and a byte of their highest bits.
#[derive(Clone, Copy)]
pub(super) struct Iq2S {
    at: *const u8,
    words: __m512i,
    signs: __m512i,
}

// SAFETY: reads a block of 82 bytes.
unsafe impl Stretch for Iq2S {
    const BYTES: usize = 82;
    const HALVES: bool = true;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Iq2S {
        // SAFETY: the caller's promise.
        unsafe {
            let codes = _mm512_cvtepu32_epi64(_mm256_loadu_si256(at.add(2).cast()));
            let high = _mm512_cvtepu8_epi64(_mm_loadl_epi64(at.add(66).cast()));
            let words = _mm512_or_si512(codes, _mm512_slli_epi64::<32>(high));
            Iq2S { at, words, signs: _mm512_cvtepu32_epi64(_mm256_loadu_si256(at.add(34).cast())) }
        }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        let shifts = (8 * part) | ((32 + 2 * part) << 8);
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts as i64), self.words);
            look_up(&books::IQ2_S, words)
        }
    }

    #[inline(always)]
    unsafe fn signs(self, part: usize) -> __mmask64 {
        // SAFETY: the caller's promise.
        unsafe { signs(self.signs, part) }
    }
}

// SAFETY: reads the same block.
unsafe impl Scaled for Iq2S {
    #[inline(always)]
    unsafe fn scales(self, side: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            scaled(half(self.at.cast::<u16>().read_unaligned()), FACTOR, nibbles(self.at.add(74), side))
        }
    }
}
