//! Decodes blocks to i8 codes under scales, for integer arithmetic. A weight is exactly `code * scale`, with a scale per 16
//! weights.
//!
//! Formats whose codes are indices of code books, or digits, have such a decoder. Codes of other formats are taken out by shifts.
//! Neighbours: the families of formats have the structs; `simd` compiles this for every instruction set.

use super::block::{Block, half, whole_blocks, words};
use super::iq::{self, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
use super::{Format, FormatError, books, ternary};
use crate::simd::{Isa, Task};
use bytemuck::cast;
use std::marker::PhantomData;

/// Weights under one of the scales.
pub const DECODE_I8_LEN: usize = 16;

/// A block that can be decoded to i8 codes.
trait DecodeI8<const LEN: usize>: Block<LEN> {
    /// The codes, and the scale of every [`DECODE_I8_LEN`] of them.
    fn decode_i8(&self, codes: &mut [i8; LEN], scales: &mut [f32]);
}

impl Format {
    /// Returns how many weights share a scale in [`Format::decode_i8`], 16 or 32; `None` if the format has no such decoder.
    pub const fn decode_i8_scale_len(self) -> Option<usize> {
        match self {
            Format::Iq1M | Format::Iq2Xs | Format::Iq2S => Some(16),
            Format::Iq1S | Format::Iq2Xxs | Format::Iq3Xxs | Format::Iq3S => Some(32),
            Format::Tq1_0 | Format::Q2_0 => Some(32),
            _ => None,
        }
    }

    /// Decodes whole blocks to i8 codes. `bytes` must be exactly the blocks of `codes`, and `scales` has one for every
    /// [`DECODE_I8_LEN`] of them. A format without [`Format::decode_i8_scale_len`] leaves everything as it is.
    pub fn decode_i8(
        self,
        isa: Isa,
        bytes: &[u8],
        codes: &mut [i8],
        scales: &mut [f32],
    ) -> Result<(), FormatError> {
        self.check(codes.len(), bytes.len())?;
        let (elements, expected) = (codes.len(), codes.len() / DECODE_I8_LEN);
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

fn run<B: DecodeI8<LEN>, const LEN: usize>(isa: Isa, bytes: &[u8], codes: &mut [i8], scales: &mut [f32]) {
    isa.run(DecodeI8Task::<B, LEN> { bytes, codes, scales, block: PhantomData });
}

struct DecodeI8Task<'a, B, const LEN: usize> {
    bytes: &'a [u8],
    codes: &'a mut [i8],
    scales: &'a mut [f32],
    block: PhantomData<B>,
}

impl<B: DecodeI8<LEN>, const LEN: usize> Task for DecodeI8Task<'_, B, LEN> {
    #[inline(always)]
    fn run(self) {
        let places = self
            .codes
            .as_chunks_mut::<LEN>()
            .0
            .iter_mut()
            .zip(self.scales.chunks_exact_mut(LEN / DECODE_I8_LEN));
        for (block, (codes, scales)) in whole_blocks::<B>(self.bytes).iter().zip(places) {
            block.decode_i8(codes, scales);
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

/// Writes eight levels, none of which is zero, negated where there is a sign.
#[inline(always)]
fn signed(codes: &mut [i8; 32], eighth: usize, levels: u64, signs: u64) {
    // No byte carries into the next: a level that is turned over is below 255.
    write(codes, eighth, (levels ^ signs) + (signs & ONES));
}

/// Writes eight codes.
#[inline(always)]
fn write(codes: &mut [i8; 32], eighth: usize, word: u64) {
    let (words, _) = codes.as_chunks_mut::<8>();
    if let Some(codes) = words.get_mut(eighth) {
        *codes = cast(word.to_le_bytes());
    }
}

/// Returns two words of four as one.
#[inline(always)]
fn two(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

/// Returns all bits of a byte for each of the signs of an eighth, of which there are seven.
#[inline(always)]
fn even_signs(word: u32, eighth: usize) -> u64 {
    EVEN_SIGNS[(word >> (7 * eighth) & 127) as usize]
}

/// Groups of 32 codes.
#[inline(always)]
fn runs(codes: &mut [i8; 256]) -> impl Iterator<Item = (usize, &mut [i8; 32])> {
    codes.as_chunks_mut::<32>().0.iter_mut().enumerate()
}

/// Writes scales of groups, from small numbers: all at once, which is vectorised.
#[inline(always)]
fn scale_runs(scales: &mut [f32], scale: f32, subs: [u8; 8], shift: f32) {
    for (scales, sub) in scales.as_chunks_mut::<2>().0.iter_mut().zip(subs) {
        *scales = [scale * (shift + f32::from(sub)); 2];
    }
}

/// Writes scales of halves of groups, likewise.
#[inline(always)]
fn scale_halves(scales: &mut [f32], scale: f32, subs: [u8; 16], shift: f32) {
    for (place, sub) in scales.iter_mut().zip(subs) {
        *place = scale * (shift + f32::from(sub));
    }
}

/// IQ1 levels eight-fold, one up or down.
#[inline(always)]
fn shifted(levels: u64, down: bool) -> u64 {
    const TOP: u64 = ONES << 7;
    // Bytes of 0, 1 and -1, of which the lowest three bits are dropped before others could get them.
    let eightfold = (levels & (ONES * 0x1f)) << 3;
    let (up, two) = (eightfold | ONES, if down { ONES << 1 } else { 0 });
    // Two less in every byte, with the highest bits kept from borrowing.
    ((up | TOP) - two) ^ ((up ^ TOP) & TOP)
}

/// The scale of eight-fold codes.
const SHIFTED: f32 = iq::IQ1_SHIFT;

impl DecodeI8<256> for Iq1S {
    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let high = words(&self.high);
        // Twice the number and one.
        scale_runs(scales, half(self.scale) * (2.0 * SHIFTED), high.map(|high| (high >> 12) as u8 & 7), 0.5);
        for (i, codes) in runs(codes) {
            let (low, high) = (self.codes[i], high[i]);
            for (j, low) in low.into_iter().enumerate() {
                let levels = books::IQ1[usize::from(low) | usize::from(high >> (3 * j) & 7) << 8];
                write(codes, j, shifted(levels, high & 0x8000 != 0));
            }
        }
    }
}

impl DecodeI8<256> for Iq1M {
    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let words = words(&self.scales);
        let top = words.map(|word| word >> 12);
        let scale = half((top[0] | top[1] << 4 | top[2] << 8 | top[3] << 12).to_le_bytes()) * SHIFTED;
        let mut subs = [0; 16];
        for (i, sub) in subs.iter_mut().enumerate() {
            *sub = (words[i / 4] >> (3 * (i % 4))) as u8 & 7;
        }
        scale_halves(scales, 2.0 * scale, subs, 0.5);
        for (i, codes) in runs(codes) {
            let (low, high) = (self.codes[i], u16::from_le_bytes(self.high[i]));
            for (j, low) in low.into_iter().enumerate() {
                let high = high >> (4 * j);
                let levels = books::IQ1[usize::from(low) | usize::from(high & 7) << 8];
                write(codes, j, shifted(levels, high & 8 != 0));
            }
        }
    }
}

impl DecodeI8<256> for Iq2Xxs {
    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scale_runs(scales, half(self.scale) * 0.25, self.groups.map(|[_, rest]| rest[3] >> 4), 0.5);
        for (i, codes) in runs(codes) {
            let [low, rest] = self.groups[i];
            let rest = u32::from_le_bytes(rest);
            for (j, low) in low.into_iter().enumerate() {
                signed(codes, j, books::IQ2_XXS[usize::from(low)], even_signs(rest, j));
            }
        }
    }
}

/// Nibbles of bytes, half as many as there are, the lower ones first.
#[inline(always)]
fn nibbles<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    for (pair, byte) in all.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [*byte & 15, *byte >> 4];
    }
    all
}

impl DecodeI8<256> for Iq2Xs {
    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scale_halves(scales, half(self.scale) * 0.25, nibbles(&self.scales), 0.5);
        for (i, codes) in runs(codes) {
            for (j, code) in words(&self.codes[i]).into_iter().enumerate() {
                let levels = books::IQ2_XS[usize::from(code & 511)];
                signed(codes, j, levels, EVEN_SIGNS[usize::from(code >> 9)]);
            }
        }
    }
}

impl DecodeI8<256> for Iq2S {
    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scale_halves(scales, half(self.scale) * 0.25, nibbles(&self.scales), 0.5);
        for (i, codes) in runs(codes) {
            let high = usize::from(self.high[i]);
            for (j, (low, signs)) in self.codes[i].into_iter().zip(self.signs[i]).enumerate() {
                let levels = books::IQ2_S[usize::from(low) | (high >> (2 * j) & 3) << 8];
                signed(codes, j, levels, SIGNS[usize::from(signs)]);
            }
        }
    }
}

impl DecodeI8<256> for Iq3Xxs {
    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scale_runs(scales, half(self.scale) * 0.5, self.signs.map(|rest| rest[3] >> 4), 0.5);
        for (i, codes) in runs(codes) {
            let rest = u32::from_le_bytes(self.signs[i]);
            for (j, pair) in self.codes[i].as_chunks::<2>().0.iter().enumerate() {
                let [first, second] = pair.map(usize::from);
                signed(codes, j, two(books::IQ3_XXS[first], books::IQ3_XXS[second]), even_signs(rest, j));
            }
        }
    }
}

impl DecodeI8<256> for Iq3S {
    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        // Twice the number and one.
        scale_runs(scales, 2.0 * half(self.scale), nibbles(&self.scales), 0.5);
        for (i, codes) in runs(codes) {
            let high = usize::from(self.high[i]);
            let pairs = self.codes[i].as_chunks::<2>().0;
            for (j, (pair, signs)) in pairs.iter().zip(self.signs[i]).enumerate() {
                let [first, second] = pair.map(usize::from);
                let (first, second) =
                    (first | (high >> (2 * j) & 1) << 8, second | (high >> (2 * j + 1) & 1) << 8);
                signed(codes, j, two(books::IQ3_S[first], books::IQ3_S[second]), SIGNS[usize::from(signs)]);
            }
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

impl DecodeI8<256> for ternary::Tq1_0 {
    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
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

impl DecodeI8<64> for ternary::Q2_0 {
    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 64], scales: &mut [f32]) {
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
    fn codes_times_scales_are_the_decoded_values() {
        for format in Format::ALL.into_iter().filter(|format| format.decode_i8_scale_len().is_some()) {
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
                let (mut codes, mut scales) = (vec![0; elements], vec![0.0; elements / DECODE_I8_LEN]);
                format.decode_i8(isa, &bytes, &mut codes, &mut scales).unwrap();
                for (i, value) in values.iter().enumerate() {
                    let product = f32::from(codes[i]) * scales[i / DECODE_I8_LEN];
                    let close = (product - value).abs() <= value.abs() * 1e-6;
                    assert!(close || !value.is_finite(), "{format} {isa} {i}: {product} for {value}");
                }
                let same = scales.as_chunks::<2>().0.iter().all(|[a, b]| a.to_bits() == b.to_bits());
                assert!(same || format.decode_i8_scale_len() == Some(16), "{format}");
            }
        }
    }

    #[test]
    fn lengths_are_checked() {
        let bytes = [0; 50];
        let decode = |codes: usize, scales: usize| {
            Format::Iq1S.decode_i8(Isa::PORTABLE, &bytes, &mut vec![0; codes], &mut vec![0.0; scales])
        };
        assert_eq!(decode(256, 16), Ok(()));
        assert!(decode(255, 16).is_err());
        assert!(decode(256, 15).is_err());
    }
}
