//! AVX2 with FMA and F16C, and the same with AVX-VNNI: eight lanes. Integer dot products differ, and with them what codes of a panel are; the
//! dot products are exact, so outputs have the same bits.

mod dots;

use super::half::{narrow, widen};
use super::{
    CacheLine, CodeLanes, CodeSums, DenseFloats, DotStarts, FloatLanes, IntLanes, PanelWords, Simd, Task,
    WordLanes, table_words, with_features,
};
use crate::prefetch::LINE;
use crate::q8::NR_VECTORS;
use silicide_quant::f16;
use std::arch::asm;
use std::arch::x86_64::*;

/// AVX2, FMA and F16C.
pub type Avx2 = Avx2Lanes<false>;

/// What [`Avx2`] has, and AVX-VNNI: `vpdpbusd` in 256 bits.
pub type AvxVnni = Avx2Lanes<true>;

/// The token of [`Avx2`], or of [`AvxVnni`]: integer dot products differ.
#[derive(Clone, Copy, Debug)]
pub struct Avx2Lanes<const VNNI: bool>(());

/// Declares methods of [`Avx2Lanes`] with what its `detect` looks for, whether it has AVX-VNNI or not.
macro_rules! avx2 {
    ($($methods:tt)*) => {
        with_features!(Self, "avx2,fma,f16c", $($methods)*);
    };
}

impl<const VNNI: bool> Simd for Avx2Lanes<VNNI> {
    const FUSED: bool = true;
    const NAME: &'static str = if VNNI { "avx-vnni" } else { "avx2" };

    fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && (!VNNI || is_x86_feature_detected!("avxvnni"));
        has.then_some(Avx2Lanes(()))
    }

    #[inline(always)]
    unsafe fn assume() -> Self {
        Avx2Lanes(())
    }

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn run<T: Task>(task: T) -> T::Output {
            task.run()
        }
        #[inline(never)]
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
        fn run_vnni<T: Task>(task: T) -> T::Output {
            task.run()
        }
        // SAFETY: the token proves the features.
        unsafe { if const { VNNI } { run_vnni(task) } else { run(task) } }
    }

    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        let count = from.len().min(to.len());
        let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
        let (mut inputs, mut outputs) = (from.chunks_exact(8), to.chunks_exact_mut(8));
        for (to, from) in (&mut outputs).zip(&mut inputs) {
            // SAFETY: both chunks hold 8 elements, a vector.
            unsafe { self.store(self.f16_floats(self.load_halves(from.as_ptr().cast())), to.as_mut_ptr()) }
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
            let to = to.as_mut_ptr().cast::<__m128i>();
            // SAFETY: both chunks hold 8 elements, a vector.
            unsafe { to.write_unaligned(self.floats_f16(self.load(from.as_ptr()))) }
        }
        for (to, from) in outputs.into_remainder().iter_mut().zip(inputs.remainder()) {
            *to = f16::from_bits(narrow(*from));
        }
    }

    #[inline(always)]
    fn stream_line(self, from: &[u8; LINE], to: &mut CacheLine) {
        let (from, to) = (from.as_ptr().cast::<__m256i>(), (&raw mut *to).cast::<__m256i>());
        // SAFETY: the token proves AVX2; both are 64 bytes, and `CacheLine` is aligned to them.
        unsafe {
            _mm256_stream_si256(to, _mm256_loadu_si256(from));
            _mm256_stream_si256(to.add(1), _mm256_loadu_si256(from.add(1)));
        }
    }
}

impl<const VNNI: bool> Avx2Lanes<VNNI> {
    avx2! {
        /// Converts f32 to f16, to nearest even.
        fn floats_f16(self, floats: __m256) -> __m128i {
            _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(floats)
        }

        /// Returns two registers of 128 bits side by side.
        fn side_by_side(self, a: __m128i, b: __m128i) -> __m256i {
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b)
        }

        /// Returns the same vector, of which the compiler knows nothing: sums stay in the order of the source.
        fn pin(self, vector: __m256i) -> __m256i {
            let mut vector = vector;
            // SAFETY: no instruction.
            unsafe {
                asm!("/* {0} */", inout(ymm_reg) vector, options(pure, nomem, nostack, preserves_flags));
            }
            vector
        }

        /// Adds the products of signed codes with `x`.
        fn dot_signed(self, sums: __m256i, codes: __m256i, x: i32) -> __m256i {
            let x = _mm256_set1_epi32(x);
            // Pairs of products must fit 16 bits: codes go in as sizes of at most 128, their signs on activations of at most 127.
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes));
            _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }

        /// Returns the products of unsigned codes with `x`, those of pairs added in 16 bits.
        fn pairs(self, codes: __m256i, x: i32) -> __m256i {
            _mm256_maddubs_epi16(codes, _mm256_set1_epi32(x))
        }

        /// Adds numbers of 16 bits.
        fn add_pairs(self, a: __m256i, b: __m256i) -> __m256i {
            _mm256_add_epi16(a, b)
        }

        /// Adds numbers of 32 bits.
        fn add_dots(self, a: __m256i, b: __m256i) -> __m256i {
            _mm256_add_epi32(a, b)
        }

        /// Adds the two numbers of 16 bits of each lane.
        fn widen_pairs(self, pairs: __m256i) -> __m256i {
            _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
        }

        /// Transposes 4 x 4 words in each lane of 128 bits.
        fn transpose_words(self, a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> [__m256i; 4] {
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
}

/// Adds the products of unsigned codes with `x`.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn dot_vnni(sums: __m256i, codes: __m256i, x: i32) -> __m256i {
    _mm256_dpbusd_avx_epi32(sums, codes, _mm256_set1_epi32(x))
}

impl<const VNNI: bool> FloatLanes for Avx2Lanes<VNNI> {
    type Floats = __m256;
    type Halves = __m128i;
    const LANES: usize = 8;

    avx2! {
        fn zeros(self) -> __m256 {
            _mm256_setzero_ps()
        }

        fn broadcast(self, value: f32) -> __m256 {
            _mm256_set1_ps(value)
        }

        fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
            _mm256_fmadd_ps(a, b, c)
        }

        fn f16_floats(self, halves: __m128i) -> __m256 {
            _mm256_cvtph_ps(halves)
        }

        fn bf16_floats(self, halves: __m128i) -> __m256 {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
        }
    }
}

impl<const VNNI: bool> WordLanes for Avx2Lanes<VNNI> {
    type Words = __m256i;

    #[inline(always)]
    unsafe fn load_transposed(self, from: *const u8, stride: usize) -> [__m256i; 4] {
        // SAFETY: 16 bytes of each of eight rows can be read, by this function's contract.
        let row = |i: usize| unsafe { from.add(i * stride).cast::<__m128i>().read_unaligned() };
        let (a, b) = (self.side_by_side(row(0), row(4)), self.side_by_side(row(1), row(5)));
        let (c, d) = (self.side_by_side(row(2), row(6)), self.side_by_side(row(3), row(7)));
        self.transpose_words(a, b, c, d)
    }
}

impl<const VNNI: bool> DenseFloats for Avx2Lanes<VNNI> {
    const REGISTERS: usize = 16;

    avx2! {
        fn f32_words(self, words: __m256i) -> __m256 {
            _mm256_castsi256_ps(words)
        }

        fn f16_pairs(self, words: __m256i) -> [__m256; 2] {
            let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
            ));
            let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(words, order));
            [
                _mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
                _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves)),
            ]
        }

        fn bf16_pairs(self, words: __m256i) -> [__m256; 2] {
            let second = _mm256_and_si256(words, _mm256_set1_epi32(0xffff_0000_u32 as i32));
            [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(words)), _mm256_castsi256_ps(second)]
        }
    }
}

impl<const VNNI: bool> CodeLanes for Avx2Lanes<VNNI> {
    // `vpdpbusd` takes unsigned codes.
    const ZERO: i32 = if VNNI { 128 } else { 0 };

    #[inline(always)]
    fn run_task<T: Task>(self, task: T) -> T::Output {
        self.run(task)
    }

    #[inline(always)]
    fn signed_codes(self, words: __m256i) -> __m256i {
        if const { VNNI } { self.center(words) } else { words }
    }

    avx2! {
        fn low_nibbles(self, words: __m256i) -> __m256i {
            _mm256_and_si256(words, _mm256_set1_epi8(15))
        }

        fn high_nibbles(self, words: __m256i) -> __m256i {
            _mm256_and_si256(_mm256_srli_epi16::<4>(words), _mm256_set1_epi8(15))
        }

        fn center(self, words: __m256i) -> __m256i {
            _mm256_xor_si256(words, _mm256_set1_epi8(-128))
        }

        fn byte_bits(self, words: __m256i, shift: u32, mask: u8) -> __m256i {
            let bits = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm256_and_si256(bits, _mm256_set1_epi8(mask as i8))
        }

        fn word_bits(self, words: __m256i, shift: u32, mask: u8) -> __m256i {
            let bits = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm256_and_si256(bits, _mm256_set1_epi32(i32::from(mask)))
        }

        fn lookup(self, words: __m256i, table: &[u8; 16]) -> __m256i {
            let [low, high] = table_words(table);
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_set_epi64x(high, low)), words)
        }

        fn nibble_pairs(self, words: __m256i) -> [__m256i; 2] {
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

        fn spread_bits(self, words: __m256i, shift: u32) -> __m256i {
            let bits = _mm256_srlv_epi32(words, _mm256_set1_epi32(shift as i32));
            let bits = _mm256_and_si256(bits, _mm256_set1_epi32(15));
            // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
            let copies = _mm256_mullo_epi32(bits, _mm256_set1_epi32(0x0204_0810));
            _mm256_and_si256(copies, _mm256_set1_epi8(16))
        }

        fn join<const SHIFT: u32>(self, words: __m256i, upper: __m256i) -> __m256i {
            let upper =
                if SHIFT == 0 { upper } else { _mm256_sll_epi32(upper, _mm_cvtsi32_si128(SHIFT as i32)) };
            _mm256_or_si256(words, upper)
        }

        fn to_floats(self, words: __m256i, zero: i32) -> __m256 {
            _mm256_cvtepi32_ps(_mm256_sub_epi32(words, _mm256_set1_epi32(zero)))
        }

        fn signed_byte(self, words: __m256i, shift: u32) -> __m256 {
            let top = _mm256_sll_epi32(words, _mm_cvtsi32_si128(24 - shift as i32));
            _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(top))
        }

        fn f16_in_word(self, words: __m256i, shift: u32) -> __m256 {
            let words = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            let words = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
            let (low, high) = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm256_cvtph_ps(_mm_packus_epi32(low, high))
        }
    }
}

impl<const VNNI: bool> IntLanes for Avx2Lanes<VNNI> {
    type Unpacker = Self;
    type Codes = __m256i;
    type Sums = __m256i;
    // By two vectors: 12 sums in integers, 2 vectors of weights, 1 activation and 1 product, of 16 registers; sums in floats are in L1.
    const MR: usize = 6;
    // 10 sums, 2 vectors of sizes, 2 products, a vector of ones.
    const MR_SIGNED: usize = if VNNI { 6 } else { 5 };
    // As for AVX-512: the bits of 1.5 * 2^23.
    const START: i32 = 0x4b40_0000;
    const SIGNED: bool = !VNNI;

    #[inline(always)]
    fn unpacker(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn row_dots<const ROWS: usize, const WORDS: usize>(
        self,
        codes: [__m256i; WORDS],
        kind: CodeSums,
        x: [*const u8; ROWS],
        starts: DotStarts,
    ) -> [__m256i; ROWS] {
        // SAFETY: the contract is the same.
        unsafe { dots::row_dots(self, codes, kind, x, starts) }
    }

    #[inline(always)]
    unsafe fn panel_dots<const ROWS: usize>(
        self,
        words: PanelWords,
        kind: CodeSums,
        starts: DotStarts,
    ) -> [[__m256i; NR_VECTORS]; ROWS] {
        // SAFETY: the contract is the same.
        unsafe { dots::panel_dots(self, words, kind, starts) }
    }

    #[inline(always)]
    fn sums_address<T>(self, sums: *mut T) -> *mut T {
        dots::opaque(sums)
    }

    #[inline(always)]
    fn dot(self, sums: __m256i, codes: __m256i, x: i32) -> __m256i {
        if const { VNNI } {
            // SAFETY: the token proves AVX-VNNI.
            unsafe { dot_vnni(sums, codes, x) }
        } else {
            self.dot_signed(sums, codes, x)
        }
    }

    avx2! {
        fn broadcast_sum(self, sum: i32) -> __m256i {
            _mm256_set1_epi32(sum)
        }

        fn scale_offset(self, scales: __m256) -> __m256 {
            _mm256_mul_ps(scales, _mm256_set1_ps(-f32::from_bits(Avx2::START as u32)))
        }

        fn scale(self, sums: __m256i, scales: __m256, offset: __m256) -> __m256 {
            _mm256_fmadd_ps(_mm256_castsi256_ps(sums), scales, offset)
        }
    }
}
