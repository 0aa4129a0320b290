//! [`Unit`] with the intrinsics of x86-64: AVX-512 with VNNI, and AVX2.

use super::format::{self, Codes, Layout, Part};
use super::gathered;
use super::panel::{self, Block};
use super::product::Product;
use super::source::Source;
use super::stream;
use super::unit::Unit;
use crate::isa::{Avx2, Avx512};
use silicide_quant::Format;
use std::arch::x86_64::*;
use std::ops::Range;

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
    // As bits of a float: 1.5 * 2^23, to which sums of less than 2^22 add their units. So sums are floats without conversion, and
    // what they are too large by is taken off when they are scaled; exactly, as scales are short.
    const START: i32 = 0x4b40_0000;
    const SIGNED: bool = false;

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
    unsafe fn adjacent(from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
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
    unsafe fn centred(words: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_xor_si512(words, _mm512_set1_epi8(-128)) }
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
            let bits = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm512_and_si512(bits, _mm512_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    unsafe fn field(words: __m512i, shift: u32, mask: u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm512_and_si512(bits, _mm512_set1_epi32(i32::from(mask)))
        }
    }

    #[inline(always)]
    unsafe fn lookup(words: __m512i, table: &[u8; 16]) -> __m512i {
        // SAFETY: the caller's promise; the table has sixteen bytes.
        unsafe { _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())), words) }
    }

    #[inline(always)]
    unsafe fn pairs(words: __m512i) -> [__m512i; 2] {
        // SAFETY: the caller's promise.
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
    unsafe fn join<const SHIFT: u32>(words: __m512i, upper: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let upper =
                if SHIFT == 0 { upper } else { _mm512_sll_epi32(upper, _mm_cvtsi32_si128(SHIFT as i32)) };
            _mm512_or_si512(words, upper)
        }
    }

    #[inline(always)]
    unsafe fn number(words: __m512i, zero: i32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(_mm512_sub_epi32(words, _mm512_set1_epi32(zero))) }
    }

    #[inline(always)]
    unsafe fn signed(words: __m512i, shift: u32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let top = _mm512_sll_epi32(words, _mm_cvtsi32_si128(24 - shift as i32));
            _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(top))
        }
    }

    #[inline(always)]
    unsafe fn half(words: __m512i, shift: u32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words))
        }
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
    unsafe fn offset(scales: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_mul_ps(scales, _mm512_set1_ps(-f32::from_bits(Self::START as u32))) }
    }

    #[inline(always)]
    unsafe fn scaled(sums: __m512i, scales: __m512, offset: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_fmadd_ps(_mm512_castsi512_ps(sums), scales, offset) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c")]
    unsafe fn unpack<F: Codes, S: Source>(part: &Part) {
        // SAFETY: the caller's promise.
        unsafe { format::unpack::<Avx512, F, S>(part) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c")]
    unsafe fn stream<F: Codes, S: Source, const ROWS: usize>(product: &Product, columns: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { stream::stream::<Avx512, F, S, ROWS>(product, columns) }
    }

    #[inline(always)]
    unsafe fn look_up(format: Format, product: &Product, columns: Range<usize>) -> bool {
        // SAFETY: the caller's promise.
        gathered::is_available() && unsafe { gathered::multiply(format, product, columns) }
    }

    #[inline(always)]
    unsafe fn look_up_affine(bits: usize, product: &Product, columns: Range<usize>) -> bool {
        // SAFETY: the caller's promise.
        gathered::is_available() && unsafe { gathered::affine::multiply(bits, product, columns) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c")]
    unsafe fn multiply(layout: Layout, block: &Block) {
        // SAFETY: the caller's promise.
        unsafe { panel::multiply::<Avx512>(layout, block) }
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
    const START: i32 = 0;
    const SIGNED: bool = true;

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
    unsafe fn adjacent(from: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(from.cast()) }
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
    unsafe fn centred(words: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_xor_si256(words, _mm256_set1_epi8(-128)) }
    }

    #[inline(always)]
    unsafe fn bytes(words: __m256i) -> __m256i {
        words
    }

    #[inline(always)]
    unsafe fn bits(words: __m256i, shift: u32, mask: u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm256_and_si256(bits, _mm256_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    unsafe fn field(words: __m256i, shift: u32, mask: u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            _mm256_and_si256(bits, _mm256_set1_epi32(i32::from(mask)))
        }
    }

    #[inline(always)]
    unsafe fn lookup(words: __m256i, table: &[u8; 16]) -> __m256i {
        // SAFETY: the caller's promise; the table has sixteen bytes.
        unsafe {
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())), words)
        }
    }

    #[inline(always)]
    unsafe fn pairs(words: __m256i) -> [__m256i; 2] {
        // SAFETY: the caller's promise.
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
    unsafe fn join<const SHIFT: u32>(words: __m256i, upper: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let upper =
                if SHIFT == 0 { upper } else { _mm256_sll_epi32(upper, _mm_cvtsi32_si128(SHIFT as i32)) };
            _mm256_or_si256(words, upper)
        }
    }

    #[inline(always)]
    unsafe fn number(words: __m256i, zero: i32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtepi32_ps(_mm256_sub_epi32(words, _mm256_set1_epi32(zero))) }
    }

    #[inline(always)]
    unsafe fn signed(words: __m256i, shift: u32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let top = _mm256_sll_epi32(words, _mm_cvtsi32_si128(24 - shift as i32));
            _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(top))
        }
    }

    #[inline(always)]
    unsafe fn half(words: __m256i, shift: u32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
            let words = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
            let halves =
                _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm256_cvtph_ps(halves)
        }
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
    unsafe fn offset(scales: __m256) -> __m256 {
        scales
    }

    #[inline(always)]
    unsafe fn scaled(sums: __m256i, scales: __m256, _: __m256) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scales) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack<F: Codes, S: Source>(part: &Part) {
        // SAFETY: the caller's promise.
        unsafe { format::unpack::<Avx2, F, S>(part) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn stream<F: Codes, S: Source, const ROWS: usize>(product: &Product, columns: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { stream::stream::<Avx2, F, S, ROWS>(product, columns) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn multiply(layout: Layout, block: &Block) {
        // SAFETY: the caller's promise.
        unsafe { panel::multiply::<Avx2>(layout, block) }
    }
}
