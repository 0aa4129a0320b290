//! Tiles of products in integers: how many rows and columns each has, and what it unpacks at a time.

use super::{enough_tiles, stream_columns};
use crate::matmul::Problem;
use silicide_gemm::q8::{self, COLUMN_BYTES, FEW_RUNS, LEN, MAX_COLUMNS, MAX_ROWS, MAX_RUNS, PANEL};
use silicide_hal::DeviceInfo;
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
    dtype.format().is_some_and(q8::has_codes)
}

/// Columns that are unpacked at a time where there are many rows: as many as leave half of a core's second cache to the
/// activations that pass.
pub(crate) fn panel_columns(on: &DeviceInfo) -> usize {
    (on.core_cache / 2 / COLUMN_BYTES / PANEL * PANEL).clamp(PANEL, MAX_COLUMNS)
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
    let (columns, rows, group, chunk) = if m <= FEW_ROWS {
        (stream_columns(column_bytes, n * batch).next_multiple_of(PANEL), m, PANEL, FEW_RUNS)
    } else {
        // Activations pass once for all columns of a tile; but tiles must not be too few.
        let columns = (n / WIDE_TILES).next_multiple_of(PANEL).clamp(PANEL, panel_columns(on));
        let most = m.div_ceil(enough_tiles(n.div_ceil(columns) * batch)).clamp(LEAST_ROWS, MOST_ROWS);
        (columns, m.div_ceil(m.div_ceil(most)).next_multiple_of(MAX_ROWS), columns, MAX_RUNS)
    };
    let params = [m, n, k / LEN, columns, rows, group, chunk, format as usize].map(|word| word as u32);
    (params, [n.div_ceil(columns), m.div_ceil(rows), batch].map(|extent| extent as u32))
}
