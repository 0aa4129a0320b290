//! The formats of one scale per 32 elements: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1.
//!
//! `x = scale * (q - zero)` for the `_0` kinds and `x = scale * q + min` for the `_1` kinds. Nibbles: the low ones are
//! elements 0..16, the high ones elements 16..32. The fifth bits of element `i` are bit `i` of a 32-bit word.

use super::block::{Block, half, level};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q4_0 {
    pub(crate) scale: [u8; 2],
    pub(crate) nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q4_1 {
    pub(crate) scale: [u8; 2],
    pub(crate) min: [u8; 2],
    pub(crate) nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q5_0 {
    pub(crate) scale: [u8; 2],
    pub(crate) fifth_bits: [u8; 4],
    pub(crate) nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q5_1 {
    pub(crate) scale: [u8; 2],
    pub(crate) min: [u8; 2],
    pub(crate) fifth_bits: [u8; 4],
    pub(crate) nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q8_0 {
    pub(crate) scale: [u8; 2],
    pub(crate) quants: [i8; 32],
}

/// Q8_0 with the sum of its values, for dot products with formats that have a minimum. It stores activations.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q8_1 {
    pub(crate) scale: [u8; 2],
    /// `scale` times the sum of the quants.
    pub(crate) sum: [u8; 2],
    pub(crate) quants: [i8; 32],
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
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = half(self.scale);
        for (value, code) in out.iter_mut().zip(codes4(&self.nibbles)) {
            *value = level(code, 8) * scale;
        }
    }
}

impl Block<32> for Q4_1 {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let (scale, min) = (half(self.scale), half(self.min));
        for (value, code) in out.iter_mut().zip(codes4(&self.nibbles)) {
            *value = f32::from(code) * scale + min;
        }
    }
}

impl Block<32> for Q5_0 {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = half(self.scale);
        for (value, code) in out.iter_mut().zip(codes5(&self.nibbles, self.fifth_bits)) {
            *value = level(code, 16) * scale;
        }
    }
}

impl Block<32> for Q5_1 {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let (scale, min) = (half(self.scale), half(self.min));
        for (value, code) in out.iter_mut().zip(codes5(&self.nibbles, self.fifth_bits)) {
            *value = f32::from(code) * scale + min;
        }
    }
}

impl Block<32> for Q8_0 {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = half(self.scale);
        for (value, quant) in out.iter_mut().zip(self.quants) {
            *value = f32::from(quant) * scale;
        }
    }
}

impl Block<32> for Q8_1 {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = half(self.scale);
        for (value, quant) in out.iter_mut().zip(self.quants) {
            *value = f32::from(quant) * scale;
        }
    }
}
