//! Formats of 4-bit floats: MXFP4 (32 elements under a power of two) and NVFP4 (four groups of 16 under small floats).
//!
//! An element is E2M1: a sign, two bits of exponent, one of mantissa. Tables hold it doubled, which makes it an
//! integer, and the scales halved.

use super::block::Block;
use crate::minifloat::{E2M1_DOUBLED, e8m0_halved, ue4m3};
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
    pub(crate) nibbles: [[u8; 8]; 4],
}

impl Block<32> for Mxfp4 {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let scale = e8m0_halved(self.exponent);
        for (i, byte) in self.nibbles.iter().enumerate() {
            out[i] = f32::from(E2M1_DOUBLED[usize::from(byte & 15)]) * scale;
            out[i + 16] = f32::from(E2M1_DOUBLED[usize::from(byte >> 4)]) * scale;
        }
    }
}

impl Block<64> for Nvfp4 {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 64]) {
        let groups = self.scales.iter().zip(&self.nibbles);
        for (out, (&scale, nibbles)) in out.as_chunks_mut::<16>().0.iter_mut().zip(groups) {
            let scale = ue4m3(scale) * 0.5;
            for (i, byte) in nibbles.iter().enumerate() {
                out[i] = f32::from(E2M1_DOUBLED[usize::from(byte & 15)]) * scale;
                out[i + 8] = f32::from(E2M1_DOUBLED[usize::from(byte >> 4)]) * scale;
            }
        }
    }
}
