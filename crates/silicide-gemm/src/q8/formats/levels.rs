//! The formats of few levels in short blocks: IQ4_NL, MXFP4 and NVFP4, whose nibbles stand for levels of a table; Q1_0, of signs.
//!
//! ```text
//! IQ4_NL  f16 scale, 16 bytes of nibbles                                             w = d * level[q]
//! MXFP4   u8 exponent, 16 bytes of nibbles                                           w = 2^(e - 127) * fp4[q]
//! NVFP4   4 scales of 8 bits (e4m3), 4 x 8 bytes of nibbles, 16 weights to a scale   w = s * fp4[q]
//! Q1_0    f16 scale, 16 bytes of signs                                               w = d or -d
//! ```

use super::{BlockFormat, CODE_WORDS, CodeSink, PanelLayout, ScaleSlots, Zero, map_words, nibbles};
use crate::isa::CodeLanes;
use crate::q8::layout::{BlockView, BlockViews, WeightLayout};

/// 4-bit codes of uneven levels, and a scale.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Iq4Nl;
/// 4-bit floats under a power of two.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Mxfp4;
/// 4-bit floats under small floats, four groups of 16: in each the lower halves of eight bytes come first.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Nvfp4;
/// Signs of 128 weights under one scale.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q1_0;

/// The levels of IQ4's nibbles.
pub(super) const IQ4_LEVELS: [u8; 16] = [
    -127i8 as u8,
    -104i8 as u8,
    -83i8 as u8,
    -65i8 as u8,
    -49i8 as u8,
    -35i8 as u8,
    -22i8 as u8,
    -10i8 as u8,
    1,
    13,
    25,
    38,
    53,
    69,
    89,
    113,
];
/// Where zero is among [`FP4_LEVELS`].
const FP4_ZERO: u8 = 12;
/// Twice what 4-bit floats stand for, above [`FP4_ZERO`].
const FP4_LEVELS: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

impl BlockFormat for Iq4Nl {
    const LAYOUT: PanelLayout = PanelLayout::plain(Zero::Bytes);
    const BYTES: usize = 18;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        let level = |codes| isa.signed_codes(isa.lookup(codes, &IQ4_LEVELS));
        to.codes(isa, 0, &map_words(nibbles(isa, block.words(2)), level));
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        blocks.f16_scales(0, 0, to);
    }
}

impl BlockFormat for Mxfp4 {
    const LAYOUT: PanelLayout = PanelLayout::plain(Zero::Code { zero: FP4_ZERO, largest: 2 * FP4_ZERO });
    const BYTES: usize = 17;
    const WORDS_AT: usize = 1;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        let codes = nibbles(isa, block.words(1));
        to.codes(isa, 0, &map_words(codes, |codes| isa.lookup(codes, &FP4_LEVELS)));
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        for lane in 0..I::LANES {
            for (i, block) in blocks.iter().enumerate() {
                to.set_lane(i, 0, lane, HALF_POWERS[usize::from(block.byte(lane, 0))]);
            }
        }
    }
}

impl BlockFormat for Nvfp4 {
    const LAYOUT: PanelLayout = PanelLayout {
        zero: Zero::Code { zero: FP4_ZERO, largest: 2 * FP4_ZERO },
        halves: true,
        minimums: false,
    };
    const BYTES: usize = 36;
    const GROUPS: usize = 2;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        for group in 0..Self::GROUPS {
            let [a, b, c, d, e, f, g, h] = nibbles(isa, block.words(4 + group * 16));
            let codes = [a, b, e, f, c, d, g, h];
            to.codes(isa, group, &map_words(codes, |codes| isa.lookup(codes, &FP4_LEVELS)));
        }
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        for lane in 0..I::LANES {
            for (i, block) in blocks.iter().enumerate() {
                for half in 0..4 {
                    let scale = HALF_FLOATS[usize::from(block.byte(lane, half))];
                    to.set_lane(2 * i + half / 2, half % 2, lane, scale);
                }
            }
        }
    }
}

impl BlockFormat for Q1_0 {
    // Bits are spread as 16 or 0: eightfold levels of 1 and -1.
    const LAYOUT: PanelLayout = PanelLayout::plain(Zero::Code { zero: 8, largest: 16 });
    const BYTES: usize = 18;
    const GROUPS: usize = 4;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        for (group, signs) in block.words(2).into_iter().enumerate() {
            let mut codes = [signs; CODE_WORDS];
            for (word, codes) in codes.iter_mut().enumerate() {
                *codes = isa.spread_bits(*codes, 4 * word as u32);
            }
            to.codes(isa, group, &codes);
        }
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        blocks.f16_scales(0, 0, to);
        let isa = blocks.isa();
        let eighth = isa.broadcast(0.125);
        for group in 0..blocks.count() * Self::GROUPS {
            // SAFETY: slot 0 of the groups of these blocks was stored above.
            let scale = unsafe { to.get(isa, group, 0) };
            to.set(isa, group, 0, isa.fma(scale, eighth, isa.zeros()));
        }
    }
}

/// Half of what every byte stands for as a float without sign, of four bits of exponent and three of mantissa; the pattern for NaN
/// is zero.
static HALF_FLOATS: [f32; 256] = {
    let (mut floats, mut i) = ([0.0; 256], 0);
    while i < 256 {
        let (exponent, mantissa) = (i as u32 >> 3 & 15, i as u32 & 7);
        // Below the normal range, mantissas count units of 2^-9.
        let small = mantissa as f32 / 1024.0;
        let normal = f32::from_bits((exponent + 127 - 8) << 23 | mantissa << 20);
        floats[i] = if i == 0x7f {
            0.0
        } else if exponent == 0 {
            small
        } else {
            normal
        };
        i += 1;
    }
    floats
};

/// `2^(exponent - 128)` for every exponent, the scale of levels that are doubled; at most `2^100`, which no weight needs and with
/// which sums stay finite.
static HALF_POWERS: [f32; 256] = {
    let (mut powers, mut i) = ([0.0; 256], 0);
    while i < 256 {
        let exponent = if i < 228 { i as u32 } else { 228 };
        powers[i] = f32::from_bits(if exponent < 2 { 1 << (21 + exponent) } else { (exponent - 1) << 23 });
        i += 1;
    }
    powers
};
