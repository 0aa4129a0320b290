//! Block formats multiplied in integers: activations are rounded to 8 bits under a scale per 32.

use super::on_cpu;
use crate::cpu::native_kernel;
use crate::matmul::{Matmul, Problem};
use crate::product::integer::{may_round, tiles};
use crate::product::{activations, streamed};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::q8::{Columns, Integers, LEAST_COLUMNS, LEN, Product, ProductWorkspace, Row};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::Format;

native_kernel!(MULTIPLY, "matmul.integer.cpu", tile::<S>, workspace size_of::<ProductWorkspace>(), streams streamed);

/// A tile: some columns and some rows of one batch.
///
/// # Safety
///
/// The instruction set is present; bindings are rounded activations, weights and outputs of the extents in the
/// parameters, with at least as many columns as there are lanes.
#[inline(always)]
unsafe fn tile<S: Integers>(tile: &Tile<'_>) {
    let [m, n, runs, tile_columns, tile_rows, group, chunk] =
        [0, 1, 2, 3, 4, 5, 6].map(|i| tile.param(i) as usize);
    let Some(&format) = Format::ALL.get(tile.param(7) as usize) else { return };
    let [x, y, batch] = tile.index.map(|i| i as usize);
    let (column, row) = (x * tile_columns, y * tile_rows);
    let stride = runs * LEN / format.block_len() * format.block_bytes();
    // SAFETY: the planner made the grid for these extents; tiles have different rows, columns or batches.
    unsafe {
        let product = Product {
            a: tile.start(0).add((batch * m + row) * Row::of(runs).bytes),
            rows: tile_rows.min(m - row),
            runs,
            weights: Columns::of_blocks(tile.start(1).add(batch * n * stride), stride),
            group,
            chunk,
            y: tile.start(2).cast::<f32>().add((batch * m + row) * n),
            y_stride: n,
            workspace: tile.workspace::<ProductWorkspace>().as_mut_ptr(),
        };
        S::multiply(format, &product, column..(column + tile_columns).min(n));
    }
}

/// The kernel for all formats with integer products.
pub(in crate::matmul) struct Integer;

/// The kernel.
pub(in crate::matmul) static INTEGER: Integer = Integer;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Integer {
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
        if problem.n < LEAST_COLUMNS {
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
        let rounded = activations::round(&mut plan, batch * m, k / LEN);
        let args = [Arg::scratch(rounded, Access::Read), Arg::slot(1), Arg::slot(2)];
        let (params, grid) =
            tiles(&problem, k / format.block_len() * format.block_bytes(), format as u32, on);
        plan.push(Program::Native(&MULTIPLY), &args, &params, grid);
        plan
    }
}
