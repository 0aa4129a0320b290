//! Encoders of the formats of one and two bits. The ternary ones are for weights that are ternary already: their scale is
//! the greatest magnitude.

use super::fit::{each, error_of, extreme, inverse, nearest, nearest_i8, store_half, sum};
use crate::format::block::{Encode, half};
use crate::format::ternary::{Q1_0, Q2_0, Tq1_0, Tq2_0};

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
