//! GEMV: up to four rows times weights that stream past. Codes go from memory to registers and are multiplied there, a vector of outputs
//! at a time, with all rows. Only scales pass through memory, in L1.
//!
//! ```text
//! for vector of outputs j:
//!     sum[i] = 0
//!     for block of the weight rows j:
//!         unpack scales of the block
//!         for group g of the block:
//!             codes = unpack group g                                     # 8 registers
//!             prefetch a part of what comes next
//!             sum[i] = the terms of group g, as in `microkernel`
//!     y[i][j] = sum[i]
//! ```
//!
//! Sums are added in the order of [`microkernel`](super::microkernel), so outputs have the same bits either way. Prefetches are spread
//! over the groups of a block: all at once would fill the queue to memory, and everything would wait.

use super::GEMV_ROWS;
use super::formats::{
    BlockFormat, CODE_WORDS, CodeSink, FormatVisitor, GROUP, PanelLayout, ScaleSlots, lines_of_block,
    prefetch, visit,
};
use super::gemm::Q8Product;
use super::layout::{INTERLEAVE, Interleaved, Strided, VectorRows, WeightLayout};
use super::microkernel::{GroupTerms, store};
use super::quantize::RowOffsets;
use super::weights::WeightEncoding;
use crate::isa::{GemvLanes, MAX_LANES, Task};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most groups of a row: those of 32768 weights.
pub(super) const MAX_GROUPS: usize = 1024;
/// The most groups whose scales are unpacked before their codes: whole blocks of every format.
const SCALE_GROUPS: usize = 16;
/// The most scales and minimums of a group.
const SLOTS: usize = 4;

/// Workspace: the terms of rows ([`GroupTerms`]), for each half of a group. Only what was written is read.
struct RowTerms<const ROWS: usize> {
    starts: [[[MaybeUninit<i32>; MAX_GROUPS]; 2]; ROWS],
    sums: [[[MaybeUninit<f32>; MAX_GROUPS]; 2]; ROWS],
}

/// Scales and minimums of a few groups.
#[repr(align(64))]
struct Scales(MaybeUninit<[f32; MAX_LANES * SLOTS * SCALE_GROUPS]>);

/// Computes a GEMV, if there is one for the format, the layout and the number of rows; returns whether it did.
///
/// # Safety
/// As for [`Q8Product::multiply`]; weights are in this encoding.
pub(super) unsafe fn gemv<I: GemvLanes>(
    isa: I,
    encoding: WeightEncoding,
    product: &Q8Product<'_>,
    outputs: Range<usize>,
) -> bool {
    let WeightEncoding::Block(format) = encoding else { return false };
    if product.lhs.groups() > MAX_GROUPS {
        return false;
    }
    visit(format, Dispatch { isa, product, outputs }).unwrap_or(false)
}

/// Chooses the layout and the number of rows.
struct Dispatch<'a, I> {
    isa: I,
    product: &'a Q8Product<'a>,
    outputs: Range<usize>,
}

impl<I: GemvLanes> FormatVisitor for Dispatch<'_, I> {
    type Output = bool;

    #[inline(always)]
    fn visit<F: BlockFormat>(self) -> bool {
        let Self { isa, product, outputs } = self;
        match (product.weights.interleaved, product.lhs.rows()) {
            (None, 1) => isa.run(Gemv::<I, F, Strided, 1>::new(isa, product, outputs)),
            (Some(_), 1) => isa.run(Gemv::<I, F, Interleaved<INTERLEAVE>, 1>::new(isa, product, outputs)),
            (Some(_), 2..=GEMV_ROWS) => {
                isa.run(Gemv::<I, F, Interleaved<INTERLEAVE>, GEMV_ROWS>::new(isa, product, outputs));
            }
            _ => return false,
        }
        true
    }
}

/// A GEMV of a format in a layout, of at most `ROWS` rows.
struct Gemv<'a, I, F, L, const ROWS: usize> {
    isa: I,
    product: &'a Q8Product<'a>,
    outputs: Range<usize>,
    format: PhantomData<(F, L)>,
}

impl<'a, I, F, L, const ROWS: usize> Gemv<'a, I, F, L, ROWS> {
    #[inline(always)]
    fn new(isa: I, product: &'a Q8Product<'a>, outputs: Range<usize>) -> Self {
        Gemv { isa, product, outputs, format: PhantomData }
    }
}

impl<I: GemvLanes, F: BlockFormat, L: WeightLayout, const ROWS: usize> Task for Gemv<'_, I, F, L, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, product, outputs, .. } = self;
        let (lanes, layout, groups) = (I::LANES, F::LAYOUT, product.lhs.groups());
        let offsets = RowOffsets::new(groups);
        // SAFETY: the workspace has room for it (`staging`), is borrowed by the product, and holds no other reference; all fields are
        // `MaybeUninit`.
        let terms = unsafe { &mut *product.staging::<RowTerms<ROWS>>() };
        // Rows that there are none of are the last one, computed and not written.
        let rows: [*const u8; ROWS] = std::array::from_fn(|row| product.lhs.row(row));
        for (row, (starts, sums)) in terms.starts.iter_mut().zip(&mut terms.sums).enumerate() {
            let row = product.lhs.groups_of(row, 0..groups);
            for (half, (starts, sums)) in starts.iter_mut().zip(sums).take(layout.scales()).enumerate() {
                GroupTerms { starts, sums }.fill::<I>(layout, half, row);
            }
        }
        let mut scales = Scales(MaybeUninit::uninit());
        let slots = layout.words() - CODE_WORDS;
        // SAFETY: the array has room for SCALE_GROUPS groups of SLOTS vectors of MAX_LANES.
        let scales = unsafe { ScaleSlots::<I>::new(scales.0.as_mut_ptr().cast(), SCALE_GROUPS, slots) };
        let ahead = L::SCALES_AHEAD.max(F::GROUPS);
        for output in outputs.clone().step_by(lanes) {
            // A vector that is not whole begins earlier.
            let skipped = (output + lanes).saturating_sub(outputs.end);
            let from = product.weights.skip(output - skipped);
            let weights = VectorRows::<I, L, F>::new(isa, from);
            let after = from.start.wrapping_add(lanes * from.stride);
            let mut sums = [isa.zeros(); ROWS];
            for chunk in (0..groups).step_by(ahead) {
                let first = chunk / F::GROUPS;
                // With one block at a time, this is a constant for the compiler.
                let count = if L::SCALES_AHEAD == 1 { 1 } else { ahead.min(groups - chunk) / F::GROUPS };
                // SAFETY: rows have `groups` groups, which are whole blocks.
                F::scales(unsafe { weights.blocks(first, count) }, scales);
                for block in 0..count {
                    // A value for each block: with one that all blocks change, the compiler keeps addresses in vectors.
                    let mut dots = Dots::<I, F, L, ROWS> {
                        sums,
                        rows,
                        scale_offset: offsets.scales,
                        terms: &raw const *terms,
                        scales: scales.skip(block * F::GROUPS),
                        first: chunk + block * F::GROUPS,
                        next: weights.prefetch_address(first + block, after),
                        block: weights.address(first + block),
                        format: PhantomData,
                    };
                    // SAFETY: rows have `groups` groups, which are whole blocks.
                    F::codes(unsafe { weights.block(first + block) }, &mut dots);
                    sums = dots.sums;
                }
            }
            for (row, sum) in sums.iter().enumerate().take(product.lhs.rows()) {
                let y = product.y.wrapping_add(row * product.y_stride + output);
                // SAFETY: the product's outputs of these rows can be written (`Q8Product::multiply`).
                unsafe { store(isa, *sum, y, outputs.end - output) };
            }
        }
    }
}

/// Returns which lines of a block are prefetched with one of its groups.
#[inline(always)]
fn lines_of_group<I: GemvLanes, F: BlockFormat>(group: usize) -> Range<usize> {
    let part = const { lines_of_block::<I, F>().div_ceil(F::GROUPS) };
    group * part..(group + 1) * part
}

/// Sums of a vector of outputs, one for each row.
struct Dots<I: GemvLanes, F, L, const ROWS: usize> {
    sums: [I::Floats; ROWS],
    rows: [*const u8; ROWS],
    /// Where scales are in a row.
    scale_offset: usize,
    terms: *const RowTerms<ROWS>,
    /// The scales of the block, and its first group. The rows have all groups of the block.
    scales: ScaleSlots<I>,
    first: usize,
    /// The address that is prefetched while the block is multiplied.
    next: *const u8,
    /// The address of the block itself.
    block: *const u8,
    format: PhantomData<(F, L)>,
}

impl<I: GemvLanes, F: BlockFormat, L: WeightLayout, const ROWS: usize> CodeSink<I> for Dots<I, F, L, ROWS> {
    #[inline(always)]
    fn codes(&mut self, isa: I, group: usize, codes: &[I::Words; CODE_WORDS]) {
        let layout: PanelLayout = F::LAYOUT;
        let (bytes, halves) = (layout.bytes::<I>(), layout.scales());
        if group >= F::GROUPS {
            return;
        }
        let at = self.first + group;
        prefetch::<false>(self.next, lines_of_group::<I, F>(group));
        if let Some(distance) = L::PREFETCH_L1 {
            prefetch::<true>(self.block.wrapping_add(distance), lines_of_group::<I, F>(group));
        }
        // SAFETY: `Gemv::run` sets `first` to blocks that the rows have; it has filled the terms of all groups and stored the scales of
        // the block.
        unsafe {
            for half in 0..halves {
                let mut dots = [isa.broadcast_sum(I::START); ROWS];
                if !layout.minimums || bytes {
                    for (row, dots) in dots.iter_mut().enumerate() {
                        let start = (&raw const (*self.terms).starts[row][half]).cast::<i32>().add(at);
                        *dots = isa.broadcast_sum(*start);
                    }
                }
                let count = CODE_WORDS / halves;
                for (word, codes) in codes.iter().enumerate().skip(half * count).take(count) {
                    for (dots, row) in dots.iter_mut().zip(self.rows) {
                        let x = row.add(at * GROUP + 4 * word).cast::<i32>().read_unaligned();
                        *dots = if bytes {
                            isa.dot::<true>(*dots, *codes, x)
                        } else {
                            isa.dot::<false>(*dots, *codes, x)
                        };
                    }
                }
                let scale = self.scales.get(isa, group, half);
                let offset = isa.scale_offset(scale);
                for (row, sum) in self.sums.iter_mut().enumerate() {
                    let x_scale =
                        self.rows[row].add(self.scale_offset + 4 * at).cast::<f32>().read_unaligned();
                    *sum = isa.fma(isa.scale(dots[row], scale, offset), isa.broadcast(x_scale), *sum);
                }
                if layout.minimums {
                    let minimum = self.scales.get(isa, group, halves + half);
                    for (row, sum) in self.sums.iter_mut().enumerate() {
                        let added = *(&raw const (*self.terms).sums[row][half]).cast::<f32>().add(at);
                        *sum = isa.fma(minimum, isa.broadcast(added), *sum);
                    }
                }
            }
        }
    }
}
