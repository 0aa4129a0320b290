//! Interleaves sixteen rows of dense weights, as [`weights`](super::weights) draws it.
//!
//! ```text
//! for element l, for row r of 16: to[l][r] = from[r][l]
//! ```
//!
//! A cache line of each row is copied, and the lines are transposed from there, as words of four bytes. Rows are often a multiple of 4 KiB apart:
//! the lines of sixteen such rows do not stay in L1 together, so that an element at a time would read each line many times. The next sixteen rows
//! are prefetched as one piece, as for [blocks](crate::q8::interleave()).

use super::product::{CheckedDense, DenseCall, F32Kernels};
use crate::isa::{CodeLanes, Task};
use crate::prefetch::{LINE, fetch};
use crate::q8::INTERLEAVE;
use crate::view::GemmError;
use silicide_quant::DType;

/// Bytes of a row that are transposed at a time.
const PART: usize = 16;

/// Interleaves sixteen weight rows of `dtype`, which follow each other in `from`. `to` has as many bytes.
pub fn interleave<I: F32Kernels>(isa: I, dtype: DType, from: &[u8], to: &mut [u8]) -> Result<(), GemmError> {
    let argument = "weights";
    let size = dtype.size();
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        let format = dtype.to_string();
        return Err(GemmError::Format { argument, format, what: "interleaved layout of elements" });
    }
    if from.len() != to.len() {
        return Err(GemmError::Length { argument: "interleaved weights", needed: from.len(), got: to.len() });
    }
    if from.is_empty() || !from.len().is_multiple_of(INTERLEAVE * size) {
        return Err(GemmError::Multiple { argument, what: "bytes", of: INTERLEAVE * size, got: from.len() });
    }
    isa.compute(CheckedDense(DenseCall::Interleave { size, from, to }));
    Ok(())
}

/// A cache line of each of sixteen rows.
#[repr(C, align(64))]
struct Lines([[u8; LINE]; INTERLEAVE]);

/// Interleaves sixteen rows of elements of `SIZE` bytes, 2 or 4, at any alignment. Both slices have as many bytes, a multiple of sixteen elements.
pub(super) struct InterleaveElements<'a, I, const SIZE: usize> {
    pub(super) isa: I,
    pub(super) from: &'a [u8],
    pub(super) to: &'a mut [u8],
}

impl<I: CodeLanes, const SIZE: usize> Task for InterleaveElements<'_, I, SIZE> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, from, to } = self;
        let row_bytes = from.len() / INTERLEAVE;
        let (whole, rest) = to.as_chunks_mut::<{ LINE * INTERLEAVE }>();
        let mut lines = Lines([[0; LINE]; INTERLEAVE]);
        let next = from.as_ptr().wrapping_add(from.len());
        for (i, to) in whole.iter_mut().enumerate() {
            for (row, line) in lines.0.iter_mut().enumerate() {
                fetch::<true>(next.wrapping_add((i * INTERLEAVE + row) * LINE));
                let from = from.get(row * row_bytes + i * LINE..).and_then(<[u8]>::first_chunk);
                if let Some(from) = from {
                    *line = *from;
                }
            }
            transpose::<I, SIZE>(isa, &lines, to);
        }
        // The rest of rows that are no whole lines.
        let (from, first) = (from.as_chunks::<SIZE>().0, whole.len() * LINE / SIZE);
        let depth = row_bytes / SIZE;
        let rest = rest.as_chunks_mut::<SIZE>().0.chunks_exact_mut(INTERLEAVE);
        for (at, to) in rest.enumerate() {
            for (row, to) in to.iter_mut().enumerate() {
                if let Some(element) = from.get(row * depth + first + at) {
                    *to = *element;
                }
            }
        }
    }
}

/// Interleaves the elements of sixteen lines.
#[inline(always)]
fn transpose<I: CodeLanes, const SIZE: usize>(isa: I, lines: &Lines, to: &mut [u8; LINE * INTERLEAVE]) {
    let to = to.as_chunks_mut::<{ PART * INTERLEAVE }>().0;
    for (part, to) in to.iter_mut().enumerate() {
        let mut words = [[0u32; INTERLEAVE]; PART / 4];
        for lane in (0..INTERLEAVE).step_by(I::LANES) {
            // SAFETY: there are `LANES` lines from `lane` on, which divides their number, with `PART` bytes in each part. Words of all of
            // them have room for `LANES` from `lane` on.
            unsafe {
                let from = lines.0.as_ptr().cast::<u8>().add(lane * LINE + part * PART);
                for (words, rows) in words.iter_mut().zip(isa.load_transposed(from, LINE)) {
                    isa.store_adjacent(rows, words.as_mut_ptr().add(lane).cast());
                }
            }
        }
        for (to, words) in to.as_chunks_mut::<{ 4 * INTERLEAVE }>().0.iter_mut().zip(&words) {
            store_words::<SIZE>(words, to);
        }
    }
}

/// Stores a word of each row: one element, or two, of which the first of all rows come first.
#[inline(always)]
fn store_words<const SIZE: usize>(words: &[u32; INTERLEAVE], to: &mut [u8; 4 * INTERLEAVE]) {
    if SIZE == 4 {
        for (to, word) in to.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_ne_bytes();
        }
        return;
    }
    let (first, second) = to.as_chunks_mut().0.split_at_mut(INTERLEAVE);
    for ((first, second), word) in first.iter_mut().zip(second).zip(words) {
        let word = u32::from_le(*word);
        (*first, *second) = ((word as u16).to_le_bytes(), ((word >> 16) as u16).to_le_bytes());
    }
}
