//! Formats of 4-bit floats: MXFP4 (32 elements under a power of two) and NVFP4 (four groups of 16 under small floats).
//!
//! An element is E2M1: a sign, two bits of exponent, one of mantissa. It is read doubled, which makes it an integer,
//! and the scale halved.

use super::block::{Block, BlockMember, Encode};
use super::fit::{each, error_of, extreme, inverse};
use crate::minifloat::{e2m1_doubled, e8m0_halved, nearest_e2m1, nearest_e2m1_doubled, nearest_ue4m3, ue4m3};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Mxfp4 {
    /// The scale's exponent, biased by 127.
    exponent: u8,
    nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Nvfp4 {
    /// Unsigned E4M3, one per group.
    scales: [u8; 4],
    /// Of each group eight bytes: low nibbles are its first eight elements.
    nibbles: [u8; 32],
}

impl Block<32> for Mxfp4 {
    const MEMBERS: &'static [BlockMember] = &[BlockMember::bytes(1), BlockMember::bytes(16)];

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
    const MEMBERS: &'static [BlockMember] = &[BlockMember::bytes(4), BlockMember::bytes(32)];

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

#[inline(always)]
fn levels<const N: usize>(values: &[f32; N], scale: f32) -> [f32; N] {
    let factor = inverse(scale);
    each(values, |value| nearest_e2m1_doubled(value * factor))
}

#[inline(always)]
fn pack<const N: usize, const HALF: usize>(values: &[f32; N], scale: f32) -> [u8; HALF] {
    let factor = inverse(scale);
    let codes = each(values, |value| nearest_e2m1(value * factor));
    let mut nibbles = [0; HALF];
    for (i, byte) in nibbles.iter_mut().enumerate() {
        *byte = codes[i] | codes[i + HALF] << 4;
    }
    nibbles
}

/// The exponent of the E8M0 scale with the least error: the one under which the greatest value is at most 6, or nearly,
/// or a neighbour.
#[inline(always)]
pub(crate) fn best_exponent(values: &[f32; 32]) -> u8 {
    let greatest = extreme(values).abs();
    // The exponent field is the floor of the logarithm; 6 is 1.5 times 2^2.
    let floor = (greatest.to_bits() >> 23) as u8;
    let (mut exponent, mut least_error) = (0, f32::INFINITY);
    for candidate in [floor.saturating_sub(2), floor.saturating_sub(1), floor.saturating_sub(3)] {
        let scale = e8m0_halved(candidate);
        let error = error_of(values, &levels(values, scale), scale, 0.0);
        if error < least_error {
            (exponent, least_error) = (candidate, error);
        }
    }
    exponent
}

/// The E4M3 scale with the least error: the one that maps the greatest value to 6, or one near it.
#[inline(always)]
pub(crate) fn best_scale(values: &[f32; 16]) -> u8 {
    let middle = nearest_ue4m3(extreme(values).abs() / 6.0);
    let (mut best, mut least_error) = (middle, f32::INFINITY);
    for candidate in middle.saturating_sub(2)..=middle.saturating_add(3).min(0x7e) {
        let scale = ue4m3(candidate) * 0.5;
        let error = error_of(values, &levels(values, scale), scale, 0.0);
        if error < least_error {
            (best, least_error) = (candidate, error);
        }
    }
    best
}

impl Encode<32> for Mxfp4 {
    #[inline(always)]
    fn encode(values: &[f32; 32]) -> Mxfp4 {
        let exponent = best_exponent(values);
        Mxfp4 { exponent, nibbles: pack(values, e8m0_halved(exponent)) }
    }
}

impl Encode<64> for Nvfp4 {
    #[inline(always)]
    fn encode(values: &[f32; 64]) -> Nvfp4 {
        let (mut scales, mut nibbles) = ([0; 4], [[0; 8]; 4]);
        for (group, values) in values.as_chunks::<16>().0.iter().enumerate() {
            scales[group] = best_scale(values);
            nibbles[group] = pack(values, ue4m3(scales[group]) * 0.5);
        }
        Nvfp4 { scales, nibbles: bytemuck::cast(nibbles) }
    }
}
