//! [`Vector`] and [`Unit`] with the intrinsics of x86-64: AVX2 and AVX-512.

use super::few::{self, Rows};
use super::pack::Weight;
use super::tile::{self, Block};
use super::vector::{Unit, Vector};
use super::weighted::{self, Weighted};
use crate::isa::{Avx2, Avx512};
use std::arch::x86_64::*;

/// Implements [`Vector`] for a register type; the transposition works within 128-bit lanes, which both widths have.
macro_rules! vector {
    ($register:ty, $lanes:literal, $registers:literal, $gather:ident, {
        zero: $zero:ident, splat: $splat:ident, load: $load:ident, store: $store:ident, fma: $fma:ident,
        half: $half:ident, f16: $f16:ident, widen: $widen:ident, shift: $shift:ident, cast: $cast:ident,
        low: $low:ident, high: $high:ident, to_f64: $to_f64:ident, to_f32: $to_f32:ident,
        low_f64: $low_f64:ident, high_f64: $high_f64:ident, add: $add:ident, fold: $fold:ident,
    }) => {
        // SAFETY: the methods' promise is the intrinsics' (the instruction set) and the pointers' own.
        unsafe impl Vector for $register {
            const LANES: usize = $lanes;
            const REGISTERS: usize = $registers;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller's promise.
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn splat(from: *const f32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $splat(from.read_unaligned()) }
            }

            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn load_f16(from: *const u16) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $f16($half(from.cast())) }
            }

            #[inline(always)]
            unsafe fn load_bf16(from: *const u16) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $cast($shift::<16>($widen($half(from.cast())))) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { $store(to, self) }
            }

            #[inline(always)]
            unsafe fn multiply_add(self, other: Self, sum: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $fma(self, other, sum) }
            }

            #[inline(always)]
            unsafe fn sums([a, b, c, d]: [Self; 4]) -> [f32; 4] {
                // SAFETY: the caller's promise.
                unsafe {
                    // Each 128-bit lane: halves of a and b, and of c and d; then one word of each.
                    let ab = $to_f64($add($low(a, b), $high(a, b)));
                    let cd = $to_f64($add($low(c, d), $high(c, d)));
                    $fold($add($to_f32($low_f64(ab, cd)), $to_f32($high_f64(ab, cd))))
                }
            }

            #[inline(always)]
            unsafe fn transpose(from: *const f32, stride: usize) -> [Self; 4] {
                // SAFETY: the caller's promise covers four words in each row.
                unsafe {
                    // Register i: rows i, i + 4, i + 8... side by side; then a 4 x 4 transposition in each lane.
                    let rows = [0, 1, 2, 3].map(|i| $gather(from.add(i * stride), 4 * stride));
                    let (low_01, high_01) = ($low(rows[0], rows[1]), $high(rows[0], rows[1]));
                    let (low_23, high_23) = ($low(rows[2], rows[3]), $high(rows[2], rows[3]));
                    [
                        $to_f32($low_f64($to_f64(low_01), $to_f64(low_23))),
                        $to_f32($high_f64($to_f64(low_01), $to_f64(low_23))),
                        $to_f32($low_f64($to_f64(high_01), $to_f64(high_23))),
                        $to_f32($high_f64($to_f64(high_01), $to_f64(high_23))),
                    ]
                }
            }
        }
    };
}

vector!(__m512, 16, 32, gather_512, {
    zero: _mm512_setzero_ps, splat: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps,
    fma: _mm512_fmadd_ps,
    half: _mm256_loadu_si256, f16: widen_512, widen: _mm512_cvtepu16_epi32, shift: _mm512_slli_epi32,
    cast: _mm512_castsi512_ps,
    low: _mm512_unpacklo_ps, high: _mm512_unpackhi_ps, to_f64: _mm512_castps_pd, to_f32: _mm512_castpd_ps,
    low_f64: _mm512_unpacklo_pd, high_f64: _mm512_unpackhi_pd, add: _mm512_add_ps,
    fold: fold_512,
});

vector!(__m256, 8, 16, gather_256, {
    zero: _mm256_setzero_ps, splat: _mm256_set1_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps,
    fma: _mm256_fmadd_ps,
    half: _mm_loadu_si128, f16: _mm256_cvtph_ps, widen: _mm256_cvtepu16_epi32, shift: _mm256_slli_epi32,
    cast: _mm256_castsi256_ps,
    low: _mm256_unpacklo_ps, high: _mm256_unpackhi_ps, to_f64: _mm256_castps_pd, to_f32: _mm256_castpd_ps,
    low_f64: _mm256_unpacklo_pd, high_f64: _mm256_unpackhi_pd, add: _mm256_add_ps,
    fold: fold_256,
});

/// Sixteen halves. Of the forms of this instruction only the one that may raise flags reads from memory, which is one step less.
#[inline(always)]
unsafe fn widen_512(halves: __m256i) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_cvt_roundph_ps::<_MM_FROUND_CUR_DIRECTION>(halves) }
}

/// Four words from each of four places, one per 128-bit lane.
#[inline(always)]
unsafe fn gather_512(from: *const f32, stride: usize) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let lanes = _mm512_castps128_ps512(_mm_loadu_ps(from));
        let lanes = _mm512_insertf32x4::<1>(lanes, _mm_loadu_ps(from.add(stride)));
        let lanes = _mm512_insertf32x4::<2>(lanes, _mm_loadu_ps(from.add(2 * stride)));
        _mm512_insertf32x4::<3>(lanes, _mm_loadu_ps(from.add(3 * stride)))
    }
}

/// Four words from each of two places, one per 128-bit lane.
#[inline(always)]
unsafe fn gather_256(from: *const f32, stride: usize) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from.add(stride)))
    }
}

/// The sum of four 128-bit lanes.
#[inline(always)]
unsafe fn fold_512(lanes: __m512) -> [f32; 4] {
    // SAFETY: the caller's promise.
    unsafe { fold_256(_mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps::<1>(lanes))) }
}

/// The sum of two 128-bit lanes.
#[inline(always)]
unsafe fn fold_256(lanes: __m256) -> [f32; 4] {
    // SAFETY: the caller's promise; four words either way.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
        std::mem::transmute::<__m128, [f32; 4]>(four)
    }
}

// SAFETY: as for the vector.
unsafe impl Unit for Avx512 {
    type Vector = __m512;
    // 24 accumulators, 3 vectors of weights, 1 activation: 28 of 32 registers.
    const ROWS: usize = 8;
    const VECTORS: usize = 3;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c")]
    unsafe fn multiply(block: &Block) {
        // SAFETY: the caller's promise.
        unsafe { tile::multiply::<Avx512>(block) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c")]
    unsafe fn few<W: Weight, const ROWS: usize>(part: &Rows<W::Stored>) {
        // SAFETY: the caller's promise.
        unsafe { few::columns::<__m512, W, ROWS>(part) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c")]
    unsafe fn weighted<W: Weight, const SUMS: usize>(part: &Weighted<W::Stored>) {
        // SAFETY: the caller's promise.
        unsafe { weighted::columns::<__m512, W, SUMS>(part) }
    }
}

// SAFETY: as for the vector.
unsafe impl Unit for Avx2 {
    type Vector = __m256;
    // 12 accumulators, 2 vectors of weights, 1 activation: 15 of 16 registers.
    const ROWS: usize = 6;
    const VECTORS: usize = 2;

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn multiply(block: &Block) {
        // SAFETY: the caller's promise.
        unsafe { tile::multiply::<Avx2>(block) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn few<W: Weight, const ROWS: usize>(part: &Rows<W::Stored>) {
        // SAFETY: the caller's promise.
        unsafe { few::columns::<__m256, W, ROWS>(part) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn weighted<W: Weight, const SUMS: usize>(part: &Weighted<W::Stored>) {
        // SAFETY: the caller's promise.
        unsafe { weighted::columns::<__m256, W, SUMS>(part) }
    }
}
