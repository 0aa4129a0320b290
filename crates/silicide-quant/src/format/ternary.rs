//! Formats of one and two bits under one half: TQ1_0 and TQ2_0 (ternary, 256 elements), Q1_0 (128 signs) and Q2_0
//! (64 elements of -1, 0, 1, 2).

use super::block::{Block, half, level};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Tq1_0 {
    /// Five ternary digits per byte, as a fraction of 256: multiplying by 3 brings the next digit to the top.
    pub(crate) fives: [u8; 48],
    /// Four digits per byte.
    pub(crate) fours: [u8; 4],
    pub(crate) scale: [u8; 2],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Tq2_0 {
    pub(crate) quants: [[u8; 32]; 2],
    pub(crate) scale: [u8; 2],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q1_0 {
    pub(crate) scale: [u8; 2],
    pub(crate) bits: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q2_0 {
    pub(crate) scale: [u8; 2],
    pub(crate) quants: [u8; 16],
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

impl Block<256> for Tq1_0 {
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
}

impl Block<256> for Tq2_0 {
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
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 64]) {
        let scale = half(self.scale);
        for (out, quants) in out.as_chunks_mut::<4>().0.iter_mut().zip(self.quants) {
            for (i, value) in out.iter_mut().enumerate() {
                *value = level(quants >> (2 * i) & 3, 1) * scale;
            }
        }
    }
}
