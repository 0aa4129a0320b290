//! IQ1: levels in eights from a book, shifted up or down. A level is eight times the book's and one up or down, made positive.
//!
//! ```text
//! IQ1_S  f16 d | 32 bytes: 4 codes of a group | 8 u16: 4 x 3 highest bits, 3 of a scale, 1 whether weights are shifted down
//! IQ1_M  32 bytes of codes | 16 bytes: 3 highest bits and the shift of each | 4 u16: 4 x 3 bits of scales below a nibble of d
//! ```

use super::{ScaledSuperBlock, SuperBlock, array, broadcast_f16, eight_times, small_scales};
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

/// Looks words of eleven bits up in the book, one to a lane of 64 bits.
#[inline(always)]
fn look_up(_: Avx512Vbmi, words: __m512i) -> __m512i {
    // SAFETY: the token proves the instructions; masked words are inside the book.
    unsafe {
        let words = _mm512_and_si512(words, _mm512_set1_epi64(LEVELS.len() as i64 - 1));
        _mm512_i64gather_epi64::<8>(words, LEVELS.as_ptr().cast())
    }
}

/// Loads the codes of eight groups, and above them the words of their highest bits.
#[inline(always)]
fn join(_: Avx512Vbmi, codes: &[u8; 32], high: &[u8; 16]) -> __m512i {
    // SAFETY: the token proves the instructions; the arrays are as long as what is loaded.
    unsafe {
        let codes = _mm512_cvtepu32_epi64(_mm256_loadu_si256(codes.as_ptr().cast()));
        let high = _mm512_cvtepu16_epi64(_mm_loadu_si128(high.as_ptr().cast()));
        _mm512_or_si512(codes, _mm512_slli_epi64::<32>(high))
    }
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

impl SuperBlock for Iq1S {
    type Bytes = [u8; 50];
    const HALVES: bool = false;
    const ZERO: i32 = ZERO;
    const SIGNED: bool = false;

    #[inline(always)]
    fn load(isa: Avx512Vbmi, bytes: &[u8; 50]) -> Iq1S {
        let words = join(isa, array(bytes, 2), array(bytes, 34));
        // SAFETY: the token proves the instructions.
        unsafe {
            let up = _mm512_testn_epi64_mask(words, _mm512_set1_epi64(1 << 47));
            Iq1S { words, up: _mm512_maskz_set1_epi64(up, eight_times(2)) }
        }
    }

    #[inline(always)]
    fn levels(self, isa: Avx512Vbmi, part: usize) -> __m512i {
        // SAFETY: the token proves the instructions.
        unsafe {
            let words = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts(part, 3)), self.words);
            _mm512_or_si512(look_up(isa, words), self.up)
        }
    }
}

impl ScaledSuperBlock for Iq1S {
    #[inline(always)]
    fn scales(self, isa: Avx512Vbmi, bytes: &[u8; 50], _: usize) -> __m256 {
        let high: &[u8; 16] = array(bytes, 34);
        // SAFETY: the token proves the instructions; the array is as long as what is loaded.
        let numbers = unsafe {
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(high.as_ptr().cast()));
            _mm256_and_si256(_mm256_srli_epi32::<12>(high), _mm256_set1_epi32(7))
        };
        small_scales(isa, broadcast_f16(isa, u16::from_le_bytes(*array(bytes, 0))), FACTOR, numbers)
    }
}

/// A block of IQ1_M.
#[derive(Clone, Copy)]
pub(super) struct Iq1M {
    words: __m512i,
}

impl SuperBlock for Iq1M {
    type Bytes = [u8; 56];
    const HALVES: bool = true;
    const ZERO: i32 = ZERO;
    const SIGNED: bool = false;

    #[inline(always)]
    fn load(isa: Avx512Vbmi, bytes: &[u8; 56]) -> Iq1M {
        Iq1M { words: join(isa, array(bytes, 0), array(bytes, 32)) }
    }

    #[inline(always)]
    fn levels(self, isa: Avx512Vbmi, part: usize) -> __m512i {
        // SAFETY: the token proves the instructions.
        unsafe {
            let words = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts(part, 4)), self.words);
            let up = _mm512_testn_epi64_mask(words, _mm512_set1_epi64(0x800));
            let levels = look_up(isa, words);
            _mm512_mask_or_epi64(levels, up, levels, _mm512_set1_epi64(eight_times(2)))
        }
    }
}

impl ScaledSuperBlock for Iq1M {
    #[inline(always)]
    fn scales(self, isa: Avx512Vbmi, bytes: &[u8; 56], side: usize) -> __m256 {
        // Four words of four times three bits, below a nibble of the block's scale.
        let words = u64::from_le_bytes(*array(bytes, 48));
        let top = words >> 12 & 0xf | words >> 24 & 0xf0 | words >> 36 & 0xf00 | words >> 48 & 0xf000;
        // SAFETY: the token proves the instructions.
        let numbers = unsafe {
            let places = _mm512_setr_epi64(0, 6, 16, 22, 32, 38, 48, 54);
            let words = _mm512_srlv_epi64(_mm512_set1_epi64((words >> (3 * side)) as i64), places);
            _mm256_and_si256(_mm512_cvtepi64_epi32(words), _mm256_set1_epi32(7))
        };
        small_scales(isa, broadcast_f16(isa, top as u16), FACTOR, numbers)
    }
}
