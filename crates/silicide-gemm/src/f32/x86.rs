//! [`Vector`] with the intrinsics of x86-64: AVX2 and AVX-512.

use super::vector::Vector;
use std::arch::x86_64::*;

/// Implements [`Vector`] for a register type; the transposition works within 128-bit lanes, which both widths have.
macro_rules! vector {
    ($register:ty, $lanes:literal, $registers:literal, $gather:ident, {
        zero: $zero:ident, splat: $splat:ident, load: $load:ident, store: $store:ident, fma: $fma:ident,
        half: $half:ident, f16: $f16:ident, widen: $widen:ident, shift: $shift:ident, cast: $cast:ident,
        low: $low:ident, high: $high:ident, to_f64: $to_f64:ident, to_f32: $to_f32:ident,
        low_f64: $low_f64:ident, high_f64: $high_f64:ident, add: $add:ident, fold: $fold:ident,
        pairs: $pairs:ident, split_f16: $split_f16:ident, split_bf16: $split_bf16:ident,
    }) => {
        // SAFETY: methods need what their intrinsics need: the instruction set, and memory at their pointers.
        unsafe impl Vector for $register {
            const LANES: usize = $lanes;
            const REGISTERS: usize = $registers;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller vouches for the instruction set.
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn splat(from: *const f32) -> Self {
                // SAFETY: the caller vouches for the instruction set and the word.
                unsafe { $splat(from.read_unaligned()) }
            }

            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: the caller vouches for the instruction set and `LANES` words.
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn load_f16(from: *const u16) -> Self {
                // SAFETY: the caller vouches for the instruction set and `LANES` numbers.
                unsafe { $f16($half(from.cast())) }
            }

            #[inline(always)]
            unsafe fn load_bf16(from: *const u16) -> Self {
                // SAFETY: the caller vouches for the instruction set and `LANES` numbers.
                unsafe { $cast($shift::<16>($widen($half(from.cast())))) }
            }

            #[inline(always)]
            unsafe fn transpose_8(from: *const f32, stride: usize) -> [Self; 8] {
                // SAFETY: the caller vouches for the instruction set, and for eight words in each row.
                unsafe {
                    // Register i: rows i, i + 4, i + 8... side by side; then a 4 x 4 transposition in each 128-bit lane.
                    let [[a, b, c, d], [e, f, g, h]] = [0, 4].map(|at| {
                        let rows = [0, 1, 2, 3].map(|i| $gather(from.add(i * stride + at), 4 * stride));
                        let (low_01, high_01) = ($low(rows[0], rows[1]), $high(rows[0], rows[1]));
                        let (low_23, high_23) = ($low(rows[2], rows[3]), $high(rows[2], rows[3]));
                        [
                            $to_f32($low_f64($to_f64(low_01), $to_f64(low_23))),
                            $to_f32($high_f64($to_f64(low_01), $to_f64(low_23))),
                            $to_f32($low_f64($to_f64(high_01), $to_f64(high_23))),
                            $to_f32($high_f64($to_f64(high_01), $to_f64(high_23))),
                        ]
                    });
                    [a, b, c, d, e, f, g, h]
                }
            }

            #[inline(always)]
            unsafe fn transpose_8_f16(from: *const u16, stride: usize) -> [Self; 8] {
                // SAFETY: the caller vouches for the instruction set, and for eight halves in each row.
                unsafe {
                    let [a, b, c, d] = $pairs(from, stride);
                    let ([a, b], [c, d], [e, f], [g, h]) =
                        ($split_f16(a), $split_f16(b), $split_f16(c), $split_f16(d));
                    [a, b, c, d, e, f, g, h]
                }
            }

            #[inline(always)]
            unsafe fn transpose_8_bf16(from: *const u16, stride: usize) -> [Self; 8] {
                // SAFETY: the caller vouches for the instruction set, and for eight halves in each row.
                unsafe {
                    let [a, b, c, d] = $pairs(from, stride);
                    let ([a, b], [c, d], [e, f], [g, h]) =
                        ($split_bf16(a), $split_bf16(b), $split_bf16(c), $split_bf16(d));
                    [a, b, c, d, e, f, g, h]
                }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: the caller vouches for the instruction set and `LANES` words.
                unsafe { $store(to, self) }
            }

            #[inline(always)]
            unsafe fn multiply_add(self, other: Self, sum: Self) -> Self {
                // SAFETY: the caller vouches for the instruction set.
                unsafe { $fma(self, other, sum) }
            }

            #[inline(always)]
            unsafe fn sums([a, b, c, d]: [Self; 4]) -> [f32; 4] {
                // SAFETY: the caller vouches for the instruction set.
                unsafe {
                    // Each 128-bit lane: halves of a and b, and of c and d; then one word of each.
                    let ab = $to_f64($add($low(a, b), $high(a, b)));
                    let cd = $to_f64($add($low(c, d), $high(c, d)));
                    $fold($add($to_f32($low_f64(ab, cd)), $to_f32($high_f64(ab, cd))))
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
    fold: fold_512, pairs: pairs_512, split_f16: split_f16_512, split_bf16: split_bf16_512,
});

vector!(__m256, 8, 16, gather_256, {
    zero: _mm256_setzero_ps, splat: _mm256_set1_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps,
    fma: _mm256_fmadd_ps,
    half: _mm_loadu_si128, f16: _mm256_cvtph_ps, widen: _mm256_cvtepu16_epi32, shift: _mm256_slli_epi32,
    cast: _mm256_castsi256_ps,
    low: _mm256_unpacklo_ps, high: _mm256_unpackhi_ps, to_f64: _mm256_castps_pd, to_f32: _mm256_castpd_ps,
    low_f64: _mm256_unpacklo_pd, high_f64: _mm256_unpackhi_pd, add: _mm256_add_ps,
    fold: fold_256, pairs: pairs_256, split_f16: split_f16_256, split_bf16: split_bf16_256,
});

/// Sixteen halves. Of the forms of this instruction only the one that may raise flags reads from memory, which is one step less.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn widen_512(halves: __m256i) -> __m512 {
    // SAFETY: the caller vouches for AVX-512.
    unsafe { _mm512_cvt_roundph_ps::<_MM_FROUND_CUR_DIRECTION>(halves) }
}

/// Four words from each of four places, one per 128-bit lane.
///
/// # Safety
/// The CPU has AVX-512; four words can be read at each place.
#[inline(always)]
unsafe fn gather_512(from: *const f32, stride: usize) -> __m512 {
    // SAFETY: the caller vouches for AVX-512 and four words at four places.
    unsafe {
        let lanes = _mm512_castps128_ps512(_mm_loadu_ps(from));
        let lanes = _mm512_insertf32x4::<1>(lanes, _mm_loadu_ps(from.add(stride)));
        let lanes = _mm512_insertf32x4::<2>(lanes, _mm_loadu_ps(from.add(2 * stride)));
        _mm512_insertf32x4::<3>(lanes, _mm_loadu_ps(from.add(3 * stride)))
    }
}

/// Four words from each of two places, one per 128-bit lane.
///
/// # Safety
/// The CPU has AVX; four words can be read at each place.
#[inline(always)]
unsafe fn gather_256(from: *const f32, stride: usize) -> __m256 {
    // SAFETY: the caller vouches for AVX and four words at two places.
    unsafe {
        _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from.add(stride)))
    }
}

/// Four vectors of pairs of halves: pair `i` of each of sixteen rows that are `stride` halves apart.
///
/// # Safety
/// The CPU has AVX-512; eight halves of each row can be read.
#[inline(always)]
unsafe fn pairs_512(from: *const u16, stride: usize) -> [__m512i; 4] {
    // SAFETY: the caller vouches for AVX-512 and eight halves of sixteen rows; a pair is transposed like an f32.
    unsafe {
        // Register i: rows i, i + 4, i + 8 and i + 12 side by side; then a 4 x 4 transposition in each 128-bit lane.
        let rows = [0, 1, 2, 3].map(|i| {
            let from = from.add(i * stride);
            let lanes = _mm512_castsi128_si512(_mm_loadu_si128(from.cast()));
            let lanes = _mm512_inserti32x4::<1>(lanes, _mm_loadu_si128(from.add(4 * stride).cast()));
            let lanes = _mm512_inserti32x4::<2>(lanes, _mm_loadu_si128(from.add(8 * stride).cast()));
            _mm512_inserti32x4::<3>(lanes, _mm_loadu_si128(from.add(12 * stride).cast()))
        });
        let (low_01, high_01) =
            (_mm512_unpacklo_epi32(rows[0], rows[1]), _mm512_unpackhi_epi32(rows[0], rows[1]));
        let (low_23, high_23) =
            (_mm512_unpacklo_epi32(rows[2], rows[3]), _mm512_unpackhi_epi32(rows[2], rows[3]));
        [
            _mm512_unpacklo_epi64(low_01, low_23),
            _mm512_unpackhi_epi64(low_01, low_23),
            _mm512_unpacklo_epi64(high_01, high_23),
            _mm512_unpackhi_epi64(high_01, high_23),
        ]
    }
}

/// The same for eight rows.
///
/// # Safety
/// The CPU has AVX2; eight halves of each row can be read.
#[inline(always)]
unsafe fn pairs_256(from: *const u16, stride: usize) -> [__m256i; 4] {
    // SAFETY: the caller vouches for AVX2 and eight halves of eight rows.
    unsafe {
        let rows = [0, 1, 2, 3].map(|i| {
            let from = from.add(i * stride);
            let lanes = _mm256_castsi128_si256(_mm_loadu_si128(from.cast()));
            _mm256_inserti128_si256::<1>(lanes, _mm_loadu_si128(from.add(4 * stride).cast()))
        });
        let (low_01, high_01) =
            (_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[0], rows[1]));
        let (low_23, high_23) =
            (_mm256_unpacklo_epi32(rows[2], rows[3]), _mm256_unpackhi_epi32(rows[2], rows[3]));
        [
            _mm256_unpacklo_epi64(low_01, low_23),
            _mm256_unpackhi_epi64(low_01, low_23),
            _mm256_unpacklo_epi64(high_01, high_23),
            _mm256_unpackhi_epi64(high_01, high_23),
        ]
    }
}

/// The first and the second f16 of each pair, widened.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn split_f16_512(pairs: __m512i) -> [__m512; 2] {
    // SAFETY: the caller vouches for AVX-512; no memory is touched.
    unsafe {
        // In each 128-bit lane first the four first halves, then the four second ones; then lanes side by side.
        let order =
            _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
        let halves = _mm512_permutexvar_epi64(
            _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
            _mm512_shuffle_epi8(pairs, order),
        );
        [
            _mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
            _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(halves)),
        ]
    }
}

/// The same for eight pairs.
///
/// # Safety
/// The CPU has AVX2 and F16C.
#[inline(always)]
unsafe fn split_f16_256(pairs: __m256i) -> [__m256; 2] {
    // SAFETY: the caller vouches for AVX2 and F16C; no memory is touched.
    unsafe {
        let order =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
        let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(pairs, order));
        [
            _mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
            _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves)),
        ]
    }
}

/// The first and the second bf16 of each pair, widened.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn split_bf16_512(pairs: __m512i) -> [__m512; 2] {
    // SAFETY: the caller vouches for AVX-512; no memory is touched.
    unsafe {
        let second = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32 as i32));
        [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)), _mm512_castsi512_ps(second)]
    }
}

/// The same for eight pairs.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn split_bf16_256(pairs: __m256i) -> [__m256; 2] {
    // SAFETY: the caller vouches for AVX2; no memory is touched.
    unsafe {
        let second = _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff_0000_u32 as i32));
        [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs)), _mm256_castsi256_ps(second)]
    }
}

/// The sum of four 128-bit lanes.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn fold_512(lanes: __m512) -> [f32; 4] {
    // SAFETY: the caller vouches for AVX-512.
    unsafe { fold_256(_mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps::<1>(lanes))) }
}

/// The sum of two 128-bit lanes.
///
/// # Safety
/// The CPU has AVX.
#[inline(always)]
unsafe fn fold_256(lanes: __m256) -> [f32; 4] {
    // SAFETY: the caller vouches for AVX; four words either way.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
        std::mem::transmute::<__m128, [f32; 4]>(four)
    }
}
