//! TQ1_0, digits in base three, and Q2_0, two bits to a weight.

use super::{PARTS, Scaled, Stretch, eight_times, half};
use std::arch::x86_64::*;

/// Five digits to a byte, of which the first one of 32 bytes makes a run; then five to 16, then four to 4.
#[derive(Clone, Copy)]
pub(super) struct Tq1_0 {
    at: *const u8,
    bytes: __m512i,
}

/// For every weight of a part, the byte that it is in, and the power of three that brings its digit to the top.
#[repr(C, align(64))]
struct Digits {
    bytes: [u8; 64],
    /// Those of two bytes at a time, which always have the same digit.
    powers: [u16; 32],
}

static DIGITS: [Digits; PARTS] = [digits(0), digits(1), digits(2), digits(3)];

const fn digits(part: usize) -> Digits {
    const POWERS: [u16; 5] = [1, 3, 9, 27, 81];
    let mut digits = Digits { bytes: [0; 64], powers: [0; 32] };
    let mut lane = 0;
    while lane < 64 {
        let weight = lane / 8 * 32 + part * 8 + lane % 8;
        let (byte, digit) = match weight {
            0..160 => (weight % 32, weight / 32),
            160..240 => (32 + weight % 16, (weight - 160) / 16),
            _ => (48 + weight % 4, (weight - 240) / 4),
        };
        digits.bytes[lane] = byte as u8;
        digits.powers[lane / 2] = POWERS[digit];
        lane += 1;
    }
    digits
}

// SAFETY: reads a block of 54 bytes.
unsafe impl Stretch for Tq1_0 {
    const BYTES: usize = 54;
    const HALVES: bool = false;
    const ZERO: i32 = 1;
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Tq1_0 {
        // SAFETY: the caller's promise.
        unsafe { Tq1_0 { at, bytes: _mm512_maskz_loadu_epi8((1 << 54) - 1, at.cast()) } }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let Digits { bytes, powers } = &DIGITS[part];
            let powers = _mm512_load_si512(powers.as_ptr().cast());
            let bytes = _mm512_permutexvar_epi8(_mm512_load_si512(bytes.as_ptr().cast()), self.bytes);
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
    }

    #[inline(always)]
    unsafe fn signs(self, _: usize) -> __mmask64 {
        0
    }
}

// SAFETY: reads the same block.
unsafe impl Scaled for Tq1_0 {
    #[inline(always)]
    unsafe fn scales(self, _: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { half(self.at.add(52).cast::<u16>().read_unaligned()) }
    }
}

/// Four blocks of two runs.
#[derive(Clone, Copy)]
pub(super) struct Q2_0 {
    at: *const u8,
    codes: __m512i,
}

/// Bytes of a block.
const BLOCK: usize = 18;

// SAFETY: reads four blocks of 18 bytes.
unsafe impl Stretch for Q2_0 {
    const BYTES: usize = 4 * BLOCK;
    const HALVES: bool = false;
    const ZERO: i32 = 1;
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Q2_0 {
        // SAFETY: the caller's promise.
        unsafe {
            let codes = _mm512_castsi128_si512(_mm_loadu_si128(at.add(2).cast()));
            let codes = _mm512_inserti32x4::<1>(codes, _mm_loadu_si128(at.add(2 + BLOCK).cast()));
            let codes = _mm512_inserti32x4::<2>(codes, _mm_loadu_si128(at.add(2 + 2 * BLOCK).cast()));
            let codes = _mm512_inserti32x4::<3>(codes, _mm_loadu_si128(at.add(2 + 3 * BLOCK).cast()));
            Q2_0 { at, codes }
        }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        let shifts = eight_times(16 * part as u64) + 0x0e0c_0a08_0604_0200;
        // SAFETY: the caller's promise.
        unsafe {
            let codes = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts), self.codes);
            _mm512_and_si512(codes, _mm512_set1_epi8(3))
        }
    }

    #[inline(always)]
    unsafe fn signs(self, _: usize) -> __mmask64 {
        0
    }
}

// SAFETY: reads the same block.
unsafe impl Scaled for Q2_0 {
    #[inline(always)]
    unsafe fn scales(self, _: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let scale = |block: usize| u64::from(self.at.add(block * BLOCK).cast::<u16>().read_unaligned());
            let scales = scale(0) | scale(1) << 16 | scale(2) << 32 | scale(3) << 48;
            let scales = _mm_cvtsi64_si128(scales as i64);
            _mm256_cvtph_ps(_mm_unpacklo_epi16(scales, scales))
        }
    }
}
