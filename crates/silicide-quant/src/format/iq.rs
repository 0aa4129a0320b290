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

/// The shift of IQ1 elements, up or down, before they are scaled.
pub(crate) const IQ1_SHIFT: f32 = 0.125;

/// Code words with their levels written out, `LANES` to a word.
const fn expand_book<const WORDS: usize, const LANES: usize>(
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

pub(crate) static IQ1_BOOK: [[i8; 8]; 2048] = expand_book(&iq_grids::IQ1, &[-1, 0, 1]);
pub(crate) static IQ2_XXS_BOOK: [[i8; 8]; 256] = expand_book(&iq_grids::IQ2_XXS, &IQ2_LEVELS);
pub(crate) static IQ2_XS_BOOK: [[i8; 8]; 512] = expand_book(&iq_grids::IQ2_XS, &IQ2_LEVELS);
pub(crate) static IQ2_S_BOOK: [[i8; 8]; 1024] = expand_book(&iq_grids::IQ2_S, &IQ2_LEVELS);
pub(crate) static IQ3_XXS_BOOK: [[i8; 4]; 256] =
    expand_book(&iq_grids::IQ3_XXS, &[4, 12, 20, 28, 36, 44, 52, 62]);
pub(crate) static IQ3_S_BOOK: [[i8; 4]; 512] = expand_book(&iq_grids::IQ3_S, &[1, 3, 5, 7, 9, 11, 13, 15]);

/// Returns seven stored signs and the eighth, which makes their number even.
#[inline(always)]
fn even_signs(seven: u32) -> u8 {
    let seven = seven as u8 & 0x7f;
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// Returns the signs of 32 elements from a word of four times seven.
#[inline(always)]
fn even_signs_of(word: u32) -> [u8; 4] {
    [0, 7, 14, 21].map(|shift| even_signs(word >> shift))
}

/// 32 magnitudes, negated where `signs` has a bit, times the scale of their half.
#[inline(always)]
fn signed(out: &mut [f32; 32], magnitudes: [i8; 32], signs: [u8; 4], scales: [f32; 2]) {
    let mut levels = magnitudes;
    for (i, level) in levels.iter_mut().enumerate() {
        *level = if signs[i / 8] & 1 << (i % 8) == 0 { *level } else { -*level };
    }
    for (i, value) in out.iter_mut().enumerate() {
        *value = scales[i / 16] * f32::from(levels[i]);
    }
}

/// 32 levels, shifted up or, where `down` says so, down, times the scale of their half.
#[inline(always)]
fn shifted(out: &mut [f32; 32], levels: [i8; 32], down: [bool; 4], scales: [f32; 2]) {
    let shifts = down.map(|down| if down { -IQ1_SHIFT } else { IQ1_SHIFT });
    for (i, value) in out.iter_mut().enumerate() {
        *value = scales[i / 16] * (f32::from(levels[i]) + shifts[i / 8]);
    }
}

/// The levels of 32 elements from four code words of eight.
#[inline(always)]
fn eights<const N: usize>(book: &[[i8; 8]; N], code: impl Fn(usize) -> usize) -> [i8; 32] {
    bytemuck::cast([0, 1, 2, 3].map(|i| book[code(i) % N]))
}

/// The levels of 32 elements from eight code words of four.
#[inline(always)]
fn fours<const N: usize>(book: &[[i8; 4]; N], code: impl Fn(usize) -> usize) -> [i8; 32] {
    bytemuck::cast([0, 1, 2, 3, 4, 5, 6, 7].map(|i| book[code(i) % N]))
}

impl Block<256> for Iq1S {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for ((out, codes), high) in
            out.as_chunks_mut::<32>().0.iter_mut().zip(self.codes).zip(words(&self.high))
        {
            let scale = scale * f32::from(2 * (high >> 12 & 7) + 1);
            let levels = eights(&IQ1_BOOK, |i| usize::from(codes[i]) | usize::from(high >> (3 * i) & 7) << 8);
            shifted(out, levels, [high & 0x8000 != 0; 4], [scale; 2]);
        }
    }
}

impl Block<256> for Iq1M {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let words = words(&self.scales);
        let top = words.map(|word| word >> 12);
        let scale = half((top[0] | top[1] << 4 | top[2] << 8 | top[3] << 12).to_le_bytes());
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let subs = words[group / 2] >> (6 * (group % 2));
            let scales = [subs & 7, subs >> 3 & 7].map(|sub| scale * f32::from(2 * sub + 1));
            let (codes, [first, second]) = (self.codes[group], self.high[group]);
            let high = [first & 15, first >> 4, second & 15, second >> 4];
            let levels = eights(&IQ1_BOOK, |i| usize::from(codes[i]) | usize::from(high[i] & 7) << 8);
            shifted(out, levels, high.map(|high| high & 8 != 0), scales);
        }
    }
}

impl Block<256> for Iq2Xxs {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for (out, [codes, rest]) in out.as_chunks_mut::<32>().0.iter_mut().zip(self.groups) {
            let rest = u32::from_le_bytes(rest);
            let scale = scale * (0.5 + (rest >> 28) as f32) * 0.25;
            let levels = eights(&IQ2_XXS_BOOK, |i| usize::from(codes[i]));
            signed(out, levels, even_signs_of(rest), [scale; 2]);
        }
    }
}

/// Returns the scales of both halves of a group of 32, from two nibbles.
#[inline(always)]
fn iq2_scales(scale: f32, nibbles: u8) -> [f32; 2] {
    [nibbles & 15, nibbles >> 4].map(|nibble| scale * (0.5 + f32::from(nibble)) * 0.25)
}

impl Block<256> for Iq2Xs {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for ((out, codes), nibbles) in
            out.as_chunks_mut::<32>().0.iter_mut().zip(&self.codes).zip(self.scales)
        {
            let codes = words(codes);
            let signs = codes.map(|code| even_signs(u32::from(code >> 9)));
            let levels = eights(&IQ2_XS_BOOK, |i| usize::from(codes[i] & 511));
            signed(out, levels, signs, iq2_scales(scale, nibbles));
        }
    }
}

impl Block<256> for Iq2S {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (codes, high) = (self.codes[group], self.high[group]);
            let levels =
                eights(&IQ2_S_BOOK, |i| usize::from(codes[i]) | usize::from(high >> (2 * i) & 3) << 8);
            signed(out, levels, self.signs[group], iq2_scales(scale, self.scales[group]));
        }
    }
}

impl Block<256> for Iq3Xxs {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for ((out, codes), rest) in out.as_chunks_mut::<32>().0.iter_mut().zip(self.codes).zip(self.signs) {
            let rest = u32::from_le_bytes(rest);
            let scale = scale * (0.5 + (rest >> 28) as f32) * 0.5;
            let levels = fours(&IQ3_XXS_BOOK, |i| usize::from(codes[i]));
            signed(out, levels, even_signs_of(rest), [scale; 2]);
        }
    }
}

impl Block<256> for Iq3S {
    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let scale = scale * f32::from(1 + 2 * (self.scales[group / 2] >> (4 * (group % 2)) & 15));
            let (codes, high) = (self.codes[group], self.high[group]);
            // The ninth bits choose a half of the book. Joined to the codes they would make worse code.
            let (first, second) = IQ3_S_BOOK.split_at(256);
            let mut levels = [[0; 4]; 8];
            for (i, levels) in levels.iter_mut().enumerate() {
                let half = if high & 1 << i == 0 { first } else { second };
                *levels = half[usize::from(codes[i])];
            }
            signed(out, bytemuck::cast(levels), self.signs[group], [scale; 2]);
        }
    }
}
