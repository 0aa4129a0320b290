//! The K formats: super-blocks of 256 elements whose sub-blocks have small integer scales (and minima) under one or
//! two halves.
//!
//! Sub-blocks are 32 elements in Q4_K and Q5_K, 16 in the others. `x = scale * sub_scale * q - min * sub_min`, without the
//! second term in Q3_K and Q6_K.
//!
//! Encoders fit sub-blocks one by one; then their scales become small integers under a common half, and each integer is
//! chosen among its neighbours by the error it leaves.

use super::block::{Block, BlockMember, Encode, half, level};
use super::fit::{
    AffineFit, each, error_of, extreme, fit_affine, fit_symmetric, inverse, nearest, store_half,
};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q2K {
    /// Of each sub-block: scale in the low nibble, minimum in the high one.
    subs: [u8; 16],
    quants: [u8; 64],
    scale: [u8; 2],
    min: [u8; 2],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q3K {
    high_bits: [u8; 32],
    quants: [u8; 64],
    subs: [u8; 12],
    scale: [u8; 2],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q4K {
    scale: [u8; 2],
    min: [u8; 2],
    subs: [u8; 12],
    nibbles: [[u8; 32]; 4],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q5K {
    scale: [u8; 2],
    min: [u8; 2],
    subs: [u8; 12],
    /// Bit `s` of byte `i` belongs to element `i` of sub-block `s`.
    fifth_bits: [u8; 32],
    nibbles: [[u8; 32]; 4],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q6K {
    nibbles: [[u8; 64]; 2],
    high_bits: [[u8; 32]; 2],
    subs: [i8; 16],
    scale: [u8; 2],
}

/// 256 signed bytes under an f32, with the sums of 16 elements each. It stores activations.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q8K {
    scale: [u8; 4],
    quants: [i8; 256],
    sums: [[u8; 2]; 16],
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
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::bytes(16), BlockMember::bytes(64), BlockMember::halves(2)];

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
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::bytes(32), BlockMember::bytes(64), BlockMember::bytes(12), BlockMember::halves(1)];

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
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::halves(2), BlockMember::bytes(12), BlockMember::bytes(128)];

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
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::halves(2), BlockMember::bytes(12), BlockMember::bytes(32), BlockMember::bytes(128)];

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
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::bytes(128), BlockMember::bytes(64), BlockMember::bytes(16), BlockMember::halves(1)];

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
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::words(1), BlockMember::bytes(256), BlockMember::halves(16)];

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = f32::from_le_bytes(self.scale);
        for (value, quant) in out.iter_mut().zip(self.quants) {
            *value = scale * f32::from(quant);
        }
    }
}

/// A super-block with minima, before it is packed.
struct AffineSuper<const SUBS: usize, const N: usize> {
    scale: [u8; 2],
    min: [u8; 2],
    scales: [u8; SUBS],
    mins: [u8; SUBS],
    codes: [[u8; N]; SUBS],
}

/// Integers next to the best one, within `0..=top`.
#[inline(always)]
fn around(ratio: f32, low: f32, high: f32) -> [f32; 3] {
    let middle = nearest(ratio.clamp(low, high));
    [middle, (middle - 1.0).clamp(low, high), (middle + 1.0).clamp(low, high)]
}

impl<const SUBS: usize, const N: usize> AffineSuper<SUBS, N> {
    /// Codes are `0..=top`, the small integers `0..=sub_top`.
    #[inline(always)]
    fn new(values: &[[f32; N]; SUBS], top: f32, sub_top: f32) -> AffineSuper<SUBS, N> {
        let (mut fits, mut largest) = ([AffineFit::default(); SUBS], AffineFit::default());
        for (fit, values) in fits.iter_mut().zip(values) {
            *fit = fit_affine::<N, false>(values, top);
            largest.scale = largest.scale.max(fit.scale);
            largest.min = largest.min.max(fit.min);
        }
        let (scale, min) = (store_half(largest.scale / sub_top), store_half(largest.min / sub_top));
        let (scale_value, min_value) = (half(scale), half(min));
        let (scale_factor, min_factor) = (inverse(scale_value), inverse(min_value));
        let mut block = AffineSuper { scale, min, scales: [0; SUBS], mins: [0; SUBS], codes: [[0; N]; SUBS] };
        for sub in 0..SUBS {
            let (values, fit) = (&values[sub], fits[sub]);
            let mut least_error = f32::INFINITY;
            for sub_scale in around(fit.scale * scale_factor, 0.0, sub_top) {
                for sub_min in around(fit.min * min_factor, 0.0, sub_top) {
                    let (scale, min) = (sub_scale * scale_value, sub_min * min_value);
                    let factor = inverse(scale);
                    let codes = each(values, |value| nearest(((value + min) * factor).clamp(0.0, top)));
                    let error = error_of(values, &codes, scale, -min);
                    if error < least_error {
                        least_error = error;
                        (block.scales[sub], block.mins[sub]) = (sub_scale as u8, sub_min as u8);
                        block.codes[sub] = each(&codes, |code| code as u8);
                    }
                }
            }
        }
        block
    }
}

/// A super-block without minima, before it is packed.
struct SymmetricSuper<const SUBS: usize, const N: usize> {
    scale: [u8; 2],
    scales: [i8; SUBS],
    codes: [[i8; N]; SUBS],
}

impl<const SUBS: usize, const N: usize> SymmetricSuper<SUBS, N> {
    /// Codes are `-low..low`, the small integers `-sub_low..sub_low`.
    #[inline(always)]
    fn new(values: &[[f32; N]; SUBS], low: f32, sub_low: f32) -> SymmetricSuper<SUBS, N> {
        let (mut fits, mut largest) = ([0f32; SUBS], 0f32);
        for (fit, values) in fits.iter_mut().zip(values) {
            *fit = fit_symmetric(values, low, low - 1.0);
            largest = if fit.abs() > largest.abs() { *fit } else { largest };
        }
        let scale = store_half(largest / -sub_low);
        let scale_value = half(scale);
        let scale_factor = inverse(scale_value);
        let mut block = SymmetricSuper { scale, scales: [0; SUBS], codes: [[0; N]; SUBS] };
        for sub in 0..SUBS {
            let values = &values[sub];
            let mut least_error = f32::INFINITY;
            for sub_scale in around(fits[sub] * scale_factor, -sub_low, sub_low - 1.0) {
                let scale = sub_scale * scale_value;
                let factor = inverse(scale);
                let codes = each(values, |value| nearest((value * factor).clamp(-low, low - 1.0)));
                let error = error_of(values, &codes, scale, 0.0);
                if error < least_error {
                    least_error = error;
                    block.scales[sub] = sub_scale as i8;
                    block.codes[sub] = each(&codes, |code| code as i8);
                }
            }
        }
        block
    }
}

/// The 6-bit scales and minima of Q4_K and Q5_K; the decoder has the layout.
#[inline(always)]
fn pack_subs(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    for i in 0..4 {
        packed[i] = scales[i] & 63 | scales[i + 4] >> 4 << 6;
        packed[i + 4] = mins[i] & 63 | mins[i + 4] >> 4 << 6;
        packed[i + 8] = scales[i + 4] & 15 | mins[i + 4] << 4;
    }
    packed
}

/// Codes of 256 elements, four to a byte: a byte holds elements that are 32 apart.
#[inline(always)]
fn pack_pairs(codes: &[u8; 256]) -> [u8; 64] {
    let mut packed = [0; 64];
    for (i, byte) in packed.iter_mut().enumerate() {
        let first = i / 32 * 128 + i % 32;
        for pair in 0..4 {
            *byte |= (codes[first + 32 * pair] & 3) << (2 * pair);
        }
    }
    packed
}

/// The low nibbles of sub-blocks of 32, two sub-blocks to a row of bytes.
#[inline(always)]
fn pack_nibbles(codes: &[[u8; 32]; 8]) -> [[u8; 32]; 4] {
    let mut nibbles = [[0; 32]; 4];
    for (pair, row) in nibbles.iter_mut().enumerate() {
        for (i, byte) in row.iter_mut().enumerate() {
            *byte = codes[2 * pair][i] & 15 | codes[2 * pair + 1][i] << 4;
        }
    }
    nibbles
}

impl Encode<256> for Q2K {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Q2K {
        let block = AffineSuper::<16, 16>::new(bytemuck::cast_ref(values), 3.0, 15.0);
        let mut subs = [0; 16];
        for (i, sub) in subs.iter_mut().enumerate() {
            *sub = block.scales[i] | block.mins[i] << 4;
        }
        Q2K { subs, quants: pack_pairs(bytemuck::cast_ref(&block.codes)), scale: block.scale, min: block.min }
    }
}

impl Encode<256> for Q3K {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Q3K {
        let block = SymmetricSuper::<16, 16>::new(bytemuck::cast_ref(values), 4.0, 32.0);
        let codes: [i8; 256] = bytemuck::cast(block.codes);
        let codes = codes.map(|code| (code + 4) as u8);
        let scales = block.scales.map(|scale| (scale + 32) as u8);
        let (mut high_bits, mut subs) = ([0; 32], [0; 12]);
        for (i, code) in codes.iter().enumerate() {
            high_bits[i % 32] |= (code >> 2 & 1) << (i / 32);
        }
        for (i, scale) in scales.iter().enumerate() {
            subs[i % 8] |= (scale & 15) << (4 * (i / 8));
            subs[8 + i % 4] |= (scale >> 4 & 3) << (2 * (i / 4));
        }
        Q3K { high_bits, quants: pack_pairs(&codes), subs, scale: block.scale }
    }
}

impl Encode<256> for Q4K {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Q4K {
        let block = AffineSuper::<8, 32>::new(bytemuck::cast_ref(values), 15.0, 63.0);
        let subs = pack_subs(&block.scales, &block.mins);
        Q4K { scale: block.scale, min: block.min, subs, nibbles: pack_nibbles(&block.codes) }
    }
}

impl Encode<256> for Q5K {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Q5K {
        let block = AffineSuper::<8, 32>::new(bytemuck::cast_ref(values), 31.0, 63.0);
        let mut fifth_bits = [0; 32];
        for (sub, codes) in block.codes.iter().enumerate() {
            for (byte, code) in fifth_bits.iter_mut().zip(codes) {
                *byte |= (code >> 4 & 1) << sub;
            }
        }
        let (subs, nibbles) = (pack_subs(&block.scales, &block.mins), pack_nibbles(&block.codes));
        Q5K { scale: block.scale, min: block.min, subs, fifth_bits, nibbles }
    }
}

impl Encode<256> for Q6K {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Q6K {
        let block = SymmetricSuper::<16, 16>::new(bytemuck::cast_ref(values), 32.0, 128.0);
        let codes: [[[u8; 32]; 4]; 2] =
            bytemuck::cast(block.codes.map(|codes| codes.map(|code| (code + 32) as u8)));
        let (mut nibbles, mut high_bits) = ([[0; 64]; 2], [[0; 32]; 2]);
        for (part, runs) in codes.iter().enumerate() {
            for (run, codes) in runs.iter().enumerate() {
                for (i, code) in codes.iter().enumerate() {
                    nibbles[part][32 * (run % 2) + i] |= (code & 15) << (4 * (run / 2));
                    high_bits[part][i] |= (code >> 4 & 3) << (2 * run);
                }
            }
        }
        Q6K { nibbles, high_bits, subs: block.scales, scale: block.scale }
    }
}

impl Encode<256> for Q8K {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Q8K {
        let extreme = extreme(values);
        let factor = if extreme == 0.0 { 0.0 } else { -127.0 / extreme };
        let quants = each(values, |value| nearest((value * factor).clamp(-127.0, 127.0)) as i8);
        let groups: [[i8; 16]; 16] = bytemuck::cast(quants);
        let sums = groups.map(|group| group.iter().copied().map(i16::from).sum::<i16>().to_le_bytes());
        Q8K { scale: inverse(factor).to_le_bytes(), quants, sums }
    }
}
