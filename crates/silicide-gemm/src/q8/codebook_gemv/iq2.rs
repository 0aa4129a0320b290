//! IQ2: levels in eights from a book, signs beside them.
//!
//! ```text
//! IQ2_XXS  f16 d | 8 x (4 codes, u32: 4 x 7 signs and a scale of 4 bits)
//! IQ2_XS   f16 d | 32 u16: 9 bits of code and 7 signs | 8 bytes: scales of both halves of a group
//! IQ2_S    f16 d | 32 codes | 32 bytes of signs | 8 bytes of highest bits | 8 bytes of scales
//! ```

use super::{ScaledSuperBlock, SuperBlock, array, broadcast_f16, even_signs, signs, small_scales};
use crate::isa::Avx512Vbmi;
use silicide_quant::books;
use std::arch::x86_64::*;

/// The factor of scales.
const FACTOR: f32 = 0.25;

/// Looks words up in a book, one to a lane of 64 bits.
#[inline(always)]
fn look_up<const N: usize>(_: Avx512Vbmi, book: &'static [u64; N], words: __m512i) -> __m512i {
    const { assert!(N.is_power_of_two()) };
    // SAFETY: the token proves the instructions; masked words are inside the book.
    unsafe {
        let words = _mm512_and_si512(words, _mm512_set1_epi64(N as i64 - 1));
        _mm512_i64gather_epi64::<8>(words, book.as_ptr().cast())
    }
}

/// Returns the nibbles of eight bytes, of one half of groups.
#[inline(always)]
fn nibbles(_: Avx512Vbmi, bytes: &[u8; 8], half: usize) -> __m256i {
    // SAFETY: the token proves the instructions; the array is as long as what is loaded.
    unsafe {
        let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(bytes.as_ptr().cast()));
        if half == 0 { _mm256_and_si256(bytes, _mm256_set1_epi32(15)) } else { _mm256_srli_epi32::<4>(bytes) }
    }
}

/// Loads 64 bytes: a lane of 64 bits to a group.
#[inline(always)]
fn load(_: Avx512Vbmi, bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the token proves the instructions; the array is as long as what is loaded.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Shifts lanes of 64 bits right.
#[inline(always)]
fn shift_right(_: Avx512Vbmi, words: __m512i, by: usize) -> __m512i {
    // SAFETY: the token proves the instructions.
    unsafe { _mm512_srl_epi64(words, _mm_cvtsi32_si128(by as i32)) }
}

/// A block of IQ2_XXS.
#[derive(Clone, Copy)]
pub(super) struct Iq2Xxs {
    words: __m512i,
    signs: __m512i,
}

impl SuperBlock for Iq2Xxs {
    type Bytes = [u8; 66];
    const HALVES: bool = false;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn load(isa: Avx512Vbmi, bytes: &[u8; 66]) -> Iq2Xxs {
        let words = load(isa, array(bytes, 2));
        Iq2Xxs { words, signs: even_signs(isa, words, 32, 7) }
    }

    #[inline(always)]
    fn levels(self, isa: Avx512Vbmi, part: usize) -> __m512i {
        look_up(isa, &books::IQ2_XXS, shift_right(isa, self.words, 8 * part))
    }

    #[inline(always)]
    fn signs(self, isa: Avx512Vbmi, part: usize) -> __mmask64 {
        signs(isa, self.signs, part)
    }
}

impl ScaledSuperBlock for Iq2Xxs {
    #[inline(always)]
    fn scales(self, isa: Avx512Vbmi, bytes: &[u8; 66], _: usize) -> __m256 {
        // SAFETY: the token proves the instructions.
        let numbers = unsafe { _mm512_cvtepi64_epi32(_mm512_srli_epi64::<60>(self.words)) };
        small_scales(isa, broadcast_f16(isa, u16::from_le_bytes(*array(bytes, 0))), FACTOR, numbers)
    }
}

/// A block of IQ2_XS.
#[derive(Clone, Copy)]
pub(super) struct Iq2Xs {
    words: __m512i,
    signs: __m512i,
}

impl SuperBlock for Iq2Xs {
    type Bytes = [u8; 74];
    const HALVES: bool = true;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn load(isa: Avx512Vbmi, bytes: &[u8; 74]) -> Iq2Xs {
        let words = load(isa, array(bytes, 2));
        Iq2Xs { words, signs: even_signs(isa, words, 9, 16) }
    }

    #[inline(always)]
    fn levels(self, isa: Avx512Vbmi, part: usize) -> __m512i {
        look_up(isa, &books::IQ2_XS, shift_right(isa, self.words, 16 * part))
    }

    #[inline(always)]
    fn signs(self, isa: Avx512Vbmi, part: usize) -> __mmask64 {
        signs(isa, self.signs, part)
    }
}

impl ScaledSuperBlock for Iq2Xs {
    #[inline(always)]
    fn scales(self, isa: Avx512Vbmi, bytes: &[u8; 74], side: usize) -> __m256 {
        let numbers = nibbles(isa, array(bytes, 66), side);
        small_scales(isa, broadcast_f16(isa, u16::from_le_bytes(*array(bytes, 0))), FACTOR, numbers)
    }
}

/// A block of IQ2_S.
#[derive(Clone, Copy)]
pub(super) struct Iq2S {
    words: __m512i,
    signs: __m512i,
}

impl SuperBlock for Iq2S {
    type Bytes = [u8; 82];
    const HALVES: bool = true;
    const ZERO: i32 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn load(_: Avx512Vbmi, bytes: &[u8; 82]) -> Iq2S {
        let (codes, signs, high) =
            (array::<32>(bytes, 2).as_ptr(), array::<32>(bytes, 34).as_ptr(), array::<8>(bytes, 66).as_ptr());
        // SAFETY: the token proves the instructions; the arrays are as long as what is loaded.
        unsafe {
            let codes = _mm512_cvtepu32_epi64(_mm256_loadu_si256(codes.cast()));
            let high = _mm512_cvtepu8_epi64(_mm_loadl_epi64(high.cast()));
            let words = _mm512_or_si512(codes, _mm512_slli_epi64::<32>(high));
            Iq2S { words, signs: _mm512_cvtepu32_epi64(_mm256_loadu_si256(signs.cast())) }
        }
    }

    #[inline(always)]
    fn levels(self, isa: Avx512Vbmi, part: usize) -> __m512i {
        let shifts = (8 * part) | ((32 + 2 * part) << 8);
        // SAFETY: the token proves the instructions.
        let words = unsafe { _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts as i64), self.words) };
        look_up(isa, &books::IQ2_S, words)
    }

    #[inline(always)]
    fn signs(self, isa: Avx512Vbmi, part: usize) -> __mmask64 {
        signs(isa, self.signs, part)
    }
}

impl ScaledSuperBlock for Iq2S {
    #[inline(always)]
    fn scales(self, isa: Avx512Vbmi, bytes: &[u8; 82], side: usize) -> __m256 {
        let numbers = nibbles(isa, array(bytes, 74), side);
        small_scales(isa, broadcast_f16(isa, u16::from_le_bytes(*array(bytes, 0))), FACTOR, numbers)
    }
}
