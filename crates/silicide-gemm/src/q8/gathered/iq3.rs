//! IQ3: levels in fours from a book, signs beside them.

use super::{Scaled, Stretch, even_signs, half, scaled, signs};
use silicide_quant::books;
use std::arch::x86_64::*;

/// Codes `2 * part` and the next of runs of eight bytes, one to a lane of 32 bits.
#[inline(always)]
unsafe fn codes(runs: __m512i, part: usize) -> __m512i {
    let shifts = (16 * part) | ((16 * part + 8) << 32);
    // SAFETY: the caller's promise.
    unsafe {
        _mm512_maskz_multishift_epi64_epi8(0x1111_1111_1111_1111, _mm512_set1_epi64(shifts as i64), runs)
    }
}

/// Eight bytes to a run, elsewhere a word of four times seven signs and a scale.
#[derive(Clone, Copy)]
pub(super) struct Iq3Xxs {
    at: *const u8,
    codes: __m512i,
    signs: __m512i,
}

// SAFETY: reads a block of 98 bytes.
unsafe impl Stretch for Iq3Xxs {
    const BYTES: usize = 98;
    const HALVES: bool = false;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Iq3Xxs {
        // SAFETY: the caller's promise.
        unsafe {
            let signs = _mm512_cvtepu32_epi64(_mm256_loadu_si256(at.add(66).cast()));
            Iq3Xxs { at, codes: _mm512_loadu_si512(at.add(2).cast()), signs: even_signs(signs, 0, 7) }
        }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        const { assert!(books::IQ3_XXS.len() == 256) };
        // SAFETY: the caller's promise; codes are bytes, and inside the book.
        unsafe { _mm512_i32gather_epi32::<4>(codes(self.codes, part), books::IQ3_XXS.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn signs(self, part: usize) -> __mmask64 {
        // SAFETY: the caller's promise.
        unsafe { signs(self.signs, part) }
    }
}

// SAFETY: reads the same block.
unsafe impl Scaled for Iq3Xxs {
    #[inline(always)]
    unsafe fn scales(self, _: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let numbers = _mm256_srli_epi32::<28>(_mm256_loadu_si256(self.at.add(66).cast()));
            scaled(half(self.at.cast::<u16>().read_unaligned()), 0.5, numbers)
        }
    }
}

/// Eight bytes to a run, elsewhere a byte of their ninth bits and four of signs.
#[derive(Clone, Copy)]
pub(super) struct Iq3S {
    at: *const u8,
    codes: __m512i,
    /// Ninth bits, in every byte of a run.
    high: __m512i,
    signs: __m512i,
}

// SAFETY: reads a block of 110 bytes.
unsafe impl Stretch for Iq3S {
    const BYTES: usize = 110;
    const HALVES: bool = false;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Iq3S {
        // SAFETY: the caller's promise.
        unsafe {
            let high = _mm512_cvtepu8_epi64(_mm_loadl_epi64(at.add(66).cast()));
            Iq3S {
                at,
                codes: _mm512_loadu_si512(at.add(2).cast()),
                high: _mm512_multishift_epi64_epi8(_mm512_setzero_si512(), high),
                signs: _mm512_cvtepu32_epi64(_mm256_loadu_si256(at.add(74).cast())),
            }
        }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        const { assert!(books::IQ3_S.len() == 512) };
        // Of each half of a lane, the bit of its code.
        let bits = 1u64 << (2 * part) | 2u64 << (2 * part + 32);
        // SAFETY: the caller's promise; codes have nine bits, and are inside the book.
        unsafe {
            let high = _mm512_test_epi32_mask(self.high, _mm512_set1_epi64(bits as i64));
            let codes = codes(self.codes, part);
            let codes = _mm512_mask_or_epi32(codes, high, codes, _mm512_set1_epi32(0x100));
            _mm512_i32gather_epi32::<4>(codes, books::IQ3_S.as_ptr().cast())
        }
    }

    #[inline(always)]
    unsafe fn signs(self, part: usize) -> __mmask64 {
        // SAFETY: the caller's promise.
        unsafe { signs(self.signs, part) }
    }
}

// SAFETY: reads the same block.
unsafe impl Scaled for Iq3S {
    #[inline(always)]
    unsafe fn scales(self, _: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let nibbles = _mm256_set1_epi32(self.at.add(106).cast::<i32>().read_unaligned());
            let numbers = _mm256_srlv_epi32(nibbles, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
            let numbers = _mm256_and_si256(numbers, _mm256_set1_epi32(15));
            scaled(half(self.at.cast::<u16>().read_unaligned()), 2.0, numbers)
        }
    }
}
