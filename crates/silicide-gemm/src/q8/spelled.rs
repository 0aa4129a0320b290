//! Formats without shifts of their own: the decoders of `silicide-quant` spell a few runs of every column as signed bytes, which
//! are then transposed like those of Q8_0.

use super::format::{Codes, LEN, Layout, Part, Place, Sink, Zero, bytes_of_run};
use super::source::{Columns, Source, Strided};
use super::unit::Unit;
use crate::f32::vector::{MAX_LANES, Vector};
use silicide_quant::{DECODE_I8_LEN, Format, Isa};

/// Runs that are spelled at a time, to stay in the first cache: whole blocks of every format.
const RUNS: usize = 16;
/// Codes of a column that are spelled at a time.
const CODES: usize = RUNS * LEN;
/// Scales of as many.
const SCALES: usize = CODES / DECODE_I8_LEN;

/// Signed bytes as they are; scales are somebody else's.
struct Bytes;

// SAFETY: reads 32 bytes.
unsafe impl Codes for Bytes {
    const LAYOUT: Layout = Layout::plain(Zero::Bytes);
    const BLOCK: usize = LEN;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut codes = bytes_of_run::<U, S, Self>(columns, block, 0);
            for codes in &mut codes {
                *codes = U::bytes(*codes);
            }
            to.codes(0, &codes);
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(_: S, _: usize, _: usize, _: Place) {}
}

/// Spelled codes of some columns.
#[repr(align(64))]
struct Spelled([[i8; CODES]; MAX_LANES]);

/// What a format that is spelled unpacks to.
pub(super) const fn layout(format: Format) -> Option<Layout> {
    match format.decode_i8_scale_len() {
        Some(weights) => Some(Layout { zero: Zero::Bytes, halves: weights < LEN, minimums: false }),
        None => None,
    }
}

/// Unpacks a part of columns in a format that is spelled.
///
/// # Safety
///
/// As for [`Unit::unpack`].
pub(super) unsafe fn unpack<U: Unit>(format: Format, part: &Part) {
    let (isa, halves) = (Isa::best(), format.decode_i8_scale_len() == Some(LEN / 2));
    let mut scales = [0.0; SCALES];
    // SAFETY: the caller's promise; a column's part is whole blocks.
    unsafe {
        spell::<U>(part, |lane, first, codes, to| {
            let bytes = |runs: usize| runs * LEN / format.block_len() * format.block_bytes();
            let start = part.columns.start.add(lane * part.columns.stride + bytes(first));
            let runs = codes.len() / LEN;
            let blocks = std::slice::from_raw_parts(start, bytes(runs));
            let scales = scales.get_mut(..codes.len() / DECODE_I8_LEN).unwrap_or_default();
            // Lengths agree by construction, so spelling can't fail.
            let _ = format.decode_i8(isa, blocks, codes, scales);
            for (run, [one, two]) in scales.as_chunks::<2>().0.iter().enumerate() {
                *to.scale(run, 0).add(lane) = *one;
                if halves {
                    *to.scale(run, 1).add(lane) = *two;
                }
            }
        });
    }
}

/// Has `spell` spell the codes of a column, given its lane, the first run, and the place of that run; then unpacks them.
///
/// # Safety
///
/// As for [`Unit::unpack`].
#[inline(always)]
pub(super) unsafe fn spell<U: Unit>(part: &Part, mut spell: impl FnMut(usize, usize, &mut [i8], Place)) {
    let mut spelled = Spelled([[0; CODES]; MAX_LANES]);
    for first in (0..part.runs).step_by(RUNS) {
        let runs = RUNS.min(part.runs - first);
        // SAFETY: the caller's promise; the columns that are unpacked are those that were spelled.
        unsafe {
            let to = part.to.skip(first);
            for (lane, codes) in spelled.0.iter_mut().take(U::Floats::LANES).enumerate() {
                spell(lane, part.first + first, codes.get_mut(..runs * LEN).unwrap_or_default(), to);
            }
            let columns = Columns::of_blocks(spelled.0.as_ptr().cast(), CODES);
            U::unpack::<Bytes, Strided>(&Part { columns, first: 0, runs, to, next: columns.start });
        }
    }
}
