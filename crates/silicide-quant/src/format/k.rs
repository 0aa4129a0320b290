//! The K formats: super-blocks of 256 elements whose sub-blocks have small integer scales (and minima) under one or
//! two halves.
//!
//! Sub-blocks are 32 elements in Q4_K and Q5_K, 16 in the others. `x = scale * sub_scale * q - min * sub_min`, without the
//! second term in Q3_K and Q6_K.

use super::block::{Block, half, level};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q2K {
    /// Of each sub-block: scale in the low nibble, minimum in the high one.
    pub(crate) subs: [u8; 16],
    pub(crate) quants: [u8; 64],
    pub(crate) scale: [u8; 2],
    pub(crate) min: [u8; 2],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q3K {
    pub(crate) high_bits: [u8; 32],
    pub(crate) quants: [u8; 64],
    pub(crate) subs: [u8; 12],
    pub(crate) scale: [u8; 2],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q4K {
    pub(crate) scale: [u8; 2],
    pub(crate) min: [u8; 2],
    pub(crate) subs: [u8; 12],
    pub(crate) nibbles: [[u8; 32]; 4],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q5K {
    pub(crate) scale: [u8; 2],
    pub(crate) min: [u8; 2],
    pub(crate) subs: [u8; 12],
    /// Bit `s` of byte `i` belongs to element `i` of sub-block `s`.
    pub(crate) fifth_bits: [u8; 32],
    pub(crate) nibbles: [[u8; 32]; 4],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q6K {
    pub(crate) nibbles: [[u8; 64]; 2],
    pub(crate) high_bits: [[u8; 32]; 2],
    pub(crate) subs: [i8; 16],
    pub(crate) scale: [u8; 2],
}

/// 256 signed bytes under an f32, with the sums of 16 elements each. It stores activations.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q8K {
    pub(crate) scale: [u8; 4],
    pub(crate) quants: [i8; 256],
    pub(crate) sums: [[u8; 2]; 16],
}

/// The 6-bit scales and minima of Q4_K and Q5_K: bytes 0..4 hold four scales, 4..8 four minima; their top two bits and
/// the nibbles of 8..12 (scale low, minimum high) make the other four of each.
#[inline(always)]
fn unpack_subs(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for i in 0..4 {
        scales[i] = packed[i] & 63;
        mins[i] = packed[i + 4] & 63;
        scales[i + 4] = packed[i + 8] & 15 | packed[i] >> 6 << 4;
        mins[i + 4] = packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4;
    }
    (scales, mins)
}

/// Products of a super-block's half with its small integers.
#[inline(always)]
fn products(scale: [u8; 2], subs: [u8; 8]) -> [f32; 8] {
    let scale = half(scale);
    subs.map(|sub| scale * f32::from(sub))
}

impl Block<256> for Q2K {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let (scale, min) = (half(self.scale), half(self.min));
        let scales = self.subs.map(|sub| scale * f32::from(sub & 15));
        let mins = self.subs.map(|sub| min * f32::from(sub >> 4));
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (part, pair) = (group / 4, group % 4);
            for (i, value) in out.iter_mut().enumerate() {
                let code = self.quants[32 * part + i] >> (2 * pair) & 3;
                *value = scales[2 * group + i / 16] * f32::from(code) - mins[2 * group + i / 16];
            }
        }
    }
}

impl Q3K {
    /// Returns the sixteen 6-bit scales, which are around 32: low nibbles in bytes 0..8, high pairs of bits in 8..12.
    #[inline(always)]
    fn unpack_subs(&self) -> [u8; 16] {
        let mut subs = [0; 16];
        for (i, sub) in subs.iter_mut().enumerate() {
            let low = self.subs[i % 8] >> (4 * (i / 8)) & 15;
            let high = self.subs[8 + i % 4] >> (2 * (i / 4)) & 3;
            *sub = low | high << 4;
        }
        subs
    }
}

impl Block<256> for Q3K {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        let scales = self.unpack_subs().map(|sub| scale * level(sub, 32));
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (part, pair) = (group / 4, group % 4);
            for (i, value) in out.iter_mut().enumerate() {
                let low = self.quants[32 * part + i] >> (2 * pair) & 3;
                let high = self.high_bits[i] >> group & 1;
                *value = scales[2 * group + i / 16] * level(low | high << 2, 4);
            }
        }
    }
}

impl Block<256> for Q4K {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let (scales, mins) = unpack_subs(&self.subs);
        let (scales, mins) = (products(self.scale, scales), products(self.min, mins));
        for (pair, out) in out.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            let nibbles = &self.nibbles[pair];
            let (low, high) = (nibbles.map(|byte| byte & 15), nibbles.map(|byte| byte >> 4));
            for (i, (out, codes)) in out.as_chunks_mut::<32>().0.iter_mut().zip([low, high]).enumerate() {
                let (scale, min) = (scales[2 * pair + i], mins[2 * pair + i]);
                for (value, code) in out.iter_mut().zip(codes) {
                    *value = scale * f32::from(code) - min;
                }
            }
        }
    }
}

impl Block<256> for Q5K {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let (scales, mins) = unpack_subs(&self.subs);
        let (scales, mins) = (products(self.scale, scales), products(self.min, mins));
        for (sub, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (i, value) in out.iter_mut().enumerate() {
                let low = self.nibbles[sub / 2][i] >> (4 * (sub % 2)) & 15;
                let code = low | (self.fifth_bits[i] >> sub & 1) << 4;
                *value = scales[sub] * f32::from(code) - mins[sub];
            }
        }
    }
}

impl Block<256> for Q6K {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        let scales = self.subs.map(|sub| scale * f32::from(sub));
        for (part, out) in out.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            let (nibbles, high_bits) = (&self.nibbles[part], &self.high_bits[part]);
            // Runs of 32 elements: low nibbles of bytes 0..32, of 32..64, then the high nibbles of both.
            for (run, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                for (i, value) in out.iter_mut().enumerate() {
                    let low = nibbles[32 * (run % 2) + i] >> (4 * (run / 2)) & 15;
                    let high = high_bits[i] >> (2 * run) & 3;
                    *value = scales[8 * part + 2 * run + i / 16] * level(low | high << 4, 32);
                }
            }
        }
    }
}

impl Block<256> for Q8K {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = f32::from_le_bytes(self.scale);
        for (value, quant) in out.iter_mut().zip(self.quants) {
            *value = scale * f32::from(quant);
        }
    }
}
