//! `interleaved_matmul` on the CPU: products in integers, of interleaved weights.

use super::{InterleavedMatmul, problem};
use crate::cpu::native_kernel;
use crate::elementwise::fits_cpu;
use crate::matmul::Problem;
use crate::product::integer::tiles;
use crate::product::{Cut, activations, streamed};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::q8::{Columns, Integers, LEN, Product, ProductWorkspace, Row};
use silicide_hal::{DeviceInfo, NativeKernel, Program, Tile};
use silicide_quant::Format;

native_kernel!(
    /// Rounded activations times interleaved codes.
    MULTIPLY,
    "interleaved_matmul.integer.cpu",
    tile::<S>, workspace size_of::<ProductWorkspace>(), streams streamed
);

/// Every program of the op, and how its tiles cut the output.
pub(crate) static PROGRAMS: [(&NativeKernel, Cut); 1] = [(&MULTIPLY, Cut::Both(3, 4))];

/// A tile: some columns and some rows.
///
/// # Safety
///
/// The instruction set is present; bindings are rounded activations, weights and outputs of the extents in the
/// parameters.
#[inline(always)]
unsafe fn tile<S: Integers>(tile: &Tile<'_>) {
    let [m, n, runs, tile_columns, tile_rows, group, chunk] =
        [0, 1, 2, 3, 4, 5, 6].map(|i| tile.param(i) as usize);
    let Some(&format) = Format::ALL.get(tile.param(7) as usize) else { return };
    let [x, y, _] = tile.index.map(|i| i as usize);
    let (column, row) = (x * tile_columns, y * tile_rows);
    let stride = runs * LEN / format.block_len() * format.block_bytes();
    // SAFETY: the planner made the grid for these extents; tiles have different rows or columns.
    unsafe {
        let product = Product {
            a: tile.start(0).add(row * Row::of(runs).bytes),
            rows: tile_rows.min(m - row),
            runs,
            weights: Columns::interleaved(tile.start(1), stride),
            group,
            chunk,
            y: tile.start(2).cast::<f32>().add(row * n),
            y_stride: n,
            workspace: tile.workspace::<ProductWorkspace>().as_mut_ptr(),
        };
        S::multiply(format, &product, column..(column + tile_columns).min(n));
    }
}

/// The plan of a problem. Arguments are activations, weights and outputs.
fn plan(problem: &Problem, format: Format, on: &DeviceInfo) -> Plan {
    let Problem { m, k, .. } = *problem;
    let mut plan = Plan::default();
    let rounded = activations::round(&mut plan, m, k / LEN);
    let args = [Arg::scratch(rounded, Access::Read), Arg::slot(1), Arg::slot(2)];
    let (params, grid) = tiles(problem, k / format.block_len() * format.block_bytes(), format as u32, on);
    plan.push(Program::Native(&MULTIPLY), &args, &params, grid);
    plan
}

/// The kernel.
pub(super) struct Integer;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Integer {
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
