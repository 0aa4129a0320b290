//! The non-linear 4-bit formats: IQ4_NL (32 elements under a half) and IQ4_XS (256 elements: a half and eight 6-bit scales).

use super::block::{Block, half, level};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq4Nl {
    pub(crate) scale: [u8; 2],
    pub(crate) nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq4Xs {
    pub(crate) scale: [u8; 2],
    /// Two high bits of each scale.
    pub(crate) subs_high: [u8; 2],
    /// Low nibbles of the scales, which are around 32.
    pub(crate) subs_low: [u8; 4],
    pub(crate) nibbles: [[u8; 16]; 8],
}

/// The values of nibbles: closer together near zero, where weights are dense.
pub(crate) const IQ4_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

#[inline(always)]
fn decode_group(nibbles: &[u8; 16], scale: f32, out: &mut [f32; 32]) {
    let low = nibbles.map(|byte| IQ4_LEVELS[usize::from(byte & 15)]);
    let high = nibbles.map(|byte| IQ4_LEVELS[usize::from(byte >> 4)]);
    for i in 0..16 {
        out[i] = scale * f32::from(low[i]);
        out[i + 16] = scale * f32::from(high[i]);
    }
}

impl Block<32> for Iq4Nl {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        decode_group(&self.nibbles, half(self.scale), out);
    }
}

impl Block<256> for Iq4Xs {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        let high = u16::from_le_bytes(self.subs_high);
        for (group, (out, nibbles)) in out.as_chunks_mut::<32>().0.iter_mut().zip(&self.nibbles).enumerate() {
            let low = self.subs_low[group / 2] >> (4 * (group % 2)) & 15;
            let sub = low | ((high >> (2 * group) & 3) as u8) << 4;
            decode_group(nibbles, scale * level(sub, 32), out);
        }
    }
}
