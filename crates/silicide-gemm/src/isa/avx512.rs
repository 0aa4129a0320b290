//! AVX-512 with VNNI: sixteen lanes.

use super::{Avx2, CodeLanes, FloatLanes, IntLanes, Simd, Task, float_lanes, run_with};
use crate::f32::vector::Vector;
use silicide_quant::f16;
use std::arch::x86_64::*;

/// AVX-512 F, BW, DQ, CD, VL and VNNI, and what [`Avx2`] has.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Simd for Avx512 {
    const FUSED: bool = true;
    const NAME: &'static str = "avx512";

    fn detect() -> Option<Avx512> {
        let has = Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        has.then_some(Avx512(()))
    }

    #[inline(always)]
    unsafe fn assume() -> Avx512 {
        Avx512(())
    }

    run_with!("avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c");

    // Eight lanes at a time keep up with any memory.
    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        self.avx2().widen_f16(from, to);
    }

    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        self.avx2().narrow_f16(from, to);
    }

    #[inline(always)]
    unsafe fn stream_line(self, from: *const u8, to: *mut u8) {
        // SAFETY: the token proves AVX-512; 64 bytes can be read and written, and `to` is aligned to them, by this function's contract.
        unsafe { _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast())) }
    }
}

impl Avx512 {
    /// The token of the instruction set that this one includes.
    #[inline(always)]
    fn avx2(self) -> Avx2 {
        // SAFETY: `detect` requires AVX2 too.
        unsafe { Avx2::assume() }
    }
}

/// [`Avx512`] with VBMI and BITALG: bytes to any place of a vector, and counts of their bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Vbmi(Avx512);

impl Avx512Vbmi {
    /// Returns the token if this CPU has the instructions.
    pub(crate) fn detect(isa: Avx512) -> Option<Avx512Vbmi> {
        let has = is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512bitalg");
        has.then_some(Avx512Vbmi(isa))
    }

    /// The token of the instruction set that this one includes.
    #[inline(always)]
    pub(crate) fn avx512(self) -> Avx512 {
        self.0
    }

    /// As [`Simd::run`].
    #[inline(always)]
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,avx2,fma,f16c"
        )]
        fn run<T: Task>(task: T) -> T::Output {
            task.run()
        }
        // SAFETY: the token proves the features.
        unsafe { run(task) }
    }
}

impl Avx512 {
    /// Loads 16 bytes from each of four rows, every fourth, one per 128-bit lane.
    ///
    /// # Safety
    /// 16 bytes can be read at each of the rows.
    #[inline(always)]
    unsafe fn gather(self, from: *const u8, stride: usize) -> __m512i {
        // SAFETY: the token proves AVX-512; 16 bytes can be read at each of the rows, by this function's contract.
        unsafe {
            let lanes = _mm512_castsi128_si512(_mm_loadu_si128(from.cast()));
            let lanes = _mm512_inserti32x4::<1>(lanes, _mm_loadu_si128(from.add(4 * stride).cast()));
            let lanes = _mm512_inserti32x4::<2>(lanes, _mm_loadu_si128(from.add(8 * stride).cast()));
            _mm512_inserti32x4::<3>(lanes, _mm_loadu_si128(from.add(12 * stride).cast()))
        }
    }
}

float_lanes!(Avx512, __m512);

impl CodeLanes for Avx512 {
    type Words = __m512i;
    // The instruction takes unsigned codes.
    const ZERO: i32 = 128;

    #[inline(always)]
    fn run_task<T: Task>(self, task: T) -> T::Output {
        self.run(task)
    }

    #[inline(always)]
    unsafe fn load_transposed(self, from: *const u8, stride: usize) -> [__m512i; 4] {
        // SAFETY: the token proves AVX-512; 16 bytes of each of sixteen rows can be read, by this function's contract.
        unsafe {
            // Register i: rows i, i + 4, i + 8, i + 12 side by side; then a 4 x 4 transposition in each lane.
            let (a, b) = (self.gather(from, stride), self.gather(from.add(stride), stride));
            let (c, d) =
                (self.gather(from.add(2 * stride), stride), self.gather(from.add(3 * stride), stride));
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
    unsafe fn load_adjacent(self, from: *const u8) -> __m512i {
        // SAFETY: the token proves AVX-512; 64 bytes can be read, by this function's contract.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    fn low_nibbles(self, words: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_and_si512(words, _mm512_set1_epi8(15)) }
    }

    #[inline(always)]
    fn high_nibbles(self, words: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_and_si512(_mm512_srli_epi16::<4>(words), _mm512_set1_epi8(15)) }
    }

    #[inline(always)]
    fn center(self, words: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_xor_si512(words, _mm512_set1_epi8(-128)) }
    }

    #[inline(always)]
    fn signed_codes(self, words: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_xor_si512(words, _mm512_set1_epi8(-128)) }
    }

    #[inline(always)]
    fn byte_bits(self, words: __m512i, shift: u32, mask: u8) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let bits = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm512_and_si512(bits, _mm512_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    fn word_bits(self, words: __m512i, shift: u32, mask: u8) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let bits = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm512_and_si512(bits, _mm512_set1_epi32(i32::from(mask)))
        }
    }

    #[inline(always)]
    fn lookup(self, words: __m512i, table: &[u8; 16]) -> __m512i {
        // SAFETY: the token proves AVX-512; the table has sixteen bytes.
        unsafe { _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())), words) }
    }

    #[inline(always)]
    fn nibble_pairs(self, words: __m512i) -> [__m512i; 2] {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let low =
                _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13));
            let high =
                _mm512_broadcast_i32x4(_mm_setr_epi8(2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15));
            // Each byte twice: of the first the lower half is kept, of the second the upper one.
            let (low, high) = (_mm512_shuffle_epi8(words, low), _mm512_shuffle_epi8(words, high));
            let (mask, upper) = (_mm512_set1_epi16(0x000f), _mm512_set1_epi16(0x0f00));
            let one = _mm512_and_si512(_mm512_srli_epi16::<4>(low), upper);
            let two = _mm512_and_si512(_mm512_srli_epi16::<4>(high), upper);
            [
                _mm512_or_si512(_mm512_and_si512(low, mask), one),
                _mm512_or_si512(_mm512_and_si512(high, mask), two),
            ]
        }
    }

    #[inline(always)]
    fn spread_bits(self, words: __m512i, shift: u32) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let bits = _mm512_srlv_epi32(words, _mm512_set1_epi32(shift as i32));
            let bits = _mm512_and_si512(bits, _mm512_set1_epi32(15));
            // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
            let copies = _mm512_mullo_epi32(bits, _mm512_set1_epi32(0x0204_0810));
            _mm512_and_si512(copies, _mm512_set1_epi8(16))
        }
    }

    #[inline(always)]
    fn join<const SHIFT: u32>(self, words: __m512i, upper: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let upper =
                if SHIFT == 0 { upper } else { _mm512_sll_epi32(upper, _mm_cvtsi32_si128(SHIFT as i32)) };
            _mm512_or_si512(words, upper)
        }
    }

    #[inline(always)]
    fn to_floats(self, words: __m512i, zero: i32) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_cvtepi32_ps(_mm512_sub_epi32(words, _mm512_set1_epi32(zero))) }
    }

    #[inline(always)]
    fn signed_byte(self, words: __m512i, shift: u32) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let top = _mm512_sll_epi32(words, _mm_cvtsi32_si128(24 - shift as i32));
            _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(top))
        }
    }

    #[inline(always)]
    fn f16_in_word(self, words: __m512i, shift: u32) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let words = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words))
        }
    }

    #[inline(always)]
    unsafe fn store_adjacent(self, words: __m512i, to: *mut u8) {
        // SAFETY: the token proves AVX-512; 64 bytes can be written, by this function's contract.
        unsafe { _mm512_storeu_si512(to.cast(), words) }
    }
}

impl IntLanes for Avx512 {
    type Unpacker = Avx512;
    type Codes = __m512i;
    type Sums = __m512i;
    // By two vectors: 12 sums in integers and 12 in floats, 2 vectors of weights, 1 activation: 27 of 32 registers.
    const MR: usize = 6;
    // As bits of a float: 1.5 * 2^23, to which sums of less than 2^22 add their units. So sums are floats without conversion, and
    // what they are too large by is taken off when they are scaled; exactly, as scales are short.
    const START: i32 = 0x4b40_0000;
    const SIGNED: bool = false;

    #[inline(always)]
    fn unpacker(self) -> Avx512 {
        self
    }

    #[inline(always)]
    unsafe fn load_codes(self, from: *const u8) -> __m512i {
        // SAFETY: the token proves AVX-512; 64 bytes can be read, by this function's contract.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    fn broadcast_sum(self, sum: i32) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_set1_epi32(sum) }
    }

    #[inline(always)]
    fn dot<const BYTES: bool>(self, sums: __m512i, codes: __m512i, x: i32) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(x)) }
    }

    #[inline(always)]
    fn scale_offset(self, scales: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_mul_ps(scales, _mm512_set1_ps(-f32::from_bits(Self::START as u32))) }
    }

    #[inline(always)]
    fn scale(self, sums: __m512i, scales: __m512, offset: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_fmadd_ps(_mm512_castsi512_ps(sums), scales, offset) }
    }
}
