//! IQ3_XXS and IQ3_S: 256 elements under one half, groups of four magnitudes from a code book, signs and small scales beside them.
//! Neighbours: `iq`, what IQ1 to IQ3 share; `iq_search`, the search of the encoders.

use super::block::{Block, BlockMember, Encode, half};
use super::iq::{
    SIGNS, even_signs_i8, even_signs_of, expand_book, groups32, nibbles, scale_groups, signed, signed_i8,
};
use super::iq_search::{Book, Rule, Signed, SignedLevels, pack_signs, pack_subs};
use super::{books, iq_grids};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq3Xxs {
    scale: [u8; 2],
    codes: [[u8; 8]; 8],
    /// Four times seven sign bits and a 4-bit scale.
    signs: [[u8; 4]; 8],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq3S {
    scale: [u8; 2],
    codes: [[u8; 8]; 8],
    high: [u8; 8],
    signs: [[u8; 4]; 8],
    scales: [u8; 4],
}

pub(crate) static IQ3_XXS_BOOK: [[i8; 4]; 256] =
    expand_book(&iq_grids::IQ3_XXS, &[4, 12, 20, 28, 36, 44, 52, 62]);

pub(crate) static IQ3_S_BOOK: [[i8; 4]; 512] = expand_book(&iq_grids::IQ3_S, &[1, 3, 5, 7, 9, 11, 13, 15]);
static IQ3_XXS: Book<8, 4> = Book::new(&IQ3_XXS_BOOK);
static IQ3_S: Book<16, 4> = Book::new(&IQ3_S_BOOK);
const IQ3_XXS_RULE: Rule = Rule { first: 0.25, step: 0.5, last: 15.0 };
const IQ3_S_RULE: Rule = Rule { first: 1.0, step: 2.0, last: 15.0 };

/// The levels of 32 elements from eight code words of four.
#[inline(always)]
fn fours<const N: usize>(book: &[[i8; 4]; N], code: impl Fn(usize) -> usize) -> [i8; 32] {
    bytemuck::cast([0, 1, 2, 3, 4, 5, 6, 7].map(|i| book[code(i) % N]))
}

/// Returns two words of four as one.
#[inline(always)]
fn two(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

impl Block<256> for Iq3Xxs {
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::halves(1), BlockMember::bytes(64), BlockMember::words(8)];
    const I8_SCALE_LEN: Option<usize> = Some(32);

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

    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        scale_groups(scales, half(self.scale) * 0.5, self.signs.map(|rest| rest[3] >> 4), 0.5);
        for (i, codes) in groups32(codes) {
            let rest = u32::from_le_bytes(self.signs[i]);
            for (j, pair) in self.codes[i].as_chunks::<2>().0.iter().enumerate() {
                let [first, second] = pair.map(usize::from);
                signed_i8(
                    codes,
                    j,
                    two(books::IQ3_XXS[first], books::IQ3_XXS[second]),
                    even_signs_i8(rest, j),
                );
            }
        }
    }
}

impl Block<256> for Iq3S {
    const MEMBERS: &'static [BlockMember] = &[
        BlockMember::halves(1),
        BlockMember::bytes(64),
        BlockMember::bytes(8),
        BlockMember::bytes(32),
        BlockMember::bytes(4),
    ];
    const I8_SCALE_LEN: Option<usize> = Some(32);

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

    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        // Twice the number and one.
        scale_groups(scales, 2.0 * half(self.scale), nibbles(&self.scales), 0.5);
        for (i, codes) in groups32(codes) {
            let high = usize::from(self.high[i]);
            let pairs = self.codes[i].as_chunks::<2>().0;
            for (j, (pair, signs)) in pairs.iter().zip(self.signs[i]).enumerate() {
                let [first, second] = pair.map(usize::from);
                let (first, second) =
                    (first | (high >> (2 * j) & 1) << 8, second | (high >> (2 * j + 1) & 1) << 8);
                signed_i8(
                    codes,
                    j,
                    two(books::IQ3_S[first], books::IQ3_S[second]),
                    SIGNS[usize::from(signs)],
                );
            }
        }
    }
}

impl Encode<256> for Iq3Xxs {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq3Xxs {
        let block =
            Signed::<8, 8>::new(values, &IQ3_XXS, &IQ3_XXS_RULE, SignedLevels { top: 62.0, even: true });
        let codes = block.words.map(|words| words.map(|word| word as u8));
        let mut signs = [[0; 4]; 8];
        for (i, (packed, signs)) in signs.iter_mut().zip(block.signs.as_chunks::<4>().0).enumerate() {
            *packed = pack_signs(signs, block.subs[i]);
        }
        Iq3Xxs { scale: block.scale, codes, signs }
    }
}

impl Encode<256> for Iq3S {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq3S {
        let block = Signed::<8, 8>::new(values, &IQ3_S, &IQ3_S_RULE, SignedLevels { top: 15.0, even: false });
        let codes = block.words.map(|words| words.map(|word| word as u8));
        let mut high = [0; 8];
        for (byte, words) in high.iter_mut().zip(&block.words) {
            for (i, word) in words.iter().enumerate() {
                *byte |= ((word >> 8) as u8) << i;
            }
        }
        Iq3S {
            scale: block.scale,
            codes,
            high,
            signs: bytemuck::cast(block.signs),
            scales: pack_subs(block.subs),
        }
    }
}
