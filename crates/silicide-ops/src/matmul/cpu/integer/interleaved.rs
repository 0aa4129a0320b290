//! Interleaved weights in integers.

use super::format::LEN;
use super::product::{Product, ProductWorkspace};
use super::source::Columns;
use super::unit::Unit;
use super::{Row, activations, multiply, streamed, tiles};
use crate::cpu::native_kernel;
use crate::matmul::Problem;
use silicide_core::kernel::{Access, Arg, Plan};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::Format;

native_kernel!(
    /// Rounded activations times interleaved codes.
    MULTIPLY,
    "interleaved_matmul.integer.cpu",
    tile::<S>, workspace size_of::<ProductWorkspace>(), streams streamed
);

/// A tile: some columns and some rows.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are rounded activations, weights and outputs of the extents in the
/// parameters.
#[inline(always)]
unsafe fn tile<U: Unit>(tile: &Tile<'_>) {
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
        multiply::<U>(format, &product, column..(column + tile_columns).min(n));
    }
}

/// The plan of a problem. Arguments are activations, weights and outputs.
pub(crate) fn plan(problem: &Problem, format: Format, on: &DeviceInfo) -> Plan {
    let Problem { m, k, .. } = *problem;
    let mut plan = Plan::default();
    let rounded = activations::round(&mut plan, m, k / LEN);
    let args = [Arg::scratch(rounded, Access::Read), Arg::slot(1), Arg::slot(2)];
    let (params, grid) = tiles(problem, k / format.block_len() * format.block_bytes(), format as u32, on);
    plan.push(Program::Native(&MULTIPLY), &args, &params, grid);
    plan
}
