//! IQ3: levels in fours from a book, signs beside them.
//!
//! ```text
//! IQ3_XXS  f16 d | 64 codes, 8 to a group | 8 u32: 4 x 7 signs and a scale of 4 bits
//! IQ3_S    f16 d | 64 codes | 8 bytes of ninth bits | 32 bytes of signs | 4 bytes of scales
//! ```

use super::{
    ScaledSuperBlock, SuperBlock, array, broadcast_f16, bytes_32, bytes_64, even_signs, small_scales,
    spread_bytes, super_block,
};
use crate::isa::Avx512Vbmi;
use silicide_quant::books;
use std::arch::x86_64::*;

/// Returns codes `2 * part` and the next of groups of eight bytes, one to a lane of 32 bits.
#[inline]
#[target_feature(enable = "avx512vbmi")]
fn codes(groups: __m512i, part: usize) -> __m512i {
    let shifts = (16 * part) | ((16 * part + 8) << 32);
    _mm512_maskz_multishift_epi64_epi8(0x1111_1111_1111_1111, _mm512_set1_epi64(shifts as i64), groups)
}

/// A block of IQ3_XXS.
#[derive(Clone, Copy)]
pub(super) struct Iq3Xxs {
    codes: __m512i,
    signs: __m512i,
}

super_block!(Iq3Xxs, bytes: 98, halves: false, zero: 0, signs: signs);

impl Iq3Xxs {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn from_bytes(bytes: &[u8; 98]) -> Iq3Xxs {
        let signs = _mm512_cvtepu32_epi64(bytes_32(array(bytes, 66)));
        Iq3Xxs { codes: bytes_64(array(bytes, 2)), signs: even_signs(signs, 0, 7) }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn part_levels(self, part: usize) -> __m512i {
        const { assert!(books::IQ3_XXS.len() == 256) };
        // SAFETY: codes are bytes, and inside the book.
        unsafe { _mm512_i32gather_epi32::<4>(codes(self.codes, part), books::IQ3_XXS.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn group_scales(self, bytes: &[u8; 98], _: usize) -> __m256 {
        let numbers = _mm256_srli_epi32::<28>(bytes_32(array(bytes, 66)));
        small_scales(broadcast_f16(u16::from_le_bytes(*array(bytes, 0))), 0.5, numbers)
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

super_block!(Iq3S, bytes: 110, halves: false, zero: 0, signs: signs);

impl Iq3S {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn from_bytes(bytes: &[u8; 110]) -> Iq3S {
        Iq3S {
            codes: bytes_64(array(bytes, 2)),
            high: _mm512_multishift_epi64_epi8(_mm512_setzero_si512(), spread_bytes(array(bytes, 66))),
            signs: _mm512_cvtepu32_epi64(bytes_32(array(bytes, 74))),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn part_levels(self, part: usize) -> __m512i {
        const { assert!(books::IQ3_S.len() == 512) };
        // Of each half of a lane, the bit of its code.
        let bits = 1u64 << (2 * part) | 2u64 << (2 * part + 32);
        let high = _mm512_test_epi32_mask(self.high, _mm512_set1_epi64(bits as i64));
        let codes = codes(self.codes, part);
        let codes = _mm512_mask_or_epi32(codes, high, codes, _mm512_set1_epi32(0x100));
        // SAFETY: codes have nine bits, and are inside the book.
        unsafe { _mm512_i32gather_epi32::<4>(codes, books::IQ3_S.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn group_scales(self, bytes: &[u8; 110], _: usize) -> __m256 {
        let nibbles = _mm256_set1_epi32(i32::from_le_bytes(*array(bytes, 106)));
        let numbers = _mm256_srlv_epi32(nibbles, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
        let numbers = _mm256_and_si256(numbers, _mm256_set1_epi32(15));
        small_scales(broadcast_f16(u16::from_le_bytes(*array(bytes, 0))), 2.0, numbers)
    }
}
