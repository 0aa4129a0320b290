//! Multiplying a panel of unpacked weights with rows of rounded activations.
//!
//! A panel is a sequence of runs in the [`Layout`] of its format, [`VECTORS`] vectors of columns wide. Lanes are columns, so
//! nothing is ever summed across lanes. An output is the sum over runs, one after the other, of scaled dot products of a run or of
//! its halves, then of minimums.

use super::format::{CODE_WORDS, LEN, Layout, MAX_RUNS, Zero};
use super::quantize::Row;
use super::unit::Unit;
use crate::f32::vector::{MAX_LANES, Vector};
use std::ops::Range;

/// The most rows of any register tile; a multiple of each one's.
pub const MAX_ROWS: usize = 6;
/// Vectors in a row of the register tile.
pub(super) const VECTORS: usize = 2;

/// A block of outputs: some rows and the columns of one panel or several.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// The first rounded row, which has so many runs.
    pub(super) a: *const u8,
    pub(super) a_runs: usize,
    /// Bytes from one row to the next.
    pub(super) a_stride: usize,
    /// The first run of the panel, and how many it has: at most [`MAX_RUNS`].
    pub(super) first: usize,
    pub(super) runs: usize,
    /// The first panel; the others follow.
    pub(super) panel: *const f32,
    pub(super) y: *mut f32,
    pub(super) y_stride: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Whether to add to the outputs rather than to overwrite them.
    pub(super) accumulate: bool,
}

/// What a strip of rows needs beside its codes and scales, made of their sums: for each half of a run what dot products start
/// from, and the sum under its scale. Where runs have no halves, only the first. Only what was written is read.
struct Words {
    starts: [[[i32; MAX_RUNS]; MAX_ROWS]; 2],
    sums: [[[f32; MAX_RUNS]; MAX_ROWS]; 2],
}

/// Computes a block, in strips of nearly equal height, each with all panels: its activations stay in the first cache, and panels
/// pass from the second.
///
/// # Safety
///
/// The unit's instruction set is present, the panel is in this layout, rows, columns and runs are inside what the block says.
#[inline(always)]
pub(super) unsafe fn multiply<U: Unit>(layout: Layout, block: &Block) {
    // SAFETY: the caller's promise.
    unsafe {
        match (layout.halves, layout.minimums, layout.bytes::<U>()) {
            (false, false, false) => strips::<U, false, false, false>(layout, block),
            (false, false, true) => strips::<U, false, false, true>(layout, block),
            (false, true, false) => strips::<U, false, true, false>(layout, block),
            (false, true, true) => strips::<U, false, true, true>(layout, block),
            (true, false, false) => strips::<U, true, false, false>(layout, block),
            (true, false, true) => strips::<U, true, false, true>(layout, block),
            (true, true, _) => strips::<U, true, true, false>(layout, block),
        }
    }
}

/// [`multiply`] for a layout: with halves, with minimums, with codes in signed bytes.
#[inline(always)]
unsafe fn strips<U: Unit, const HALVES: bool, const MINIMUMS: bool, const BYTES: bool>(
    layout: Layout,
    block: &Block,
) {
    const { assert!(MAX_ROWS.is_multiple_of(U::ROWS)) };
    let mut words = std::mem::MaybeUninit::<Words>::uninit();
    let words = words.as_mut_ptr();
    let width = VECTORS * U::Floats::LANES;
    let count = block.rows.div_ceil(U::ROWS);
    let mut row = 0;
    for strip in 0..count {
        let end = (strip + 1) * block.rows / count;
        // SAFETY: the strip is part of the block, and has no more rows than there is room for.
        unsafe {
            let part = Block {
                a: block.a.add(row * block.a_stride),
                y: block.y.add(row * block.y_stride),
                rows: end - row,
                ..*block
            };
            for (row, half) in
                (0..part.rows.min(MAX_ROWS)).flat_map(|row| (0..layout.scales()).map(move |half| (row, half)))
            {
                let at = (half * MAX_ROWS + row) * MAX_RUNS;
                let to = Prepared {
                    starts: (&raw mut (*words).starts).cast::<i32>().add(at),
                    sums: (&raw mut (*words).sums).cast::<f32>().add(at),
                };
                let start = part.a.add(row * part.a_stride);
                prepare::<U>(layout, half, (start, part.a_runs), part.first..part.first + part.runs, to);
            }
            for column in (0..block.columns).step_by(width) {
                let part = Block {
                    panel: block.panel.add(column * layout.words() * block.runs),
                    y: part.y.add(column),
                    columns: width.min(block.columns - column),
                    ..part
                };
                if part.columns > U::Floats::LANES {
                    rows::<U, HALVES, MINIMUMS, BYTES, 2>(&part, words);
                } else {
                    rows::<U, HALVES, MINIMUMS, BYTES, 1>(&part, words);
                }
            }
        }
        row = end;
    }
}

/// Where what rows need goes: one word of each for every run.
#[derive(Clone, Copy)]
pub(super) struct Prepared {
    pub(super) starts: *mut i32,
    pub(super) sums: *mut f32,
}

/// Makes what a row of so many runs needs beside its codes and scales, for one half of some runs in a layout.
///
/// # Safety
///
/// The row has the runs, and there is room for as many words.
#[inline(always)]
pub(super) unsafe fn prepare<U: Unit>(
    layout: Layout,
    half: usize,
    (row, all): (*const u8, usize),
    runs: Range<usize>,
    to: Prepared,
) {
    let place = Row::of(all);
    let zero = match layout.zero {
        Zero::Code(zero) => i32::from(zero),
        Zero::Bytes => U::ZERO,
    };
    // SAFETY: the caller's promise. Words lie at multiples of four bytes from a row's start, and rows are aligned.
    unsafe {
        let at = |offset: usize| row.add(offset + 4 * runs.start);
        let scales = std::slice::from_raw_parts(at(place.scales).cast::<f32>(), runs.len());
        let first = std::slice::from_raw_parts(at(place.first).cast::<i32>(), runs.len());
        let second = std::slice::from_raw_parts(at(place.second).cast::<i32>(), runs.len());
        for (run, ((scale, first), second)) in scales.iter().zip(first).zip(second).enumerate() {
            let sum = match (layout.halves, half) {
                (false, _) => first + second,
                (true, 0) => *first,
                (true, _) => *second,
            };
            if !layout.minimums || layout.bytes::<U>() {
                *to.starts.add(run) = U::START - zero * sum;
            }
            if layout.minimums {
                *to.sums.add(run) = scale * sum as f32;
            }
        }
    }
}

/// [`tile`] for the strip's number of rows.
#[inline(always)]
unsafe fn rows<U: Unit, const HALVES: bool, const MINIMUMS: bool, const BYTES: bool, const COUNT: usize>(
    part: &Block,
    words: *const Words,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match part.rows {
            1 => tile::<U, HALVES, MINIMUMS, BYTES, 1, COUNT>(part, words),
            2 => tile::<U, HALVES, MINIMUMS, BYTES, 2, COUNT>(part, words),
            3 if U::ROWS >= 3 => tile::<U, HALVES, MINIMUMS, BYTES, 3, COUNT>(part, words),
            4 if U::ROWS >= 4 => tile::<U, HALVES, MINIMUMS, BYTES, 4, COUNT>(part, words),
            5 if U::ROWS >= 5 => tile::<U, HALVES, MINIMUMS, BYTES, 5, COUNT>(part, words),
            6 if U::ROWS >= 6 => tile::<U, HALVES, MINIMUMS, BYTES, 6, COUNT>(part, words),
            _ => {}
        }
    }
}

/// One register tile, of `ROWS` rows and `COUNT` vectors, over all runs of the panel.
#[inline(always)]
unsafe fn tile<
    U: Unit,
    const HALVES: bool,
    const MINIMUMS: bool,
    const BYTES: bool,
    const ROWS: usize,
    const COUNT: usize,
>(
    part: &Block,
    words: *const Words,
) {
    let layout = Layout { zero: Zero::Bytes, halves: HALVES, minimums: MINIMUMS };
    let lanes = U::Floats::LANES;
    let width = VECTORS * lanes;
    let halves = layout.scales();
    // SAFETY: the caller's promise: the panel has the runs, rows and columns are inside theirs.
    unsafe {
        let starts = (&raw const (*words).starts).cast::<i32>();
        let added = (&raw const (*words).sums).cast::<f32>();
        let scales = part.a.add(Row::of(part.a_runs).scales + 4 * part.first);
        let codes_start = part.a.add(LEN * part.first);
        let mut sums = [[U::Floats::zero(); COUNT]; ROWS];
        if part.accumulate {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = load(part.y.add(row * part.y_stride + i * lanes), part.columns - i * lanes);
                }
            }
        }
        for run in 0..part.runs {
            let panel = part.panel.add(run * layout.words() * width);
            let a = codes_start.add(run * LEN);
            for half in 0..halves {
                let mut dots = [[U::splat(&U::START); COUNT]; ROWS];
                if !MINIMUMS || BYTES {
                    for (row, dots) in dots.iter_mut().enumerate() {
                        *dots = [U::splat(starts.add((half * MAX_ROWS + row) * MAX_RUNS + run)); COUNT];
                    }
                }
                for word in half * CODE_WORDS / halves..(half + 1) * CODE_WORDS / halves {
                    let mut codes = [U::load(panel.add(word * width).cast()); COUNT];
                    for (i, codes) in codes.iter_mut().enumerate().skip(1) {
                        *codes = U::load(panel.add(word * width + i * lanes).cast());
                    }
                    for (row, dots) in dots.iter_mut().enumerate() {
                        let x = a.add(row * part.a_stride + 4 * word).cast();
                        for (dots, codes) in dots.iter_mut().zip(codes) {
                            *dots = if BYTES {
                                U::dot::<true>(*dots, codes, x)
                            } else {
                                U::dot::<false>(*dots, codes, x)
                            };
                        }
                    }
                }
                for i in 0..COUNT {
                    let scale = U::Floats::load(panel.add((CODE_WORDS + half) * width + i * lanes));
                    let offset = U::offset(scale);
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let activations = U::Floats::splat(scales.add(row * part.a_stride + 4 * run).cast());
                        sums[i] = U::scaled(dots[row][i], scale, offset).multiply_add(activations, sums[i]);
                    }
                    if MINIMUMS {
                        let minimum =
                            U::Floats::load(panel.add((CODE_WORDS + halves + half) * width + i * lanes));
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let sum = U::Floats::splat(added.add((half * MAX_ROWS + row) * MAX_RUNS + run));
                            sums[i] = minimum.multiply_add(sum, sums[i]);
                        }
                    }
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (i, sum) in sums.iter().enumerate() {
                store(*sum, part.y.add(row * part.y_stride + i * lanes), part.columns - i * lanes);
            }
        }
    }
}

/// A vector whose last `left` lanes are what is at `from`; all of them, if there are more.
#[inline(always)]
unsafe fn load<V: Vector>(from: *const f32, left: usize) -> V {
    // SAFETY: the caller's promise; no more than the vector's lanes are copied.
    unsafe {
        if left >= V::LANES {
            return V::load(from);
        }
        let mut words = [0f32; MAX_LANES];
        std::ptr::copy_nonoverlapping(from, words.as_mut_ptr().add(V::LANES - left), left);
        V::load(words.as_ptr())
    }
}

/// Writes the last `left` lanes; all of them, if there are fewer.
#[inline(always)]
pub(super) unsafe fn store<V: Vector>(vector: V, to: *mut f32, left: usize) {
    // SAFETY: the caller's promise; no more than the vector's lanes are copied.
    unsafe {
        if left >= V::LANES {
            return vector.store(to);
        }
        let mut words = [0f32; MAX_LANES];
        vector.store(words.as_mut_ptr());
        std::ptr::copy_nonoverlapping(words.as_ptr().add(V::LANES - left), to, left);
    }
}
