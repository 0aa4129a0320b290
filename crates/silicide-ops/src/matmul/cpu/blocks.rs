//! Weights of every block format, multiplied exactly: blocks are decoded to f32 by the format's own decoder, into memory that stays in L1 or
//! L2, and multiplied there as f32 weights are, in the same order. A new format works here at once; faster kernels come first in the list
//! where there are some.

use super::{ARGS, on_cpu};
use crate::cpu::native_kernel;
use crate::matmul::{Matmul, Problem};
use crate::product::dense::{DecodedWorkspace, DenseTile, compute_decoded, tiles};
use crate::product::needs;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::F32Kernels;
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::Format;

// SAFETY: a tile reads its own rows and its own outputs' weights of one batch, and writes the outputs of both. `needs` holds the bindings
// against the parameters.
native_kernel!(unsafe DECODED, "matmul.blocks.cpu", decoded::<S>, needs needs::blocks, workspace size_of::<DecodedWorkspace>());

/// Computes a tile: some outputs and some rows of one batch. Parameters are those of [`tiles`], and the format.
///
/// # Safety
///
/// The CPU has `S`; bindings are activations, weights and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn decoded<S: F32Kernels>(tile: &Tile<'_>) {
    let Some(&format) = Format::ALL.get(tile.param(5) as usize) else { return };
    let part = DenseTile::of(tile);
    let DenseTile { n, k, batch, first, .. } = part;
    let (len, size) = (format.block_len(), format.block_bytes());
    // SAFETY: `needs::blocks` has checked that bindings have these extents; tiles have different rows, outputs or batches. This is the only
    // reference into the workspace.
    let (isa, (lhs, out), workspace) =
        unsafe { (S::assume(), part.views(tile, 2), DecodedWorkspace::from_uninit(tile.workspace())) };
    compute_decoded(isa, lhs, out, workspace, |output, at, to| {
        let start = ((batch * n + first + output) * k + at) / len * size;
        // SAFETY: the weights of this output are whole blocks, inside binding 1.
        let blocks = unsafe { tile.read_part(1, start..start + to.len() / len * size) };
        // Lengths agree by construction, so decoding can't fail.
        let _ = format.decode(blocks, to);
    });
}

/// The kernel for every block format.
pub(in crate::matmul) struct Blocks;

/// The kernel for every block format.
pub(in crate::matmul) static BLOCKS: Blocks = Blocks;

impl Kernel for Blocks {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        DECODED.name
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        on_cpu(io, on)?;
        if io.input(1).dtype.is_block() { Ok(Cost::FALLBACK) } else { Err(Decline("is for block formats")) }
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let (Some(problem), Some(format)) = (Problem::of(io), io.input(1).dtype.format()) else {
            return Plan::default();
        };
        let bytes = problem.k / format.block_len() * format.block_bytes();
        let ([m, n, k, outputs, rows], grid) = tiles(&problem, bytes);
        Plan::launch(Program::Native(&DECODED), &ARGS, &[m, n, k, outputs, rows, format as u32], grid)
    }
}
