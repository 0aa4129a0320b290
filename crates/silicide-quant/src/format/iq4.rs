//! The non-linear 4-bit formats: IQ4_NL (32 elements under a half) and IQ4_XS (256 elements: a half and eight 6-bit scales).

use super::block::{Block, BlockMember, Encode, half, level};
use super::fit::{each, error_of, fit_scale, inverse, nearest, store_half};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq4Nl {
    scale: [u8; 2],
    nibbles: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq4Xs {
    scale: [u8; 2],
    /// Two high bits of each scale.
    subs_high: [u8; 2],
    /// Low nibbles of the scales, which are around 32.
    subs_low: [u8; 4],
    nibbles: [[u8; 16]; 8],
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
    const MEMBERS: &'static [BlockMember] = &[BlockMember::halves(1), BlockMember::bytes(16)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        decode_group(&self.nibbles, half(self.scale), out);
    }
}

impl Block<256> for Iq4Xs {
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::halves(1), BlockMember::halves(1), BlockMember::bytes(4), BlockMember::bytes(128)];

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

/// Returns the code of the level nearest to `x`: the number of midpoints below it.
#[inline(always)]
fn code_of(x: f32) -> u8 {
    let mut code = 0;
    for pair in IQ4_LEVELS.windows(2) {
        if let [low, high] = pair {
            code += u8::from(x > f32::from(i16::from(*low) + i16::from(*high)) * 0.5);
        }
    }
    code
}

/// Returns the level nearest to `x`.
#[inline(always)]
fn level_of(x: f32) -> f32 {
    let mut level = f32::from(IQ4_LEVELS[0]);
    for pair in IQ4_LEVELS.windows(2) {
        if let [low, high] = pair {
            let (low, high) = (f32::from(*low), f32::from(*high));
            level += if x > (low + high) * 0.5 { high - low } else { 0.0 };
        }
    }
    level
}

#[inline(always)]
fn pack(values: &[f32; 32], scale: f32) -> [u8; 16] {
    let factor = inverse(scale);
    let codes = each(values, |value| code_of(value * factor));
    let mut nibbles = [0; 16];
    for (i, byte) in nibbles.iter_mut().enumerate() {
        *byte = codes[i] | codes[i + 16] << 4;
    }
    nibbles
}

/// The best scale found: the levels reach farther below zero than above, so both directions are tried.
#[inline(always)]
fn fit(values: &[f32; 32]) -> f32 {
    let scales = [fit_scale(values, 127.0, level_of), fit_scale(values, -113.0, level_of)];
    let [first, second] = scales.map(|scale| {
        let factor = inverse(scale);
        error_of(values, &each(values, |value| level_of(value * factor)), scale, 0.0)
    });
    if second < first { scales[1] } else { scales[0] }
}

impl Encode<32> for Iq4Nl {
    #[inline(always)]
    fn encode(values: &[f32; 32]) -> Iq4Nl {
        let scale = store_half(fit(values));
        Iq4Nl { scale, nibbles: pack(values, half(scale)) }
    }
}

impl Encode<256> for Iq4Xs {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq4Xs {
        let values: &[[f32; 32]; 8] = bytemuck::cast_ref(values);
        let (mut fits, mut largest) = ([0f32; 8], 0f32);
        for (scale, values) in fits.iter_mut().zip(values) {
            *scale = fit(values);
            largest = if scale.abs() > largest.abs() { *scale } else { largest };
        }
        let scale = store_half(largest / -32.0);
        let scale_value = half(scale);
        let scale_factor = inverse(scale_value);
        let mut block = Iq4Xs { scale, subs_high: [0; 2], subs_low: [0; 4], nibbles: [[0; 16]; 8] };
        let mut high = 0;
        for (group, values) in values.iter().enumerate() {
            let middle = nearest((fits[group] * scale_factor).clamp(-32.0, 31.0));
            let (mut best, mut least_error) = (middle, f32::INFINITY);
            for sub in [middle, (middle - 1.0).max(-32.0), (middle + 1.0).min(31.0)] {
                let scale = sub * scale_value;
                let factor = inverse(scale);
                let error = error_of(values, &each(values, |value| level_of(value * factor)), scale, 0.0);
                if error < least_error {
                    (best, least_error) = (sub, error);
                }
            }
            let code = (best + 32.0) as u8;
            block.subs_low[group / 2] |= (code & 15) << (4 * (group % 2));
            high |= u16::from(code >> 4) << (2 * group);
            block.nibbles[group] = pack(values, best * scale_value);
        }
        block.subs_high = high.to_le_bytes();
        block
    }
}
