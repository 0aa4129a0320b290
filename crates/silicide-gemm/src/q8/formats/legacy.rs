//! The formats of one scale per 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
//!
//! ```text
//! Q4_0  f16 scale             | 16 bytes: nibble of weight i below, of weight i + 16 above      w = d * (q - 8)
//! Q4_1  f16 scale, f16 min    | the same                                                        w = d * q + m
//! Q5_0  f16 scale             | u32 of fifth bits | 16 bytes of nibbles                         w = d * (q - 16)
//! Q5_1  f16 scale, f16 min    | the same                                                        w = d * q + m
//! Q8_0  f16 scale             | 32 signed bytes                                                 w = d * q
//! ```

use super::{BlockFormat, CodeSink, PanelLayout, ScaleSlots, Zero, map_words, nibbles};
use crate::isa::CodeLanes;
use crate::q8::layout::{BlockView, BlockViews, WeightLayout};

/// 4-bit codes and a scale.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q4_0;
/// 4-bit codes, a scale and a minimum.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q4_1;
/// 5-bit codes and a scale.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q5_0;
/// 5-bit codes, a scale and a minimum.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q5_1;
/// Signed bytes and a scale.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Q8_0;

/// A scale and a minimum, codes of 4 bits.
pub(super) const MINIMUMS_4: PanelLayout = minimums(15);
/// A scale and a minimum, codes of 5 bits.
pub(super) const MINIMUMS_5: PanelLayout = minimums(31);

/// A scale and a minimum, codes of at most `largest`.
const fn minimums(largest: u8) -> PanelLayout {
    PanelLayout { zero: Zero::Code { zero: 0, largest }, halves: false, minimums: true }
}

impl BlockFormat for Q4_0 {
    const LAYOUT: PanelLayout = PanelLayout::plain(Zero::Code { zero: 8, largest: 15 });
    const BYTES: usize = 18;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        to.codes(block.isa, 0, &nibbles(block.isa, block.words(2)));
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        blocks.f16_scales(0, 0, to);
    }
}

impl BlockFormat for Q4_1 {
    const LAYOUT: PanelLayout = MINIMUMS_4;
    const BYTES: usize = 20;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        to.codes(block.isa, 0, &nibbles(block.isa, block.words(4)));
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        scale_and_minimum(blocks, to);
    }
}

impl BlockFormat for Q5_0 {
    const LAYOUT: PanelLayout = PanelLayout::plain(Zero::Code { zero: 16, largest: 31 });
    const BYTES: usize = 22;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        five_bits(block, to);
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        blocks.f16_scales(0, 0, to);
    }
}

impl BlockFormat for Q5_1 {
    const LAYOUT: PanelLayout = MINIMUMS_5;
    const BYTES: usize = 24;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        five_bits(block, to);
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        scale_and_minimum(blocks, to);
    }
}

impl BlockFormat for Q8_0 {
    const LAYOUT: PanelLayout = PanelLayout::plain(Zero::Bytes);
    const BYTES: usize = 34;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        to.codes(isa, 0, &map_words(block.words32(2), |codes| isa.signed_codes(codes)));
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        blocks.f16_scales(0, 0, to);
    }
}

/// Unpacks the scale and the minimum that blocks begin with.
#[inline(always)]
fn scale_and_minimum<I: CodeLanes, L: WeightLayout, F: BlockFormat>(
    blocks: BlockViews<I, L, F>,
    to: ScaleSlots<I>,
) {
    blocks.f16_scales(0, 0, to);
    blocks.f16_scales(2, 1, to);
}

/// Unpacks codes from a word of fifth bits and the nibbles after it, which end the block.
#[inline(always)]
fn five_bits<I: CodeLanes, L: WeightLayout, F: BlockFormat>(
    block: BlockView<I, L, F>,
    to: &mut impl CodeSink<I>,
) {
    let isa = block.isa;
    let [fifth, ..] = block.words(F::BYTES - 20);
    let mut codes = nibbles(isa, block.words(F::BYTES - 16));
    for (word, codes) in codes.iter_mut().enumerate() {
        *codes = isa.join::<0>(*codes, isa.spread_bits(fifth, 4 * word as u32));
    }
    to.codes(isa, 0, &codes);
}
