//! Experts multiplied in integers: the rows that go to one are a [`Strip`], whose rounded activations lie together, and tiles are
//! some columns of an expert for a strip.

use super::strips::{self, Cut, HEADER, STRIP, Strip};
use crate::cpu::native_kernel;
use crate::expert_matmul::Problem;
use crate::needs::bytes;
use crate::product::integer::{FEW_ROWS, may_round, panel_columns};
use crate::product::{activations, needs, stream_columns};
use silicide_core::kernel::{Access, Arg, Plan};
use silicide_gemm::MatrixMut;
use silicide_gemm::q8::{
    Blocking, GROUP, INTERLEAVE, MAX_NC, MIN_OUTPUTS, NR, Q8Gemm, Q8Kernels, Q8Weights, Q8Workspace,
    QuantizedRows, quantized_row_bytes,
};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::{DType, Format};

/// The kernel's name.
pub(super) const NAME: &str = "expert_matmul.integer.cpu";

/// Why the kernel does not take a problem.
pub(super) fn declines(problem: &Problem, dtype: DType) -> Option<&'static str> {
    if !may_round(dtype) {
        return Some("is for block formats that it has codes for");
    }
    (problem.n < MIN_OUTPUTS).then_some("needs more columns")
}

// SAFETY: a tile is a strip of pairs of its own ([`Strip::of`] checks it) and some columns: it reads their rows and the columns of
// their expert, which is checked against the experts, and writes their outputs.
native_kernel!(unsafe MULTIPLY, NAME, tile::<S>, needs multiply_need, workspace size_of::<ExpertWorkspace>());
// SAFETY: a tile reads the rows of its own places, which are checked against the pairs, and writes those places.
native_kernel!(
    /// Activations to rounded rows, in the order of strips.
    unsafe ROUND,
    "expert_matmul.activations.cpu",
    round,
    needs round_need
);

fn round_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let groups = launch.param(4);
    let row = Count::from(groups) * (GROUP * 4);
    strips::order_need(launch, row, needs::quantized(Count(1), groups), needs::ROW_ALIGN)
}

/// Columns of a tile are whole panels, and at least as many as a vector has lanes.
fn multiply_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let format = *Format::ALL.get(launch.param(HEADER) as usize)?;
    let (n, k, columns) = (launch.param(4), launch.param(5), launch.param(6));
    let is_interleaved = launch.param(HEADER + 1) != 0;
    let is_whole = k.is_multiple_of(GROUP as u32) && columns.is_multiple_of(NR as u32);
    let is_wide = n as usize >= MIN_OUTPUTS && (!is_interleaved || n.is_multiple_of(INTERLEAVE as u32));
    let expert = Count::from(n) * bytes(DType::Block(format), Count::from(k))?;
    let row = needs::quantized(Count(1), k / GROUP as u32);
    strips::multiply_need(launch, [row, expert], [needs::ROW_ALIGN, 1]).filter(|_| is_whole && is_wide)
}

/// Rounds rows, in the order of strips.
///
/// # Safety
///
/// Parameters and bindings are those of [`strips::sort`], for rounded rows.
#[inline(always)]
unsafe fn round(tile: &Tile<'_>) {
    let groups = tile.param(4) as usize;
    // SAFETY: the planner made the grid for these extents; tiles have different places.
    unsafe {
        for (place, row) in strips::places(tile) {
            activations::round_row(tile, (row, 0), (place, 3), groups);
        }
    }
}

/// Workspace of a tile.
#[repr(C)]
struct ExpertWorkspace {
    product: Q8Workspace,
    /// The outputs of a strip and some columns.
    outputs: [f32; STRIP * MAX_NC],
}

/// A tile: some columns of an expert, and a strip.
///
/// # Safety
///
/// The instruction set is present; bindings are rounded activations, weights, places and outputs of the extents in the
/// parameters, with at least as many columns as there are lanes.
#[inline(always)]
unsafe fn tile<S: Q8Kernels>(tile: &Tile<'_>) {
    let [n, k, tile_columns] = [4, 5, 6].map(|i| tile.param(i) as usize);
    let Some(&format) = Format::ALL.get(tile.param(HEADER) as usize) else { return };
    let interleaved = tile.param(HEADER + 1) != 0;
    let column = tile.index[0] as usize * tile_columns;
    let (end, groups) = ((column + tile_columns).min(n), k / GROUP);
    // SAFETY: the caller's promise.
    let Some(strip) = (unsafe { Strip::of(tile) }) else { return };
    let Some(expert) = strip.expert else {
        for pair in strip.pairs() {
            // SAFETY: no other tile has this pair and these columns.
            unsafe { tile.write::<f32>(3, pair * n + column..pair * n + end) }.fill(f32::NAN);
        }
        return;
    };
    let (bytes, rows) = (n * (k / format.block_len() * format.block_bytes()), strip.len());
    // SAFETY: binding 1 has the weights of every expert, which nothing writes.
    let rhs = unsafe {
        let start = tile.start(1).add(expert * bytes);
        if interleaved {
            Q8Weights::interleaved_from_raw(format, start, [n, k])
        } else {
            Q8Weights::blocks_from_raw(format, start, [n, k])
        }
    };
    let Ok(rhs) = rhs else { return };
    let blocking = if rows <= FEW_ROWS { Blocking::FEW_ROWS } else { Blocking::MANY_ROWS };
    // SAFETY: the caller vouches for the CPU and for the quantized rows of the strip; this is the only reference into the workspace,
    // whose fields lie apart.
    let (isa, lhs, workspace, staged) = unsafe {
        let all = tile.workspace::<ExpertWorkspace>().as_mut_ptr();
        let lhs = tile.start(0).add(strip.row * quantized_row_bytes(groups));
        (
            S::assume(),
            QuantizedRows::from_raw_parts(lhs, rows, groups),
            Q8Workspace::from_uninit(&mut *(&raw mut (*all).product).cast()),
            (&raw mut (*all).outputs).cast::<f32>(),
        )
    };
    // One pair has its outputs where they belong; others are staged, for as many columns as there is room.
    let one = if rows == 1 { strip.pairs().next() } else { None };
    let step = if one.is_some() { tile_columns } else { MAX_NC };
    for first in (column..end).step_by(step) {
        let outputs = first..(first + step).min(end);
        let (y, stride) = match one {
            Some(pair) => (tile.start(3).cast::<f32>().wrapping_add(pair * n + first), n),
            None => (staged, outputs.len()),
        };
        // SAFETY: outputs of this pair and these columns, which no other tile has; or staging memory for STRIP rows of MAX_NC.
        let y = unsafe { MatrixMut::from_raw_parts(y, [rows, outputs.len()], stride) };
        // The planner made tiles of these extents, so the product is not refused.
        let done = Q8Gemm { lhs, rhs, outputs: outputs.clone(), blocking }.compute(isa, y, workspace);
        debug_assert_eq!(done, Ok(()));
        if one.is_none() {
            for (i, pair) in strip.pairs().enumerate() {
                // SAFETY: the product has written these outputs; no other tile has this pair and these columns.
                unsafe {
                    let from = std::slice::from_raw_parts(staged.add(i * outputs.len()), outputs.len());
                    tile.write::<f32>(3, pair * n + outputs.start..pair * n + outputs.end)
                        .copy_from_slice(from);
                }
            }
        }
    }
}

/// The plan of a problem with weights of a format, interleaved or not.
pub(super) fn plan(problem: &Problem, (format, interleaved): (Format, bool), on: &DeviceInfo) -> Plan {
    let (cut, mut plan) = (Cut::of(problem), Plan::default());
    let (groups, n) = (problem.k / GROUP, problem.n);
    let (activations, places) = if cut.is_single() {
        (Arg::scratch(activations::round(&mut plan, problem.rows(), groups), Access::Read), Arg::slot(2))
    } else {
        let sorted = strips::sort(&mut plan, problem, &ROUND, (quantized_row_bytes(groups), groups));
        (sorted.activations, sorted.places)
    };
    // Few rows to an expert: its weights are read as a stream.
    let columns = if cut.usual() <= FEW_ROWS {
        let bytes = problem.k / format.block_len() * format.block_bytes();
        stream_columns(bytes, n * cut.tiles()).next_multiple_of(NR)
    } else {
        panel_columns(on)
    };
    let mut params = cut.params(problem, columns).to_vec();
    params.extend([format as u32, u32::from(interleaved)]);
    let grid = [n.div_ceil(columns) as u32, cut.tiles() as u32, 1];
    plan.push(Program::Native(&MULTIPLY), &[activations, Arg::slot(1), places, Arg::slot(3)], &params, grid);
    plan
}
