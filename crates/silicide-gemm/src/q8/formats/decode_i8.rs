//! Formats without codes that shifts take out: the decoders of `silicide-quant` decode a few groups of every weight row to i8, which
//! are then transposed like those of Q8_0.

use super::{
    BlockFormat, CodeSink, GROUP, PanelLayout, PanelSlot, ScaleSlots, UnpackPart, Zero, map_words, unpack_as,
};
use crate::isa::{CodeLanes, IntLanes, MAX_LANES};
use crate::prefetch::SpreadPrefetch;
use crate::q8::layout::{BlockView, BlockViews, WeightLayout, WeightRows};
use silicide_quant::{DECODE_I8_LEN, Format, Isa};

/// Groups that are decoded at a time, to stay in L1: whole blocks of every format.
const GROUPS: usize = 16;
/// Codes of a weight row that are decoded at a time.
const CODES: usize = GROUPS * GROUP;
/// Scales of as many.
const SCALES: usize = CODES / DECODE_I8_LEN;

/// Signed bytes as they are; scales are unpacked elsewhere.
#[derive(Clone, Copy)]
struct Bytes;

impl BlockFormat for Bytes {
    const LAYOUT: PanelLayout = PanelLayout::plain(Zero::Bytes);
    const BYTES: usize = GROUP;
    const INTERLEAVED: bool = false;

    #[inline(always)]
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>) {
        let isa = block.isa;
        to.codes(isa, 0, &map_words(block.words32(0), |codes| isa.signed_codes(codes)));
    }

    #[inline(always)]
    fn scales<I: CodeLanes, L: WeightLayout>(_: BlockViews<I, L, Self>, _: ScaleSlots<I>) {}
}

/// Decoded codes of a vector of weight rows.
#[repr(align(64))]
struct DecodedCodes([[i8; CODES]; MAX_LANES]);

/// The layout that a format unpacks to, if it has a decoder.
pub(super) const fn panel_layout(format: Format) -> Option<PanelLayout> {
    match format.decode_i8_scale_len() {
        Some(weights) => Some(PanelLayout { zero: Zero::Bytes, halves: weights < GROUP, minimums: false }),
        None => None,
    }
}

/// Unpacks a part of weight rows in a format that has a decoder.
///
/// # Safety
/// `LANES` rows have the groups of the part in this format, row after row; nothing writes them.
pub(super) unsafe fn unpack<I: IntLanes>(
    isa: I,
    format: Format,
    part: &UnpackPart,
    next: &mut SpreadPrefetch,
) {
    let (decoder, halves) =
        (Isa::best(), format.decode_i8_scale_len().is_some_and(|weights| weights < GROUP));
    let mut scales = [0.0; SCALES];
    let decode = |lane: usize, first: usize, codes: &mut [i8], to: ScaleSlots<I>| {
        let bytes = |groups: usize| groups * GROUP / format.block_len() * format.block_bytes();
        // SAFETY: every row has these groups, by the contract of `unpack`; they are whole blocks.
        let blocks = unsafe {
            let start = part.rows.start.add(lane * part.rows.stride + bytes(first));
            std::slice::from_raw_parts(start, bytes(codes.len() / GROUP))
        };
        let scales = scales.get_mut(..codes.len() / DECODE_I8_LEN).unwrap_or_default();
        // Lengths agree by construction, so decoding can't fail.
        let _ = format.decode_i8(decoder, blocks, codes, scales);
        for (group, [one, two]) in scales.as_chunks::<2>().0.iter().enumerate() {
            to.set_lane(group, 0, lane, *one);
            if halves {
                to.set_lane(group, 1, lane, *two);
            }
        }
    };
    unpack_codes(isa, part, next, decode);
}

/// Calls `decode` for the codes of a weight row, with its lane, the first group and the slots of that group's scales; then unpacks the
/// codes.
#[inline(always)]
pub(super) fn unpack_codes<I: IntLanes>(
    isa: I,
    part: &UnpackPart,
    next: &mut SpreadPrefetch,
    mut decode: impl FnMut(usize, usize, &mut [i8], ScaleSlots<I>),
) {
    let mut decoded = DecodedCodes([[0; CODES]; MAX_LANES]);
    for first in (0..part.groups).step_by(GROUPS) {
        let groups = GROUPS.min(part.groups - first);
        let to: PanelSlot = part.to.part(first, groups);
        for (lane, codes) in decoded.0.iter_mut().take(I::LANES).enumerate() {
            decode(
                lane,
                part.first + first,
                codes.get_mut(..groups * GROUP).unwrap_or_default(),
                to.scales(),
            );
        }
        let start = decoded.0.as_ptr().cast();
        let rows = WeightRows { start, stride: CODES, interleaved: None, planes: None };
        // SAFETY: the rows are those that were decoded, `LANES` of them and `groups` groups.
        unsafe { unpack_as::<I, Bytes>(isa, &UnpackPart { rows, first: 0, groups, to }, next) };
    }
}
