//! `interleaved_matmul` on the CPU: products in integers, of interleaved weights.

use super::{InterleavedMatmul, problem};
use crate::cpu::native_kernel;
use crate::elementwise::fits_cpu;
use crate::matmul::Problem;
use crate::product::integer::{compute_tile, tiles};
use crate::product::{Cut, activations, needs, streamed};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::q8::{GROUP, Q8Kernels, Q8Weights, Q8Workspace};
use silicide_hal::{DeviceInfo, NativeKernel, Program, Tile};
use silicide_quant::Format;

// SAFETY: a tile reads its own quantized rows and its own columns of weights, and writes the outputs of both. Columns are whole
// panels, and at least as many as a vector has lanes.
native_kernel!(
    /// Quantized activations times interleaved codes.
    unsafe MULTIPLY,
    "interleaved_matmul.integer.cpu",
    tile::<S>, needs needs::interleaved, workspace size_of::<Q8Workspace>(), streams streamed
);

/// Every program of the op, and how its tiles cut the output.
pub(crate) static PROGRAMS: [(&NativeKernel, Cut); 1] = [(&MULTIPLY, Cut::Both(3, 4))];

/// A tile: some columns and some rows.
///
/// # Safety
///
/// The CPU has `S`; bindings are quantized activations, weights and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn tile<S: Q8Kernels>(tile: &Tile<'_>) {
    let [n, k] = [tile.param(1) as usize, tile.param(2) as usize * GROUP];
    let Some(&format) = Format::ALL.get(tile.param(7) as usize) else { return };
    // SAFETY: the caller vouches for the weights; the planner made the grid for these extents, and tiles have different rows or columns.
    unsafe {
        if let Ok(rhs) = Q8Weights::interleaved_from_raw(format, tile.start(1), [n, k]) {
            compute_tile::<S>(tile, rhs, 2);
        }
    }
}

/// The plan of a problem. Arguments are activations, weights and outputs.
fn plan(problem: &Problem, format: Format, on: &DeviceInfo) -> Plan {
    let Problem { m, k, .. } = *problem;
    let mut plan = Plan::default();
    let rounded = activations::round(&mut plan, m, k / GROUP);
    let args = [Arg::scratch(rounded, Access::Read), Arg::slot(1), Arg::slot(2)];
    let (params, grid) = tiles(problem, k / format.block_len() * format.block_bytes(), format as u32, on);
    plan.push(Program::Native(&MULTIPLY), &args, &params, grid);
    plan
}

/// The kernel.
pub(super) struct Integer;

impl Kernel for Integer {
    type Op = InterleavedMatmul;

    fn name(&self) -> &'static str {
        MULTIPLY.name
    }

    fn fits(&self, _: &InterleavedMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        problem(io).ok_or(Decline("takes extents of at most 32 bits"))?;
        fits_cpu(on)
    }

    fn plan(&self, op: &InterleavedMatmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        problem(io).map_or(Plan::default(), |problem| plan(&problem, op.format, on))
    }
}
