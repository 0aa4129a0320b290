//! Rounding activations: every 32 to 8 bits, under their own scale.
//!
//! A rounded row ([`Row`]) depends on nothing but its activations: kernels for all formats and instruction sets read the same
//! one. It has 32 signed bytes in -127..=127 for every run, then the scales of all runs as f32, then the sums of the first
//! halves of runs and of the second halves, as i32.

use super::format::LEN;
use crate::cpu::{Simd, native_kernel};
use silicide_core::kernel::{Arg, Launch, Plan};
use silicide_hal::{Program, Tile};
use smallvec::smallvec;
use std::ops::Range;

/// Activations that one tile rounds, about.
const ROUND_ELEMENTS: usize = 16 << 10;

/// Where things are in a rounded row of so many runs, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) scales: usize,
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) bytes: usize,
}

impl Row {
    #[inline(always)]
    pub(super) const fn of(runs: usize) -> Row {
        let (scales, sums) = (runs * LEN, runs * (LEN + 4));
        Row { scales, first: sums, second: sums + 4 * runs, bytes: (sums + 8 * runs).next_multiple_of(64) }
    }
}

native_kernel!(
    /// Activations to rounded rows.
    ACTIVATIONS,
    "matmul.activations.cpu",
    tile::<S>
);

/// Adds rounding argument 0, of so many rows and runs, to a plan; returns the scratch with the rounded rows. Calls that share an
/// input share these, whatever the formats of their weights.
pub(super) fn round(plan: &mut Plan, rows: usize, runs: usize) -> u8 {
    let tile_rows = (ROUND_ELEMENTS / (runs * LEN)).max(1);
    let launch = Launch {
        program: Program::Native(&ACTIVATIONS),
        args: smallvec![Arg::slot(0)],
        params: [rows, runs, tile_rows].into_iter().map(|extent| extent as u32).collect(),
        grid: [rows.div_ceil(tile_rows) as u32, 1, 1],
    };
    plan.derive(rows * Row::of(runs).bytes, launch)
}

/// Rows, and runs of a row, if a launch rounds activations.
pub(crate) fn rounds(launch: &Launch) -> Option<[u32; 2]> {
    let (Program::Native(program), [rows, runs, _]) = (&launch.program, launch.params.as_slice()) else {
        return None;
    };
    std::ptr::eq(*program, &ACTIVATIONS).then_some([*rows, *runs])
}

/// A tile: some rows.
///
/// # Safety
///
/// The instruction set is present; bindings are rows of f32 and as many rounded rows as the parameters say.
#[inline(always)]
unsafe fn tile<S: Simd>(tile: &Tile<'_>) {
    let [rows, runs, tile_rows] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let first = tile.index[0] as usize * tile_rows;
    for row in first..(first + tile_rows).min(rows) {
        // SAFETY: the planner made the grid for these extents; tiles have different rows.
        unsafe { round_row(tile, (row, 0), (row, 1), runs) }
    }
}

/// Rounds a row of a binding, of so many runs, to a rounded row of another.
///
/// # Safety
///
/// The bindings have these rows, and nobody else touches the rounded one.
#[inline(always)]
pub(super) unsafe fn round_row(
    tile: &Tile<'_>,
    (row, binding): (usize, usize),
    (to, to_binding): (usize, usize),
    runs: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { round_part(tile, (row, binding), (to, to_binding), runs, 0..runs) }
}

/// Rounds some runs of a row of a binding to a rounded row of another.
///
/// # Safety
///
/// The bindings have these rows, and nobody else touches these runs of the rounded one.
#[inline(always)]
pub(crate) unsafe fn round_part(
    tile: &Tile<'_>,
    (row, binding): (usize, usize),
    (to, to_binding): (usize, usize),
    runs: usize,
    part: Range<usize>,
) {
    let place = Row::of(runs);
    // SAFETY: the caller's promise; the parts of a row lie apart.
    let (from, codes, scales, first, second) = unsafe {
        let start = to * place.bytes;
        let words = |at: usize| (start + at) / 4 + part.start..(start + at) / 4 + part.end;
        (
            tile.read_part::<[f32; LEN]>(binding, row * runs + part.start..row * runs + part.end),
            tile.write::<[i8; LEN]>(to_binding, start / LEN + part.start..start / LEN + part.end),
            tile.write::<f32>(to_binding, words(place.scales)),
            tile.write::<i32>(to_binding, words(place.first)),
            tile.write::<i32>(to_binding, words(place.second)),
        )
    };
    let parts = codes.iter_mut().zip(scales).zip(first.iter_mut().zip(second));
    for (from, ((codes, scale), (first, second))) in from.iter().zip(parts) {
        *scale = round_run(from, codes);
        [*first, *second] = sums(codes);
    }
}

/// Rounds a run to codes; returns its scale.
#[inline(always)]
fn round_run(from: &[f32; LEN], codes: &mut [i8; LEN]) -> f32 {
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
fn sums(codes: &[i8; LEN]) -> [i32; 2] {
    let mut sums = [0i32; 2];
    for (sum, half) in sums.iter_mut().zip(codes.as_chunks::<{ LEN / 2 }>().0) {
        for code in half {
            *sum += i32::from(*code);
        }
    }
    sums
}
