//! The formats of one scale per 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

use super::format::{Codes, Layout, Place, Sink, Zero, bytes_of_run, nibbles};
use super::source::Source;
use super::unit::Unit;

/// 4-bit codes and a scale.
pub(super) struct Q4_0;
/// 4-bit codes, a scale and a minimum.
pub(super) struct Q4_1;
/// 5-bit codes and a scale.
pub(super) struct Q5_0;
/// 5-bit codes, a scale and a minimum.
pub(super) struct Q5_1;
/// Signed bytes and a scale.
pub(super) struct Q8_0;

/// A scale and a minimum.
pub(super) const MINIMUMS: Layout = Layout { zero: Zero::Code(0), halves: false, minimums: true };

// SAFETY: reads blocks of 18 bytes only.
unsafe impl Codes for Q4_0 {
    const LAYOUT: Layout = Layout::plain(Zero::Code(8));
    const BLOCK: usize = 18;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow a scale.
        unsafe { to.codes(0, &nibbles::<U>(columns.words::<U, Self>(block, 2))) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { columns.halves::<U, Self>([0, 0], first, count, to) }
    }
}

// SAFETY: reads blocks of 20 bytes only.
unsafe impl Codes for Q4_1 {
    const LAYOUT: Layout = MINIMUMS;
    const BLOCK: usize = 20;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow a scale and a minimum.
        unsafe { to.codes(0, &nibbles::<U>(columns.words::<U, Self>(block, 4))) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { scale_and_minimum::<U, S, Self>(columns, first, count, to) }
    }
}

// SAFETY: reads blocks of 22 bytes only.
unsafe impl Codes for Q5_0 {
    const LAYOUT: Layout = Layout::plain(Zero::Code(16));
    const BLOCK: usize = 22;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise; a word of fifth bits and sixteen bytes of nibbles end the block.
        unsafe { codes5::<U, S, Self>(columns, block, to) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { columns.halves::<U, Self>([0, 0], first, count, to) }
    }
}

// SAFETY: reads blocks of 24 bytes only.
unsafe impl Codes for Q5_1 {
    const LAYOUT: Layout = MINIMUMS;
    const BLOCK: usize = 24;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise; a word of fifth bits and sixteen bytes of nibbles end the block.
        unsafe { codes5::<U, S, Self>(columns, block, to) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { scale_and_minimum::<U, S, Self>(columns, first, count, to) }
    }
}

// SAFETY: reads blocks of 34 bytes only.
unsafe impl Codes for Q8_0 {
    const LAYOUT: Layout = Layout::plain(Zero::Bytes);
    const BLOCK: usize = 34;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise; 32 bytes follow a scale.
        unsafe {
            let mut codes = bytes_of_run::<U, S, Self>(columns, block, 2);
            for codes in &mut codes {
                *codes = U::bytes(*codes);
            }
            to.codes(0, &codes);
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { columns.halves::<U, Self>([0, 0], first, count, to) }
    }
}

/// Blocks that begin with a scale and a minimum.
#[inline(always)]
unsafe fn scale_and_minimum<U: Unit, S: Source, F: Codes>(columns: S, first: usize, count: usize, to: Place) {
    // SAFETY: the caller's promise.
    unsafe {
        columns.halves::<U, F>([0, 0], first, count, to);
        columns.halves::<U, F>([2, 1], first, count, to);
    }
}

/// Codes from a word of fifth bits and the nibbles after it, which end the block.
#[inline(always)]
unsafe fn codes5<U: Unit, S: Source, F: Codes>(columns: S, block: usize, to: &mut impl Sink<U>) {
    // SAFETY: the caller's promise.
    unsafe {
        let [fifth, ..] = columns.words::<U, F>(block, F::BLOCK - 20);
        let mut codes = nibbles::<U>(columns.words::<U, F>(block, F::BLOCK - 16));
        for (word, codes) in codes.iter_mut().enumerate() {
            *codes = U::join::<0>(*codes, U::spread(fifth, 4 * word as u32));
        }
        to.codes(0, &codes);
    }
}
