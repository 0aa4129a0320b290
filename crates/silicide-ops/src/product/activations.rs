//! Quantizes activations to 8 bits, for products in integers: the launch that does so, and quantizing as a part of other launches.

use super::needs;
use crate::cpu::native_kernel;
use silicide_core::kernel::{Arg, Launch, Plan};
use silicide_gemm::q8::{GROUP, QuantizedRowsMut, quantized_row_bytes};
use silicide_hal::{Program, Tile};
use smallvec::smallvec;
use std::ops::Range;

/// Activations that one tile quantizes, about.
const ROUND_ELEMENTS: usize = 16 << 10;

// SAFETY: a tile reads its own rows and writes as many quantized rows.
native_kernel!(
    /// Activations to quantized rows.
    unsafe ACTIVATIONS,
    "matmul.activations.cpu",
    tile,
    needs needs::activations
);

/// Adds a launch to `plan` that quantizes argument 0, of `rows` rows of `groups` groups; returns the scratch with the quantized rows.
/// Calls that share an input share these, whatever the formats of their weights.
pub(crate) fn round(plan: &mut Plan, rows: usize, groups: usize) -> u8 {
    let tile_rows = (ROUND_ELEMENTS / (groups * GROUP)).max(1);
    let launch = Launch {
        program: Program::Native(&ACTIVATIONS),
        args: smallvec![Arg::slot(0)],
        params: [rows, groups, tile_rows].into_iter().map(|extent| extent as u32).collect(),
        grid: [rows.div_ceil(tile_rows) as u32, 1, 1],
    };
    plan.derive(rows * quantized_row_bytes(groups), launch)
}

/// Returns rows, and groups of a row, if a launch quantizes activations.
pub(crate) fn rounds(launch: &Launch) -> Option<[u32; 2]> {
    let (Program::Native(program), [rows, groups, _]) = (&launch.program, launch.params.as_slice()) else {
        return None;
    };
    std::ptr::eq(*program, &ACTIVATIONS).then_some([*rows, *groups])
}

/// A tile: some rows.
///
/// # Safety
///
/// The instruction set is present; bindings are rows of f32 and as many quantized rows as the parameters say.
#[inline(always)]
unsafe fn tile(tile: &Tile<'_>) {
    let [rows, groups, tile_rows] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let first = tile.index[0] as usize * tile_rows;
    for row in first..(first + tile_rows).min(rows) {
        // SAFETY: the planner made the grid for these extents; tiles have different rows.
        unsafe { round_row(tile, (row, 0), (row, 1), groups) }
    }
}

/// Quantizes row `row` of a binding, of `groups` groups, to quantized row `to` of another.
///
/// # Safety
///
/// The bindings have these rows, and nothing else touches the quantized one.
#[inline(always)]
pub(crate) unsafe fn round_row(
    tile: &Tile<'_>,
    (row, binding): (usize, usize),
    (to, to_binding): (usize, usize),
    groups: usize,
) {
    // SAFETY: the caller vouches for the row, of which this is all.
    unsafe { round_part(tile, (row, binding), (to, to_binding), groups, 0..groups) }
}

/// Quantizes groups `part` of row `row` of a binding to quantized row `to` of another.
///
/// # Safety
///
/// The bindings have these rows, and nothing else touches these groups of the quantized one.
#[inline(always)]
pub(crate) unsafe fn round_part(
    tile: &Tile<'_>,
    (row, binding): (usize, usize),
    (to, to_binding): (usize, usize),
    groups: usize,
    part: Range<usize>,
) {
    // SAFETY: the caller vouches for the rows; bindings of f32 and scratch memory are aligned.
    let (from, mut rows) = unsafe {
        let start = row * groups * GROUP;
        let from = tile.read_part::<f32>(binding, start + part.start * GROUP..start + part.end * GROUP);
        (from, QuantizedRowsMut::from_raw_parts(tile.start(to_binding), to + 1, groups))
    };
    // The row and its groups are those of the view, so nothing is refused.
    let done = rows.quantize_groups(to, part.start, from);
    debug_assert_eq!(done, Ok(()));
}
