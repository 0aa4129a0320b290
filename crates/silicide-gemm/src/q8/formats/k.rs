//! The formats of 256 weights under one scale, with small scales in integers for every 32 or 16 of them: Q2_K, Q3_K, Q4_K, Q5_K,
//! Q6_K, and IQ4_XS, whose scales are made the same way; TQ2_0, with the codes of Q2_K and no small scales.
//!
//! ```text
//! Q2_K    16 scales (low nibble) and minimums (high), 64 bytes of 2-bit codes, f16 d, f16 dmin    w = d * s * q - dmin * m
//! Q3_K    32 bytes of third bits, 64 of 2-bit codes, 12 of 6-bit scales, f16 d                    w = d * (s - 32) * (q - 4)
//! Q4_K    f16 d, f16 dmin, 12 bytes of 6-bit scales and minimums, 128 bytes of nibbles            w = d * s * q - dmin * m
//! Q5_K    the same with 32 bytes of fifth bits before the nibbles
//! Q6_K    128 bytes of nibbles, 64 of upper bits, 16 signed scales, f16 d                         w = d * s * (q - 32)
//! IQ4_XS  f16 d, u16 of upper bits of scales, 4 bytes of lower bits, 128 bytes of nibbles         w = d * (s - 32) * level[q]
//! TQ2_0   64 bytes of 2-bit codes, f16 d                                                          w = d * (q - 1)
//! ```
//!
//! 2-bit codes: each half of the block is 32 bytes, and pair `i` of bits of them is group `i` of the half. Nibbles of Q4_K: 32 bytes
//! have one group in their lower halves and the next one in their upper halves.
//!
//! Small scales are unpacked for all lanes at once, from words that a transposition, or interleaving, has put side by side.

use super::legacy::{MINIMUMS_4, MINIMUMS_5};
use super::levels::IQ4_LEVELS;
use super::{BlockFormat, CODE_WORDS, CodeSink, PanelLayout, ScaleSlots, Zero, map_words, nibbles};
use crate::isa::CodeLanes;
use crate::q8::layout::{BlockView, BlockViews, WeightLayout};

/// Groups of a block.
const GROUPS: usize = 8;

/// Repeats a block for each number, which is a constant there: shifts by constants are one instruction.
macro_rules! unroll {
    ($name:ident in [$($number:literal),*] $body:block) => {
        $({
            const $name: usize = $number;
            $body
        })*
    };
}

/// 2-bit codes with scales and minimums of 4 bits per 16.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q2K;
/// 2-bit codes of -1, 0 and 1, then a scale.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Tq2_0;
/// 3-bit codes with scales of 6 bits per 16.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q3K;
/// 4-bit codes with scales and minimums of 6 bits.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q4K;
/// 5-bit codes with scales and minimums of 6 bits.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q5K;
/// 6-bit codes with signed scales of 8 bits per 16.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q6K;
/// 4-bit codes of uneven levels with scales of 6 bits.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Iq4Xs;

impl BlockFormat for Q2K {
    const LAYOUT: PanelLayout =
        PanelLayout { zero: Zero::Code { zero: 0, largest: 3 }, halves: true, minimums: true };
    const BYTES: usize = 84;
    const GROUPS: usize = GROUPS;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        two_bits(block, 16, to);
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        let isa = blocks.isa();
        for (i, block) in blocks.iter().enumerate() {
            let [.., halves] = block.words(68);
            let (scale, factor) = (isa.f16_in_word(halves, 0), isa.f16_in_word(halves, 16));
            let subs = block.words(0);
            let factor = negate(isa, factor);
            unroll!(SUB in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                let (at, group) = (8 * (SUB % 4) as u32, i * GROUPS + SUB / 2);
                let sub = isa.to_floats(isa.word_bits(subs[SUB / 4], at, 15), 0);
                to.set(isa, group, SUB % 2, product(isa, scale, sub));
                let sub = isa.to_floats(isa.word_bits(subs[SUB / 4], at + 4, 15), 0);
                to.set(isa, group, 2 + SUB % 2, product(isa, factor, sub));
            });
        }
    }
}

impl BlockFormat for Q3K {
    const LAYOUT: PanelLayout =
        PanelLayout { zero: Zero::Code { zero: 4, largest: 7 }, halves: true, minimums: false };
    const BYTES: usize = 110;
    const GROUPS: usize = GROUPS;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        let upper = block.words32(0);
        unroll!(HALF in [0, 1] {
            let pairs = block.words32(32 + HALF * 32);
            unroll!(PAIR in [0, 1, 2, 3] {
                let mut codes = pairs;
                for (codes, upper) in codes.iter_mut().zip(&upper) {
                    let third = isa.byte_bits(*upper, (HALF * 4 + PAIR) as u32, 1);
                    *codes = isa.join::<2>(isa.byte_bits(*codes, 2 * PAIR as u32, 3), third);
                }
                to.codes(isa, HALF * 4 + PAIR, &codes);
            });
        });
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        let isa = blocks.isa();
        for (i, block) in blocks.iter().enumerate() {
            let [_, a, b, upper] = block.words(92);
            let (lower, scale) = ([a, b], block.last_f16());
            unroll!(SUB in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                // Lower nibbles in bytes 0..8, first all lower halves, then all upper ones; pairs of bits in bytes 8..12.
                let low = isa.word_bits(lower[SUB % 8 / 4], (8 * (SUB % 4) + 4 * (SUB / 8)) as u32, 15);
                let high = isa.word_bits(upper, (8 * (SUB % 4) + 2 * (SUB / 4)) as u32, 3);
                let sub = isa.to_floats(isa.join::<4>(low, high), 32);
                to.set(isa, i * GROUPS + SUB / 2, SUB % 2, product(isa, scale, sub));
            });
        }
    }
}

impl BlockFormat for Q4K {
    const LAYOUT: PanelLayout = MINIMUMS_4;
    const BYTES: usize = 144;
    const GROUPS: usize = GROUPS;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        for pair in 0..GROUPS / 2 {
            let (low, high) = half_bytes(block, 16 + pair * 32);
            to.codes(block.isa, 2 * pair, &low);
            to.codes(block.isa, 2 * pair + 1, &high);
        }
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        six_bit_scales(blocks, to);
    }
}

impl BlockFormat for Q5K {
    const LAYOUT: PanelLayout = MINIMUMS_5;
    const BYTES: usize = 176;
    const GROUPS: usize = GROUPS;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        let fifth = block.words32(16);
        unroll!(PAIR in [0, 1, 2, 3] {
            let (mut low, mut high) = half_bytes(block, 48 + PAIR * 32);
            for (i, fifth) in fifth.iter().enumerate() {
                low[i] = isa.join::<4>(low[i], isa.byte_bits(*fifth, 2 * PAIR as u32, 1));
                high[i] = isa.join::<4>(high[i], isa.byte_bits(*fifth, 2 * PAIR as u32 + 1, 1));
            }
            to.codes(isa, 2 * PAIR, &low);
            to.codes(isa, 2 * PAIR + 1, &high);
        });
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        six_bit_scales(blocks, to);
    }
}

impl BlockFormat for Q6K {
    const LAYOUT: PanelLayout =
        PanelLayout { zero: Zero::Code { zero: 32, largest: 63 }, halves: true, minimums: false };
    const BYTES: usize = 210;
    const GROUPS: usize = GROUPS;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        // Each half of the block has 64 bytes of nibbles for four groups and 32 of upper bits.
        for half in 0..2 {
            let upper = block.words32(128 + half * 32);
            let nibbles = [block.words32(half * 64), block.words32(half * 64 + 32)];
            unroll!(PAIR in [0, 1, 2, 3] {
                let mut codes = nibbles[PAIR % 2];
                for (codes, upper) in codes.iter_mut().zip(&upper) {
                    let nibble = if PAIR < 2 { isa.low_nibbles(*codes) } else { isa.high_nibbles(*codes) };
                    *codes = isa.join::<4>(nibble, isa.byte_bits(*upper, 2 * PAIR as u32, 3));
                }
                to.codes(isa, half * 4 + PAIR, &codes);
            });
        }
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        let isa = blocks.isa();
        for (i, block) in blocks.iter().enumerate() {
            let scale = block.last_f16();
            let subs = block.words(192);
            unroll!(SUB in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                let sub = isa.signed_byte(subs[SUB / 4], 8 * (SUB % 4) as u32);
                to.set(isa, i * GROUPS + SUB / 2, SUB % 2, product(isa, scale, sub));
            });
        }
    }
}

impl BlockFormat for Iq4Xs {
    const LAYOUT: PanelLayout = PanelLayout::plain(Zero::Bytes);
    const BYTES: usize = 136;
    const GROUPS: usize = GROUPS;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        for group in 0..GROUPS {
            let codes = nibbles(isa, block.words(8 + group * 16));
            let level = |codes| isa.signed_codes(isa.lookup(codes, &IQ4_LEVELS));
            to.codes(isa, group, &map_words(codes, level));
        }
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        let isa = blocks.isa();
        for (i, block) in blocks.iter().enumerate() {
            let [high, low, ..] = block.words(0);
            let scale = isa.f16_in_word(high, 0);
            unroll!(SUB in [0, 1, 2, 3, 4, 5, 6, 7] {
                let low = isa.word_bits(low, 4 * SUB as u32, 15);
                let high = isa.word_bits(high, 16 + 2 * SUB as u32, 3);
                let sub = isa.to_floats(isa.join::<4>(low, high), 32);
                to.set(isa, i * GROUPS + SUB, 0, product(isa, scale, sub));
            });
        }
    }
}

impl BlockFormat for Tq2_0 {
    const LAYOUT: PanelLayout = PanelLayout::plain(Zero::Code { zero: 1, largest: 3 });
    const BYTES: usize = 66;
    const GROUPS: usize = GROUPS;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        two_bits(block, 0, to);
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        blocks.f16_scales(64, 0, to);
    }
}

/// Unpacks the codes of a block in the pairs of bits of 64 bytes from byte `at` on: those of four groups in each half.
#[inline(always)]
fn two_bits<I: CodeLanes, L: WeightLayout, F: BlockFormat>(
    block: BlockView<I, L, F>,
    at: usize,
    to: &mut impl CodeSink<I>,
) {
    let isa = block.isa;
    for half in 0..2 {
        let pairs = block.words32(at + half * 32);
        unroll!(PAIR in [0, 1, 2, 3] {
            to.codes(isa, half * 4 + PAIR, &map_words(pairs, |codes| isa.byte_bits(codes, 2 * PAIR as u32, 3)));
        });
    }
}

/// Returns the codes in the lower and in the upper halves of 32 bytes from byte `at` on.
#[inline(always)]
fn half_bytes<I: CodeLanes, L: WeightLayout, F: BlockFormat>(
    block: BlockView<I, L, F>,
    at: usize,
) -> ([I::Words; CODE_WORDS], [I::Words; CODE_WORDS]) {
    let (isa, bytes) = (block.isa, block.words32(at));
    (map_words(bytes, |bytes| isa.low_nibbles(bytes)), map_words(bytes, |bytes| isa.high_nibbles(bytes)))
}

/// Returns `a * b`.
#[inline(always)]
fn product<I: CodeLanes>(isa: I, a: I::Floats, b: I::Floats) -> I::Floats {
    isa.fma(a, b, isa.zeros())
}

/// Returns `-floats`.
#[inline(always)]
fn negate<I: CodeLanes>(isa: I, floats: I::Floats) -> I::Floats {
    product(isa, floats, isa.broadcast(-1.0))
}

/// Unpacks scales and minimums of 6 bits: the first four of each are the lower bits of bytes 0..4 and 4..8; the others have their
/// lower bits in the halves of bytes 8..12 and their upper ones above the first four.
#[inline(always)]
fn six_bit_scales<I: CodeLanes, L: WeightLayout, F: BlockFormat>(
    blocks: BlockViews<I, L, F>,
    to: ScaleSlots<I>,
) {
    let isa = blocks.isa();
    for (i, block) in blocks.iter().enumerate() {
        let [halves, one, two, both] = block.words(0);
        let (scale, factor) = (isa.f16_in_word(halves, 0), negate(isa, isa.f16_in_word(halves, 16)));
        let to = to.skip(i * GROUPS);
        unroll!(SUB in [0, 1, 2, 3] {
            let at = 8 * SUB as u32;
            let sub = isa.to_floats(isa.word_bits(one, at, 63), 0);
            to.set(isa, SUB, 0, product(isa, scale, sub));
            let sub = isa.to_floats(isa.word_bits(two, at, 63), 0);
            to.set(isa, SUB, 1, product(isa, factor, sub));
            let bits = isa.join::<4>(isa.word_bits(both, at, 15), isa.word_bits(one, at + 6, 3));
            to.set(isa, SUB + 4, 0, product(isa, scale, isa.to_floats(bits, 0)));
            let bits = isa.join::<4>(isa.word_bits(both, at + 4, 15), isa.word_bits(two, at + 6, 3));
            to.set(isa, SUB + 4, 1, product(isa, factor, isa.to_floats(bits, 0)));
        });
    }
}
