//! Affine codes, multiplied in integers with activations quantized to 8 bits.

use crate::cpu::native_kernel;
use crate::matmul::Problem;
use crate::mlx;
use crate::product::integer::{compute_tile, tiles};
use crate::product::{activations, needs, streamed};
use silicide_core::kernel::{Access, Arg, Plan};
use silicide_gemm::q8::{GROUP, MIN_OUTPUTS, Q8Kernels, Q8Weights, Q8Workspace};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::{MlxFormat, MlxMode, MlxPlanes};

// SAFETY: a tile reads its own quantized rows and its own columns of weights, and writes the outputs of both. Columns are whole
// panels, and at least as many as a vector has lanes.
native_kernel!(
    /// Quantized activations times affine codes.
    unsafe MULTIPLY,
    "mlx_matmul.integer.cpu",
    tile::<S>, needs needs::affine, workspace size_of::<Q8Workspace>(), streams streamed
);

/// A tile: some columns and some rows.
///
/// # Safety
///
/// The CPU has `S`; bindings are quantized activations, codes, scales, biases and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn tile<S: Q8Kernels>(tile: &Tile<'_>) {
    let [n, k] = [tile.param(1) as usize, tile.param(2) as usize * GROUP];
    let Some(format) = mlx::from_code(tile.param(7)) else { return };
    let [packed, scales, biases] = [1, 2, 3].map(|i| tile.start(i).cast_const());
    // SAFETY: the caller vouches for the planes; the planner made the grid for these extents, and tiles have different rows or columns.
    unsafe {
        if let Ok(rhs) = Q8Weights::affine_from_raw(format, MlxPlanes { packed, scales, biases }, [n, k]) {
            compute_tile::<S>(tile, rhs, 4);
        }
    }
}

/// Why there are no integer products of this problem, if so.
pub(super) fn declines(problem: &Problem, format: MlxFormat) -> Option<&'static str> {
    if format.mode() != MlxMode::Affine {
        return Some("is for affine codes");
    }
    (problem.n < MIN_OUTPUTS).then_some("needs more columns")
}

/// The plan of a problem that is not declined. Arguments are activations, codes, scales, biases and outputs.
pub(super) fn plan(problem: &Problem, format: MlxFormat, on: &DeviceInfo) -> Plan {
    let Problem { m, k, .. } = *problem;
    let mut plan = Plan::default();
    let rounded = activations::round(&mut plan, m, k / GROUP);
    let args = [Arg::scratch(rounded, Access::Read), Arg::slot(1), Arg::slot(2), Arg::slot(3), Arg::slot(4)];
    let (params, grid) = tiles(problem, k / 8 * format.bits(), mlx::code(format), on);
    plan.push(Program::Native(&MULTIPLY), &args, &params, grid);
    plan
}
