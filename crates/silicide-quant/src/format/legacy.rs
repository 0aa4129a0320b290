//! The formats of one scale per 32 elements: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1.
//!
//! `x = scale * (q - zero)` for the `_0` kinds and `x = scale * q + min` for the `_1` kinds. Nibbles: the low ones are
//! elements 0..16, the high ones elements 16..32. The fifth bits of element `i` are bit `i` of a 32-bit word.
//!
//! The encoders produce the bytes of GGML.

use super::block::{Block, BlockMember, Encode, half, level};
use super::fit::{each, extreme, extremes, inverse, nearest_i8, store_half};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q4_0 {
    scale: [u8; 2],
    nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q4_1 {
    scale: [u8; 2],
    min: [u8; 2],
    nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q5_0 {
    scale: [u8; 2],
    fifth_bits: [u8; 4],
    nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q5_1 {
    scale: [u8; 2],
    min: [u8; 2],
    fifth_bits: [u8; 4],
    nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q8_0 {
    scale: [u8; 2],
    quants: [i8; 32],
}

/// Q8_0 with the sum of its values, for dot products with formats that have a minimum. It stores activations.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q8_1 {
    scale: [u8; 2],
    /// `scale` times the sum of the quants.
    sum: [u8; 2],
    quants: [i8; 32],
}

/// Codes 0..32 in element order from nibbles.
#[inline(always)]
fn codes4(nibbles: &[u8; 16]) -> [u8; 32] {
    let mut codes = [0; 32];
    for (i, &byte) in nibbles.iter().enumerate() {
        codes[i] = byte & 15;
        codes[i + 16] = byte >> 4;
    }
    codes
}

/// Codes 0..32 in element order from nibbles and fifth bits.
#[inline(always)]
fn codes5(nibbles: &[u8; 16], fifth_bits: [u8; 4]) -> [u8; 32] {
    let mut codes = codes4(nibbles);
    for (i, code) in codes.iter_mut().enumerate() {
        // A test rather than a shift: few instruction sets can shift lanes by different amounts.
        *code |= if fifth_bits[i / 8] & 1 << (i % 8) == 0 { 0 } else { 16 };
    }
    codes
}

impl Block<32> for Q4_0 {
    const MEMBERS: &'static [BlockMember] = &[BlockMember::halves(1), BlockMember::bytes(16)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = half(self.scale);
        for (value, code) in out.iter_mut().zip(codes4(&self.nibbles)) {
            *value = level(code, 8) * scale;
        }
    }
}

impl Block<32> for Q4_1 {
    const MEMBERS: &'static [BlockMember] = &[BlockMember::halves(2), BlockMember::bytes(16)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let (scale, min) = (half(self.scale), half(self.min));
        for (value, code) in out.iter_mut().zip(codes4(&self.nibbles)) {
            *value = f32::from(code) * scale + min;
        }
    }
}

impl Block<32> for Q5_0 {
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::halves(1), BlockMember::words(1), BlockMember::bytes(16)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = half(self.scale);
        for (value, code) in out.iter_mut().zip(codes5(&self.nibbles, self.fifth_bits)) {
            *value = level(code, 16) * scale;
        }
    }
}

impl Block<32> for Q5_1 {
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::halves(2), BlockMember::words(1), BlockMember::bytes(16)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let (scale, min) = (half(self.scale), half(self.min));
        for (value, code) in out.iter_mut().zip(codes5(&self.nibbles, self.fifth_bits)) {
            *value = f32::from(code) * scale + min;
        }
    }
}

impl Block<32> for Q8_0 {
    const MEMBERS: &'static [BlockMember] = &[BlockMember::halves(1), BlockMember::bytes(32)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = half(self.scale);
        for (value, quant) in out.iter_mut().zip(self.quants) {
            *value = f32::from(quant) * scale;
        }
    }
}

impl Block<32> for Q8_1 {
    const MEMBERS: &'static [BlockMember] = &[BlockMember::halves(2), BlockMember::bytes(32)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = half(self.scale);
        for (value, quant) in out.iter_mut().zip(self.quants) {
            *value = f32::from(quant) * scale;
        }
    }
}

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
