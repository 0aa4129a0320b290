//! A few rows times a stream of weights: codes go from memory to registers and are multiplied there, a vector of columns at
//! a time, with all rows. Only scales pass through memory, near enough to cost nothing.
//!
//! Sums are made in the order of [`panel`](super::panel), so outputs have the same bits either way.

use super::format::{CODE_WORDS, Codes, LEN, Place, Sink, lines_of_block, prefetch};
use super::panel::{self, Prepared, store};
use super::product::Product;
use super::quantize::Row;
use super::source::Source;
use super::unit::Unit;
use crate::f32::vector::{MAX_LANES, Vector};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most runs of a column: those of 32768 weights.
pub(super) const MOST_RUNS: usize = 1024;
/// The most runs whose scales are unpacked before their codes: whole blocks of every format.
const AHEAD: usize = 16;
/// The most scales and minimums of a run.
const SCALES: usize = 4;

/// Staging: what rows need beside their codes and scales, for each half of a run. Only what was written is read.
struct Words<const ROWS: usize> {
    starts: [[[i32; MOST_RUNS]; 2]; ROWS],
    sums: [[[f32; MOST_RUNS]; 2]; ROWS],
}

/// Scales and minimums of a few runs.
#[repr(align(64))]
struct Scales(MaybeUninit<[f32; MAX_LANES * SCALES * AHEAD]>);

/// Computes the outputs of some columns in rows of which there are at most `ROWS`.
///
/// # Safety
///
/// As for [`Product::multiply`]; columns are of this format and source, and have at most [`MOST_RUNS`].
#[inline(always)]
pub(super) unsafe fn stream<U: Unit, F: Codes, S: Source, const ROWS: usize>(
    product: &Product,
    columns: Range<usize>,
) {
    let lanes = U::Floats::LANES;
    let words = product.staging::<Words<ROWS>>();
    let mut scales = Scales(MaybeUninit::uninit());
    let layout = F::LAYOUT;
    let scales = Place {
        to: scales.0.as_mut_ptr().cast(),
        width: lanes,
        words: layout.words() - CODE_WORDS,
        before: 0,
    };
    let stride = Row::of(product.runs).bytes;
    // SAFETY: the caller's promise. Rows that there are none of are the last one, computed and not written.
    unsafe {
        let rows: [*const u8; ROWS] =
            std::array::from_fn(|row| product.a.add(row.min(product.rows - 1) * stride));
        for (row, start) in rows.iter().enumerate() {
            let starts = (&raw mut (*words).starts[row]).cast::<i32>();
            let sums = (&raw mut (*words).sums[row]).cast::<f32>();
            for half in 0..layout.scales() {
                let to = Prepared { starts: starts.add(half * MOST_RUNS), sums: sums.add(half * MOST_RUNS) };
                panel::prepare::<U>(layout, half, (*start, product.runs), 0..product.runs, to);
            }
        }
        let ahead = S::AHEAD.max(F::RUNS);
        for column in columns.clone().step_by(lanes) {
            // A vector that is not whole begins earlier.
            let skipped = (column + lanes).saturating_sub(columns.end);
            let from = product.weights.skip(column - skipped);
            let (source, after) = (S::new(from), from.start.wrapping_add(lanes * from.stride));
            let mut dots = Dots::<U, F, S, ROWS> {
                sums: [U::Floats::zero(); ROWS],
                rows,
                activations: Row::of(product.runs).scales,
                words,
                scales,
                first: 0,
                next: from.start,
                block: from.start,
                format: std::marker::PhantomData,
            };
            for chunk in (0..product.runs).step_by(ahead) {
                let (first, count) = (chunk / F::RUNS, ahead.min(product.runs - chunk) / F::RUNS);
                F::scales::<U, S>(source, first, count, scales);
                for block in 0..count {
                    dots.block = source.block::<F>(first + block);
                    dots.next = match S::NEXT {
                        None => after.wrapping_add((first + block) * lanes * F::BLOCK),
                        Some(ahead) => dots.block.wrapping_add(ahead),
                    };
                    dots.scales = scales.skip(block * F::RUNS);
                    dots.first = chunk + block * F::RUNS;
                    F::codes::<U, S>(source, first + block, &mut dots);
                }
            }
            for (row, sum) in dots.sums.iter().enumerate().take(product.rows) {
                store(*sum, product.y.add(row * product.y_stride + column), columns.end - column);
            }
        }
    }
}

/// Lines of a block that are brought nearer with one of its runs.
#[inline(always)]
fn part_of_block<U: Unit, F: Codes>(run: usize) -> Range<usize> {
    let part = const { lines_of_block::<U, F>().div_ceil(F::RUNS) };
    run * part..(run + 1) * part
}

/// Sums of products of a vector of columns with rows.
struct Dots<U: Unit, F, S, const ROWS: usize> {
    sums: [U::Floats; ROWS],
    rows: [*const u8; ROWS],
    /// Where scales are in a row.
    activations: usize,
    words: *const Words<ROWS>,
    /// The scales of the block, and its first run.
    scales: Place,
    first: usize,
    /// What is brought nearer while the block is multiplied, a part with each run: all of it at once would fill the queue to memory,
    /// and everything would wait.
    next: *const u8,
    /// Where the block itself is.
    block: *const u8,
    format: std::marker::PhantomData<(F, S)>,
}

// SAFETY: reads what there is of the run.
unsafe impl<U: Unit, F: Codes, S: Source, const ROWS: usize> Sink<U> for Dots<U, F, S, ROWS> {
    #[inline(always)]
    unsafe fn codes(&mut self, run: usize, codes: &[U::Words; CODE_WORDS]) {
        let layout = F::LAYOUT;
        let (bytes, halves) = (layout.bytes::<U>(), layout.scales());
        let at = self.first + run;
        // SAFETY: the caller's promise; words and scales of this run were written. What is prefetched need not exist.
        unsafe {
            prefetch::<false>(self.next, part_of_block::<U, F>(run));
            if let Some(near) = S::NEAR {
                prefetch::<true>(self.block.wrapping_add(near), part_of_block::<U, F>(run));
            }
            for half in 0..halves {
                let mut dots = [U::splat(&U::START); ROWS];
                if !layout.minimums || bytes {
                    for (row, dots) in dots.iter_mut().enumerate() {
                        *dots = U::splat((&raw const (*self.words).starts[row][half]).cast::<i32>().add(at));
                    }
                }
                let count = CODE_WORDS / halves;
                for (word, codes) in codes.iter().enumerate().skip(half * count).take(count) {
                    for (dots, row) in dots.iter_mut().zip(self.rows) {
                        let x = row.add(at * LEN + 4 * word).cast();
                        *dots = if bytes {
                            U::dot::<true>(*dots, *codes, x)
                        } else {
                            U::dot::<false>(*dots, *codes, x)
                        };
                    }
                }
                let scale = U::Floats::load(self.scales.scale(run, half));
                let offset = U::offset(scale);
                for (row, sum) in self.sums.iter_mut().enumerate() {
                    let activations = U::Floats::splat(self.rows[row].add(self.activations + 4 * at).cast());
                    *sum = U::scaled(dots[row], scale, offset).multiply_add(activations, *sum);
                }
                if layout.minimums {
                    let minimum = U::Floats::load(self.scales.scale(run, halves + half));
                    for (row, sum) in self.sums.iter_mut().enumerate() {
                        let added = U::Floats::splat(
                            (&raw const (*self.words).sums[row][half]).cast::<f32>().add(at),
                        );
                        *sum = minimum.multiply_add(added, *sum);
                    }
                }
            }
        }
    }
}
