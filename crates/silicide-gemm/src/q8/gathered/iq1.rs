//! IQ1: levels in eights from a book, shifted up or down. A level is eight times the book's and one up or down, made positive.

use super::{Scaled, Stretch, eight_times, half, scaled};
use silicide_quant::books;
use std::arch::x86_64::*;

/// What is added to weights to make levels: eight to what the book has, one to the shift.
const ZERO: i32 = 9;
/// What scales are multiplied by: an eighth, and small numbers are half of what they stand for.
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

/// Words of the book, of eleven bits, one to a lane of 64 bits.
#[inline(always)]
unsafe fn look_up(words: __m512i) -> __m512i {
    // SAFETY: the caller's promise; words are inside the book.
    unsafe {
        let words = _mm512_and_si512(words, _mm512_set1_epi64(LEVELS.len() as i64 - 1));
        _mm512_i64gather_epi64::<8>(words, LEVELS.as_ptr().cast())
    }
}

/// Codes of eight runs, and the words beside them above.
#[inline(always)]
unsafe fn join(codes: *const u8, high: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let codes = _mm512_cvtepu32_epi64(_mm256_loadu_si256(codes.cast()));
        let high = _mm512_cvtepu16_epi64(_mm_loadu_si128(high.cast()));
        _mm512_or_si512(codes, _mm512_slli_epi64::<32>(high))
    }
}

/// Shifts by which `multishift` makes a code of part `part` with high bits every `step` bits.
const fn shifts(part: usize, step: usize) -> i64 {
    ((8 * part) | ((32 + step * part) << 8)) as i64
}

/// A run is four codes, and elsewhere a word of their highest bits, a scale, and whether weights are shifted down.
#[derive(Clone, Copy)]
pub(super) struct Iq1S {
    at: *const u8,
    words: __m512i,
    /// Two in every byte of the runs that are shifted up.
    up: __m512i,
}

// SAFETY: reads a block of 50 bytes.
unsafe impl Stretch for Iq1S {
    const BYTES: usize = 50;
    const HALVES: bool = false;
    const ZERO: i32 = ZERO;
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Iq1S {
        // SAFETY: the caller's promise.
        unsafe {
            let words = join(at.add(2), at.add(34));
            let up = _mm512_testn_epi64_mask(words, _mm512_set1_epi64(1 << 47));
            Iq1S { at, words, up: _mm512_maskz_set1_epi64(up, eight_times(2)) }
        }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts(part, 3)), self.words);
            _mm512_or_si512(look_up(words), self.up)
        }
    }

    #[inline(always)]
    unsafe fn signs(self, _: usize) -> __mmask64 {
        0
    }
}

// SAFETY: reads the same block.
unsafe impl Scaled for Iq1S {
    #[inline(always)]
    unsafe fn scales(self, _: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(self.at.add(34).cast()));
            let numbers = _mm256_and_si256(_mm256_srli_epi32::<12>(high), _mm256_set1_epi32(7));
            scaled(half(self.at.cast::<u16>().read_unaligned()), FACTOR, numbers)
        }
    }
}

/// A run is four codes, and elsewhere as many nibbles: three highest bits and whether weights are shifted down.
#[derive(Clone, Copy)]
pub(super) struct Iq1M {
    at: *const u8,
    words: __m512i,
}

// SAFETY: reads a block of 56 bytes.
unsafe impl Stretch for Iq1M {
    const BYTES: usize = 56;
    const HALVES: bool = true;
    const ZERO: i32 = ZERO;
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Iq1M {
        // SAFETY: the caller's promise.
        unsafe { Iq1M { at, words: join(at, at.add(32)) } }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts(part, 4)), self.words);
            let up = _mm512_testn_epi64_mask(words, _mm512_set1_epi64(0x800));
            let levels = look_up(words);
            _mm512_mask_or_epi64(levels, up, levels, _mm512_set1_epi64(eight_times(2)))
        }
    }

    #[inline(always)]
    unsafe fn signs(self, _: usize) -> __mmask64 {
        0
    }
}

// SAFETY: reads the same block.
unsafe impl Scaled for Iq1M {
    #[inline(always)]
    unsafe fn scales(self, side: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            // Four words of four times three bits, below a nibble of the block's scale.
            let words = self.at.add(48).cast::<u64>().read_unaligned();
            let top = words >> 12 & 0xf | words >> 24 & 0xf0 | words >> 36 & 0xf00 | words >> 48 & 0xf000;
            let places = _mm512_setr_epi64(0, 6, 16, 22, 32, 38, 48, 54);
            let words = _mm512_srlv_epi64(_mm512_set1_epi64((words >> (3 * side)) as i64), places);
            let numbers = _mm256_and_si256(_mm512_cvtepi64_epi32(words), _mm256_set1_epi32(7));
            scaled(half(top as u16), FACTOR, numbers)
        }
    }
}
