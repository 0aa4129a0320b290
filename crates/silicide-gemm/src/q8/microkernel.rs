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
use super::quantize::{QuantizedGroups, QuantizedRows, RowOffsets};
use crate::isa::{CodeLanes, CodeSums, DotStarts, IntLanes, MAX_LANES, PanelWords, Task};
use crate::prefetch::SpreadPrefetch;
use std::mem::MaybeUninit;

/// The largest MR of any instruction set; a multiple of each one's.
pub const MAX_MR: usize = 6;
/// Vectors of outputs in the register tile: NR is `NR_VECTORS * LANES`.
pub(crate) const NR_VECTORS: usize = 2;

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
    starts: [[[MaybeUninit<i32>; MAX_KC]; MAX_MR]; 2],
    sums: [[[MaybeUninit<f32>; MAX_KC]; MAX_MR]; 2],
}

impl StripTerms {
    /// Computes the terms of the rows and groups of a strip.
    #[inline(always)]
    fn fill<I: IntLanes>(&mut self, layout: PanelLayout, strip: &PanelBlock<'_>) {
        let groups = strip.first..strip.first + strip.groups;
        let halves = self.starts.iter_mut().zip(&mut self.sums).take(layout.scales());
        for (half, (starts, sums)) in halves.enumerate() {
            for (row, (starts, sums)) in starts.iter_mut().zip(sums).take(strip.rows).enumerate() {
                let row = strip.lhs.groups_of(strip.row + row, groups.clone());
                GroupTerms { starts, sums, step: 1 }.fill::<I>(layout, half, row);
            }
        }
    }
}

/// Computes a block, by a function of its own: inside larger ones, registers run short.
///
/// # Safety
/// Panels can be read, in this layout, for the outputs rounded up to whole panels and for `groups` groups. LHS has the rows and groups. The
/// outputs can be written, and nothing else touches them.
#[inline(always)]
pub(super) unsafe fn multiply<I: IntLanes>(
    isa: I,
    layout: PanelLayout,
    block: PanelBlock<'_>,
    next: &mut SpreadPrefetch,
) {
    isa.run(MultiplyPanels { isa, layout, block, next });
}

/// The task of [`multiply`].
struct MultiplyPanels<'a, I> {
    isa: I,
    layout: PanelLayout,
    block: PanelBlock<'a>,
    /// What is unpacked next: it is prefetched meanwhile.
    next: &'a mut SpreadPrefetch,
}

/// The kind of a register tile: the layout of its panels, and how codes are multiplied.
#[derive(Clone, Copy)]
struct TileKind {
    halves: bool,
    minimums: bool,
    /// Whether dot products start from terms of the rows.
    starts: bool,
    sums: CodeSums,
}

impl<I: IntLanes> Task for MultiplyPanels<'_, I> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, layout, block, next } = self;
        let (starts, sums) = (layout.starts(), layout.sums());
        let kind = TileKind { halves: layout.halves, minimums: layout.minimums, starts, sums };
        // Constants in each arm, so each has a register tile of its own.
        macro_rules! arm {
            ($($member:ident: $value:expr),*) => {
                multiply_strips(isa, layout, TileKind { $($member: $value,)* ..kind }, &block, next)
            };
        }
        // SAFETY: `multiply` states what the block's memory is.
        unsafe {
            if const { !I::TILE_PER_LAYOUT } {
                return multiply_strips(isa, layout, kind, &block, next);
            }
            if const { I::SIGNED } {
                // A branch for minimums costs nothing that can be measured, and halves the number of tiles.
                return match (layout.halves, sums) {
                    (false, CodeSums::Words(8)) => arm!(halves: false, sums: CodeSums::Words(8)),
                    (false, CodeSums::Words(4)) => arm!(halves: false, sums: CodeSums::Words(4)),
                    // Right for all codes.
                    (false, _) => arm!(halves: false, sums: CodeSums::Signed),
                    (true, CodeSums::Words(4)) => arm!(halves: true, sums: CodeSums::Words(4)),
                    (true, CodeSums::Words(_)) => arm!(halves: true, sums: CodeSums::Words(2)),
                    (true, CodeSums::Signed) => arm!(halves: true, sums: CodeSums::Signed),
                };
            }
            match (layout.halves, layout.minimums, starts) {
                (false, false, _) => arm!(halves: false, minimums: false, starts: true),
                (true, false, _) => arm!(halves: true, minimums: false, starts: true),
                (false, true, true) => arm!(halves: false, minimums: true, starts: true),
                (false, true, false) => arm!(halves: false, minimums: true, starts: false),
                // No format has halves, minimums and signed codes.
                (true, true, _) => arm!(halves: true, minimums: true, starts: false),
            }
        }
    }
}

/// Returns the number of strips of rows.
#[inline(always)]
pub(super) fn strips<I: IntLanes>(layout: PanelLayout, rows: usize) -> usize {
    rows.div_ceil(if layout.sums() == CodeSums::Signed { I::MR_SIGNED } else { I::MR })
}

/// Computes a block in strips of MR rows, each with all panels: its activations stay in L1, and panels pass from L2.
///
/// # Safety
/// As for [`multiply`]; the kind is that of the layout, and a panel has at most [`MAX_KC`] groups.
#[inline(always)]
unsafe fn multiply_strips<I: IntLanes>(
    isa: I,
    layout: PanelLayout,
    kind: TileKind,
    block: &PanelBlock<'_>,
    next: &mut SpreadPrefetch,
) {
    const { assert!(I::MR <= MAX_MR && I::MR_SIGNED <= I::MR && I::KC <= MAX_KC) };
    let mut terms = MaybeUninit::<StripTerms>::uninit();
    // SAFETY: all fields are `MaybeUninit`.
    let terms = unsafe { terms.assume_init_mut() };
    let width = NR_VECTORS * I::LANES;
    // Nearly equal heights: a strip of one row takes more than a sixth of the time of six.
    let count = strips::<I>(layout, block.rows);
    let mut row = 0;
    for strip in 0..count {
        let rows = (strip + 1) * block.rows / count - row;
        let part = PanelBlock {
            row: block.row + row,
            y: block.y.wrapping_add(row * block.y_stride),
            rows,
            ..*block
        };
        terms.fill::<I>(layout, &part);
        for output in (0..block.outputs).step_by(width) {
            let part = PanelBlock {
                panel: block.panel.wrapping_add(output * layout.words() * block.groups),
                y: part.y.wrapping_add(output),
                outputs: width.min(block.outputs - output),
                ..part
            };
            // SAFETY: the strip and the panel are parts of the block, and the terms of these rows were filled.
            unsafe { multiply_strip::<I>(isa, kind, &part, terms, next) };
        }
        row += rows;
    }
}

/// Computes a strip of at most MR rows with one panel. Every number of rows has a tile: with those of 6, 5, 2 and 1 only, 3 and 4 rows of
/// weights that are not interleaved are 5 to 10% slower.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn multiply_strip<I: IntLanes>(
    isa: I,
    kind: TileKind,
    part: &PanelBlock<'_>,
    terms: &StripTerms,
    next: &mut SpreadPrefetch,
) {
    // Arms above the instruction set's MR are not compiled.
    macro_rules! arm {
        ($rows:literal) => {
            if const { $rows <= I::MR } {
                // SAFETY: the strip has this number of rows; the contract is that of `tile`.
                unsafe { tile::<I, $rows>(isa, kind, part, terms, next) }
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

/// Where the terms of one row go, for one half of groups: one word of each for every group.
pub(super) struct GroupTerms<'a> {
    /// The start value of dot products: `START - zero * sum of codes`.
    pub(super) starts: &'a mut [MaybeUninit<i32>],
    /// `scale * sum of codes`, for minimums.
    pub(super) sums: &'a mut [MaybeUninit<f32>],
    /// Words from one group to the next.
    pub(super) step: usize,
}

impl GroupTerms<'_> {
    /// Computes the terms of the groups of a row, of as many as there is room for.
    #[inline(always)]
    pub(super) fn fill<I: IntLanes>(self, layout: PanelLayout, half: usize, row: QuantizedGroups<'_>) {
        let Self { starts, sums, step } = self;
        let (starts, sums) = (starts.iter_mut(), sums.iter_mut());
        // Steps that are a variable would be taken one at a time.
        if step == 1 {
            fill_terms::<I>(starts.zip(sums), layout, half, row);
        } else {
            fill_terms::<I>(starts.step_by(step).zip(sums.step_by(step)), layout, half, row);
        }
    }
}

/// As [`GroupTerms::fill`].
#[inline(always)]
fn fill_terms<'a, I: IntLanes>(
    terms: impl Iterator<Item = (&'a mut MaybeUninit<i32>, &'a mut MaybeUninit<f32>)>,
    layout: PanelLayout,
    half: usize,
    row: QuantizedGroups<'_>,
) {
    let zero = match layout.zero {
        Zero::Code { zero, .. } => i32::from(zero),
        Zero::Bytes => <I::Unpacker as CodeLanes>::ZERO,
    };
    let sums = row.scales.iter().zip(row.first.iter().zip(row.second));
    // Rows that hold no quantized activations may overflow; their outputs mean nothing.
    for ((start, added), (scale, (first, second))) in terms.zip(sums) {
        let sum = match (layout.halves, half) {
            (false, _) => first.wrapping_add(*second),
            (true, 0) => *first,
            (true, _) => *second,
        };
        if layout.starts() {
            start.write(I::START.wrapping_sub(zero.wrapping_mul(sum)));
        }
        if layout.minimums {
            added.write(scale * sum as f32);
        }
    }
}

/// Computes one register tile, of `ROWS` rows and a panel, over all groups of the panel.
///
/// # Safety
/// The panel can be read for its groups; LHS has the rows and groups, and their terms were filled; the outputs can be written, and nothing
/// else touches them.
#[inline(always)]
unsafe fn tile<I: IntLanes, const ROWS: usize>(
    isa: I,
    kind: TileKind,
    part: &PanelBlock<'_>,
    terms: &StripTerms,
    next: &mut SpreadPrefetch,
) {
    let layout = PanelLayout { zero: Zero::Bytes, halves: kind.halves, minimums: kind.minimums };
    let lanes = I::LANES;
    let width = NR_VECTORS * lanes;
    let halves = layout.scales();
    let offsets = RowOffsets::new(part.lhs.groups());
    // SAFETY: panel, rows, terms and outputs are there, by this function's contract; `load` and `store` keep to the outputs that there
    // are.
    unsafe {
        let starts = terms.starts.as_ptr().cast::<i32>();
        let added = terms.sums.as_ptr().cast::<f32>();
        let activations = part.lhs.row(part.row);
        let scales = activations.add(offsets.scales + 4 * part.first);
        let first_codes = activations.add(GROUP * part.first);
        let mut sums = [[isa.zeros(); NR_VECTORS]; ROWS];
        if part.accumulate {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let left = part.outputs.saturating_sub(i * lanes);
                    *sum = load(isa, part.y.add(row * part.y_stride).wrapping_add(i * lanes), left);
                }
            }
        }
        let sums_address = &raw mut sums;
        for group in 0..part.groups {
            let panel = part.panel.add(group * layout.words() * width);
            let sums = &mut *isa.sums_address(sums_address);
            next.step();
            for half in 0..halves {
                let count = CODE_WORDS / halves;
                let words = PanelWords {
                    panel: panel.add(half * count * width).cast(),
                    count,
                    x: first_codes.add(group * GROUP + half * count * 4),
                    x_stride: offsets.bytes,
                };
                let first = starts.add(half * MAX_MR * MAX_KC + group);
                let starts =
                    if kind.starts { DotStarts::PerRow { first, step: MAX_KC } } else { DotStarts::Constant };
                let dots = isa.panel_dots::<ROWS>(words, kind.sums, starts);
                for i in 0..NR_VECTORS {
                    let scale = isa.load(panel.add((CODE_WORDS + half) * width + i * lanes));
                    let offset = isa.scale_offset(scale);
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let x_scale =
                            scales.add(row * offsets.bytes + 4 * group).cast::<f32>().read_unaligned();
                        let product = isa.scale(dots[row][i], scale, offset);
                        sums[i] = isa.fma(product, isa.broadcast(x_scale), sums[i]);
                    }
                    if kind.minimums {
                        let minimum = isa.load(panel.add((CODE_WORDS + halves + half) * width + i * lanes));
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let sum = *added.add((half * MAX_MR + row) * MAX_KC + group);
                            sums[i] = isa.fma(minimum, isa.broadcast(sum), sums[i]);
                        }
                    }
                }
            }
        }
        let sums = &*sums_address;
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
    // SAFETY: `left` f32s can be read, by this function's contract; no more than the vector's lanes are copied.
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
    // SAFETY: `left` f32s can be written, by this function's contract; no more than the vector's lanes are copied.
    unsafe {
        if left >= I::LANES {
            return isa.store(vector, to);
        }
        let mut words = [0f32; MAX_LANES];
        isa.store(vector, words.as_mut_ptr());
        std::ptr::copy_nonoverlapping(words.as_ptr().add(I::LANES - left), to, left);
    }
}
