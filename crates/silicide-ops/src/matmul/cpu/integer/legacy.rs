//! The formats of one scale per 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

use super::format::{Codes, Columns, Halves, Layout, Place, Zero, bytes_of_run, nibbles};
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

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, block: usize, to: Place) {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow a scale.
        unsafe { to.codes::<U>(0, &nibbles::<U>(U::transpose(columns.start.add(block * Self::BLOCK + 2), columns.stride))) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { Halves::of::<Self>(columns, 0, first, count).unpack::<U, false>(to, 1, 0) }
    }
}

// SAFETY: reads blocks of 20 bytes only.
unsafe impl Codes for Q4_1 {
    const LAYOUT: Layout = MINIMUMS;
    const BLOCK: usize = 20;
    const RUNS: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, block: usize, to: Place) {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow a scale and a minimum.
        unsafe { to.codes::<U>(0, &nibbles::<U>(U::transpose(columns.start.add(block * Self::BLOCK + 4), columns.stride))) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { scale_and_minimum::<U, Self>(columns, first, count, to) }
    }
}

// SAFETY: reads blocks of 22 bytes only.
unsafe impl Codes for Q5_0 {
    const LAYOUT: Layout = Layout::plain(Zero::Code(16));
    const BLOCK: usize = 22;
    const RUNS: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, block: usize, to: Place) {
        // SAFETY: the caller's promise; a word of fifth bits and sixteen bytes of nibbles end the block.
        unsafe { codes5::<U>(columns.start.add(block * Self::BLOCK + 2), columns.stride, to) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { Halves::of::<Self>(columns, 0, first, count).unpack::<U, false>(to, 1, 0) }
    }
}

// SAFETY: reads blocks of 24 bytes only.
unsafe impl Codes for Q5_1 {
    const LAYOUT: Layout = MINIMUMS;
    const BLOCK: usize = 24;
    const RUNS: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, block: usize, to: Place) {
        // SAFETY: the caller's promise; a word of fifth bits and sixteen bytes of nibbles end the block.
        unsafe { codes5::<U>(columns.start.add(block * Self::BLOCK + 4), columns.stride, to) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { scale_and_minimum::<U, Self>(columns, first, count, to) }
    }
}

// SAFETY: reads blocks of 34 bytes only.
unsafe impl Codes for Q8_0 {
    const LAYOUT: Layout = Layout::plain(Zero::Bytes);
    const BLOCK: usize = 34;
    const RUNS: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, block: usize, to: Place) {
        // SAFETY: the caller's promise; 32 bytes follow a scale.
        unsafe {
            let mut codes = bytes_of_run::<U>(columns.start.add(block * Self::BLOCK + 2), columns.stride);
            for codes in &mut codes {
                *codes = U::bytes(*codes);
            }
            to.codes::<U>(0, &codes);
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { Halves::of::<Self>(columns, 0, first, count).unpack::<U, false>(to, 1, 0) }
    }
}

/// Blocks that begin with a scale and a minimum.
#[inline(always)]
unsafe fn scale_and_minimum<U: Unit, F: Codes>(columns: Columns, first: usize, count: usize, to: Place) {
    // SAFETY: the caller's promise.
    unsafe {
        Halves::of::<F>(columns, 0, first, count).unpack::<U, false>(to, 1, 0);
        Halves::of::<F>(columns, 2, first, count).unpack::<U, false>(to, 1, 1);
    }
}

/// Codes from a word of fifth bits and the nibbles after it.
#[inline(always)]
unsafe fn codes5<U: Unit>(from: *const u8, stride: usize, to: Place) {
    // SAFETY: the caller's promise.
    unsafe {
        let [fifth, ..] = U::transpose(from, stride);
        let mut codes = nibbles::<U>(U::transpose(from.add(4), stride));
        for (word, codes) in codes.iter_mut().enumerate() {
            *codes = U::join::<0>(*codes, U::spread(fifth, 4 * word as u32));
        }
        to.codes::<U>(0, &codes);
    }
}
