//! Encoders of the formats of one scale per 32 elements. Their bytes equal those of GGML.

use super::fit::{each, extreme, extremes, inverse, nearest_i8, store_half};
use crate::format::block::Encode;
use crate::format::legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1};

/// What `code` makes of the values, without fractions and within `0..=top`.
#[inline(always)]
fn codes(values: &[f32; 32], top: u8, code: impl Fn(f32) -> f32) -> [u8; 32] {
    each(values, |value| (code(value) as u8).min(top))
}

#[inline(always)]
fn pack_nibbles(codes: &[u8; 32]) -> [u8; 16] {
    let mut nibbles = [0; 16];
    for (i, byte) in nibbles.iter_mut().enumerate() {
        *byte = codes[i] & 15 | codes[i + 16] << 4;
    }
    nibbles
}

#[inline(always)]
fn pack_fifth_bits(codes: &[u8; 32]) -> [u8; 4] {
    let mut bits = 0;
    for (i, code) in codes.iter().enumerate() {
        bits |= u32::from(code >> 4 & 1) << i;
    }
    bits.to_le_bytes()
}

impl Encode<32> for Q4_0 {
    #[inline(always)]
    fn encode(values: &[f32; 32]) -> Q4_0 {
        let scale = extreme(values) / -8.0;
        let factor = inverse(scale);
        let codes = codes(values, 15, |value| value * factor + 8.5);
        Q4_0 { scale: store_half(scale), nibbles: pack_nibbles(&codes) }
    }
}

impl Encode<32> for Q4_1 {
    #[inline(always)]
    fn encode(values: &[f32; 32]) -> Q4_1 {
        let (min, max) = extremes(values);
        let scale = (max - min) / 15.0;
        let factor = inverse(scale);
        let codes = codes(values, 15, |value| (value - min) * factor + 0.5);
        Q4_1 { scale: store_half(scale), min: store_half(min), nibbles: pack_nibbles(&codes) }
    }
}

impl Encode<32> for Q5_0 {
    #[inline(always)]
    fn encode(values: &[f32; 32]) -> Q5_0 {
        let scale = extreme(values) / -16.0;
        let factor = inverse(scale);
        let codes = codes(values, 31, |value| value * factor + 16.5);
        let (fifth_bits, nibbles) = (pack_fifth_bits(&codes), pack_nibbles(&codes));
        Q5_0 { scale: store_half(scale), fifth_bits, nibbles }
    }
}

impl Encode<32> for Q5_1 {
    #[inline(always)]
    fn encode(values: &[f32; 32]) -> Q5_1 {
        let (min, max) = extremes(values);
        let scale = (max - min) / 31.0;
        let factor = inverse(scale);
        let codes = codes(values, 31, |value| (value - min) * factor + 0.5);
        let (fifth_bits, nibbles) = (pack_fifth_bits(&codes), pack_nibbles(&codes));
        Q5_1 { scale: store_half(scale), min: store_half(min), fifth_bits, nibbles }
    }
}

impl Encode<32> for Q8_0 {
    #[inline(always)]
    fn encode(values: &[f32; 32]) -> Q8_0 {
        let scale = extreme(values).abs() / 127.0;
        let factor = inverse(scale);
        Q8_0 { scale: store_half(scale), quants: each(values, |value| nearest_i8(value * factor)) }
    }
}

impl Encode<32> for Q8_1 {
    #[inline(always)]
    fn encode(values: &[f32; 32]) -> Q8_1 {
        let scale = extreme(values).abs() / 127.0;
        let factor = inverse(scale);
        let quants = each(values, |value| nearest_i8(value * factor));
        let sum: i32 = quants.iter().copied().map(i32::from).sum();
        Q8_1 { scale: store_half(scale), sum: store_half(sum as f32 * scale), quants }
    }
}
