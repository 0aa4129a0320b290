//! IQ2: levels in eights from a book, signs beside them.
//!
//! ```text
//! IQ2_XXS  f16 d | 8 x (4 codes, u32: 4 x 7 signs and a scale of 4 bits)
//! IQ2_XS   f16 d | 32 u16: 9 bits of code and 7 signs | 8 bytes: scales of both halves of a group
//! IQ2_S    f16 d | 32 codes | 32 bytes of signs | 8 bytes of highest bits | 8 bytes of scales
//! ```

use super::{
    ScaledSuperBlock, SuperBlock, array, broadcast_f16, bytes_32, bytes_64, even_signs, look_up,
    small_scales, spread_bytes, super_block,
};
use crate::isa::Avx512Vbmi;
use silicide_quant::books;
use std::arch::x86_64::*;

/// The factor of scales.
const FACTOR: f32 = 0.25;

/// Returns the nibbles of eight bytes, of one half of groups.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(bytes: &[u8; 8], half: usize) -> __m256i {
    let bytes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(*bytes)));
    if half == 0 { _mm256_and_si256(bytes, _mm256_set1_epi32(15)) } else { _mm256_srli_epi32::<4>(bytes) }
}

/// Shifts lanes of 64 bits right.
#[inline]
#[target_feature(enable = "avx512f")]
fn shift_right(words: __m512i, by: usize) -> __m512i {
    _mm512_srl_epi64(words, _mm_cvtsi32_si128(by as i32))
}

/// Returns the scales of halves of groups: `bytes` are two nibbles each.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn half_scales(scale: &[u8; 2], bytes: &[u8; 8], half: usize) -> __m256 {
    small_scales(broadcast_f16(u16::from_le_bytes(*scale)), FACTOR, nibbles(bytes, half))
}

/// A block of IQ2_XXS.
#[derive(Clone, Copy)]
pub(super) struct Iq2Xxs {
    words: __m512i,
    signs: __m512i,
}

super_block!(Iq2Xxs, bytes: 66, halves: false, zero: 0, signs: signs);

impl Iq2Xxs {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn from_bytes(bytes: &[u8; 66]) -> Iq2Xxs {
        let words = bytes_64(array(bytes, 2));
        Iq2Xxs { words, signs: even_signs(words, 32, 7) }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn part_levels(self, part: usize) -> __m512i {
        look_up(&books::IQ2_XXS, shift_right(self.words, 8 * part))
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn group_scales(self, bytes: &[u8; 66], _: usize) -> __m256 {
        let numbers = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<60>(self.words));
        small_scales(broadcast_f16(u16::from_le_bytes(*array(bytes, 0))), FACTOR, numbers)
    }
}

/// A block of IQ2_XS.
#[derive(Clone, Copy)]
pub(super) struct Iq2Xs {
    words: __m512i,
    signs: __m512i,
}

super_block!(Iq2Xs, bytes: 74, halves: true, zero: 0, signs: signs);

impl Iq2Xs {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn from_bytes(bytes: &[u8; 74]) -> Iq2Xs {
        let words = bytes_64(array(bytes, 2));
        Iq2Xs { words, signs: even_signs(words, 9, 16) }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn part_levels(self, part: usize) -> __m512i {
        look_up(&books::IQ2_XS, shift_right(self.words, 16 * part))
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn group_scales(self, bytes: &[u8; 74], half: usize) -> __m256 {
        half_scales(array(bytes, 0), array(bytes, 66), half)
    }
}

/// A block of IQ2_S.
#[derive(Clone, Copy)]
pub(super) struct Iq2S {
    words: __m512i,
    signs: __m512i,
}

super_block!(Iq2S, bytes: 82, halves: true, zero: 0, signs: signs);

impl Iq2S {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn from_bytes(bytes: &[u8; 82]) -> Iq2S {
        let codes = _mm512_cvtepu32_epi64(bytes_32(array(bytes, 2)));
        let high = spread_bytes(array(bytes, 66));
        Iq2S {
            words: _mm512_or_si512(codes, _mm512_slli_epi64::<32>(high)),
            signs: _mm512_cvtepu32_epi64(bytes_32(array(bytes, 34))),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn part_levels(self, part: usize) -> __m512i {
        let shifts = (8 * part) | ((32 + 2 * part) << 8);
        let words = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts as i64), self.words);
        look_up(&books::IQ2_S, words)
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn group_scales(self, bytes: &[u8; 82], half: usize) -> __m256 {
        half_scales(array(bytes, 0), array(bytes, 74), half)
    }
}
