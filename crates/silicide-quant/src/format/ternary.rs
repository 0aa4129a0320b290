//! Formats of one and two bits under one half: TQ1_0 and TQ2_0 (ternary, 256 elements), Q1_0 (128 signs) and Q2_0
//! (64 elements of -1, 0, 1, 2).
//!
//! The encoders of the ternary ones are for weights that are ternary already: their scale is the greatest magnitude.

use super::block::{Block, BlockMember, Encode, half, level};
use super::fit::{each, error_of, extreme, inverse, nearest, nearest_i8, store_half, sum};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Tq1_0 {
    /// Five ternary digits per byte, as a fraction of 256: multiplying by 3 brings the next digit to the top.
    fives: [u8; 48],
    /// Four digits per byte.
    fours: [u8; 4],
    scale: [u8; 2],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Tq2_0 {
    quants: [[u8; 32]; 2],
    scale: [u8; 2],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q1_0 {
    scale: [u8; 2],
    bits: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q2_0 {
    scale: [u8; 2],
    quants: [u8; 16],
}

/// Digit `place` of every byte in `bytes`, into rows of `out` of as many elements: the first digit of all bytes comes
/// first.
#[inline(always)]
fn unpack_digits<const N: usize>(bytes: &[u8; N], scale: f32, out: &mut [f32]) {
    let mut rest = *bytes;
    for row in out.as_chunks_mut::<N>().0 {
        for (value, rest) in row.iter_mut().zip(&mut rest) {
            let digit = (u16::from(*rest) * 3) >> 8;
            *value = level(digit as u8, 1) * scale;
            *rest = rest.wrapping_mul(3);
        }
    }
}

/// Digit after digit of every byte, less one: the first digit of all bytes comes first.
#[inline(always)]
fn unpack_i8_digits<const N: usize>(bytes: &[u8; N], codes: &mut [i8]) {
    let mut rest = *bytes;
    for row in codes.as_chunks_mut::<N>().0 {
        for (code, rest) in row.iter_mut().zip(&mut rest) {
            *code = ((u16::from(*rest) * 3) >> 8) as i8 - 1;
            *rest = rest.wrapping_mul(3);
        }
    }
}

impl Block<256> for Tq1_0 {
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::bytes(48), BlockMember::bytes(4), BlockMember::halves(1)];
    const I8_SCALE_LEN: Option<usize> = Some(32);

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        let (first, rest) = out.split_at_mut(160);
        let (second, third) = rest.split_at_mut(80);
        if let Some((fives, rest)) = self.fives.split_first_chunk::<32>() {
            unpack_digits(fives, scale, first);
            if let Some(fives) = rest.first_chunk::<16>() {
                unpack_digits(fives, scale, second);
            }
        }
        unpack_digits(&self.fours, scale, third);
    }

    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scales.fill(half(self.scale));
        let (first, rest) = codes.split_at_mut(160);
        let (second, third) = rest.split_at_mut(80);
        if let Some((fives, rest)) = self.fives.split_first_chunk::<32>() {
            unpack_i8_digits(fives, first);
            if let Some(fives) = rest.first_chunk::<16>() {
                unpack_i8_digits(fives, second);
            }
        }
        unpack_i8_digits(&self.fours, third);
    }
}

impl Block<256> for Tq2_0 {
    const MEMBERS: &'static [BlockMember] = &[BlockMember::bytes(64), BlockMember::halves(1)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for (out, quants) in out.as_chunks_mut::<128>().0.iter_mut().zip(&self.quants) {
            for (pair, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                for (value, quant) in out.iter_mut().zip(quants) {
                    *value = level(quant >> (2 * pair) & 3, 1) * scale;
                }
            }
        }
    }
}

impl Block<128> for Q1_0 {
    const MEMBERS: &'static [BlockMember] = &[BlockMember::halves(1), BlockMember::bytes(16)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 128]) {
        let scale = half(self.scale);
        for (out, bits) in out.as_chunks_mut::<8>().0.iter_mut().zip(self.bits) {
            for (i, value) in out.iter_mut().enumerate() {
                *value = if bits >> i & 1 == 1 { scale } else { -scale };
            }
        }
    }
}

impl Block<64> for Q2_0 {
    const MEMBERS: &'static [BlockMember] = &[BlockMember::halves(1), BlockMember::bytes(16)];
    const I8_SCALE_LEN: Option<usize> = Some(32);

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 64]) {
        let scale = half(self.scale);
        for (out, quants) in out.as_chunks_mut::<4>().0.iter_mut().zip(self.quants) {
            for (i, value) in out.iter_mut().enumerate() {
                *value = level(quants >> (2 * i) & 3, 1) * scale;
            }
        }
    }

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

/// Digits 0, 1, 2 for -1, 0, 1, and their scale.
#[inline(always)]
fn digits(values: &[f32; 256]) -> ([u8; 2], [u8; 256]) {
    let scale = extreme(values).abs();
    let factor = inverse(scale);
    (store_half(scale), each(values, |value| (nearest_i8(value * factor).clamp(-1, 1) + 1) as u8))
}

/// Digits as a byte, the first the most significant: a fraction of 3^5, rounded up, in 256ths.
#[inline(always)]
fn pack_digits(digits: impl Iterator<Item = u8>) -> u8 {
    let (mut number, mut places) = (0u16, 0);
    for digit in digits.take(5) {
        number = number * 3 + u16::from(digit);
        places += 1;
    }
    for _ in places..5 {
        number *= 3;
    }
    (number * 256).div_ceil(243) as u8
}

impl Encode<256> for Tq1_0 {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Tq1_0 {
        let (scale, digits) = digits(values);
        let (mut fives, mut fours) = ([0; 48], [0; 4]);
        for (i, byte) in fives.iter_mut().enumerate() {
            // 32 bytes hold elements 0..160, 16 bytes elements 160..240.
            let (start, stride) = if i < 32 { (i, 32) } else { (160 + i - 32, 16) };
            *byte = pack_digits((0..5).map(|place| digits[start + place * stride]));
        }
        for (i, byte) in fours.iter_mut().enumerate() {
            *byte = pack_digits((0..4).map(|place| digits[240 + i + place * 4]));
        }
        Tq1_0 { fives, fours, scale }
    }
}

impl Encode<256> for Tq2_0 {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Tq2_0 {
        let (scale, digits) = digits(values);
        let mut quants = [[0; 32]; 2];
        for (i, digit) in digits.iter().enumerate() {
            quants[i / 128][i % 32] |= digit << (2 * (i / 32 % 4));
        }
        Tq2_0 { quants, scale }
    }
}

impl Encode<128> for Q1_0 {
    /// The mean magnitude is the best scale there is.
    #[inline(always)]
    fn encode(values: &[f32; 128]) -> Q1_0 {
        let scale = sum::<128>(|i| values[i].abs()) / 128.0;
        let mut bits = [0; 16];
        for (i, value) in values.iter().enumerate() {
            bits[i / 8] |= u8::from(*value >= 0.0) << (i % 8);
        }
        Q1_0 { scale: store_half(scale), bits }
    }
}

impl Encode<64> for Q2_0 {
    /// The best scale of either sign among fractions of the greatest magnitude: 2 is reached on one side only.
    #[inline(always)]
    fn encode(values: &[f32; 64]) -> Q2_0 {
        let greatest = extreme(values).abs();
        let (mut scale, mut least_error) = (store_half(greatest), f32::INFINITY);
        for step in 3..17 {
            for sign in [1.0, -1.0] {
                let candidate = store_half(greatest * sign * step as f32 / 16.0);
                let value = half(candidate);
                let error = error_of(values, &levels(values, value), value, 0.0);
                if error < least_error {
                    (scale, least_error) = (candidate, error);
                }
            }
        }
        let mut quants = [0; 16];
        for (i, level) in levels(values, half(scale)).iter().enumerate() {
            quants[i / 4] |= ((level + 1.0) as u8 & 3) << (2 * (i % 4));
        }
        Q2_0 { scale, quants }
    }
}

#[inline(always)]
fn levels(values: &[f32; 64], scale: f32) -> [f32; 64] {
    let factor = inverse(scale);
    each(values, |value| nearest((value * factor).clamp(-1.0, 2.0)))
}
