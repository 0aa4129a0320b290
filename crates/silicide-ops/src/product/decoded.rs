//! Products of decoded weights, with activations as they are: weights of any encoding are decoded to f32 by the decoder of their format,
//! into memory that stays in L1 or L2, and multiplied there as f32 weights are, in the same order.

use super::dense::{DecodedWorkspace, DenseTile, compute_decoded, tiles};
use super::{needs, streamed};
use crate::cpu::native_kernel;
use crate::matmul::Problem;
use crate::weight;
use silicide_core::kernel::{Arg, Plan};
use silicide_gemm::f32::F32Kernels;
use silicide_hal::{Program, Tile};
use silicide_quant::Encoding;
use smallvec::SmallVec;

// SAFETY: a tile reads its own rows and its own outputs' weights of one batch, and writes the outputs of both. `needs` holds the bindings
// against the parameters.
native_kernel!(
    /// Rows of f32 times weights that are decoded: blocks, planes, or interleaved rows.
    unsafe DECODED,
    "product.decoded.cpu",
    decoded::<S>, needs needs::decoded, workspace size_of::<DecodedWorkspace>(), streams streamed
);

/// The plan of a problem. Arguments are activations, planes and outputs.
pub(crate) fn plan(problem: &Problem, encoding: Encoding) -> Plan {
    let ([m, n, k, outputs, rows], grid) = tiles(problem, weight::row_bytes(encoding, problem.k));
    let params = [m, n, k, outputs, rows, weight::code(encoding).unwrap_or(u32::MAX)];
    let args: SmallVec<[Arg; 5]> = (0..encoding.planes() as u8 + 2).map(Arg::slot).collect();
    Plan::launch(Program::Native(&DECODED), &args, &params, grid)
}

/// Computes a tile: some outputs and some rows of one batch. Parameters are those of [`tiles`], and the code of the encoding.
///
/// # Safety
///
/// The CPU has `S`; bindings are activations, planes and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn decoded<S: F32Kernels>(tile: &Tile<'_>) {
    let part = DenseTile::of(tile);
    let DenseTile { n, k, batch, first, .. } = part;
    let Some(weight) = weight::Rows::new(tile, 1, tile.param(5), [n, k]) else { return };
    // SAFETY: `needs::decoded` has checked that bindings have these extents; tiles have different rows, outputs or batches. This is the only
    // reference into the workspace.
    let (isa, (lhs, out), workspace) = unsafe {
        let views = part.views(tile, 1 + weight.planes());
        (S::assume(), views, DecodedWorkspace::from_uninit(tile.workspace()))
    };
    compute_decoded(isa, lhs, out, workspace, |output, at, to| {
        // SAFETY: the planes have the groups of this output, and nothing writes them.
        unsafe { weight.decode(batch * n + first + output, at, to) };
    });
}
