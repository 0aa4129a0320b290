//! Experts multiplied in integers: the rows that go to one are a [`Strip`], whose rounded activations lie together, and tiles are
//! some columns of an expert for a strip.

use super::strips::{self, Cut, HEADER, STRIP, Strip};
use crate::cpu::native_kernel;
use crate::expert_matmul::Problem;
use crate::product::integer::{FEW_ROWS, may_round, panel_columns};
use crate::product::{activations, stream_columns};
use silicide_core::kernel::{Access, Arg, Plan};
use silicide_gemm::q8::{
    Columns, FEW_RUNS, Integers, LEAST_COLUMNS, LEN, MAX_COLUMNS, MAX_RUNS, PANEL, Product, ProductWorkspace,
    Row,
};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::{DType, Format};

/// The kernel's name.
pub(super) const NAME: &str = "expert_matmul.integer.cpu";

/// Why the kernel does not take a problem.
pub(super) fn declines(problem: &Problem, dtype: DType) -> Option<&'static str> {
    if !may_round(dtype) {
        return Some("is for block formats that it has codes for");
    }
    (problem.n < LEAST_COLUMNS).then_some("needs more columns")
}

native_kernel!(MULTIPLY, NAME, tile::<S>, workspace size_of::<ExpertWorkspace>());
native_kernel!(
    /// Activations to rounded rows, in the order of strips.
    ROUND,
    "expert_matmul.activations.cpu",
    round
);

/// Rounds rows, in the order of strips.
///
/// # Safety
///
/// Parameters and bindings are those of [`strips::sort`], for rounded rows.
#[inline(always)]
unsafe fn round(tile: &Tile<'_>) {
    let runs = tile.param(4) as usize;
    // SAFETY: the planner made the grid for these extents; tiles have different places.
    unsafe {
        for (place, row) in strips::places(tile) {
            activations::round_row(tile, (row, 0), (place, 3), runs);
        }
    }
}

/// Workspace of a tile.
#[repr(C)]
struct ExpertWorkspace {
    product: ProductWorkspace,
    /// The outputs of a strip and some columns.
    outputs: [f32; STRIP * MAX_COLUMNS],
}

/// A tile: some columns of an expert, and a strip.
///
/// # Safety
///
/// The instruction set is present; bindings are rounded activations, weights, places and outputs of the extents in the
/// parameters, with at least as many columns as there are lanes.
#[inline(always)]
unsafe fn tile<S: Integers>(tile: &Tile<'_>) {
    let [n, k, tile_columns] = [4, 5, 6].map(|i| tile.param(i) as usize);
    let Some(&format) = Format::ALL.get(tile.param(HEADER) as usize) else { return };
    let interleaved = tile.param(HEADER + 1) != 0;
    let column = tile.index[0] as usize * tile_columns;
    let (end, runs) = ((column + tile_columns).min(n), k / LEN);
    // SAFETY: the caller's promise.
    let Some(strip) = (unsafe { Strip::of(tile) }) else { return };
    let Some(expert) = strip.expert else {
        for pair in strip.pairs() {
            // SAFETY: no other tile has this pair and these columns.
            unsafe { tile.write::<f32>(3, pair * n + column..pair * n + end) }.fill(f32::NAN);
        }
        return;
    };
    let stride = k / format.block_len() * format.block_bytes();
    let rows = strip.len();
    let (group, chunk) = if rows <= FEW_ROWS { (PANEL, FEW_RUNS) } else { (MAX_COLUMNS, MAX_RUNS) };
    // SAFETY: the only reference into the workspace.
    let (workspace, outputs) = unsafe {
        let all = tile.workspace::<ExpertWorkspace>().as_mut_ptr();
        (&raw mut (*all).product, (&raw mut (*all).outputs).cast::<f32>())
    };
    // One pair has its outputs where they belong; others have room for so many columns.
    let one = if rows == 1 { strip.pairs().next() } else { None };
    let step = if one.is_some() { tile_columns } else { MAX_COLUMNS };
    for first in (column..end).step_by(step) {
        let columns = first..(first + step).min(end);
        // SAFETY: the planner made the grid for these extents; tiles have different pairs or columns. What is copied was computed.
        unsafe {
            let (y, y_stride) = match one {
                Some(pair) => (tile.start(3).cast::<f32>().add(pair * n), n),
                // Columns are counted from the expert's first.
                None => (outputs.wrapping_sub(first), columns.len()),
            };
            let start = tile.start(1).add(expert * n * stride);
            let product = Product {
                a: tile.start(0).add(strip.row * Row::of(runs).bytes),
                rows,
                runs,
                weights: if interleaved {
                    Columns::interleaved(start, stride)
                } else {
                    Columns::of_blocks(start, stride)
                },
                group,
                chunk,
                y,
                y_stride,
                workspace,
            };
            S::multiply(format, &product, columns.clone());
            if one.is_none() {
                for (i, pair) in strip.pairs().enumerate() {
                    let from = std::slice::from_raw_parts(outputs.add(i * y_stride), y_stride);
                    tile.write::<f32>(3, pair * n + first..pair * n + columns.end).copy_from_slice(from);
                }
            }
        }
    }
}

/// The plan of a problem with weights of a format, interleaved or not.
pub(super) fn plan(problem: &Problem, (format, interleaved): (Format, bool), on: &DeviceInfo) -> Plan {
    let (cut, mut plan) = (Cut::of(problem), Plan::default());
    let (runs, n) = (problem.k / LEN, problem.n);
    let (activations, places) = if cut.is_single() {
        (Arg::scratch(activations::round(&mut plan, problem.rows(), runs), Access::Read), Arg::slot(2))
    } else {
        let sorted = strips::sort(&mut plan, problem, &ROUND, (Row::of(runs).bytes, runs));
        (sorted.activations, sorted.places)
    };
    // Few rows to an expert: its weights are read as a stream.
    let columns = if cut.usual() <= FEW_ROWS {
        let bytes = problem.k / format.block_len() * format.block_bytes();
        stream_columns(bytes, n * cut.tiles()).next_multiple_of(PANEL)
    } else {
        panel_columns(on)
    };
    let mut params = cut.params(problem, columns).to_vec();
    params.extend([format as u32, u32::from(interleaved)]);
    let grid = [n.div_ceil(columns) as u32, cut.tiles() as u32, 1];
    plan.push(Program::Native(&MULTIPLY), &[activations, Arg::slot(1), places, Arg::slot(3)], &params, grid);
    plan
}
