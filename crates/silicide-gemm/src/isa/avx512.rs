//! AVX-512 with VNNI: sixteen lanes.

use super::{
    Avx2, CacheLine, CodeLanes, DenseFloats, FloatLanes, IntLanes, Simd, Task, WordLanes, table_words,
    with_features,
};
use crate::prefetch::LINE;
use silicide_quant::f16;
use std::arch::x86_64::*;

/// AVX-512 F, BW, DQ, CD, VL and VNNI, and what [`Avx2`] has.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

/// Declares methods of [`Avx512`] with what its `detect` looks for.
macro_rules! avx512 {
    ($($methods:tt)*) => {
        with_features!(
            Avx512,
            "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c",
            $($methods)*
        );
    };
}

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

    avx512!(run);

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
    fn stream_line(self, from: &[u8; LINE], to: &mut CacheLine) {
        // SAFETY: the token proves AVX-512; both are 64 bytes, and `CacheLine` is aligned to them.
        unsafe { _mm512_stream_si512((&raw mut *to).cast(), _mm512_loadu_si512(from.as_ptr().cast())) }
    }
}

impl Avx512 {
    /// The token of the instruction set that this one includes.
    #[inline(always)]
    fn avx2(self) -> Avx2 {
        // SAFETY: `detect` requires AVX2 too.
        unsafe { Avx2::assume() }
    }

    avx512! {
        /// Returns four registers of 128 bits side by side.
        fn side_by_side(self, a: __m128i, b: __m128i, c: __m128i, d: __m128i) -> __m512i {
            let lanes = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
            _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(lanes, c), d)
        }

        /// Transposes 4 x 4 words in each lane of 128 bits.
        fn transpose_words(self, a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> [__m512i; 4] {
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
}

/// Declares methods of [`Avx512Vbmi`] with what its `detect` looks for.
macro_rules! vbmi {
    ($($methods:tt)*) => {
        $crate::isa::with_features!(
            Avx512Vbmi,
            "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,avx2,fma,f16c",
            $($methods)*
        );
    };
}
pub(crate) use vbmi;

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

    vbmi!(pub(crate) run);
}

impl FloatLanes for Avx512 {
    type Floats = __m512;
    type Halves = __m256i;
    const LANES: usize = 16;

    avx512! {
        fn zeros(self) -> __m512 {
            _mm512_setzero_ps()
        }

        fn broadcast(self, value: f32) -> __m512 {
            _mm512_set1_ps(value)
        }

        fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }

        // Of the forms of this instruction only the one that may raise flags reads from memory, which is one step less.
        fn f16_floats(self, halves: __m256i) -> __m512 {
            _mm512_cvt_roundph_ps::<_MM_FROUND_CUR_DIRECTION>(halves)
        }

        fn bf16_floats(self, halves: __m256i) -> __m512 {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
        }
    }
}

impl WordLanes for Avx512 {
    type Words = __m512i;

    #[inline(always)]
    unsafe fn load_transposed(self, from: *const u8, stride: usize) -> [__m512i; 4] {
        // SAFETY: 16 bytes of each of sixteen rows can be read, by this function's contract.
        let row = |i: usize| unsafe { from.add(i * stride).cast::<__m128i>().read_unaligned() };
        // Register i: rows i, i + 4, i + 8, i + 12 side by side; then a 4 x 4 transposition in each lane.
        let a = self.side_by_side(row(0), row(4), row(8), row(12));
        let b = self.side_by_side(row(1), row(5), row(9), row(13));
        let c = self.side_by_side(row(2), row(6), row(10), row(14));
        let d = self.side_by_side(row(3), row(7), row(11), row(15));
        self.transpose_words(a, b, c, d)
    }
}

impl DenseFloats for Avx512 {
    const REGISTERS: usize = 32;

    avx512! {
        fn f32_words(self, words: __m512i) -> __m512 {
            _mm512_castsi512_ps(words)
        }

        fn f16_pairs(self, words: __m512i) -> [__m512; 2] {
            // In each 128-bit lane first the four first halves, then the four second ones; then lanes side by side.
            let order =
                _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
            let halves = _mm512_permutexvar_epi64(
                _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                _mm512_shuffle_epi8(words, order),
            );
            [
                _mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
                _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(halves)),
            ]
        }

        fn bf16_pairs(self, words: __m512i) -> [__m512; 2] {
            let second = _mm512_and_si512(words, _mm512_set1_epi32(0xffff_0000_u32 as i32));
            [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)), _mm512_castsi512_ps(second)]
        }
    }
}

impl CodeLanes for Avx512 {
    // The instruction takes unsigned codes.
    const ZERO: i32 = 128;

    #[inline(always)]
    fn run_task<T: Task>(self, task: T) -> T::Output {
        self.run(task)
    }

    avx512! {
        fn low_nibbles(self, words: __m512i) -> __m512i {
            _mm512_and_si512(words, _mm512_set1_epi8(15))
        }

        fn high_nibbles(self, words: __m512i) -> __m512i {
            _mm512_and_si512(_mm512_srli_epi16::<4>(words), _mm512_set1_epi8(15))
        }

        fn center(self, words: __m512i) -> __m512i {
            _mm512_xor_si512(words, _mm512_set1_epi8(-128))
        }

        fn signed_codes(self, words: __m512i) -> __m512i {
            _mm512_xor_si512(words, _mm512_set1_epi8(-128))
        }

        fn byte_bits(self, words: __m512i, shift: u32, mask: u8) -> __m512i {
            let bits = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm512_and_si512(bits, _mm512_set1_epi8(mask as i8))
        }

        fn word_bits(self, words: __m512i, shift: u32, mask: u8) -> __m512i {
            let bits = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm512_and_si512(bits, _mm512_set1_epi32(i32::from(mask)))
        }

        fn lookup(self, words: __m512i, table: &[u8; 16]) -> __m512i {
            let [low, high] = table_words(table);
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_set_epi64x(high, low)), words)
        }

        fn nibble_pairs(self, words: __m512i) -> [__m512i; 2] {
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

        fn spread_bits(self, words: __m512i, shift: u32) -> __m512i {
            let bits = _mm512_srlv_epi32(words, _mm512_set1_epi32(shift as i32));
            let bits = _mm512_and_si512(bits, _mm512_set1_epi32(15));
            // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
            let copies = _mm512_mullo_epi32(bits, _mm512_set1_epi32(0x0204_0810));
            _mm512_and_si512(copies, _mm512_set1_epi8(16))
        }

        fn join<const SHIFT: u32>(self, words: __m512i, upper: __m512i) -> __m512i {
            let upper =
                if SHIFT == 0 { upper } else { _mm512_sll_epi32(upper, _mm_cvtsi32_si128(SHIFT as i32)) };
            _mm512_or_si512(words, upper)
        }

        fn to_floats(self, words: __m512i, zero: i32) -> __m512 {
            _mm512_cvtepi32_ps(_mm512_sub_epi32(words, _mm512_set1_epi32(zero)))
        }

        fn signed_byte(self, words: __m512i, shift: u32) -> __m512 {
            let top = _mm512_sll_epi32(words, _mm_cvtsi32_si128(24 - shift as i32));
            _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(top))
        }

        fn f16_in_word(self, words: __m512i, shift: u32) -> __m512 {
            let words = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words))
        }
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

    avx512! {
        fn broadcast_sum(self, sum: i32) -> __m512i {
            _mm512_set1_epi32(sum)
        }

        fn dot(self, sums: __m512i, codes: __m512i, x: i32) -> __m512i {
            _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(x))
        }

        fn scale_offset(self, scales: __m512) -> __m512 {
            _mm512_mul_ps(scales, _mm512_set1_ps(-f32::from_bits(Avx512::START as u32)))
        }

        fn scale(self, sums: __m512i, scales: __m512, offset: __m512) -> __m512 {
            _mm512_fmadd_ps(_mm512_castsi512_ps(sums), scales, offset)
        }
    }
}
