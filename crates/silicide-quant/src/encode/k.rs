//! Encoders of the K formats. Sub-blocks are fitted one by one; then their scales become small integers under a common
//! half, and each integer is chosen among its neighbours by the error it leaves.

use super::fit::{
    AffineFit, each, error_of, extreme, fit_affine, fit_symmetric, inverse, nearest, store_half,
};
use crate::format::block::{Encode, half};
use crate::format::k::{Q2K, Q3K, Q4K, Q5K, Q6K, Q8K};

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
