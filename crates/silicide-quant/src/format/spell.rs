//! Spelling: blocks as small whole numbers under scales, for arithmetic in integers. A weight is exactly `code * scale` with a
//! code of 8 bits and a scale per 16 weights.
//!
//! Formats are spelled whose codes are not there to be taken out by shifts: they lie in code books or are digits. Neighbours: the
//! families of formats have the structs; `simd` compiles this for every instruction set.

use super::block::{Block, half, whole_blocks, words};
use super::iq::{self, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
use super::{Format, FormatError, ternary};
use crate::simd::{Isa, Task};
use bytemuck::cast;
use std::marker::PhantomData;

/// Weights under one of the scales.
pub const SPELLED_LEN: usize = 16;

/// A block that can be spelled.
trait Spell<const LEN: usize>: Block<LEN> {
    /// The codes, and the scale of every [`SPELLED_LEN`] of them.
    fn spell(&self, codes: &mut [i8; LEN], scales: &mut [f32]);
}

impl Format {
    /// Whether the format can be spelled, and if so, whether both halves of 32 weights always have the same scale.
    pub const fn spelling(self) -> Option<bool> {
        match self {
            Format::Iq1M | Format::Iq2Xs | Format::Iq2S => Some(false),
            Format::Iq1S | Format::Iq2Xxs | Format::Iq3Xxs | Format::Iq3S => Some(true),
            Format::Tq1_0 | Format::Q2_0 => Some(true),
            _ => None,
        }
    }

    /// Spells whole blocks: `bytes` must be exactly the blocks of `codes`, and `scales` has one for every [`SPELLED_LEN`] of
    /// them. A format without [`Format::spelling`] leaves everything as it is.
    pub fn spell(
        self,
        isa: Isa,
        bytes: &[u8],
        codes: &mut [i8],
        scales: &mut [f32],
    ) -> Result<(), FormatError> {
        self.check(codes.len(), bytes.len())?;
        let (elements, expected) = (codes.len(), codes.len() / SPELLED_LEN);
        if scales.len() != expected {
            return Err(FormatError::Length { what: self.name(), elements, expected, got: scales.len() });
        }
        match self {
            Format::Iq1S => run::<Iq1S, 256>(isa, bytes, codes, scales),
            Format::Iq1M => run::<Iq1M, 256>(isa, bytes, codes, scales),
            Format::Iq2Xxs => run::<Iq2Xxs, 256>(isa, bytes, codes, scales),
            Format::Iq2Xs => run::<Iq2Xs, 256>(isa, bytes, codes, scales),
            Format::Iq2S => run::<Iq2S, 256>(isa, bytes, codes, scales),
            Format::Iq3Xxs => run::<Iq3Xxs, 256>(isa, bytes, codes, scales),
            Format::Iq3S => run::<Iq3S, 256>(isa, bytes, codes, scales),
            Format::Tq1_0 => run::<ternary::Tq1_0, 256>(isa, bytes, codes, scales),
            Format::Q2_0 => run::<ternary::Q2_0, 64>(isa, bytes, codes, scales),
            _ => {}
        }
        Ok(())
    }
}

fn run<B: Spell<LEN>, const LEN: usize>(isa: Isa, bytes: &[u8], codes: &mut [i8], scales: &mut [f32]) {
    isa.run(Spelling::<B, LEN> { bytes, codes, scales, block: PhantomData });
}

struct Spelling<'a, B, const LEN: usize> {
    bytes: &'a [u8],
    codes: &'a mut [i8],
    scales: &'a mut [f32],
    block: PhantomData<B>,
}

impl<B: Spell<LEN>, const LEN: usize> Task for Spelling<'_, B, LEN> {
    #[inline(always)]
    fn run(self) {
        let places = self
            .codes
            .as_chunks_mut::<LEN>()
            .0
            .iter_mut()
            .zip(self.scales.chunks_exact_mut(LEN / SPELLED_LEN));
        for (block, (codes, scales)) in whole_blocks::<B>(self.bytes).iter().zip(places) {
            block.spell(codes, scales);
        }
    }
}

/// For eight signs, all bits of a byte where there is one.
static SIGNS: [u64; 256] = signs(false);
/// The same for seven signs and the eighth that makes their number even.
static EVEN_SIGNS: [u64; 128] = signs(true);
/// One in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;

const fn signs<const N: usize>(even: bool) -> [u64; N] {
    let mut all = [0; N];
    let mut word = 0;
    while word < N {
        let eighth = if even { (word.count_ones() as usize & 1) << 7 } else { 0 };
        let mut lane = 0;
        while lane < 8 {
            all[word] |= (((word | eighth) >> lane & 1) as u64 * 0xff) << (8 * lane);
            lane += 1;
        }
        word += 1;
    }
    all
}

/// Eight levels of a code book, or twice four, in a word: what follows works on whole words, as bytes that are put together one by
/// one and read as vectors would wait for memory.
#[inline(always)]
fn word(levels: [i8; 8]) -> u64 {
    u64::from_le_bytes(levels.map(|level| level as u8))
}

/// The same of two words of four.
#[inline(always)]
fn two_words(first: [i8; 4], second: [i8; 4]) -> u64 {
    let [first, second] = [first, second].map(|levels| u32::from_le_bytes(levels.map(|level| level as u8)));
    u64::from(first) | u64::from(second) << 32
}

/// Levels, none of which is zero, negated where there is a sign.
#[inline(always)]
fn signed(codes: &mut [i8; 32], levels: [u64; 4], signs: [u64; 4]) {
    for ((codes, levels), signs) in codes.as_chunks_mut::<8>().0.iter_mut().zip(levels).zip(signs) {
        // No byte carries into the next: a level that is turned over is below 255.
        *codes = cast(((levels ^ signs) + (signs & ONES)).to_le_bytes());
    }
}

#[inline(always)]
fn even_signs(word: u32) -> [u64; 4] {
    [0, 7, 14, 21].map(|shift| EVEN_SIGNS[(word >> shift & 127) as usize])
}

/// Runs of 32 codes with their two scales.
#[inline(always)]
fn runs<'a>(
    codes: &'a mut [i8; 256],
    scales: &'a mut [f32],
) -> impl Iterator<Item = (usize, (&'a mut [i8; 32], &'a mut [f32; 2]))> {
    codes.as_chunks_mut::<32>().0.iter_mut().zip(scales.as_chunks_mut::<2>().0).enumerate()
}

/// IQ1 levels eight-fold, one up or down.
#[inline(always)]
fn shifted(codes: &mut [i8; 32], levels: [[i8; 8]; 4], down: [bool; 4]) {
    const TOP: u64 = ONES << 7;
    for ((codes, levels), down) in codes.as_chunks_mut::<8>().0.iter_mut().zip(levels).zip(down) {
        // Bytes of 0, 1 and -1, of which the lowest three bits are dropped before others could get them.
        let eightfold = (word(levels) & (ONES * 0x1f)) << 3;
        let (up, two) = (eightfold | ONES, if down { ONES << 1 } else { 0 });
        // Two less in every byte, with the highest bits kept from borrowing.
        *codes = cast((((up | TOP) - two) ^ ((up ^ TOP) & TOP)).to_le_bytes());
    }
}

/// What eight-fold codes are scaled by.
const SHIFTED: f32 = iq::IQ1_SHIFT;

impl Spell<256> for Iq1S {
    #[inline(always)]
    fn spell(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let (scale, high) = (half(self.scale) * SHIFTED, words(&self.high));
        for (i, (codes, scales)) in runs(codes, scales) {
            let (low, high) = (self.codes[i], high[i]);
            *scales = [scale * f32::from(2 * (high >> 12 & 7) + 1); 2];
            let levels = [0, 1, 2, 3]
                .map(|i| iq::IQ1_BOOK[usize::from(low[i]) | usize::from(high >> (3 * i) & 7) << 8]);
            shifted(codes, levels, [high & 0x8000 != 0; 4]);
        }
    }
}

impl Spell<256> for Iq1M {
    #[inline(always)]
    fn spell(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let words = words(&self.scales);
        let top = words.map(|word| word >> 12);
        let scale = half((top[0] | top[1] << 4 | top[2] << 8 | top[3] << 12).to_le_bytes()) * SHIFTED;
        for (i, (codes, scales)) in runs(codes, scales) {
            let subs = words[i / 2] >> (6 * (i % 2));
            *scales = [subs & 7, subs >> 3 & 7].map(|sub| scale * f32::from(2 * sub + 1));
            let (low, [first, second]) = (self.codes[i], self.high[i]);
            let high = [first & 15, first >> 4, second & 15, second >> 4];
            let levels =
                [0, 1, 2, 3].map(|i| iq::IQ1_BOOK[usize::from(low[i]) | usize::from(high[i] & 7) << 8]);
            shifted(codes, levels, high.map(|high| high & 8 != 0));
        }
    }
}

impl Spell<256> for Iq2Xxs {
    #[inline(always)]
    fn spell(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let scale = half(self.scale) * 0.25;
        for (i, (codes, scales)) in runs(codes, scales) {
            let [low, rest] = self.groups[i];
            let rest = u32::from_le_bytes(rest);
            *scales = [scale * (0.5 + (rest >> 28) as f32); 2];
            signed(codes, low.map(|code| word(iq::IQ2_XXS_BOOK[usize::from(code)])), even_signs(rest));
        }
    }
}

/// The scales of both halves of a run, from two nibbles.
#[inline(always)]
fn nibble_scales(scale: f32, nibbles: u8) -> [f32; 2] {
    [nibbles & 15, nibbles >> 4].map(|nibble| scale * (0.5 + f32::from(nibble)) * 0.25)
}

impl Spell<256> for Iq2Xs {
    #[inline(always)]
    fn spell(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let scale = half(self.scale);
        for (i, (codes, scales)) in runs(codes, scales) {
            let packed = words(&self.codes[i]);
            *scales = nibble_scales(scale, self.scales[i]);
            let levels = packed.map(|code| word(iq::IQ2_XS_BOOK[usize::from(code & 511)]));
            signed(codes, levels, packed.map(|code| EVEN_SIGNS[usize::from(code >> 9)]));
        }
    }
}

impl Spell<256> for Iq2S {
    #[inline(always)]
    fn spell(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let scale = half(self.scale);
        for (i, (codes, scales)) in runs(codes, scales) {
            let (low, high) = (self.codes[i], self.high[i]);
            *scales = nibble_scales(scale, self.scales[i]);
            let code = |i: usize| usize::from(low[i]) | usize::from(high >> (2 * i) & 3) << 8;
            signed(
                codes,
                [0, 1, 2, 3].map(|i| word(iq::IQ2_S_BOOK[code(i)])),
                self.signs[i].map(|signs| SIGNS[usize::from(signs)]),
            );
        }
    }
}

impl Spell<256> for Iq3Xxs {
    #[inline(always)]
    fn spell(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let scale = half(self.scale) * 0.5;
        for (i, (codes, scales)) in runs(codes, scales) {
            let (low, rest) = (self.codes[i], u32::from_le_bytes(self.signs[i]));
            *scales = [scale * (0.5 + (rest >> 28) as f32); 2];
            let levels = |i: usize| iq::IQ3_XXS_BOOK[usize::from(low[i])];
            signed(codes, [0, 2, 4, 6].map(|i| two_words(levels(i), levels(i + 1))), even_signs(rest));
        }
    }
}

impl Spell<256> for Iq3S {
    #[inline(always)]
    fn spell(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let scale = half(self.scale);
        for (i, (codes, scales)) in runs(codes, scales) {
            *scales = [scale * f32::from(1 + 2 * (self.scales[i / 2] >> (4 * (i % 2)) & 15)); 2];
            let (low, high) = (self.codes[i], usize::from(self.high[i]));
            let levels = |i: usize| iq::IQ3_S_BOOK[usize::from(low[i]) | (high >> i & 1) << 8];
            signed(
                codes,
                [0, 2, 4, 6].map(|i| two_words(levels(i), levels(i + 1))),
                self.signs[i].map(|signs| SIGNS[usize::from(signs)]),
            );
        }
    }
}

/// Digit after digit of every byte, less one: the first digit of all bytes comes first.
#[inline(always)]
fn digits<const N: usize>(bytes: &[u8; N], codes: &mut [i8]) {
    let mut rest = *bytes;
    for row in codes.as_chunks_mut::<N>().0 {
        for (code, rest) in row.iter_mut().zip(&mut rest) {
            *code = ((u16::from(*rest) * 3) >> 8) as i8 - 1;
            *rest = rest.wrapping_mul(3);
        }
    }
}

impl Spell<256> for ternary::Tq1_0 {
    #[inline(always)]
    fn spell(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scales.fill(half(self.scale));
        let (first, rest) = codes.split_at_mut(160);
        let (second, third) = rest.split_at_mut(80);
        if let Some((fives, rest)) = self.fives.split_first_chunk::<32>() {
            digits(fives, first);
            if let Some(fives) = rest.first_chunk::<16>() {
                digits(fives, second);
            }
        }
        digits(&self.fours, third);
    }
}

impl Spell<64> for ternary::Q2_0 {
    #[inline(always)]
    fn spell(&self, codes: &mut [i8; 64], scales: &mut [f32]) {
        scales.fill(half(self.scale));
        for (codes, quants) in codes.as_chunks_mut::<4>().0.iter_mut().zip(self.quants) {
            for (i, code) in codes.iter_mut().enumerate() {
                *code = (quants >> (2 * i) & 3) as i8 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any bits: the products of codes and scales are what the decoder says, to the last bit or two.
    #[test]
    fn spelling_is_decoding() {
        for format in Format::ALL.into_iter().filter(|format| format.spelling().is_some()) {
            let mut state = 1u64;
            let bytes: Vec<u8> = (0..40 * format.block_bytes())
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 56) as u8
                })
                .collect();
            let elements = 40 * format.block_len();
            let mut values = vec![0.0; elements];
            format.decode(&bytes, &mut values).unwrap();
            for isa in Isa::available() {
                let (mut codes, mut scales) = (vec![0; elements], vec![0.0; elements / SPELLED_LEN]);
                format.spell(isa, &bytes, &mut codes, &mut scales).unwrap();
                for (i, value) in values.iter().enumerate() {
                    let spelled = f32::from(codes[i]) * scales[i / SPELLED_LEN];
                    let close = (spelled - value).abs() <= value.abs() * 1e-6;
                    assert!(close || !value.is_finite(), "{format} {isa} {i}: {spelled} for {value}");
                }
                let same = scales.as_chunks::<2>().0.iter().all(|[a, b]| a.to_bits() == b.to_bits());
                assert!(same || format.spelling() == Some(false), "{format}");
            }
        }
    }

    #[test]
    fn lengths_are_checked() {
        let bytes = [0; 50];
        let spell = |codes: usize, scales: usize| {
            Format::Iq1S.spell(Isa::PORTABLE, &bytes, &mut vec![0; codes], &mut vec![0.0; scales])
        };
        assert_eq!(spell(256, 16), Ok(()));
        assert!(spell(255, 16).is_err());
        assert!(spell(256, 15).is_err());
    }
}
