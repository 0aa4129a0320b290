//! IQ3: levels in fours from a book, signs beside them.
//!
//! ```text
//! IQ3_XXS  f16 d | 64 codes, 8 to a group | 8 u32: 4 x 7 signs and a scale of 4 bits
//! IQ3_S    f16 d | 64 codes | 8 bytes of ninth bits | 32 bytes of signs | 4 bytes of scales
//! ```

use super::{ScaledSuperBlock, SuperBlock, array, broadcast_f16, even_signs, signs, small_scales};
use crate::isa::Avx512Vbmi;
use silicide_quant::books;
use std::arch::x86_64::*;

/// Returns codes `2 * part` and the next of groups of eight bytes, one to a lane of 32 bits.
#[inline(always)]
fn codes(_: Avx512Vbmi, groups: __m512i, part: usize) -> __m512i {
    let shifts = (16 * part) | ((16 * part + 8) << 32);
    // SAFETY: the token proves the instructions.
    unsafe {
        _mm512_maskz_multishift_epi64_epi8(0x1111_1111_1111_1111, _mm512_set1_epi64(shifts as i64), groups)
    }
}

/// A block of IQ3_XXS.
#[derive(Clone, Copy)]
pub(super) struct Iq3Xxs {
    codes: __m512i,
    signs: __m512i,
}

impl SuperBlock for Iq3Xxs {
    type Bytes = [u8; 98];
    const HALVES: bool = false;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn load(isa: Avx512Vbmi, bytes: &[u8; 98]) -> Iq3Xxs {
        let (codes, signs) = (array::<64>(bytes, 2).as_ptr(), array::<32>(bytes, 66).as_ptr());
        // SAFETY: the token proves the instructions; the arrays are as long as what is loaded.
        let (codes, signs) = unsafe {
            (_mm512_loadu_si512(codes.cast()), _mm512_cvtepu32_epi64(_mm256_loadu_si256(signs.cast())))
        };
        Iq3Xxs { codes, signs: even_signs(isa, signs, 0, 7) }
    }

    #[inline(always)]
    fn levels(self, isa: Avx512Vbmi, part: usize) -> __m512i {
        const { assert!(books::IQ3_XXS.len() == 256) };
        // SAFETY: the token proves the instructions; codes are bytes, and inside the book.
        unsafe { _mm512_i32gather_epi32::<4>(codes(isa, self.codes, part), books::IQ3_XXS.as_ptr().cast()) }
    }

    #[inline(always)]
    fn signs(self, isa: Avx512Vbmi, part: usize) -> __mmask64 {
        signs(isa, self.signs, part)
    }
}

impl ScaledSuperBlock for Iq3Xxs {
    #[inline(always)]
    fn scales(self, isa: Avx512Vbmi, bytes: &[u8; 98], _: usize) -> __m256 {
        let words: &[u8; 32] = array(bytes, 66);
        // SAFETY: the token proves the instructions; the array is as long as what is loaded.
        let numbers = unsafe { _mm256_srli_epi32::<28>(_mm256_loadu_si256(words.as_ptr().cast())) };
        small_scales(isa, broadcast_f16(isa, u16::from_le_bytes(*array(bytes, 0))), 0.5, numbers)
    }
}

/// A block of IQ3_S.
#[derive(Clone, Copy)]
pub(super) struct Iq3S {
    codes: __m512i,
    /// Ninth bits, in every byte of a group.
    high: __m512i,
    signs: __m512i,
}

impl SuperBlock for Iq3S {
    type Bytes = [u8; 110];
    const HALVES: bool = false;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn load(_: Avx512Vbmi, bytes: &[u8; 110]) -> Iq3S {
        let (codes, high, signs) =
            (array::<64>(bytes, 2).as_ptr(), array::<8>(bytes, 66).as_ptr(), array::<32>(bytes, 74).as_ptr());
        // SAFETY: the token proves the instructions; the arrays are as long as what is loaded.
        unsafe {
            let high = _mm512_cvtepu8_epi64(_mm_loadl_epi64(high.cast()));
            Iq3S {
                codes: _mm512_loadu_si512(codes.cast()),
                high: _mm512_multishift_epi64_epi8(_mm512_setzero_si512(), high),
                signs: _mm512_cvtepu32_epi64(_mm256_loadu_si256(signs.cast())),
            }
        }
    }

    #[inline(always)]
    fn levels(self, isa: Avx512Vbmi, part: usize) -> __m512i {
        const { assert!(books::IQ3_S.len() == 512) };
        // Of each half of a lane, the bit of its code.
        let bits = 1u64 << (2 * part) | 2u64 << (2 * part + 32);
        // SAFETY: the token proves the instructions; codes have nine bits, and are inside the book.
        unsafe {
            let high = _mm512_test_epi32_mask(self.high, _mm512_set1_epi64(bits as i64));
            let codes = codes(isa, self.codes, part);
            let codes = _mm512_mask_or_epi32(codes, high, codes, _mm512_set1_epi32(0x100));
            _mm512_i32gather_epi32::<4>(codes, books::IQ3_S.as_ptr().cast())
        }
    }

    #[inline(always)]
    fn signs(self, isa: Avx512Vbmi, part: usize) -> __mmask64 {
        signs(isa, self.signs, part)
    }
}

impl ScaledSuperBlock for Iq3S {
    #[inline(always)]
    fn scales(self, isa: Avx512Vbmi, bytes: &[u8; 110], _: usize) -> __m256 {
        // SAFETY: the token proves the instructions.
        let numbers = unsafe {
            let nibbles = _mm256_set1_epi32(i32::from_le_bytes(*array(bytes, 106)));
            let numbers = _mm256_srlv_epi32(nibbles, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
            _mm256_and_si256(numbers, _mm256_set1_epi32(15))
        };
        small_scales(isa, broadcast_f16(isa, u16::from_le_bytes(*array(bytes, 0))), 2.0, numbers)
    }
}
