//! Block formats multiplied in integers: activations are rounded to 8 bits under a scale per 32.

use super::on_cpu;
use crate::cpu::native_kernel;
use crate::matmul::{Matmul, Problem};
use crate::product::integer::{compute_tile, may_round, tiles};
use crate::product::{activations, needs, streamed};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::q8::{GROUP, MIN_OUTPUTS, Q8Kernels, Q8Weights, Q8Workspace};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::Format;

// SAFETY: a tile reads its own quantized rows and its own columns of weights of one batch, and writes the outputs of both. Columns are whole
// panels, and at least as many as a vector has lanes.
native_kernel!(unsafe MULTIPLY, "matmul.integer.cpu", tile::<S>, needs needs::integer, workspace size_of::<Q8Workspace>(), streams streamed);

/// A tile: some columns and some rows of one batch.
///
/// # Safety
///
/// The CPU has `S`; bindings are quantized activations, weights and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn tile<S: Q8Kernels>(tile: &Tile<'_>) {
    let [n, k] = [tile.param(1) as usize, tile.param(2) as usize * GROUP];
    let Some(&format) = Format::ALL.get(tile.param(7) as usize) else { return };
    let batch = tile.index[2] as usize * n * (k / format.block_len() * format.block_bytes());
    // SAFETY: the caller vouches for the weights of every batch; the planner made the grid for these extents, and tiles have different
    // rows, columns or batches.
    unsafe {
        if let Ok(rhs) = Q8Weights::blocks_from_raw(format, tile.start(1).add(batch), [n, k]) {
            compute_tile::<S>(tile, rhs, 2);
        }
    }
}

/// The kernel for all formats with integer products.
pub(in crate::matmul) struct Integer;

/// The kernel.
pub(in crate::matmul) static INTEGER: Integer = Integer;

impl Kernel for Integer {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        MULTIPLY.name
    }

    fn fits(&self, op: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = on_cpu(io, on)?;
        if !may_round(io.input(1).dtype) {
            return Err(Decline("is for block formats that it has codes for"));
        }
        if op.exact {
            return Err(Decline("rounds activations"));
        }
        if problem.n < MIN_OUTPUTS {
            return Err(Decline("needs more columns"));
        }
        Ok(Cost::BEST)
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (Some(problem), Some(format)) = (Problem::of(io), io.input(1).dtype.format()) else {
            return Plan::default();
        };
        let Problem { batch, m, k, .. } = problem;
        let mut plan = Plan::default();
        let rounded = activations::round(&mut plan, batch * m, k / GROUP);
        let args = [Arg::scratch(rounded, Access::Read), Arg::slot(1), Arg::slot(2)];
        let (params, grid) =
            tiles(&problem, k / format.block_len() * format.block_bytes(), format as u32, on);
        plan.push(Program::Native(&MULTIPLY), &args, &params, grid);
        plan
    }
}
