//! Rounding activations to 8 bits, for products in integers: the launch that does so, and rounding as a part of other launches.

use crate::cpu::native_kernel;
use silicide_core::kernel::{Arg, Launch, Plan};
use silicide_gemm::q8::{LEN, Row, round_run, sums};
use silicide_hal::{Program, Tile};
use smallvec::smallvec;
use std::ops::Range;

/// Activations that one tile rounds, about.
const ROUND_ELEMENTS: usize = 16 << 10;

native_kernel!(
    /// Activations to rounded rows.
    ACTIVATIONS,
    "matmul.activations.cpu",
    tile
);

/// Adds rounding argument 0, of so many rows and runs, to a plan; returns the scratch with the rounded rows. Calls that share an
/// input share these, whatever the formats of their weights.
pub(crate) fn round(plan: &mut Plan, rows: usize, runs: usize) -> u8 {
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
unsafe fn tile(tile: &Tile<'_>) {
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
pub(crate) unsafe fn round_row(
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
