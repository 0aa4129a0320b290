//! `turbo` for AVX2 and AVX-512.

use super::turbo::{TurboLayout, blocks};
use std::arch::x86_64::*;

/// Registers of levels: 64 levels of AVX-512, 32 magnitudes of AVX2.
const REGISTERS: usize = 4;

/// Runs the code of a layout, which has the bits of its planes as constants.
macro_rules! by_planes {
    ($layout:ident, $function:ident($($argument:ident),*)) => {
        match ($layout.low_bits, $layout.high_bits) {
            (2, 0) => $function::<2, 0>($($argument),*),
            (2, 1) => $function::<2, 1>($($argument),*),
            (4, 0) => $function::<4, 0>($($argument),*),
            (4, 1) => $function::<4, 1>($($argument),*),
            (4, 2) => $function::<4, 2>($($argument),*),
            _ => $function::<8, 0>($($argument),*),
        }
    };
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn decode_avx512(layout: &TurboLayout, bytes: &[u8], out: &mut [f32]) {
    by_planes!(layout, wide(layout, bytes, out));
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn decode_avx2(layout: &TurboLayout, bytes: &[u8], out: &mut [f32]) {
    by_planes!(layout, narrow(layout, bytes, out));
}

/// `N` bytes of a plane from byte `at` on, zeros past its end.
#[inline(always)]
fn part<const N: usize>(plane: &[u8], at: usize) -> [u8; N] {
    plane.get(at..).and_then(|plane| plane.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// Sixteen coordinates at a time.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn wide<const LOW: usize, const HIGH: usize>(layout: &TurboLayout, bytes: &[u8], out: &mut [f32]) {
    let (first, rest) = (WideLevels::new(layout.first), WideLevels::new(layout.rest));
    for (scale, low, high, out) in blocks(layout, bytes, out) {
        let scale = _mm512_set1_ps(scale);
        let (with_high, without) = out.as_chunks_mut::<16>().0.split_at_mut(layout.with_high / 16);
        let seen = with_high.len();
        for (i, out) in with_high.iter_mut().enumerate() {
            let (low, high) = (wide_plane::<LOW>(low, i), wide_plane::<HIGH>(high, i));
            let codes = match LOW {
                2 => _mm512_or_si512(low, _mm512_slli_epi32::<2>(high)),
                _ => _mm512_or_si512(low, _mm512_slli_epi32::<4>(high)),
            };
            wide_store(out, _mm512_mul_ps(scale, first.get(codes)));
        }
        for (i, out) in (seen..).zip(without) {
            wide_store(out, _mm512_mul_ps(scale, rest.get(wide_plane::<LOW>(low, i))));
        }
    }
}

/// The `BITS` bits of coordinates 16 i to 16 i + 16.
#[inline]
#[target_feature(enable = "avx512f")]
fn wide_plane<const BITS: usize>(plane: &[u8], i: usize) -> __m512i {
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    match BITS {
        1 => {
            let all = _mm512_set1_epi32(i32::from(i16::from_le_bytes(part(plane, 2 * i))));
            _mm512_and_si512(_mm512_srlv_epi32(all, lanes), _mm512_set1_epi32(1))
        }
        2 => {
            let all = _mm512_set1_epi32(i32::from_le_bytes(part(plane, 4 * i)));
            let shifts = _mm512_slli_epi32::<1>(lanes);
            _mm512_and_si512(_mm512_srlv_epi32(all, shifts), _mm512_set1_epi32(3))
        }
        4 => {
            let all = _mm512_set1_epi64(i64::from_le_bytes(part(plane, 8 * i)));
            // Eight lanes of the low word, then eight of the high word.
            let halves = _mm512_permutexvar_epi32(_mm512_srli_epi32::<3>(lanes), all);
            let shifts = _mm512_slli_epi32::<2>(_mm512_and_si512(lanes, _mm512_set1_epi32(7)));
            _mm512_and_si512(_mm512_srlv_epi32(halves, shifts), _mm512_set1_epi32(15))
        }
        8 => _mm512_cvtepu8_epi32(sixteen_bytes(part(plane, 16 * i))),
        _ => _mm512_setzero_si512(),
    }
}

/// Sixteen bytes as a vector.
#[inline]
#[target_feature(enable = "sse2")]
fn sixteen_bytes(bytes: [u8; 16]) -> __m128i {
    let all = u128::from_le_bytes(bytes);
    _mm_set_epi64x((all >> 64) as i64, all as i64)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn wide_store(out: &mut [f32; 16], values: __m512) {
    // SAFETY: `out` has sixteen elements.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), values) }
}

/// Levels in registers, sixteen to each.
#[derive(Clone, Copy)]
struct WideLevels {
    registers: [__m512; REGISTERS],
    levels: &'static [f32],
}

impl WideLevels {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(levels: &'static [f32]) -> WideLevels {
        let mut registers = [_mm512_setzero_ps(); REGISTERS];
        for (register, levels) in registers.iter_mut().zip(levels.chunks(16)) {
            let mut padded = [0.0; 16];
            padded[..levels.len()].copy_from_slice(levels);
            // SAFETY: `padded` has sixteen elements.
            *register = unsafe { _mm512_loadu_ps(padded.as_ptr()) };
        }
        WideLevels { registers, levels }
    }

    /// The levels of codes, which are below their number.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn get(&self, codes: __m512i) -> __m512 {
        if self.levels.len() >= 256 {
            // SAFETY: codes have at most eight bits: `wide_plane` masks them, and high bits are above those of a low plane of four.
            return unsafe { _mm512_i32gather_ps::<4>(codes, self.levels.as_ptr()) };
        }
        let [a, b, c, d] = self.registers;
        if self.levels.len() <= 16 {
            return _mm512_permutexvar_ps(codes, a);
        }
        let low = _mm512_permutex2var_ps(a, codes, b);
        if self.levels.len() <= 32 {
            return low;
        }
        let is_high = _mm512_test_epi32_mask(codes, _mm512_set1_epi32(32));
        _mm512_mask_blend_ps(is_high, low, _mm512_permutex2var_ps(c, codes, d))
    }
}

/// Eight coordinates at a time.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn narrow<const LOW: usize, const HIGH: usize>(layout: &TurboLayout, bytes: &[u8], out: &mut [f32]) {
    let (first, rest) = (NarrowLevels::new(layout.first), NarrowLevels::new(layout.rest));
    for (scale, low, high, out) in blocks(layout, bytes, out) {
        let scale = _mm256_set1_ps(scale);
        let (with_high, without) = out.as_chunks_mut::<8>().0.split_at_mut(layout.with_high / 8);
        let seen = with_high.len();
        for (i, out) in with_high.iter_mut().enumerate() {
            let (low, high) = (narrow_plane::<LOW>(low, i), narrow_plane::<HIGH>(high, i));
            let codes = match LOW {
                2 => _mm256_or_si256(low, _mm256_slli_epi32::<2>(high)),
                _ => _mm256_or_si256(low, _mm256_slli_epi32::<4>(high)),
            };
            narrow_store(out, _mm256_mul_ps(scale, first.get(codes)));
        }
        for (i, out) in (seen..).zip(without) {
            narrow_store(out, _mm256_mul_ps(scale, rest.get(narrow_plane::<LOW>(low, i))));
        }
    }
}

/// The `BITS` bits of coordinates 8 i to 8 i + 8.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow_plane<const BITS: usize>(plane: &[u8], i: usize) -> __m256i {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    match BITS {
        1 => {
            let all = _mm256_set1_epi32(i32::from(u8::from_le_bytes(part(plane, i))));
            _mm256_and_si256(_mm256_srlv_epi32(all, lanes), _mm256_set1_epi32(1))
        }
        2 => {
            let all = _mm256_set1_epi32(i32::from(u16::from_le_bytes(part(plane, 2 * i))));
            _mm256_and_si256(_mm256_srlv_epi32(all, _mm256_slli_epi32::<1>(lanes)), _mm256_set1_epi32(3))
        }
        4 => {
            let all = _mm256_set1_epi32(i32::from_le_bytes(part(plane, 4 * i)));
            _mm256_and_si256(_mm256_srlv_epi32(all, _mm256_slli_epi32::<2>(lanes)), _mm256_set1_epi32(15))
        }
        8 => _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(part(plane, 8 * i)))),
        _ => _mm256_setzero_si256(),
    }
}

#[inline]
#[target_feature(enable = "avx")]
fn narrow_store(out: &mut [f32; 8], values: __m256) {
    // SAFETY: `out` has eight elements.
    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), values) }
}

/// The positive half of levels in registers, eight to each.
#[derive(Clone, Copy)]
struct NarrowLevels {
    registers: [__m256; REGISTERS],
    levels: &'static [f32],
}

impl NarrowLevels {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(levels: &'static [f32]) -> NarrowLevels {
        let mut registers = [_mm256_setzero_ps(); REGISTERS];
        let positive = levels.get(levels.len() / 2..).unwrap_or_default();
        for (register, levels) in registers.iter_mut().zip(positive.chunks(8)) {
            let mut padded = [0.0; 8];
            padded[..levels.len()].copy_from_slice(levels);
            // SAFETY: `padded` has eight elements.
            *register = unsafe { _mm256_loadu_ps(padded.as_ptr()) };
        }
        NarrowLevels { registers, levels }
    }

    /// The levels of codes, which are below their number.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn get(&self, codes: __m256i) -> __m256 {
        if self.levels.len() >= 256 {
            // SAFETY: codes have at most eight bits: `narrow_plane` masks them, and high bits are above those of a low plane of four.
            return unsafe { _mm256_i32gather_ps::<4>(self.levels.as_ptr(), codes) };
        }
        let half = self.levels.len() as i32 / 2;
        let is_negative = _mm256_cmpgt_epi32(_mm256_set1_epi32(half), codes);
        let index = _mm256_and_si256(_mm256_xor_si256(codes, is_negative), _mm256_set1_epi32(half - 1));
        let [a, b, c, d] = self.registers;
        let eight = |of: __m256| _mm256_permutevar8x32_ps(of, index);
        // Bits 3 and 4 of the index, as the signs that blends read.
        let by_8 = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index));
        let by_16 = _mm256_castsi256_ps(_mm256_slli_epi32::<27>(index));
        let magnitudes = match half {
            ..=8 => eight(a),
            16 => _mm256_blendv_ps(eight(a), eight(b), by_8),
            _ => _mm256_blendv_ps(
                _mm256_blendv_ps(eight(a), eight(b), by_8),
                _mm256_blendv_ps(eight(c), eight(d), by_8),
                by_16,
            ),
        };
        let sign = _mm256_and_si256(is_negative, _mm256_set1_epi32(i32::MIN));
        _mm256_xor_ps(magnitudes, _mm256_castsi256_ps(sign))
    }
}
