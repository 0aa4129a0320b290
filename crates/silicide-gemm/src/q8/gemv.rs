//! GEMV: up to four rows, with AVX-512 up to sixteen, times weights that stream past. Codes go from memory to registers and are multiplied
//! there, a vector of outputs at a time, with all rows. Only scales pass through memory, in L1.
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
//!
//! One row more than a GEMV takes is a second GEMV, over weights that the first one has brought to L2.
//!
//! More than nine rows are batches: each multiplies all groups of a vector, which stay in L2 from one batch to the next, and prefetches a part of
//! the next vector's.
//!
//! A vector of eight lanes takes half of each cache line of sixteen interleaved rows. Both halves are multiplied in turns of 256 weights,
//! so that the second finds its lines in L1.
//! Two vectors as one share the broadcasts of activations, but run short of registers: on Zen 5, in the caches, Q4_0 takes 62 GB/s so and 53 in
//! turns, Q8_0 62 and 76, Q5_K 22 and 35; from memory turns are never slower. A thread reads one stream, as four are 4% faster at most there.

use super::GEMV_ROWS;
use super::formats::{
    BlockFormat, CODE_WORDS, CodeSink, FormatVisitor, GROUP, PanelLayout, ScaleSlots, Zero, affine,
    lines_of_block, prefetch, visit,
};
use super::gemm::Q8Product;
use super::layout::{
    INTERLEAVE, Interleaved, InterleavedPlanes, Strided, VectorRows, WeightLayout, WeightRows,
};
use super::microkernel::{GroupTerms, store};
use super::quantize::{QuantizedRows, RowOffsets};
use super::weights::WeightEncoding;
use crate::isa::{DotStarts, GemvLanes, MAX_LANES, Task};
use crate::prefetch::SpreadPrefetch;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most groups of a row: those of 32768 weights.
pub(super) const MAX_GROUPS: usize = 1024;
/// The most rows of a batch ([`GemvLanes::BATCHES`]).
const BATCH_ROWS: usize = 8;
/// The most batches.
const BATCHES: usize = 3;
/// Bytes of weights that are multiplied with one part of the rows and then with the other: they stay in L2.
const PART_BYTES: usize = 128 << 10;
/// The most groups whose scales are unpacked before their codes: whole blocks of every format.
const SCALE_GROUPS: usize = 16;
/// The most scales and minimums of a group.
const SLOTS: usize = 4;

/// Workspace: the terms of rows ([`GroupTerms`]), for each half of the groups. Those of one row lie side by side, so that vector
/// instructions store them: every tile computes them. Only what was written is read.
struct RowTerms<const ROWS: usize> {
    starts: [[[MaybeUninit<i32>; ROWS]; MAX_GROUPS]; 2],
    sums: [[[MaybeUninit<f32>; ROWS]; MAX_GROUPS]; 2],
}

impl<const ROWS: usize> RowTerms<ROWS> {
    /// Computes the terms of the rows from row `first` on, of all groups.
    #[inline(always)]
    fn fill<I: GemvLanes>(&mut self, layout: PanelLayout, lhs: QuantizedRows<'_>, first: usize) {
        for (half, (starts, sums)) in
            self.starts.iter_mut().zip(&mut self.sums).take(layout.scales()).enumerate()
        {
            for row in 0..ROWS {
                let (starts, sums) = (starts.as_flattened_mut(), sums.as_flattened_mut());
                let (starts, sums) = (starts.get_mut(row..), sums.get_mut(row..));
                let (starts, sums) = (starts.unwrap_or_default(), sums.unwrap_or_default());
                let groups = lhs.groups_of(first + row, 0..lhs.groups());
                GroupTerms { starts, sums, step: ROWS }.fill::<I>(layout, half, groups);
            }
        }
    }

    /// Returns the index of the first row's term of a group, or of a half of it.
    #[inline(always)]
    const fn index(group: usize, half: usize) -> usize {
        (half * MAX_GROUPS + group) * ROWS
    }
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
    if product.lhs.groups() > MAX_GROUPS {
        return false;
    }
    let dispatch = Dispatch { isa, product, outputs };
    match encoding {
        WeightEncoding::Block(format) => visit(format, dispatch).unwrap_or(false),
        WeightEncoding::Affine(format) => affine::visit(format, dispatch).unwrap_or(false),
    }
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
        if self.product.weights.interleaved.is_none() {
            let Self { isa, product, outputs } = self;
            if product.lhs.rows() > 1 {
                return false;
            }
            isa.run(Gemv::<I, F, Strided, 1>::new(isa, product, outputs));
            return true;
        }
        if const { !F::INTERLEAVED } {
            return false;
        }
        if const { F::IN_PLANES } {
            return self.interleaved::<F, InterleavedPlanes>();
        }
        self.interleaved::<F, Interleaved<INTERLEAVE>>()
    }
}

impl<I: GemvLanes> Dispatch<'_, I> {
    /// Computes the product with interleaved weights, or a part of its rows after the other.
    #[inline(always)]
    fn interleaved<F: BlockFormat, L: WeightLayout>(self) -> bool {
        let Self { isa, product, outputs } = self;
        let rows = product.lhs.rows();
        // One more row than a GEMV has would take longer than a second GEMV; but a batch of eight rows of signed codes, or of groups with
        // halves, takes little longer than one of four.
        let batches = const { I::BATCHES && !F::LAYOUT.halves && !matches!(F::LAYOUT.zero, Zero::Bytes) };
        let first = match rows {
            2 if const { I::SIGNED } => 1,
            5 if const { I::SIGNED } || batches => GEMV_ROWS,
            9 if batches => BATCH_ROWS,
            _ => return Dispatch { isa, product, outputs }.whole::<F, L>(),
        };
        let parts = [0..first, first..rows].map(|rows| Q8Product {
            lhs: product.lhs.part(rows.clone()),
            y: product.y.wrapping_add(rows.start * product.y_stride),
            ..*product
        });
        let step = (PART_BYTES / product.weights.stride.max(1)).next_multiple_of(INTERLEAVE).max(INTERLEAVE);
        for start in outputs.clone().step_by(step) {
            let outputs = start..(start + step).min(outputs.end);
            for product in &parts {
                if !(Dispatch { isa, product, outputs: outputs.clone() }).whole::<F, L>() {
                    return false;
                }
            }
        }
        true
    }

    /// Computes all rows at once, if there is a GEMV for their number.
    #[inline(always)]
    fn whole<F: BlockFormat, L: WeightLayout>(self) -> bool {
        let Self { isa, product, outputs } = self;
        let rows = product.lhs.rows();
        match rows {
            1 => isa.run(Gemv::<I, F, L, 1>::new(isa, product, outputs)),
            // With 16 registers, panels are as fast for two and three rows.
            // A batch of eight rows takes as long as one of five: three of four rows are better for nine.
            9..=12 if const { I::BATCHES && !F::LAYOUT.halves } => {
                isa.run(Gemv::<I, F, L, GEMV_ROWS>::new(isa, product, outputs));
            }
            5..=16 if const { I::BATCHES } && (rows <= BATCH_ROWS || const { !F::LAYOUT.halves }) => {
                isa.run(Gemv::<I, F, L, BATCH_ROWS>::new(isa, product, outputs));
            }
            2..=GEMV_ROWS if rows == GEMV_ROWS || const { !I::SIGNED } => {
                isa.run(Gemv::<I, F, L, GEMV_ROWS>::new(isa, product, outputs));
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
        // A copy, which stores to outputs can't change: its fields stay in registers.
        let product = &{ *product };
        let (lanes, layout, groups) = (I::LANES, F::LAYOUT, product.lhs.groups());
        // SAFETY: the workspace has room for it (`staging`), is borrowed by the product, and holds no other reference; all fields are
        // `MaybeUninit`.
        let terms = unsafe { &mut *product.staging::<[RowTerms<ROWS>; BATCHES]>() };
        // One row is one batch, for the compiler too.
        let batches = if const { ROWS == 1 } { 1 } else { product.lhs.rows().div_ceil(ROWS).min(BATCHES) };
        for (batch, terms) in terms.iter_mut().enumerate().take(batches) {
            terms.fill::<I>(layout, product.lhs, batch * ROWS);
        }
        let mut scales = Scales(MaybeUninit::uninit());
        let slots = layout.words() - CODE_WORDS;
        // SAFETY: the array has room for SCALE_GROUPS groups of SLOTS vectors of MAX_LANES.
        let scales = unsafe { ScaleSlots::<I>::new(scales.0.as_mut_ptr().cast(), SCALE_GROUPS, slots) };
        // Rows that there are none of are the last one, computed and not written.
        let pass = |batch: usize| Pass::<I, F, L, ROWS> {
            isa,
            rows: std::array::from_fn(|row| product.lhs.row(batch * ROWS + row)),
            groups,
            terms: &raw const terms[batch],
            scales,
            format: PhantomData,
        };
        if const { I::LANES < INTERLEAVE && L::SHARES_LINES } {
            // SAFETY: the terms of all groups were filled; weights have the outputs and groups (`gemv`).
            unsafe { pass(0).in_turns(product, outputs) };
            return;
        }
        for output in outputs.clone().step_by(lanes) {
            // A vector that is not whole begins earlier.
            let skipped = (output + lanes).saturating_sub(outputs.end);
            let from = product.weights.skip(output - skipped);
            from.skip(lanes).prefetch_scales(lanes);
            let mut next = if const { I::BATCHES && ROWS > 1 } {
                SpreadPrefetch::new(product.region((output + lanes, 0), lanes, groups), batches * groups)
            } else {
                SpreadPrefetch::NOTHING
            };
            for batch in 0..batches {
                let pass = pass(batch);
                let mut sums = [isa.zeros(); ROWS];
                for chunk in (0..groups).step_by(pass.ahead()) {
                    // SAFETY: the terms of all groups were filled; weights have the outputs and groups (`gemv`).
                    sums = unsafe { pass.chunk(from, chunk, sums, &mut next) };
                }
                for (row, sum) in sums.iter().enumerate().take(product.lhs.rows() - batch * ROWS) {
                    let y = product.y.wrapping_add((batch * ROWS + row) * product.y_stride + output);
                    // SAFETY: the product's outputs of these rows can be written (`Q8Product::multiply`).
                    unsafe { store(isa, *sum, y, outputs.end - output) };
                }
            }
        }
    }
}

/// What the vectors of a GEMV share.
struct Pass<I, F, L, const ROWS: usize> {
    isa: I,
    rows: [*const u8; ROWS],
    /// Groups of a row.
    groups: usize,
    terms: *const RowTerms<ROWS>,
    scales: ScaleSlots<I>,
    format: PhantomData<(F, L)>,
}

impl<I: GemvLanes, F: BlockFormat, L: WeightLayout, const ROWS: usize> Pass<I, F, L, ROWS> {
    /// Groups whose scales are unpacked before their codes: a chunk.
    #[inline(always)]
    fn ahead(&self) -> usize {
        L::SCALES_AHEAD.max(F::GROUPS)
    }

    /// Adds the terms of a chunk, which begins at group `chunk`, of a vector of weight rows.
    ///
    /// # Safety
    /// The weight rows have all groups, in this format and layout. The terms of all groups were filled.
    #[inline(always)]
    unsafe fn chunk(
        &self,
        from: WeightRows,
        chunk: usize,
        mut sums: [I::Floats; ROWS],
        spread: &mut SpreadPrefetch,
    ) -> [I::Floats; ROWS] {
        let &Pass { isa, rows, groups, terms, scales, .. } = self;
        let weights = VectorRows::<I, L, F>::new(isa, from);
        let after = from.start.wrapping_add(I::LANES * from.stride);
        let first = chunk / F::GROUPS;
        // With one block at a time, this is a constant for the compiler.
        let count = if L::SCALES_AHEAD == 1 { 1 } else { self.ahead().min(groups - chunk) / F::GROUPS };
        // SAFETY: rows have `groups` groups, by this function's contract, which are whole blocks.
        F::scales(unsafe { weights.blocks(first, count) }, scales);
        // A vector's share of the lines of rows that are interleaved.
        let share =
            if const { I::LANES < INTERLEAVE } { from.interleaved.unwrap_or(0) * F::BYTES } else { 0 };
        for block in 0..count {
            // A value for each block: with one that all blocks change, the compiler keeps addresses in vectors.
            let mut dots = Dots::<I, F, L, ROWS> {
                spread: &mut *spread,
                sums,
                rows,
                scale_offset: RowOffsets::new(groups).scales,
                terms,
                scales: scales.skip(block * F::GROUPS),
                first: chunk + block * F::GROUPS,
                next: weights.prefetch_address(first + block, after).wrapping_add(share),
                block: weights.address(first + block).wrapping_add(share),
                format: PhantomData,
            };
            // SAFETY: rows have `groups` groups, by this function's contract, which are whole blocks.
            F::codes(unsafe { weights.block(first + block) }, &mut dots);
            sums = dots.sums;
        }
        sums
    }

    /// Computes outputs whose weight rows are interleaved: the vectors of [`INTERLEAVE`] rows, which share cache lines, in turns.
    ///
    /// # Safety
    /// As for [`Pass::chunk`]; outputs are whole interleaved rows, and those of the product.
    #[inline(always)]
    unsafe fn in_turns(&self, product: &Q8Product<'_>, outputs: Range<usize>) {
        const { assert!(!L::SHARES_LINES || TURN_GROUPS.is_multiple_of(L::SCALES_AHEAD)) };
        let (isa, lanes) = (self.isa, I::LANES);
        let mut spread = SpreadPrefetch::NOTHING;
        for first in outputs.clone().step_by(INTERLEAVE) {
            let mut sums = [[isa.zeros(); ROWS]; MAX_VECTORS];
            for turn in (0..self.groups).step_by(TURN_GROUPS) {
                let chunks = turn..(turn + TURN_GROUPS).min(self.groups);
                for (i, sums) in sums.iter_mut().enumerate().take(INTERLEAVE / lanes) {
                    let weights = product.weights.skip(first + i * lanes);
                    let mut turn_sums = *sums;
                    for chunk in chunks.clone().step_by(self.ahead()) {
                        // SAFETY: the contract is the same.
                        turn_sums = unsafe { self.chunk(weights, chunk, turn_sums, &mut spread) };
                    }
                    *sums = turn_sums;
                }
            }
            for (i, sums) in sums.iter().enumerate().take(INTERLEAVE / lanes) {
                let output = first + i * lanes;
                for (row, sum) in sums.iter().enumerate().take(product.lhs.rows()) {
                    let y = product.y.wrapping_add(row * product.y_stride + output);
                    // SAFETY: the product's outputs of these rows can be written, by this function's contract.
                    unsafe { store(isa, *sum, y, outputs.end - output) };
                }
            }
        }
    }
}

/// Groups of a vector that are multiplied in a turn: whole blocks of every format.
const TURN_GROUPS: usize = 8;
/// The most vectors of interleaved rows: those of eight lanes.
const MAX_VECTORS: usize = INTERLEAVE / 8;

/// Returns which lines of a block are prefetched with one of its groups.
#[inline(always)]
fn lines_of_group<I: GemvLanes, F: BlockFormat>(group: usize) -> Range<usize> {
    let part = const { lines_of_block::<I, F>().div_ceil(F::GROUPS) };
    group * part..(group + 1) * part
}

/// Sums of a vector of outputs, one for each row.
struct Dots<'a, I: GemvLanes, F, L, const ROWS: usize> {
    /// The prefetch of the next vector's weights, where there are batches.
    spread: &'a mut SpreadPrefetch,
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
    /// The address of the vector's share of the block itself.
    block: *const u8,
    format: PhantomData<(F, L)>,
}

impl<I: GemvLanes, F: BlockFormat, L: WeightLayout, const ROWS: usize> CodeSink<I>
    for Dots<'_, I, F, L, ROWS>
{
    #[inline(always)]
    fn codes(&mut self, isa: I, group: usize, codes: &[I::Words; CODE_WORDS]) {
        if group >= F::GROUPS {
            return;
        }
        let lines = lines_of_group::<I, F>(group);
        if const { I::BATCHES && ROWS > 1 } {
            self.spread.step();
        } else {
            prefetch::<false>(self.next, lines.clone());
        }
        if let Some(distance) = L::PREFETCH_L1 {
            prefetch::<true>(self.block.wrapping_add(distance), lines);
        }
        // SAFETY: `Gemv::run` sets `first` to blocks that the rows have; it has filled the terms of all groups and stored the scales of
        // the block.
        unsafe {
            if F::LAYOUT.halves {
                let [a, b, c, d, e, f, g, h] = *codes;
                self.add(isa, group, 0, [a, b, c, d]);
                self.add(isa, group, 1, [e, f, g, h]);
            } else {
                self.add(isa, group, 0, *codes);
            }
        }
    }
}

impl<I: GemvLanes, F: BlockFormat, L: WeightLayout, const ROWS: usize> Dots<'_, I, F, L, ROWS> {
    /// Adds the terms of a group, or of a half of it.
    ///
    /// # Safety
    /// The rows have the group. Its terms were filled, and its scales stored.
    #[inline(always)]
    unsafe fn add<const WORDS: usize>(
        &mut self,
        isa: I,
        group: usize,
        half: usize,
        codes: [I::Words; WORDS],
    ) {
        let (layout, at) = (F::LAYOUT, self.first + group);
        // SAFETY: rows, terms and scales of the group are there, by this function's contract.
        unsafe {
            let x = self.rows.map(|row| row.add(at * GROUP + 4 * half * WORDS));
            let starts = if layout.starts() {
                let first =
                    (&raw const (*self.terms).starts).cast::<i32>().add(RowTerms::<ROWS>::index(at, half));
                DotStarts::PerRow { first, step: 1 }
            } else {
                DotStarts::Constant
            };
            let dots = isa.row_dots(codes, const { F::LAYOUT.sums() }, x, starts);
            let scale = self.scales.get(isa, group, half);
            let offset = isa.scale_offset(scale);
            for (row, sum) in self.sums.iter_mut().enumerate() {
                let x_scale = self.rows[row].add(self.scale_offset + 4 * at).cast::<f32>().read_unaligned();
                *sum = isa.fma(isa.scale(dots[row], scale, offset), isa.broadcast(x_scale), *sum);
            }
            if layout.minimums {
                let minimum = self.scales.get(isa, group, layout.scales() + half);
                for (row, sum) in self.sums.iter_mut().enumerate() {
                    let index = RowTerms::<ROWS>::index(at, half) + row;
                    let added = *(&raw const (*self.terms).sums).cast::<f32>().add(index);
                    *sum = isa.fma(minimum, isa.broadcast(added), *sum);
                }
            }
        }
    }
}
