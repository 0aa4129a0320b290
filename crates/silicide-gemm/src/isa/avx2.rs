//! AVX2 with FMA and F16C: eight lanes.

use super::half::{narrow, widen};
use super::{CodeLanes, FloatLanes, IntLanes, Simd, Task, float_lanes, run_with};
use crate::f32::vector::Vector;
use silicide_quant::f16;
use std::arch::x86_64::*;

/// AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Simd for Avx2 {
    const FUSED: bool = true;
    const NAME: &'static str = "avx2";

    fn detect() -> Option<Avx2> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Avx2(()))
    }

    #[inline(always)]
    unsafe fn assume() -> Avx2 {
        Avx2(())
    }

    run_with!("avx2,fma,f16c");

    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        let count = from.len().min(to.len());
        let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
        let (mut inputs, mut outputs) = (from.chunks_exact(8), to.chunks_exact_mut(8));
        for (to, from) in (&mut outputs).zip(&mut inputs) {
            // SAFETY: the token proves F16C; both chunks hold 8 elements.
            unsafe {
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())))
            }
        }
        for (to, from) in outputs.into_remainder().iter_mut().zip(inputs.remainder()) {
            *to = widen(from.to_bits());
        }
    }

    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        let count = from.len().min(to.len());
        let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
        let (mut inputs, mut outputs) = (from.chunks_exact(8), to.chunks_exact_mut(8));
        for (to, from) in (&mut outputs).zip(&mut inputs) {
            // SAFETY: the token proves F16C; both chunks hold 8 elements.
            unsafe {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
                _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
            }
        }
        for (to, from) in outputs.into_remainder().iter_mut().zip(inputs.remainder()) {
            *to = f16::from_bits(narrow(*from));
        }
    }

    #[inline(always)]
    unsafe fn stream_line(self, from: *const u8, to: *mut u8) {
        let (from, to) = (from.cast::<__m256i>(), to.cast::<__m256i>());
        // SAFETY: the token proves AVX2; 64 bytes can be read and written, and `to` is aligned to them, by this function's contract.
        unsafe {
            _mm256_stream_si256(to, _mm256_loadu_si256(from));
            _mm256_stream_si256(to.add(1), _mm256_loadu_si256(from.add(1)));
        }
    }
}

impl Avx2 {
    /// Loads 16 bytes from each of two rows, every fourth, one per 128-bit lane.
    ///
    /// # Safety
    /// 16 bytes can be read at each of the rows.
    #[inline(always)]
    unsafe fn gather(self, from: *const u8, stride: usize) -> __m256i {
        // SAFETY: the token proves AVX2; 16 bytes can be read at each of the rows, by this function's contract.
        unsafe {
            let lanes = _mm256_castsi128_si256(_mm_loadu_si128(from.cast()));
            _mm256_inserti128_si256::<1>(lanes, _mm_loadu_si128(from.add(4 * stride).cast()))
        }
    }
}

float_lanes!(Avx2, __m256);

impl CodeLanes for Avx2 {
    type Words = __m256i;
    const ZERO: i32 = 0;

    #[inline(always)]
    fn run_task<T: Task>(self, task: T) -> T::Output {
        self.run(task)
    }

    #[inline(always)]
    unsafe fn load_transposed(self, from: *const u8, stride: usize) -> [__m256i; 4] {
        // SAFETY: the token proves AVX2; 16 bytes of each of eight rows can be read, by this function's contract.
        unsafe {
            let (a, b) = (self.gather(from, stride), self.gather(from.add(stride), stride));
            let (c, d) =
                (self.gather(from.add(2 * stride), stride), self.gather(from.add(3 * stride), stride));
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
    unsafe fn load_adjacent(self, from: *const u8) -> __m256i {
        // SAFETY: the token proves AVX2; 32 bytes can be read, by this function's contract.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    fn low_nibbles(self, words: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_and_si256(words, _mm256_set1_epi8(15)) }
    }

    #[inline(always)]
    fn high_nibbles(self, words: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_and_si256(_mm256_srli_epi16::<4>(words), _mm256_set1_epi8(15)) }
    }

    #[inline(always)]
    fn center(self, words: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_xor_si256(words, _mm256_set1_epi8(-128)) }
    }

    #[inline(always)]
    fn signed_codes(self, words: __m256i) -> __m256i {
        words
    }

    #[inline(always)]
    fn byte_bits(self, words: __m256i, shift: u32, mask: u8) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe {
            let bits = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm256_and_si256(bits, _mm256_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    fn word_bits(self, words: __m256i, shift: u32, mask: u8) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe {
            let bits = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm256_and_si256(bits, _mm256_set1_epi32(i32::from(mask)))
        }
    }

    #[inline(always)]
    fn lookup(self, words: __m256i, table: &[u8; 16]) -> __m256i {
        // SAFETY: the token proves AVX2; the table has sixteen bytes.
        unsafe {
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())), words)
        }
    }

    #[inline(always)]
    fn nibble_pairs(self, words: __m256i) -> [__m256i; 2] {
        // SAFETY: the token proves AVX2.
        unsafe {
            let low = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13,
            ));
            let high = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15,
            ));
            // Each byte twice: of the first the lower half is kept, of the second the upper one.
            let (low, high) = (_mm256_shuffle_epi8(words, low), _mm256_shuffle_epi8(words, high));
            let (mask, upper) = (_mm256_set1_epi16(0x000f), _mm256_set1_epi16(0x0f00));
            let one = _mm256_and_si256(_mm256_srli_epi16::<4>(low), upper);
            let two = _mm256_and_si256(_mm256_srli_epi16::<4>(high), upper);
            [
                _mm256_or_si256(_mm256_and_si256(low, mask), one),
                _mm256_or_si256(_mm256_and_si256(high, mask), two),
            ]
        }
    }

    #[inline(always)]
    fn spread_bits(self, words: __m256i, shift: u32) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe {
            let bits = _mm256_srlv_epi32(words, _mm256_set1_epi32(shift as i32));
            let bits = _mm256_and_si256(bits, _mm256_set1_epi32(15));
            // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
            let copies = _mm256_mullo_epi32(bits, _mm256_set1_epi32(0x0204_0810));
            _mm256_and_si256(copies, _mm256_set1_epi8(16))
        }
    }

    #[inline(always)]
    fn join<const SHIFT: u32>(self, words: __m256i, upper: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe {
            let upper =
                if SHIFT == 0 { upper } else { _mm256_sll_epi32(upper, _mm_cvtsi32_si128(SHIFT as i32)) };
            _mm256_or_si256(words, upper)
        }
    }

    #[inline(always)]
    fn to_floats(self, words: __m256i, zero: i32) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_cvtepi32_ps(_mm256_sub_epi32(words, _mm256_set1_epi32(zero))) }
    }

    #[inline(always)]
    fn signed_byte(self, words: __m256i, shift: u32) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe {
            let top = _mm256_sll_epi32(words, _mm_cvtsi32_si128(24 - shift as i32));
            _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(top))
        }
    }

    #[inline(always)]
    fn f16_in_word(self, words: __m256i, shift: u32) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe {
            let words = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            let words = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
            let halves =
                _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm256_cvtph_ps(halves)
        }
    }

    #[inline(always)]
    unsafe fn store_adjacent(self, words: __m256i, to: *mut u8) {
        // SAFETY: the token proves AVX2; 32 bytes can be written, by this function's contract.
        unsafe { _mm256_storeu_si256(to.cast(), words) }
    }
}

impl IntLanes for Avx2 {
    type Unpacker = Avx2;
    type Codes = __m256i;
    type Sums = __m256i;
    // By two vectors: 4 sums in integers and 4 in floats, 2 vectors of weights, and what a product takes, of 16 registers.
    const MR: usize = 2;
    const START: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn unpacker(self) -> Avx2 {
        self
    }

    #[inline(always)]
    unsafe fn load_codes(self, from: *const u8) -> __m256i {
        // SAFETY: the token proves AVX2; 32 bytes can be read, by this function's contract.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    fn broadcast_sum(self, sum: i32) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_set1_epi32(sum) }
    }

    #[inline(always)]
    fn dot<const BYTES: bool>(self, sums: __m256i, codes: __m256i, x: i32) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe {
            let x = _mm256_set1_epi32(x);
            // Pairs of products must fit 16 bits: codes below 128 do; signed bytes go in as sizes of at most 128, their
            // signs on activations of at most 127.
            let pairs = if BYTES {
                _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes))
            } else {
                _mm256_maddubs_epi16(codes, x)
            };
            _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }

    #[inline(always)]
    fn scale_offset(self, scales: __m256) -> __m256 {
        scales
    }

    #[inline(always)]
    fn scale(self, sums: __m256i, scales: __m256, _: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scales) }
    }
}
