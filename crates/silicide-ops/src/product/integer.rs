//! Tiles of products in integers: how many rows and columns each has, and what it unpacks at a time.

use super::{enough_tiles, stream_columns};
use crate::matmul::Problem;
use silicide_gemm::MatrixMut;
use silicide_gemm::q8::{
    self, Blocking, GROUP, MAX_MR, MAX_NC, NR, PANEL_OUTPUT_BYTES, Q8Gemm, Q8Kernels, Q8Weights, Q8Workspace,
    QuantizedRows, quantized_row_bytes,
};
use silicide_hal::{DeviceInfo, Tile};
use silicide_quant::DType;

/// Up to this many rows, weights are read as a stream.
pub(crate) const FEW_ROWS: usize = 16;
/// Tiles beside each other that are enough to make them wider than a panel.
const WIDE_TILES: usize = 16;
/// Rows that make up for unpacking a panel.
const LEAST_ROWS: usize = 64;
/// Rows whose activations stay in the caches.
const MOST_ROWS: usize = 1536;

/// Whether a kernel may round activations to 8 bits for these weights.
pub(crate) fn may_round(dtype: DType) -> bool {
    dtype.format().is_some_and(q8::supports)
}

/// Columns that are unpacked at a time where there are many rows: as many as leave half of a core's second cache to the
/// activations that pass.
pub(crate) fn panel_columns(on: &DeviceInfo) -> usize {
    (on.core_cache / 2 / PANEL_OUTPUT_BYTES / NR * NR).clamp(NR, MAX_NC)
}

/// Parameters and grid of a problem whose columns have so many bytes. Rows are cut only where there are too few columns to keep
/// many threads busy, since every cut unpacks the weights again; the number of threads plays no part.
pub(crate) fn tiles(
    problem: &Problem,
    column_bytes: usize,
    format: u32,
    on: &DeviceInfo,
) -> ([u32; 8], [u32; 3]) {
    let Problem { batch, m, n, k } = *problem;
    let (columns, rows, blocking) = if m <= FEW_ROWS {
        (stream_columns(column_bytes, n * batch).next_multiple_of(NR), m, Blocking::FEW_ROWS)
    } else {
        // Activations pass once for all columns of a tile; but tiles must not be too few.
        let columns = (n / WIDE_TILES).next_multiple_of(NR).clamp(NR, panel_columns(on));
        let most = m.div_ceil(enough_tiles(n.div_ceil(columns) * batch)).clamp(LEAST_ROWS, MOST_ROWS);
        (
            columns,
            m.div_ceil(m.div_ceil(most)).next_multiple_of(MAX_MR),
            Blocking { nc: columns, ..Blocking::MANY_ROWS },
        )
    };
    let Blocking { nc, kc } = blocking;
    let params = [m, n, k / GROUP, columns, rows, nc, kc, format as usize].map(|word| word as u32);
    (params, [n.div_ceil(columns), m.div_ceil(rows), batch].map(|extent| extent as u32))
}

/// Computes a tile of a product in integers: some outputs and some rows of one batch. Parameters begin with those of [`tiles`]; binding 0
/// has the quantized rows, binding `out` the outputs, and `rhs` is the weight of the tile's batch.
///
/// # Safety
///
/// The CPU has `S`. Bindings have the extents in the parameters, and no other tile writes these outputs.
#[inline(always)]
pub(crate) unsafe fn compute_tile<S: Q8Kernels>(tile: &Tile<'_>, rhs: Q8Weights<'_>, out: usize) {
    let [m, n, groups, tile_columns, tile_rows, nc, kc] =
        [0, 1, 2, 3, 4, 5, 6].map(|i| tile.param(i) as usize);
    let [x, y, batch] = tile.index.map(|i| i as usize);
    let (first, row) = (x * tile_columns, y * tile_rows);
    let (rows, outputs) = (tile_rows.min(m - row), first..(first + tile_columns).min(n));
    // SAFETY: the caller vouches for the CPU and for bindings of these extents; scratch memory is aligned. This is the only reference
    // into the workspace.
    let (isa, lhs, y, workspace) = unsafe {
        let at = batch * m + row;
        let lhs = tile.start(0).add(at * quantized_row_bytes(groups));
        let y = tile.start(out).cast::<f32>().add(at * n + first);
        (
            S::assume(),
            QuantizedRows::from_raw_parts(lhs, rows, groups),
            MatrixMut::from_raw_parts(y, [rows, outputs.len()], n),
            Q8Workspace::from_uninit(tile.workspace()),
        )
    };
    // The planner made tiles of these extents, so the product is not refused.
    let done = Q8Gemm { lhs, rhs, outputs, blocking: Blocking { nc, kc } }.compute(isa, y, workspace);
    debug_assert_eq!(done, Ok(()));
}
