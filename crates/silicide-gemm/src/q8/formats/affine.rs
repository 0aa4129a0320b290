//! Affine codes of MLX: `w = scale * q + bias`, with codes of 2 to 8 bits in one plane, scales and biases in others.
//!
//! Codes of 4 and 8 bits can be interleaved, and are taken out by shifts. Those of other sizes are decoded by `silicide-quant`. GEMV takes another way for all
//! but 8 bits, where the CPU has byte permutations (`codebook_gemv`).

use super::decode_i8;
use super::legacy::MINIMUMS_4;
use super::{
    BlockFormat, CodeSink, FormatVisitor, GROUP, PanelLayout, ScaleSlots, UnpackPart, Zero, map_words,
    unpack_as,
};
use crate::isa::{CodeLanes, IntLanes};
use crate::prefetch::SpreadPrefetch;
use crate::q8::layout::{BlockView, BlockViews, WeightLayout};
use silicide_quant::{Isa, MlxFormat, MlxMode};

/// 4-bit codes, two to a byte, the lower half first.
#[derive(Clone, Copy)]
struct Affine4;
/// 8-bit codes.
#[derive(Clone, Copy)]
struct Affine8;
/// Only scales and biases: codes are decoded elsewhere.
#[derive(Clone, Copy)]
pub(in crate::q8) struct AffineScales;

/// The layout that codes of a byte unpack to.
const BYTES: PanelLayout = PanelLayout { zero: Zero::Bytes, halves: false, minimums: true };

/// The layout that a format unpacks to.
pub(in crate::q8) fn panel_layout(format: MlxFormat) -> PanelLayout {
    if format.bits() == 4 { MINIMUMS_4 } else { BYTES }
}

impl BlockFormat for Affine4 {
    const LAYOUT: PanelLayout = MINIMUMS_4;
    const BYTES: usize = GROUP / 2;
    const IN_PLANES: bool = true;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        // Not by `map`: its closure would be compiled without the instruction set, and called.
        let [first, second, third, fourth] = block.words(0);
        if const { L::REARRANGED } {
            let (low, high) = (|words| isa.low_nibbles(words), |words| isa.high_nibbles(words));
            let ([a, b], [c, d]) = ([low(first), high(first)], [low(second), high(second)]);
            let ([e, f], [g, h]) = ([low(third), high(third)], [low(fourth), high(fourth)]);
            return to.codes(isa, 0, &[a, b, c, d, e, f, g, h]);
        }
        let ([a, b], [c, d]) = (isa.nibble_pairs(first), isa.nibble_pairs(second));
        let ([e, f], [g, h]) = (isa.nibble_pairs(third), isa.nibble_pairs(fourth));
        to.codes(isa, 0, &[a, b, c, d, e, f, g, h]);
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        blocks.plane_scales(to);
    }
}

impl BlockFormat for Affine8 {
    const LAYOUT: PanelLayout = BYTES;
    const BYTES: usize = GROUP;
    const IN_PLANES: bool = true;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        to.codes(isa, 0, &map_words(block.words32(0), |codes| isa.signed_codes(isa.center(codes))));
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        blocks.plane_scales(to);
        // Codes were centred by 128.
        let isa = blocks.isa();
        let center = isa.broadcast(128.0);
        for group in 0..blocks.count() {
            // SAFETY: both slots of these groups were stored above.
            let (scale, bias) = unsafe { (to.get(isa, group, 0), to.get(isa, group, 1)) };
            to.set(isa, group, 1, isa.fma(scale, center, bias));
        }
    }
}

impl BlockFormat for AffineScales {
    const LAYOUT: PanelLayout = BYTES;
    const BYTES: usize = 0;
    const INTERLEAVED: bool = false;
    const IN_PLANES: bool = true;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(_: BlockView<I, L, Self>, _: &mut impl CodeSink<I>) {}

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>) {
        blocks.plane_scales(to);
    }
}

/// Calls `visitor` with the type of a format, if codes need not be decoded first.
#[inline(always)]
pub(in crate::q8) fn visit<V: FormatVisitor>(format: MlxFormat, visitor: V) -> Option<V::Output> {
    match format.bits() {
        4 => Some(visitor.visit::<Affine4>()),
        8 => Some(visitor.visit::<Affine8>()),
        _ => None,
    }
}

/// Whether weights in a format can be interleaved.
pub(in crate::q8) fn interleaves(format: MlxFormat) -> bool {
    format.mode() == MlxMode::Affine && matches!(format.bits(), 4 | 8)
}

/// Unpacks a part of weight rows in a format.
///
/// # Safety
/// `LANES` rows have the groups of the part in this format and the layout that `interleaved` says, with whole scales of them in planes; nothing
/// writes them.
pub(in crate::q8) unsafe fn unpack<I: IntLanes>(
    isa: I,
    format: MlxFormat,
    part: &UnpackPart,
    next: &mut SpreadPrefetch,
) {
    // SAFETY: rows have the groups, and planes whole scales of them, by this function's contract; codes of a group are `4 * bits` bytes.
    unsafe {
        match format.bits() {
            4 => unpack_as::<I, Affine4>(isa, part, next),
            8 => unpack_as::<I, Affine8>(isa, part, next),
            bits => {
                let decoder = Isa::best();
                unpack_as::<I, AffineScales>(isa, part, next);
                decode_i8::unpack_codes(isa, part, next, |lane, first, codes, _| {
                    let at = lane * part.rows.stride + first * bits * (GROUP / 8);
                    let packed = std::slice::from_raw_parts(part.rows.start.add(at), codes.len() / 8 * bits);
                    // Lengths agree by construction, so decoding can't fail.
                    let _ = format.codes(decoder, packed, bytemuck::cast_slice_mut(codes));
                });
            }
        }
    }
}
