//! The formats of one scale per 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

use super::format::{Codes, Columns, Scales, halves, nibbles};
use super::unit::{Side, Unit};

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

// SAFETY: reads blocks of 18 bytes only.
unsafe impl Codes for Q4_0 {
    const SIDE: Side = Side::Zero(8);
    const BLOCK: usize = 18;
    const RUNS: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow a scale.
        unsafe { nibbles::<U>(U::transpose(columns.start.add(run * Self::BLOCK + 2), columns.stride)) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { halves::<U, 18, 0>(columns, first, count, to.starts().0) }
    }
}

// SAFETY: reads blocks of 20 bytes only.
unsafe impl Codes for Q4_1 {
    const SIDE: Side = Side::Sum;
    const BLOCK: usize = 20;
    const RUNS: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow a scale and a minimum.
        unsafe { nibbles::<U>(U::transpose(columns.start.add(run * Self::BLOCK + 4), columns.stride)) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe {
            halves::<U, 20, 0>(columns, first, count, to.starts().0);
            halves::<U, 20, 2>(columns, first, count, to.starts().1);
        }
    }
}

// SAFETY: reads blocks of 22 bytes only.
unsafe impl Codes for Q5_0 {
    const SIDE: Side = Side::Zero(16);
    const BLOCK: usize = 22;
    const RUNS: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise; a word of fifth bits and sixteen bytes of nibbles end the block.
        unsafe { codes5::<U>(columns.start.add(run * Self::BLOCK + 2), columns.stride) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { halves::<U, 22, 0>(columns, first, count, to.starts().0) }
    }
}

// SAFETY: reads blocks of 24 bytes only.
unsafe impl Codes for Q5_1 {
    const SIDE: Side = Side::Sum;
    const BLOCK: usize = 24;
    const RUNS: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise; a word of fifth bits and sixteen bytes of nibbles end the block.
        unsafe { codes5::<U>(columns.start.add(run * Self::BLOCK + 4), columns.stride) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe {
            halves::<U, 24, 0>(columns, first, count, to.starts().0);
            halves::<U, 24, 2>(columns, first, count, to.starts().1);
        }
    }
}

// SAFETY: reads blocks of 34 bytes only.
unsafe impl Codes for Q8_0 {
    const SIDE: Side = Side::Bytes;
    const BLOCK: usize = 34;
    const RUNS: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise; 32 bytes follow a scale.
        unsafe {
            let start = columns.start.add(run * Self::BLOCK + 2);
            let [a, b, c, d] = U::transpose(start, columns.stride);
            let [e, f, g, h] = U::transpose(start.add(16), columns.stride);
            // No closure: it would not have the instruction set.
            let (a, b, c, d) = (U::bytes(a), U::bytes(b), U::bytes(c), U::bytes(d));
            [a, b, c, d, U::bytes(e), U::bytes(f), U::bytes(g), U::bytes(h)]
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { halves::<U, 34, 0>(columns, first, count, to.starts().0) }
    }
}

/// Codes from a word of fifth bits and the nibbles after it.
#[inline(always)]
unsafe fn codes5<U: Unit>(from: *const u8, stride: usize) -> [U::Words; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let [fifth, ..] = U::transpose(from, stride);
        let mut codes = nibbles::<U>(U::transpose(from.add(4), stride));
        for (word, codes) in codes.iter_mut().enumerate() {
            *codes = U::or(*codes, U::spread(fifth, 4 * word as u32));
        }
        codes
    }
}
