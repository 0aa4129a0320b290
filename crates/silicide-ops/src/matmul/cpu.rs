//! How matrices are multiplied on the CPU. A program for dense weights, one for block formats decoded exactly ([`blocks`]) and one for
//! quantized activations ([`integer`]); each takes any number of rows. Outputs are summed in one order by each program, so neither the
//! number of rows nor the number of threads changes a bit.

mod blocks;
mod integer;

#[cfg(test)]
mod tests;

pub(super) use blocks::BLOCKS;
pub(super) use integer::INTEGER;

use super::{Matmul, Problem};
use crate::cpu::native_kernel;
use crate::product::dense::{DenseTile, tiles, weights};
use crate::product::{needs, streamed};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::{DenseGemm, DenseWorkspace, F32Kernels};
use silicide_hal::{Backend, DeviceInfo, Program, Tile};
use silicide_quant::DType;

/// Activations, weights, outputs.
const ARGS: [Arg; 3] = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];

// SAFETY: a tile reads its own rows and its own outputs' weights of one batch, and writes the outputs of both. `needs` holds the bindings
// against the parameters.
native_kernel!(
    /// Rows of f32 times dense weights, in place or interleaved.
    unsafe DENSE_WEIGHTS,
    "matmul.dense.cpu",
    dense::<S>, needs needs::dense, workspace size_of::<DenseWorkspace>(), streams streamed
);

/// Computes a tile: some outputs and some rows of one batch. Parameters are those of [`tiles`], the code of the weights' type and how many of
/// their rows are interleaved: sixteen, or one.
///
/// # Safety
///
/// The CPU has `S`; bindings are activations, weights and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn dense<S: F32Kernels>(tile: &Tile<'_>) {
    let part = DenseTile::of(tile);
    let DenseTile { n, k, batch, first, outputs, .. } = part;
    let Some(&dtype) = DType::ALL.get(tile.param(5) as usize) else { return };
    // SAFETY: `needs::dense` has checked that bindings have these extents and that sets of rows are whole; tiles have different rows, outputs
    // or batches. This is the only reference into the workspace.
    let (isa, rhs, (lhs, out), workspace) = unsafe {
        let start = tile.start(1).add(batch * n * k * dtype.size());
        let rhs = weights(dtype, start, [n, k], tile.param(6) as usize);
        (S::assume(), rhs, part.views(tile, 2), DenseWorkspace::from_uninit(tile.workspace()))
    };
    let Some(rhs) = rhs else { return };
    let product = DenseGemm { lhs, rhs, outputs: first..first + outputs, accumulate: false };
    // The planner made tiles of these extents, so the product is not refused.
    let done = product.compute(isa, out, workspace);
    debug_assert_eq!(done, Ok(()));
}

/// Returns the launch of a product with dense weights of `dtype`, of which `interleaved` rows are interleaved: sixteen, or one. Arguments are
/// activations, weights and outputs.
pub(crate) fn dense_launch(
    problem: &Problem,
    dtype: DType,
    interleaved: usize,
) -> (Program, [u32; 7], [u32; 3]) {
    let ([m, n, k, outputs, rows], grid) = tiles(problem, problem.k * dtype.size());
    (Program::Native(&DENSE_WEIGHTS), [m, n, k, outputs, rows, dtype.code(), interleaved as u32], grid)
}

/// The problem, on the CPU.
fn on_cpu(io: &Io<'_>, on: &DeviceInfo) -> Result<Problem, Decline> {
    if on.backend != Backend::Cpu {
        return Err(Decline("runs on the CPU"));
    }
    Problem::of(io).ok_or(Decline("takes extents of at most 32 bits"))
}

/// The kernel for dense weights.
pub(super) struct DenseMatmul;

/// The kernel for dense weights.
pub(super) static DENSE: DenseMatmul = DenseMatmul;

impl Kernel for DenseMatmul {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        DENSE_WEIGHTS.name
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        on_cpu(io, on)?;
        match io.input(1).dtype {
            DType::F32 | DType::F16 | DType::BF16 => Ok(Cost::BEST),
            _ => Err(Decline("is for dense weights")),
        }
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let Some(problem) = Problem::of(io) else { return Plan::default() };
        let (program, params, grid) = dense_launch(&problem, io.input(1).dtype, 1);
        Plan::launch(program, &ARGS, &params, grid)
    }
}
