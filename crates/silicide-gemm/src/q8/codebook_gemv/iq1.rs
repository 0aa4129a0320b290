//! IQ1: levels in eights from a book, shifted up or down. A level is eight times the book's and one up or down, made positive.
//!
//! ```text
//! IQ1_S  f16 d | 32 bytes: 4 codes of a group | 8 u16: 4 x 3 highest bits, 3 of a scale, 1 whether weights are shifted down
//! IQ1_M  32 bytes of codes | 16 bytes: 3 highest bits and the shift of each | 4 u16: 4 x 3 bits of scales below a nibble of d
//! ```

use super::{
    ScaledSuperBlock, SuperBlock, array, broadcast_f16, bytes_16, bytes_32, eight_times, look_up,
    small_scales, super_block,
};
use crate::isa::Avx512Vbmi;
use silicide_quant::books;
use std::arch::x86_64::*;

/// The offset from weights to levels: eight for the code book's entry, one for the shift.
const ZERO: i32 = 9;
/// The factor of scales: an eighth for the levels, times two for the small scales, which are stored as half of their value.
const FACTOR: f32 = 0.25;

/// Eight times the levels of the book, and eight more.
static LEVELS: [u64; 2048] = eightfold(&books::IQ1);

const fn eightfold<const N: usize>(book: &[u64; N]) -> [u64; N] {
    let (mut levels, mut word) = ([0; N], 0);
    while word < N {
        let (mut bytes, mut lane) = (book[word].to_le_bytes(), 0);
        while lane < 8 {
            bytes[lane] = 8 * bytes[lane].wrapping_add(1);
            lane += 1;
        }
        levels[word] = u64::from_le_bytes(bytes);
        word += 1;
    }
    levels
}

/// Loads the codes of eight groups, and above them the words of their highest bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn join(codes: &[u8; 32], high: &[u8; 16]) -> __m512i {
    let (codes, high) = (_mm512_cvtepu32_epi64(bytes_32(codes)), _mm512_cvtepu16_epi64(bytes_16(high)));
    _mm512_or_si512(codes, _mm512_slli_epi64::<32>(high))
}

/// Shifts by which `multishift` makes a code of part `part` with high bits every `step` bits.
const fn shifts(part: usize, step: usize) -> i64 {
    ((8 * part) | ((32 + step * part) << 8)) as i64
}

/// A block of IQ1_S.
#[derive(Clone, Copy)]
pub(super) struct Iq1S {
    words: __m512i,
    /// Two in every byte of the groups that are shifted up.
    up: __m512i,
}

super_block!(Iq1S, bytes: 50, halves: false, zero: ZERO);

impl Iq1S {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn from_bytes(bytes: &[u8; 50]) -> Iq1S {
        let words = join(array(bytes, 2), array(bytes, 34));
        let up = _mm512_testn_epi64_mask(words, _mm512_set1_epi64(1 << 47));
        Iq1S { words, up: _mm512_maskz_set1_epi64(up, eight_times(2)) }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn part_levels(self, part: usize) -> __m512i {
        let words = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts(part, 3)), self.words);
        _mm512_or_si512(look_up(&LEVELS, words), self.up)
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn group_scales(self, bytes: &[u8; 50], _: usize) -> __m256 {
        let high = _mm256_cvtepu16_epi32(bytes_16(array(bytes, 34)));
        let numbers = _mm256_and_si256(_mm256_srli_epi32::<12>(high), _mm256_set1_epi32(7));
        small_scales(broadcast_f16(u16::from_le_bytes(*array(bytes, 0))), FACTOR, numbers)
    }
}

/// A block of IQ1_M.
#[derive(Clone, Copy)]
pub(super) struct Iq1M {
    words: __m512i,
}

super_block!(Iq1M, bytes: 56, halves: true, zero: ZERO);

impl Iq1M {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn from_bytes(bytes: &[u8; 56]) -> Iq1M {
        Iq1M { words: join(array(bytes, 0), array(bytes, 32)) }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn part_levels(self, part: usize) -> __m512i {
        let words = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts(part, 4)), self.words);
        let up = _mm512_testn_epi64_mask(words, _mm512_set1_epi64(0x800));
        let levels = look_up(&LEVELS, words);
        _mm512_mask_or_epi64(levels, up, levels, _mm512_set1_epi64(eight_times(2)))
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg")]
    fn group_scales(self, bytes: &[u8; 56], half: usize) -> __m256 {
        // Four words of four times three bits, below a nibble of the block's scale.
        let words = u64::from_le_bytes(*array(bytes, 48));
        let top = words >> 12 & 0xf | words >> 24 & 0xf0 | words >> 36 & 0xf00 | words >> 48 & 0xf000;
        let places = _mm512_setr_epi64(0, 6, 16, 22, 32, 38, 48, 54);
        let words = _mm512_srlv_epi64(_mm512_set1_epi64((words >> (3 * half)) as i64), places);
        let numbers = _mm256_and_si256(_mm512_cvtepi64_epi32(words), _mm256_set1_epi32(7));
        small_scales(broadcast_f16(top as u16), FACTOR, numbers)
    }
}
