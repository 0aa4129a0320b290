//! Formats of 4-bit floats: MXFP4 (32 elements under a power of two) and NVFP4 (four groups of 16 under small floats).
//!
//! An element is E2M1: a sign, two bits of exponent, one of mantissa. It is read doubled, which makes it an integer,
//! and the scale halved.

use super::block::Block;
use crate::minifloat::{e2m1_doubled, e8m0_halved, ue4m3};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Mxfp4 {
    /// The scale's exponent, biased by 127.
    pub(crate) exponent: u8,
    pub(crate) nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Nvfp4 {
    /// Unsigned E4M3, one per group.
    pub(crate) scales: [u8; 4],
    /// Of each group eight bytes: low nibbles are its first eight elements.
    pub(crate) nibbles: [u8; 32],
}

impl Block<32> for Mxfp4 {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = e8m0_halved(self.exponent);
        let low = self.nibbles.map(|byte| e2m1_doubled(byte & 15));
        let high = self.nibbles.map(|byte| e2m1_doubled(byte >> 4));
        for i in 0..16 {
            out[i] = f32::from(low[i]) * scale;
            out[i + 16] = f32::from(high[i]) * scale;
        }
    }
}

impl Block<64> for Nvfp4 {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 64]) {
        let low = self.nibbles.map(|byte| e2m1_doubled(byte & 15));
        let high = self.nibbles.map(|byte| e2m1_doubled(byte >> 4));
        let levels = low.as_chunks::<8>().0.iter().zip(high.as_chunks::<8>().0);
        for ((out, &scale), (low, high)) in
            out.as_chunks_mut::<16>().0.iter_mut().zip(&self.scales).zip(levels)
        {
            let scale = ue4m3(scale) * 0.5;
            for i in 0..8 {
                out[i] = f32::from(low[i]) * scale;
                out[i + 8] = f32::from(high[i]) * scale;
            }
        }
    }
}
