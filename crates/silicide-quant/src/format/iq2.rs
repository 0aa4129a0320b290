//! IQ2_XXS, IQ2_XS and IQ2_S: 256 elements under one half, groups of eight magnitudes from a code book, signs and small scales
//! beside them. Neighbours: `iq`, what IQ1 to IQ3 share; `iq_search`, the search of the encoders.

use super::block::{Block, BlockMember, Encode, half, words};
use super::iq::{
    EVEN_SIGNS, SIGNS, eights, even_signs, even_signs_i8, even_signs_of, expand_book, groups32, nibbles,
    scale_groups, scale_halves, signed, signed_i8,
};
use super::iq_search::{Book, Rule, Signed, SignedLevels, pack_signs, pack_subs};
use super::{books, iq_grids};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq2Xxs {
    scale: [u8; 2],
    /// Of each 32 elements: four codes, then a word of four times seven sign bits and a 4-bit scale.
    groups: [[[u8; 4]; 2]; 8],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq2Xs {
    scale: [u8; 2],
    /// Nine bits of code, seven of signs.
    codes: [[[u8; 2]; 4]; 8],
    scales: [u8; 8],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq2S {
    scale: [u8; 2],
    codes: [[u8; 4]; 8],
    signs: [[u8; 4]; 8],
    high: [u8; 8],
    scales: [u8; 8],
}

const IQ2_LEVELS: [i8; 3] = [8, 25, 43];
pub(crate) static IQ2_XXS_BOOK: [[i8; 8]; 256] = expand_book(&iq_grids::IQ2_XXS, &IQ2_LEVELS);
pub(crate) static IQ2_XS_BOOK: [[i8; 8]; 512] = expand_book(&iq_grids::IQ2_XS, &IQ2_LEVELS);
pub(crate) static IQ2_S_BOOK: [[i8; 8]; 1024] = expand_book(&iq_grids::IQ2_S, &IQ2_LEVELS);
static IQ2_XXS: Book<8, 8> = Book::new(&IQ2_XXS_BOOK);
static IQ2_XS: Book<16, 8> = Book::new(&IQ2_XS_BOOK);
static IQ2_S: Book<32, 8> = Book::new(&IQ2_S_BOOK);
const IQ2_RULE: Rule = Rule { first: 0.125, step: 0.25, last: 15.0 };

/// Returns the scales of both halves of a group of 32, from two nibbles.
#[inline(always)]
fn iq2_scales(scale: f32, nibbles: u8) -> [f32; 2] {
    [nibbles & 15, nibbles >> 4].map(|nibble| scale * (0.5 + f32::from(nibble)) * 0.25)
}

impl Block<256> for Iq2Xxs {
    /// The scale; then of each 32 elements four codes and a word.
    const MEMBERS: &'static [BlockMember] = &{
        let mut all = [BlockMember::halves(1); 17];
        let mut i = 1;
        while i < all.len() {
            (all[i], all[i + 1]) = (BlockMember::bytes(4), BlockMember::words(1));
            i += 2;
        }
        all
    };
    const I8_SCALE_LEN: Option<usize> = Some(32);

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

    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scale_groups(scales, half(self.scale) * 0.25, self.groups.map(|[_, rest]| rest[3] >> 4), 0.5);
        for (i, codes) in groups32(codes) {
            let [low, rest] = self.groups[i];
            let rest = u32::from_le_bytes(rest);
            for (j, low) in low.into_iter().enumerate() {
                signed_i8(codes, j, books::IQ2_XXS[usize::from(low)], even_signs_i8(rest, j));
            }
        }
    }
}

impl Block<256> for Iq2Xs {
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::halves(1), BlockMember::halves(32), BlockMember::bytes(8)];
    const I8_SCALE_LEN: Option<usize> = Some(16);

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

    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scale_halves(scales, half(self.scale) * 0.25, nibbles(&self.scales), 0.5);
        for (i, codes) in groups32(codes) {
            for (j, code) in words(&self.codes[i]).into_iter().enumerate() {
                let levels = books::IQ2_XS[usize::from(code & 511)];
                signed_i8(codes, j, levels, EVEN_SIGNS[usize::from(code >> 9)]);
            }
        }
    }
}

impl Block<256> for Iq2S {
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::halves(1), BlockMember::bytes(64), BlockMember::bytes(8), BlockMember::bytes(8)];
    const I8_SCALE_LEN: Option<usize> = Some(16);

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

    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scale_halves(scales, half(self.scale) * 0.25, nibbles(&self.scales), 0.5);
        for (i, codes) in groups32(codes) {
            let high = usize::from(self.high[i]);
            for (j, (low, signs)) in self.codes[i].into_iter().zip(self.signs[i]).enumerate() {
                let levels = books::IQ2_S[usize::from(low) | (high >> (2 * j) & 3) << 8];
                signed_i8(codes, j, levels, SIGNS[usize::from(signs)]);
            }
        }
    }
}

impl Encode<256> for Iq2Xxs {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq2Xxs {
        let block = Signed::<8, 4>::new(values, &IQ2_XXS, &IQ2_RULE, SignedLevels { top: 43.0, even: true });
        let mut groups = [[[0; 4]; 2]; 8];
        for (i, (group, signs)) in groups.iter_mut().zip(block.signs.as_chunks::<4>().0).enumerate() {
            *group = [block.words[i].map(|word| word as u8), pack_signs(signs, block.subs[i])];
        }
        Iq2Xxs { scale: block.scale, groups }
    }
}

impl Encode<256> for Iq2Xs {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq2Xs {
        let block = Signed::<16, 2>::new(values, &IQ2_XS, &IQ2_RULE, SignedLevels { top: 43.0, even: true });
        let mut codes = [[0; 2]; 32];
        for (i, code) in codes.iter_mut().enumerate() {
            let (word, signs) = (block.words[i / 2][i % 2] as u16, u16::from(block.signs[i] & 0x7f));
            *code = (word | signs << 9).to_le_bytes();
        }
        Iq2Xs { scale: block.scale, codes: bytemuck::cast(codes), scales: pack_subs(block.subs) }
    }
}

impl Encode<256> for Iq2S {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq2S {
        let block = Signed::<16, 2>::new(values, &IQ2_S, &IQ2_RULE, SignedLevels { top: 43.0, even: false });
        let (mut codes, mut high) = ([0; 32], [0; 8]);
        for (i, code) in codes.iter_mut().enumerate() {
            let word = block.words[i / 2][i % 2];
            *code = word as u8;
            high[i / 4] |= ((word >> 8) as u8) << (2 * (i % 4));
        }
        let (codes, signs) = (bytemuck::cast(codes), bytemuck::cast(block.signs));
        Iq2S { scale: block.scale, codes, signs, high, scales: pack_subs(block.subs) }
    }
}
