//! The register tile of a GEMM: MR quantized rows times a panel of unpacked weights.
//!
//! ```text
//! for group g of the panel, for each half of it that has a scale of its own:
//!     dot[i][j] = start[i][g]                                            # -zero * sum of x codes, see `GroupTerms`
//!     for word l of the group:
//!         dot[i][j] += x[i][4 * l..4 * l + 4] . panel[g][l][j]           # lanes are outputs j: one instruction for 16
//!     sum[i][j] = fma(dot[i][j] * w_scale[g][j], x_scale[i][g], sum[i][j])
//!     sum[i][j] = fma(w_minimum[g][j], x_sum[i][g], sum[i][j])           # where the format has minimums
//! ```
//!
//! Lanes are outputs, so nothing is ever summed across lanes. MR and the two vectors of NR fill the registers: with AVX-512, 12 sums
//! in integers and 12 in floats, 2 vectors of weights and 1 activation are 27 of 32.
//!
//! The panel is a sequence of groups in the [`PanelLayout`] of its format (drawn in `formats`).

use super::formats::{CODE_WORDS, GROUP, MAX_KC, PanelLayout, Zero};
use super::quantize::{QuantizedRows, RowOffsets};
use crate::f32::vector::MAX_LANES;
use crate::isa::{IntLanes, Task};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The largest MR of any instruction set; a multiple of each one's.
pub const MAX_MR: usize = 6;
/// Vectors of outputs in the register tile: NR is `NR_VECTORS * LANES`.
pub(super) const NR_VECTORS: usize = 2;

/// A block of outputs: some rows, and the outputs of one panel or several.
#[derive(Clone, Copy)]
pub(super) struct PanelBlock<'a> {
    pub(super) lhs: QuantizedRows<'a>,
    /// The first row, and the number of rows.
    pub(super) row: usize,
    pub(super) rows: usize,
    /// The groups of a row that the panel has: at most [`MAX_KC`].
    pub(super) first: usize,
    pub(super) groups: usize,
    /// The first panel; the others follow. Each is whole: outputs that do not exist are computed and not written.
    pub(super) panel: *const f32,
    /// The first output of row `row`.
    pub(super) y: *mut f32,
    pub(super) y_stride: usize,
    pub(super) outputs: usize,
    /// Whether to add to the outputs rather than to overwrite them.
    pub(super) accumulate: bool,
}

/// Terms of a strip of rows beside their codes and scales, for each half of a group: what dot products start from, and the sum of codes
/// under its scale. Where groups have no halves, only the first. Only what was written is read.
struct StripTerms {
    starts: [[[i32; MAX_KC]; MAX_MR]; 2],
    sums: [[[f32; MAX_KC]; MAX_MR]; 2],
}

/// Computes a block, by a function of its own: inside larger ones, registers run short.
///
/// # Safety
/// Panels can be read, in this layout, for the outputs rounded up to whole panels and for `groups` groups. LHS has the rows and groups. The
/// outputs can be written, and nothing else touches them.
#[inline(always)]
pub(super) unsafe fn multiply<I: IntLanes>(isa: I, layout: PanelLayout, block: PanelBlock<'_>) {
    isa.run(MultiplyPanels { isa, layout, block });
}

/// The task of [`multiply`].
struct MultiplyPanels<'a, I> {
    isa: I,
    layout: PanelLayout,
    block: PanelBlock<'a>,
}

impl<I: IntLanes> Task for MultiplyPanels<'_, I> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, layout, block } = self;
        let signed = layout.bytes::<I>();
        // SAFETY: `multiply` states what the block's memory is.
        unsafe {
            match (layout.halves, layout.minimums) {
                (false, false) if const { I::SIGNED } && signed => {
                    strips::<I, false, false, true>(isa, layout, &block);
                }
                (true, false) if const { I::SIGNED } && signed => {
                    strips::<I, true, false, true>(isa, layout, &block);
                }
                (false, false) => strips::<I, false, false, false>(isa, layout, &block),
                (true, false) => strips::<I, true, false, false>(isa, layout, &block),
                (false, true) if signed => strips::<I, false, true, true>(isa, layout, &block),
                (false, true) => strips::<I, false, true, false>(isa, layout, &block),
                (true, true) => strips::<I, true, true, false>(isa, layout, &block),
            }
        }
    }
}

/// Computes a block in strips of nearly equal height, each with all panels: its activations stay in L1, and panels pass from L2.
///
/// # Safety
/// As for [`multiply`]; the constants are those of the layout.
#[inline(always)]
unsafe fn strips<I: IntLanes, const HALVES: bool, const MINIMUMS: bool, const BYTES: bool>(
    isa: I,
    layout: PanelLayout,
    block: &PanelBlock<'_>,
) {
    const { assert!(MAX_MR.is_multiple_of(I::MR)) };
    let mut terms = MaybeUninit::<StripTerms>::uninit();
    let terms = terms.as_mut_ptr();
    let width = NR_VECTORS * I::LANES;
    let count = block.rows.div_ceil(I::MR);
    let mut row = 0;
    for strip in 0..count {
        let end = (strip + 1) * block.rows / count;
        let part = PanelBlock {
            row: block.row + row,
            y: block.y.wrapping_add(row * block.y_stride),
            rows: (end - row).min(MAX_MR),
            ..*block
        };
        for (row, half) in (0..part.rows).flat_map(|row| (0..layout.scales()).map(move |half| (row, half))) {
            let at = (half * MAX_MR + row) * MAX_KC;
            // SAFETY: `terms` has MAX_KC words for each half of each of MAX_MR rows; a panel has at most MAX_KC groups.
            unsafe {
                let to = GroupTerms {
                    starts: (&raw mut (*terms).starts).cast::<i32>().add(at),
                    sums: (&raw mut (*terms).sums).cast::<f32>().add(at),
                };
                let groups = part.first..part.first + part.groups.min(MAX_KC);
                to.fill::<I>(layout, half, (part.lhs, part.row + row), groups);
            }
        }
        for output in (0..block.outputs).step_by(width) {
            let part = PanelBlock {
                panel: block.panel.wrapping_add(output * layout.words() * block.groups),
                y: part.y.wrapping_add(output),
                outputs: width.min(block.outputs - output),
                ..part
            };
            // SAFETY: the strip and the panel are parts of the block, and the terms of these rows were filled.
            unsafe { tile_rows::<I, HALVES, MINIMUMS, BYTES>(isa, &part, terms) };
        }
        row = end;
    }
}

/// Where the terms of one row go, for one half of groups: one word of each for every group.
#[derive(Clone, Copy)]
pub(super) struct GroupTerms {
    /// What dot products start from: `START - zero * sum of codes`.
    pub(super) starts: *mut i32,
    /// `scale * sum of codes`, for minimums.
    pub(super) sums: *mut f32,
}

impl GroupTerms {
    /// Computes the terms of `groups` of a row.
    ///
    /// # Safety
    /// The row has the groups, and there is room for as many words.
    #[inline(always)]
    pub(super) unsafe fn fill<I: IntLanes>(
        self,
        layout: PanelLayout,
        half: usize,
        (lhs, row): (QuantizedRows<'_>, usize),
        groups: Range<usize>,
    ) {
        let (row, offsets) = (lhs.row(row), RowOffsets::new(lhs.groups()));
        let zero = match layout.zero {
            Zero::Code(zero) => i32::from(zero),
            Zero::Bytes => I::ZERO,
        };
        // SAFETY: the caller vouches for the groups; scales and sums are aligned as rows are (`QuantizedRows`).
        let (scales, first, second) = unsafe {
            let at = |offset: usize| row.add(offset + 4 * groups.start);
            (
                std::slice::from_raw_parts(at(offsets.scales).cast::<f32>(), groups.len()),
                std::slice::from_raw_parts(at(offsets.first).cast::<i32>(), groups.len()),
                std::slice::from_raw_parts(at(offsets.second).cast::<i32>(), groups.len()),
            )
        };
        // Rows that hold no quantized activations may overflow; their outputs mean nothing.
        for (group, ((scale, first), second)) in scales.iter().zip(first).zip(second).enumerate() {
            let sum = match (layout.halves, half) {
                (false, _) => first.wrapping_add(*second),
                (true, 0) => *first,
                (true, _) => *second,
            };
            // SAFETY: the caller has room for a word of every group.
            unsafe {
                if !layout.minimums || layout.bytes::<I>() {
                    *self.starts.add(group) = I::START.wrapping_sub(zero.wrapping_mul(sum));
                }
                if layout.minimums {
                    *self.sums.add(group) = scale * sum as f32;
                }
            }
        }
    }
}

/// Calls [`tile`] for the strip's number of rows. Arms above the instruction set's MR are not compiled.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn tile_rows<I: IntLanes, const HALVES: bool, const MINIMUMS: bool, const BYTES: bool>(
    isa: I,
    part: &PanelBlock<'_>,
    terms: *const StripTerms,
) {
    macro_rules! arm {
        ($rows:literal) => {
            if const { I::MR >= $rows } {
                // SAFETY: the caller vouches for the part, which has this number of rows.
                unsafe { tile::<I, HALVES, MINIMUMS, BYTES, $rows>(isa, part, terms) }
            }
        };
    }
    match part.rows {
        1 => arm!(1),
        2 => arm!(2),
        3 => arm!(3),
        4 => arm!(4),
        5 => arm!(5),
        6 => arm!(6),
        _ => {}
    }
}

/// Computes one register tile, of `ROWS` rows and a panel, over all groups of the panel.
///
/// # Safety
/// The panel can be read for its groups; LHS has the rows and groups, and their terms were filled; the outputs can be written, and nothing
/// else touches them.
#[inline(always)]
unsafe fn tile<
    I: IntLanes,
    const HALVES: bool,
    const MINIMUMS: bool,
    const BYTES: bool,
    const ROWS: usize,
>(
    isa: I,
    part: &PanelBlock<'_>,
    terms: *const StripTerms,
) {
    let layout = PanelLayout { zero: Zero::Bytes, halves: HALVES, minimums: MINIMUMS };
    let lanes = I::LANES;
    let width = NR_VECTORS * lanes;
    let halves = layout.scales();
    let offsets = RowOffsets::new(part.lhs.groups());
    // SAFETY: the caller vouches for panel, rows, terms and outputs; `load` and `store` keep to the outputs that there are.
    unsafe {
        let starts = (&raw const (*terms).starts).cast::<i32>();
        let added = (&raw const (*terms).sums).cast::<f32>();
        let scales = part.lhs.row(part.row).add(offsets.scales + 4 * part.first);
        let first_codes = part.lhs.row(part.row).add(GROUP * part.first);
        let mut sums = [[isa.zeros(); NR_VECTORS]; ROWS];
        if part.accumulate {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let left = part.outputs.saturating_sub(i * lanes);
                    *sum = load(isa, part.y.add(row * part.y_stride).wrapping_add(i * lanes), left);
                }
            }
        }
        for group in 0..part.groups {
            let panel = part.panel.add(group * layout.words() * width);
            let a = first_codes.add(group * GROUP);
            for half in 0..halves {
                let mut dots = [[isa.broadcast_sum(I::START); NR_VECTORS]; ROWS];
                if !MINIMUMS || BYTES {
                    for (row, dots) in dots.iter_mut().enumerate() {
                        let start = *starts.add((half * MAX_MR + row) * MAX_KC + group);
                        *dots = [isa.broadcast_sum(start); NR_VECTORS];
                    }
                }
                for word in half * CODE_WORDS / halves..(half + 1) * CODE_WORDS / halves {
                    let mut codes = [isa.load_words(panel.add(word * width).cast()); NR_VECTORS];
                    for (i, codes) in codes.iter_mut().enumerate().skip(1) {
                        *codes = isa.load_words(panel.add(word * width + i * lanes).cast());
                    }
                    for (row, dots) in dots.iter_mut().enumerate() {
                        let x = a.add(row * offsets.bytes + 4 * word).cast::<i32>().read_unaligned();
                        for (dots, codes) in dots.iter_mut().zip(codes) {
                            *dots = isa.dot::<BYTES>(*dots, codes, x);
                        }
                    }
                }
                for i in 0..NR_VECTORS {
                    let scale = isa.load(panel.add((CODE_WORDS + half) * width + i * lanes));
                    let offset = isa.scale_offset(scale);
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let x_scale =
                            scales.add(row * offsets.bytes + 4 * group).cast::<f32>().read_unaligned();
                        let product = isa.scale(dots[row][i], scale, offset);
                        sums[i] = isa.fma(product, isa.broadcast(x_scale), sums[i]);
                    }
                    if MINIMUMS {
                        let minimum = isa.load(panel.add((CODE_WORDS + halves + half) * width + i * lanes));
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let sum = *added.add((half * MAX_MR + row) * MAX_KC + group);
                            sums[i] = isa.fma(minimum, isa.broadcast(sum), sums[i]);
                        }
                    }
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (i, sum) in sums.iter().enumerate() {
                let left = part.outputs.saturating_sub(i * lanes);
                store(isa, *sum, part.y.add(row * part.y_stride).wrapping_add(i * lanes), left);
            }
        }
    }
}

/// Loads a vector whose last `left` lanes are what is at `from`; all of them, if there are more. A vector that is not whole was unpacked
/// from earlier weight rows, so its last lanes are the outputs.
///
/// # Safety
/// `left` f32s, at most a vector, can be read.
#[inline(always)]
unsafe fn load<I: IntLanes>(isa: I, from: *const f32, left: usize) -> I::Floats {
    // SAFETY: the caller vouches for `left` f32s; no more than the vector's lanes are copied.
    unsafe {
        if left >= I::LANES {
            return isa.load(from);
        }
        let mut words = [0f32; MAX_LANES];
        std::ptr::copy_nonoverlapping(from, words.as_mut_ptr().add(I::LANES - left), left);
        isa.load(words.as_ptr())
    }
}

/// Stores the last `left` lanes; all of them, if there are fewer.
///
/// # Safety
/// `left` f32s, at most a vector, can be written.
#[inline(always)]
pub(super) unsafe fn store<I: IntLanes>(isa: I, vector: I::Floats, to: *mut f32, left: usize) {
    // SAFETY: the caller vouches for `left` f32s; no more than the vector's lanes are copied.
    unsafe {
        if left >= I::LANES {
            return isa.store(vector, to);
        }
        let mut words = [0f32; MAX_LANES];
        isa.store(vector, words.as_mut_ptr());
        std::ptr::copy_nonoverlapping(words.as_ptr().add(I::LANES - left), to, left);
    }
}
