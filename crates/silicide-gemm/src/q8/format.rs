//! What a format that is multiplied in integers says of itself: how blocks of some columns become codes, scales and minimums
//! in a panel. A new format is one implementation of [`Codes`] and one line in the table; `legacy`, `k`, `levels` and `mlx` have
//! them, and `spelled` serves the formats that have none.

use super::source::{Columns, Source};
use super::unit::Unit;
use crate::f32::vector::Vector;
use crate::prefetch::{LINE, fetch};
use std::ops::Range;

/// Weights under one scale, or two.
pub const LEN: usize = 32;
/// Words of a run's codes, for each column.
pub(super) const CODE_WORDS: usize = LEN / 4;
/// The most runs that are unpacked at a time: whole blocks of every format.
pub const MAX_RUNS: usize = 64;

/// Which code stands for zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zero {
    /// This one; codes are below 128.
    Code(u8),
    /// Codes are signed bytes, as [`Unit::bytes`] makes them.
    Bytes,
}

/// How a run lies in a panel: eight rows of words, four codes of each column side by side; then one scale or, with halves,
/// two; then as many minimums, if there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) zero: Zero,
    /// Whether each half of a run has its own scale and minimum.
    pub(super) halves: bool,
    /// Whether weights are `scale * (code - zero) + minimum`.
    pub(super) minimums: bool,
}

impl Layout {
    /// One scale.
    pub(super) const fn plain(zero: Zero) -> Layout {
        Layout { zero, halves: false, minimums: false }
    }

    /// Scales, or minimums.
    #[inline(always)]
    pub(super) const fn scales(self) -> usize {
        1 + self.halves as usize
    }

    /// Whether [`Unit::dot`] is told that codes are signed bytes.
    #[inline(always)]
    pub(super) const fn bytes<U: Unit>(self) -> bool {
        matches!(self.zero, Zero::Bytes) && (U::SIGNED || self.minimums)
    }

    /// Words of a run in a panel, for each column.
    #[inline(always)]
    pub(super) const fn words(self) -> usize {
        CODE_WORDS + self.scales() * (1 + self.minimums as usize)
    }
}

/// What takes the codes of runs, in their order.
///
/// # Safety
///
/// The unit's instruction set is present, and there is room for the run.
pub(super) unsafe trait Sink<U: Unit> {
    /// Takes the codes of run `run` of a block.
    unsafe fn codes(&mut self, run: usize, codes: &[U::Words; CODE_WORDS]);
}

/// A vector of columns in a panel: where its runs go.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) to: *mut f32,
    /// Floats from one word to the next.
    pub(super) width: usize,
    /// Words of a run.
    pub(super) words: usize,
    /// Words of a run before its scales: those of codes, or none, if only scales go there.
    pub(super) before: usize,
}

impl Place {
    /// The place of later runs.
    #[inline(always)]
    pub(super) unsafe fn skip(self, runs: usize) -> Place {
        // SAFETY: the caller's promise: the panel has these runs.
        Place { to: unsafe { self.to.add(runs * self.words * self.width) }, ..self }
    }

    /// Where the scales of run `run` are; minimums follow.
    #[inline(always)]
    pub(super) unsafe fn scale(self, run: usize, i: usize) -> *mut f32 {
        // SAFETY: the caller's promise: the panel has this run.
        unsafe { self.to.add((run * self.words + self.before + i) * self.width) }
    }
}

// SAFETY: stores in the panel.
unsafe impl<U: Unit> Sink<U> for Place {
    #[inline(always)]
    unsafe fn codes(&mut self, run: usize, codes: &[U::Words; CODE_WORDS]) {
        for (word, codes) in codes.iter().enumerate() {
            // SAFETY: the caller's promise: the panel has this run.
            unsafe { U::store(*codes, self.to.add((run * self.words + word) * self.width).cast()) }
        }
    }
}

/// What is unpacked at a time: some runs of a vector of columns.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) columns: Columns,
    /// The first run, which begins a block.
    pub(super) first: usize,
    /// Whole blocks, at most [`MAX_RUNS`].
    pub(super) runs: usize,
    pub(super) to: Place,
    /// What is read after these columns.
    pub(super) next: *const u8,
}

/// A format.
///
/// # Safety
///
/// For methods the unit's instruction set is present, as many columns as it has lanes have the blocks that are asked for, and
/// the place has room for their runs.
pub(super) unsafe trait Codes {
    /// What it unpacks to.
    const LAYOUT: Layout;
    /// Bytes of a block; of its codes, for a format in planes.
    const BLOCK: usize;
    /// Runs of [`LEN`] weights in a block.
    const RUNS: usize;
    /// Where words of four bytes begin, up to three bytes into a block: as many as are no words, or none, if these end it.
    const WORDS_AT: usize;

    /// Unpacks the codes of block `block`.
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>);
    /// Unpacks the scales, and minimums if there are any, of `count` blocks from `first` on.
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place);
}

/// Unpacks a part, while what comes next is brought nearer in the order of memory.
///
/// # Safety
///
/// The unit's instruction set is present, the columns have the runs, and the place has room for them.
#[inline(always)]
pub(super) unsafe fn unpack<U: Unit, F: Codes, S: Source>(part: &Part) {
    let source = S::new(part.columns);
    let (first, count) = (part.first / F::RUNS, part.runs / F::RUNS);
    // SAFETY: the caller's promise.
    unsafe {
        F::scales::<U, S>(source, first, count, part.to);
        for block in 0..count {
            let next = match S::NEXT {
                None => part.next.wrapping_add((first + block) * U::Floats::LANES * F::BLOCK),
                Some(ahead) => source.block::<F>(first + block).wrapping_add(ahead),
            };
            prefetch::<false>(next, 0..const { lines_of_block::<U, F>() });
            F::codes::<U, S>(source, first + block, &mut part.to.skip(block * F::RUNS));
        }
    }
}

/// Lines of a block of every column.
pub(super) const fn lines_of_block<U: Unit, F: Codes>() -> usize {
    (U::Floats::LANES * F::BLOCK).div_ceil(LINE)
}

/// Brings lines from an address on to the second cache; or, if `FIRST`, to the first.
#[inline(always)]
pub(super) fn prefetch<const FIRST: bool>(from: *const u8, lines: Range<usize>) {
    for line in lines {
        fetch::<FIRST>(from.wrapping_add(line * LINE));
    }
}

/// Codes from nibbles: the lower ones are weights 0..16, the upper ones weights 16..32.
#[inline(always)]
pub(super) unsafe fn nibbles<U: Unit>([a, b, c, d]: [U::Words; 4]) -> [U::Words; CODE_WORDS] {
    // SAFETY: the caller's promise.
    unsafe { [U::low(a), U::low(b), U::low(c), U::low(d), U::high(a), U::high(b), U::high(c), U::high(d)] }
}

/// The 32 bytes from byte `at` on of each column's block, as eight words.
#[inline(always)]
pub(super) unsafe fn bytes_of_run<U: Unit, S: Source, F: Codes>(
    from: S,
    block: usize,
    at: usize,
) -> [U::Words; CODE_WORDS] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b, c, d] = from.words::<U, F>(block, at);
        let [e, f, g, h] = from.words::<U, F>(block, at + 16);
        [a, b, c, d, e, f, g, h]
    }
}
