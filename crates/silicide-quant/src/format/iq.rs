//! The code-book formats IQ1, IQ2 and IQ3: 256 elements under one half, groups of eight (or four) magnitudes chosen from
//! a code book, signs and small scales beside them. Neighbour: `iq_grids`, the code books.

use super::block::{Block, half, words};
use super::iq_grids;
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq1S {
    pub(crate) scale: [u8; 2],
    pub(crate) codes: [[u8; 4]; 8],
    /// Of each 32 elements: four times three high bits of the codes, three bits of scale, the sign of the shift.
    pub(crate) high: [[u8; 2]; 8],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq1M {
    pub(crate) codes: [[u8; 4]; 8],
    /// A nibble per code: three high bits and the sign of the shift.
    pub(crate) high: [[u8; 2]; 8],
    /// Four words of four 3-bit scales; their top nibbles are the block's half.
    pub(crate) scales: [[u8; 2]; 4],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq2Xxs {
    pub(crate) scale: [u8; 2],
    /// Of each 32 elements: four codes, then a word of four times seven sign bits and a 4-bit scale.
    pub(crate) groups: [[[u8; 4]; 2]; 8],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq2Xs {
    pub(crate) scale: [u8; 2],
    /// Nine bits of code, seven of signs.
    pub(crate) codes: [[[u8; 2]; 4]; 8],
    pub(crate) scales: [u8; 8],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq2S {
    pub(crate) scale: [u8; 2],
    pub(crate) codes: [[u8; 4]; 8],
    pub(crate) signs: [[u8; 4]; 8],
    pub(crate) high: [u8; 8],
    pub(crate) scales: [u8; 8],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq3Xxs {
    pub(crate) scale: [u8; 2],
    pub(crate) codes: [[u8; 8]; 8],
    /// Four times seven sign bits and a 4-bit scale.
    pub(crate) signs: [[u8; 4]; 8],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq3S {
    pub(crate) scale: [u8; 2],
    pub(crate) codes: [[u8; 8]; 8],
    pub(crate) high: [u8; 8],
    pub(crate) signs: [[u8; 4]; 8],
    pub(crate) scales: [u8; 4],
}

/// What IQ1 elements are shifted by, up or down, before they are scaled.
pub(crate) const IQ1_SHIFT: f32 = 0.125;

/// Code words with their levels spelled out, `LANES` of `BITS` bits each.
const fn spell<const WORDS: usize, const LANES: usize>(
    packed: &[u16; WORDS],
    levels: &[i8],
) -> [[i8; LANES]; WORDS] {
    let bits = 16 / LANES;
    let mut book = [[0; LANES]; WORDS];
    let mut word = 0;
    while word < WORDS {
        let mut lane = 0;
        while lane < LANES {
            let index = packed[word] >> (bits * lane) & ((1 << bits) - 1);
            book[word][lane] = levels[index as usize];
            lane += 1;
        }
        word += 1;
    }
    book
}

const IQ2_LEVELS: [i8; 3] = [8, 25, 43];

pub(crate) static IQ1_BOOK: [[i8; 8]; 2048] = spell(&iq_grids::IQ1, &[-1, 0, 1]);
pub(crate) static IQ2_XXS_BOOK: [[i8; 8]; 256] = spell(&iq_grids::IQ2_XXS, &IQ2_LEVELS);
pub(crate) static IQ2_XS_BOOK: [[i8; 8]; 512] = spell(&iq_grids::IQ2_XS, &IQ2_LEVELS);
pub(crate) static IQ2_S_BOOK: [[i8; 8]; 1024] = spell(&iq_grids::IQ2_S, &IQ2_LEVELS);
pub(crate) static IQ3_XXS_BOOK: [[i8; 4]; 256] = spell(&iq_grids::IQ3_XXS, &[4, 12, 20, 28, 36, 44, 52, 62]);
pub(crate) static IQ3_S_BOOK: [[i8; 4]; 512] = spell(&iq_grids::IQ3_S, &[1, 3, 5, 7, 9, 11, 13, 15]);

/// Seven stored signs and the eighth, which makes their number even.
#[inline(always)]
fn even_signs(seven: u32) -> u8 {
    let seven = seven as u8 & 0x7f;
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// Magnitudes times `scale`, negated where `signs` has a bit.
#[inline(always)]
fn signed<const N: usize>(out: &mut [f32; N], magnitudes: &[i8; N], scale: f32, signs: u8) {
    for i in 0..N {
        let sign = if signs >> i & 1 == 1 { -1.0 } else { 1.0 };
        out[i] = scale * f32::from(magnitudes[i]) * sign;
    }
}

/// Levels shifted up or down, times `scale`.
#[inline(always)]
fn shifted(out: &mut [f32; 8], levels: &[i8; 8], scale: f32, down: bool) {
    let shift = if down { -IQ1_SHIFT } else { IQ1_SHIFT };
    for i in 0..8 {
        out[i] = scale * (f32::from(levels[i]) + shift);
    }
}

impl Block<256> for Iq1S {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for ((out, codes), high) in
            out.as_chunks_mut::<32>().0.iter_mut().zip(&self.codes).zip(words(&self.high))
        {
            let scale = scale * f32::from(2 * (high >> 12 & 7) + 1);
            for (i, (out, &code)) in out.as_chunks_mut::<8>().0.iter_mut().zip(codes).enumerate() {
                let code = usize::from(code) | usize::from(high >> (3 * i) & 7) << 8;
                shifted(out, &IQ1_BOOK[code], scale, high & 0x8000 != 0);
            }
        }
    }
}

impl Block<256> for Iq1M {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scales = words(&self.scales);
        let top = scales.map(|word| word >> 12);
        let scale = half((top[0] | top[1] << 4 | top[2] << 8 | top[3] << 12).to_le_bytes());
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let sub = scales[group / 2] >> (6 * (group % 2) + 3 * (i / 2)) & 7;
                let high = self.high[group][i / 2] >> (4 * (i % 2));
                let code = usize::from(self.codes[group][i]) | usize::from(high & 7) << 8;
                shifted(out, &IQ1_BOOK[code], scale * f32::from(2 * sub + 1), high & 8 != 0);
            }
        }
    }
}

impl Block<256> for Iq2Xxs {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for (out, [codes, rest]) in out.as_chunks_mut::<32>().0.iter_mut().zip(&self.groups) {
            let rest = u32::from_le_bytes(*rest);
            let scale = scale * (0.5 + (rest >> 28) as f32) * 0.25;
            for (i, (out, &code)) in out.as_chunks_mut::<8>().0.iter_mut().zip(codes).enumerate() {
                signed(out, &IQ2_XXS_BOOK[usize::from(code)], scale, even_signs(rest >> (7 * i)));
            }
        }
    }
}

/// The scales of both halves of a group of 32, from two nibbles.
#[inline(always)]
fn iq2_scales(scale: f32, nibbles: u8) -> [f32; 2] {
    [nibbles & 15, nibbles >> 4].map(|nibble| scale * (0.5 + f32::from(nibble)) * 0.25)
}

impl Block<256> for Iq2Xs {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let scales = iq2_scales(scale, self.scales[group]);
            for (i, (out, code)) in
                out.as_chunks_mut::<8>().0.iter_mut().zip(words(&self.codes[group])).enumerate()
            {
                signed(
                    out,
                    &IQ2_XS_BOOK[usize::from(code & 511)],
                    scales[i / 2],
                    even_signs(u32::from(code >> 9)),
                );
            }
        }
    }
}

impl Block<256> for Iq2S {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let scales = iq2_scales(scale, self.scales[group]);
            for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let high = self.high[group] >> (2 * i) & 3;
                let code = usize::from(self.codes[group][i]) | usize::from(high) << 8;
                signed(out, &IQ2_S_BOOK[code], scales[i / 2], self.signs[group][i]);
            }
        }
    }
}

impl Block<256> for Iq3Xxs {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for ((out, codes), rest) in out.as_chunks_mut::<32>().0.iter_mut().zip(&self.codes).zip(&self.signs) {
            let rest = u32::from_le_bytes(*rest);
            let scale = scale * (0.5 + (rest >> 28) as f32) * 0.5;
            for (i, (out, &code)) in out.as_chunks_mut::<4>().0.iter_mut().zip(codes).enumerate() {
                let signs = even_signs(rest >> (7 * (i / 2))) >> (4 * (i % 2));
                signed(out, &IQ3_XXS_BOOK[usize::from(code)], scale, signs);
            }
        }
    }
}

impl Block<256> for Iq3S {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let sub = self.scales[group / 2] >> (4 * (group % 2)) & 15;
            let scale = scale * f32::from(1 + 2 * sub);
            for (i, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let code = usize::from(self.codes[group][i]) | usize::from(self.high[group] >> i & 1) << 8;
                signed(out, &IQ3_S_BOOK[code], scale, self.signs[group][i / 2] >> (4 * (i % 2)));
            }
        }
    }
}
