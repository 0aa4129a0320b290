//! Affine codes, multiplied in integers with activations rounded to 8 bits.

use crate::cpu::native_kernel;
use crate::matmul::Problem;
use crate::mlx;
use crate::product::integer::tiles;
use crate::product::{activations, streamed};
use silicide_core::kernel::{Access, Arg, Plan};
use silicide_gemm::q8::{Columns, Integers, LEAST_COLUMNS, LEN, Planes, Product, ProductWorkspace, Row};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::{MlxFormat, MlxMode};

native_kernel!(
    /// Rounded activations times affine codes.
    MULTIPLY,
    "mlx_matmul.integer.cpu",
    tile::<S>, workspace size_of::<ProductWorkspace>(), streams streamed
);

/// A tile: some columns and some rows.
///
/// # Safety
///
/// The instruction set is present; bindings are rounded activations, codes, scales, biases and outputs of the extents in the
/// parameters, with at least as many columns as there are lanes.
#[inline(always)]
unsafe fn tile<S: Integers>(tile: &Tile<'_>) {
    let [m, n, runs, tile_columns, tile_rows, group, chunk] =
        [0, 1, 2, 3, 4, 5, 6].map(|i| tile.param(i) as usize);
    let Some(format) = mlx::from_code(tile.param(7)) else { return };
    let [x, y, _] = tile.index.map(|i| i as usize);
    let (column, row) = (x * tile_columns, y * tile_rows);
    let planes = Planes {
        scales: tile.start(2),
        biases: tile.start(3),
        stride: runs * LEN / format.group() * format.scale_dtype().size(),
        runs: format.group() / LEN,
        dtype: format.scale_dtype(),
    };
    let stride = runs * (LEN / 8) * format.bits();
    // SAFETY: the planner made the grid for these extents; tiles have different rows or columns.
    unsafe {
        let product = Product {
            a: tile.start(0).add(row * Row::of(runs).bytes),
            rows: tile_rows.min(m - row),
            runs,
            weights: Columns::of_codes(tile.start(1), stride, planes),
            group,
            chunk,
            y: tile.start(4).cast::<f32>().add(row * n),
            y_stride: n,
            workspace: tile.workspace::<ProductWorkspace>().as_mut_ptr(),
        };
        S::multiply_affine(format, &product, column..(column + tile_columns).min(n));
    }
}

/// Why there are no integer products of this problem, if so.
pub(super) fn declines(problem: &Problem, format: MlxFormat) -> Option<&'static str> {
    if format.mode() != MlxMode::Affine {
        return Some("is for affine codes");
    }
    (problem.n < LEAST_COLUMNS).then_some("needs more columns")
}

/// The plan of a problem that is not declined. Arguments are activations, codes, scales, biases and outputs.
pub(super) fn plan(problem: &Problem, format: MlxFormat, on: &DeviceInfo) -> Plan {
    let Problem { m, k, .. } = *problem;
    let mut plan = Plan::default();
    let rounded = activations::round(&mut plan, m, k / LEN);
    let args = [Arg::scratch(rounded, Access::Read), Arg::slot(1), Arg::slot(2), Arg::slot(3), Arg::slot(4)];
    let (params, grid) = tiles(problem, k / 8 * format.bits(), mlx::code(format), on);
    plan.push(Program::Native(&MULTIPLY), &args, &params, grid);
    plan
}
