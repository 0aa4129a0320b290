//! TQ1_0, digits in base three, and Q2_0, two bits to a weight.
//!
//! ```text
//! TQ1_0  32 bytes of 5 digits, 16 of 5, 4 of 4 | f16 d      digit i of 32 bytes is group i
//! Q2_0   4 x (f16 d | 16 bytes of 4 codes)                  64 weights to a block
//! ```

use super::{
    PARTS, ScaledSuperBlock, SuperBlock, array, broadcast_f16, bytes_16, bytes_64, eight_times, super_block,
};
use crate::isa::Avx512Vbmi;
use std::arch::x86_64::*;

/// A block of TQ1_0.
#[derive(Clone, Copy)]
pub(super) struct Tq1_0 {
    bytes: __m512i,
}

/// For every weight of a part, the byte that it is in, and the power of three that brings its digit to the top.
#[repr(C, align(64))]
struct Digits {
    bytes: [u8; 64],
    /// Those of two bytes at a time, which always have the same digit, in words of 16 bits.
    powers: [u8; 64],
}

static DIGITS: [Digits; PARTS] = [digits(0), digits(1), digits(2), digits(3)];

const fn digits(part: usize) -> Digits {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let mut digits = Digits { bytes: [0; 64], powers: [0; 64] };
    let mut lane = 0;
    while lane < 64 {
        let weight = lane / 8 * 32 + part * 8 + lane % 8;
        let (byte, digit) = match weight {
            0..160 => (weight % 32, weight / 32),
            160..240 => (32 + weight % 16, (weight - 160) / 16),
            _ => (48 + weight % 4, (weight - 240) / 4),
        };
        digits.bytes[lane] = byte as u8;
        digits.powers[lane / 2 * 2] = POWERS[digit];
        lane += 1;
    }
    digits
}

super_block!(Tq1_0, bytes: 54, halves: false, zero: 1);

impl Tq1_0 {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn from_bytes(bytes: &[u8; 54]) -> Tq1_0 {
        // SAFETY: the mask has the bytes of the array.
        Tq1_0 { bytes: unsafe { _mm512_maskz_loadu_epi8((1 << 54) - 1, bytes.as_ptr().cast()) } }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn part_levels(self, part: usize) -> __m512i {
        let Digits { bytes, powers } = &DIGITS[part];
        let powers = bytes_64(powers);
        let bytes = _mm512_permutexvar_epi8(bytes_64(bytes), self.bytes);
        let (low, one) = (_mm512_set1_epi16(0xff), _mm512_set1_epi8(1));
        let even = _mm512_mullo_epi16(bytes, powers);
        let odd = _mm512_mullo_epi16(_mm512_andnot_si512(low, bytes), powers);
        let rest = _mm512_ternarylogic_epi64::<0xd8>(odd, even, low);
        // The digit is three times the rest, above 256.
        let least = _mm512_cmpge_epu8_mask(rest, _mm512_set1_epi8(86));
        let most = _mm512_cmpge_epu8_mask(rest, _mm512_set1_epi8(171u8 as i8));
        let levels = _mm512_maskz_mov_epi8(least, one);
        _mm512_mask_add_epi8(levels, most, levels, one)
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn group_scales(self, bytes: &[u8; 54], _: usize) -> __m256 {
        broadcast_f16(u16::from_le_bytes(*array(bytes, 52)))
    }
}

/// Four blocks of Q2_0, of two groups each.
#[derive(Clone, Copy)]
pub(super) struct Q2_0 {
    codes: __m512i,
}

/// Bytes of a block.
const BLOCK: usize = 18;

super_block!(Q2_0, bytes: 4 * BLOCK, halves: false, zero: 1);

impl Q2_0 {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn from_bytes(bytes: &[u8; 4 * BLOCK]) -> Q2_0 {
        let all = _mm512_castsi128_si512(bytes_16(array(bytes, 2)));
        let all = _mm512_inserti32x4::<1>(all, bytes_16(array(bytes, 2 + BLOCK)));
        let all = _mm512_inserti32x4::<2>(all, bytes_16(array(bytes, 2 + 2 * BLOCK)));
        Q2_0 { codes: _mm512_inserti32x4::<3>(all, bytes_16(array(bytes, 2 + 3 * BLOCK))) }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn part_levels(self, part: usize) -> __m512i {
        let shifts = eight_times(16 * part as u64) + 0x0e0c_0a08_0604_0200;
        let codes = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts), self.codes);
        _mm512_and_si512(codes, _mm512_set1_epi8(3))
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn group_scales(self, bytes: &[u8; 4 * BLOCK], _: usize) -> __m256 {
        let scale = |block: usize| u64::from(u16::from_le_bytes(*array(bytes, block * BLOCK)));
        let scales = scale(0) | scale(1) << 16 | scale(2) << 32 | scale(3) << 48;
        let scales = _mm_cvtsi64_si128(scales as i64);
        _mm256_cvtph_ps(_mm_unpacklo_epi16(scales, scales))
    }
}
