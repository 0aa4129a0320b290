//! [`Unit`] with the intrinsics of x86-64: AVX-512 with VNNI, and AVX2.

use super::unit::Unit;
use crate::cpu::{Avx2, Avx512};
use std::arch::x86_64::*;

/// Sixteen bytes from each of four columns, every fourth, one per 128-bit lane.
#[inline(always)]
unsafe fn gather_512(from: *const u8, stride: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let lanes = _mm512_castsi128_si512(_mm_loadu_si128(from.cast()));
        let lanes = _mm512_inserti32x4::<1>(lanes, _mm_loadu_si128(from.add(4 * stride).cast()));
        let lanes = _mm512_inserti32x4::<2>(lanes, _mm_loadu_si128(from.add(8 * stride).cast()));
        _mm512_inserti32x4::<3>(lanes, _mm_loadu_si128(from.add(12 * stride).cast()))
    }
}

/// Sixteen bytes from each of two columns, every fourth, one per 128-bit lane.
#[inline(always)]
unsafe fn gather_256(from: *const u8, stride: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let lanes = _mm256_castsi128_si256(_mm_loadu_si128(from.cast()));
        _mm256_inserti128_si256::<1>(lanes, _mm_loadu_si128(from.add(4 * stride).cast()))
    }
}

// SAFETY: the methods' promise is the intrinsics' (the instruction set) and the pointers' own.
unsafe impl Unit for Avx512 {
    type Floats = __m512;
    type Words = __m512i;
    type Sums = __m512i;
    // The instruction takes unsigned codes.
    const ZERO: i32 = 128;
    // By two vectors: 12 sums in integers and 12 in floats, 2 vectors of weights, 1 activation: 27 of 32 registers.
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn transpose(from: *const u8, stride: usize) -> [__m512i; 4] {
        // SAFETY: the caller's promise covers sixteen bytes of each of sixteen columns.
        unsafe {
            // Register i: columns i, i + 4, i + 8, i + 12 side by side; then a 4 x 4 transposition in each lane.
            let (a, b) = (gather_512(from, stride), gather_512(from.add(stride), stride));
            let (c, d) = (gather_512(from.add(2 * stride), stride), gather_512(from.add(3 * stride), stride));
            let (low_ab, high_ab) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (low_cd, high_cd) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(low_ab, low_cd),
                _mm512_unpackhi_epi64(low_ab, low_cd),
                _mm512_unpacklo_epi64(high_ab, high_cd),
                _mm512_unpackhi_epi64(high_ab, high_cd),
            ]
        }
    }

    #[inline(always)]
    unsafe fn low(words: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_and_si512(words, _mm512_set1_epi8(15)) }
    }

    #[inline(always)]
    unsafe fn high(words: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_and_si512(_mm512_srli_epi16::<4>(words), _mm512_set1_epi8(15)) }
    }

    #[inline(always)]
    unsafe fn bytes(words: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_xor_si512(words, _mm512_set1_epi8(-128)) }
    }

    #[inline(always)]
    unsafe fn bits(words: __m512i, shift: u32, mask: u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm512_srlv_epi32(words, _mm512_set1_epi32(shift as i32));
            _mm512_slli_epi32::<4>(_mm512_and_si512(bits, _mm512_set1_epi8(mask as i8)))
        }
    }

    #[inline(always)]
    unsafe fn spread(words: __m512i, shift: u32) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm512_srlv_epi32(words, _mm512_set1_epi32(shift as i32));
            let bits = _mm512_and_si512(bits, _mm512_set1_epi32(15));
            // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
            let copies = _mm512_mullo_epi32(bits, _mm512_set1_epi32(0x0204_0810));
            _mm512_and_si512(copies, _mm512_set1_epi8(16))
        }
    }

    #[inline(always)]
    unsafe fn or(words: __m512i, other: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_or_si512(words, other) }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint, about any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(words: __m512i, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), words) }
    }

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn splat(from: *const i32) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_set1_epi32(from.read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn dot<const BYTES: bool>(sums: __m512i, words: __m512i, x: *const i8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_dpbusd_epi32(sums, words, _mm512_set1_epi32(x.cast::<i32>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn floats(sums: __m512i) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(sums) }
    }
}

// SAFETY: as above.
unsafe impl Unit for Avx2 {
    type Floats = __m256;
    type Words = __m256i;
    type Sums = __m256i;
    const ZERO: i32 = 0;
    // By two vectors: 4 sums in integers and 4 in floats, 2 vectors of weights, and what a product takes, of 16 registers.
    const ROWS: usize = 2;

    #[inline(always)]
    unsafe fn transpose(from: *const u8, stride: usize) -> [__m256i; 4] {
        // SAFETY: the caller's promise covers sixteen bytes of each of eight columns.
        unsafe {
            let (a, b) = (gather_256(from, stride), gather_256(from.add(stride), stride));
            let (c, d) = (gather_256(from.add(2 * stride), stride), gather_256(from.add(3 * stride), stride));
            let (low_ab, high_ab) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (low_cd, high_cd) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(low_ab, low_cd),
                _mm256_unpackhi_epi64(low_ab, low_cd),
                _mm256_unpacklo_epi64(high_ab, high_cd),
                _mm256_unpackhi_epi64(high_ab, high_cd),
            ]
        }
    }

    #[inline(always)]
    unsafe fn low(words: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_and_si256(words, _mm256_set1_epi8(15)) }
    }

    #[inline(always)]
    unsafe fn high(words: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_and_si256(_mm256_srli_epi16::<4>(words), _mm256_set1_epi8(15)) }
    }

    #[inline(always)]
    unsafe fn bytes(words: __m256i) -> __m256i {
        words
    }

    #[inline(always)]
    unsafe fn bits(words: __m256i, shift: u32, mask: u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_srlv_epi32(words, _mm256_set1_epi32(shift as i32));
            _mm256_slli_epi32::<4>(_mm256_and_si256(bits, _mm256_set1_epi8(mask as i8)))
        }
    }

    #[inline(always)]
    unsafe fn spread(words: __m256i, shift: u32) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_srlv_epi32(words, _mm256_set1_epi32(shift as i32));
            let bits = _mm256_and_si256(bits, _mm256_set1_epi32(15));
            // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
            let copies = _mm256_mullo_epi32(bits, _mm256_set1_epi32(0x0204_0810));
            _mm256_and_si256(copies, _mm256_set1_epi8(16))
        }
    }

    #[inline(always)]
    unsafe fn or(words: __m256i, other: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_or_si256(words, other) }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint, about any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(words: __m256i, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), words) }
    }

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn splat(from: *const i32) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_set1_epi32(from.read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn dot<const BYTES: bool>(sums: __m256i, words: __m256i, x: *const i8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let x = _mm256_set1_epi32(x.cast::<i32>().read_unaligned());
            // Pairs of products must fit 16 bits: codes below 128 do; signed bytes go in as sizes of at most 128, their
            // signs on activations of at most 127.
            let pairs = if BYTES {
                _mm256_maddubs_epi16(_mm256_abs_epi8(words), _mm256_sign_epi8(x, words))
            } else {
                _mm256_maddubs_epi16(words, x)
            };
            _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }

    #[inline(always)]
    unsafe fn floats(sums: __m256i) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtepi32_ps(sums) }
    }
}
