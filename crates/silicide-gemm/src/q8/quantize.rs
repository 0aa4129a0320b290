//! Rounding activations: every 32 to 8 bits, under their own scale.
//!
//! A rounded row ([`Row`]) depends on nothing but its activations: kernels for all formats and instruction sets read the same
//! one. It has 32 signed bytes in -127..=127 for every run, then the scales of all runs as f32, then the sums of the first
//! halves of runs and of the second halves, as i32.

use super::format::LEN;

/// Where things are in a rounded row of so many runs, in bytes.
#[derive(Clone, Copy)]
pub struct Row {
    /// The scales.
    pub scales: usize,
    /// The sums of first halves.
    pub first: usize,
    /// The sums of second halves.
    pub second: usize,
    /// Bytes from one row to the next: whole cache lines.
    pub bytes: usize,
}

impl Row {
    /// The places in a row of `runs` runs.
    #[inline(always)]
    pub const fn of(runs: usize) -> Row {
        let (scales, sums) = (runs * LEN, runs * (LEN + 4));
        Row { scales, first: sums, second: sums + 4 * runs, bytes: (sums + 8 * runs).next_multiple_of(64) }
    }
}

/// Rounds a run to codes; returns its scale.
#[inline(always)]
pub fn round_run(from: &[f32; LEN], codes: &mut [i8; LEN]) -> f32 {
    // Added to a small number, it leaves the nearest whole number in the lowest bits.
    const ROUND: f32 = (3 << 22) as f32;
    // Sizes have the order of their bits; those of infinities and NaN come after all numbers.
    let mut largest = [0u32; 16];
    for chunk in from.as_chunks::<16>().0 {
        for (largest, value) in largest.iter_mut().zip(chunk) {
            *largest = (*largest).max(value.to_bits() & (u32::MAX >> 1));
        }
    }
    let largest = f32::from_bits(largest.into_iter().fold(0, u32::max));
    let scale = if largest.is_finite() { largest * (1.0 / 127.0) } else { f32::NAN };
    let inverse = if scale > 0.0 { 127.0 / largest } else { 0.0 };
    for (code, value) in codes.iter_mut().zip(from) {
        *code = (value * inverse + ROUND).to_bits() as i8;
    }
    scale
}

/// The sums of both halves of a run.
#[inline(always)]
pub fn sums(codes: &[i8; LEN]) -> [i32; 2] {
    let mut sums = [0i32; 2];
    for (sum, half) in sums.iter_mut().zip(codes.as_chunks::<{ LEN / 2 }>().0) {
        for code in half {
            *sum += i32::from(*code);
        }
    }
    sums
}
