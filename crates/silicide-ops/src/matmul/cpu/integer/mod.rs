//! Weights multiplied in integers: activations are rounded to 8 bits under a scale per 32, and dot products of 32 codes
//! are exact in 32 bits.
//!
//! | file | what |
//! |---|---|
//! | `activations` | rounding rows of activations, for all formats alike |
//! | `format` | what formats say of themselves: how codes, scales and minimums of some columns are unpacked |
//! | `source` | where the blocks of columns are: column after column, or interleaved |
//! | `legacy`, `k`, `levels`, `mlx` | formats that are taken apart by shifts and tables of sixteen |
//! | `spelled` | all others |
//! | `gathered` | multiplying few rows with those others, without spelling them |
//! | `interleaved` | the kernel for weights that were interleaved; `rearrange` interleaves them |
//! | `unit` | the operations on integers that kernels need, and their portable form; `x86` and `neon` have the others |
//! | `panel` | multiplying a panel with rows: register tiles, for each layout of panels |
//! | `experts` | products by expert, for the op of that name |
//! | `stream` | multiplying few rows with codes in registers |
//! | `product` | what a tile does otherwise: unpack some columns, multiply them with rows, go on |
//!
//! Formats meet only where they are unpacked, so that everything else is compiled once for each instruction set. For few rows
//! panels are small and stay in the first cache, and for fewest there are none: memory is the limit.
//!
//! Every output is the sum over runs of 32, one after the other, of scaled dot products; tiles, rows beside it and the size of
//! panels do not change its bits.
//!
//! What rounding does: an activation moves by at most 1/254 of the largest of its run. A run of
//! activations with a NaN or an infinity makes the outputs of its row NaN.

pub(crate) mod activations;
pub(crate) mod experts;
mod format;
#[cfg(target_arch = "x86_64")]
mod gathered;
pub(crate) mod interleaved;
mod k;
mod legacy;
mod levels;
pub(crate) mod mlx;
#[cfg(target_arch = "aarch64")]
mod neon;
mod panel;
mod product;
pub(crate) mod rearrange;
mod source;
mod spelled;
mod stream;
mod unit;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::vector::MAX_LANES;
use super::{enough_tiles, on_cpu, stream_columns, streamed};
use crate::cpu::native_kernel;
use crate::matmul::{Matmul, Problem};
use activations::Row;
use format::{Codes, LEN, Layout, MAX_RUNS, Part};
use k::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K, Tq2_0};
use legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use levels::{Iq4Nl, Mxfp4, Nvfp4, Q1_0};
use panel::VECTORS;
use product::{MAX_COLUMNS, Product, ProductWorkspace};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::{DType, Format};
pub(crate) use source::TOGETHER;
use source::{Columns, Interleaved, Strided};
use std::ops::Range;
use unit::Unit;

/// Up to this many rows, weights are read as a stream.
const FEW_ROWS: usize = 16;
/// Rows that are multiplied with codes in registers.
const STREAM_ROWS: usize = 4;
/// Runs of a panel for few rows, to stay in the first cache.
const FEW_RUNS: usize = 16;
/// Columns of a panel, or several.
const PANEL: usize = VECTORS * MAX_LANES;
/// Tiles beside each other that are enough to make them wider than a panel.
const WIDE_TILES: usize = 16;
/// Rows that make up for unpacking a panel.
const LEAST_ROWS: usize = 64;
/// Rows whose activations stay in the caches.
const MOST_ROWS: usize = 1536;

/// Declares the table of formats.
macro_rules! table {
    ($($format:ident),* $(,)?) => {
        /// The layout that a format unpacks to, if it has integer products.
        const fn layout(format: Format) -> Option<Layout> {
            match format {
                $(Format::$format => Some($format::LAYOUT),)*
                _ => spelled::layout(format),
            }
        }

        /// Where words begin in the blocks of a format that can be interleaved.
        pub(crate) const fn words_at(format: Format) -> Option<usize> {
            match format {
                $(Format::$format => Some($format::WORDS_AT),)*
                _ => None,
            }
        }

        /// Unpacks a part of columns in a format.
        ///
        /// # Safety
        ///
        /// As for [`Unit::unpack`].
        unsafe fn unpack<U: Unit>(format: u32, part: &Part) {
            // SAFETY: the caller's promise.
            unsafe {
                match (Format::ALL.get(format as usize), part.columns.interleaved) {
                    $((Some(Format::$format), None) => U::unpack::<$format, Strided>(part),)*
                    $((Some(Format::$format), Some(_)) => U::unpack::<$format, Interleaved>(part),)*
                    (Some(format), _) => spelled::unpack::<U>(*format, part),
                    (None, _) => {}
                }
            }
        }

        /// Multiplies few rows with a stream of columns in a format; says whether it could.
        ///
        /// # Safety
        ///
        /// As for [`Product::multiply`].
        unsafe fn stream<U: Unit>(format: Format, product: &Product, columns: Range<usize>) -> bool {
            if !U::STREAMS {
                return false;
            }
            if product.runs > stream::MOST_RUNS {
                return false;
            }
            // SAFETY: the caller's promise.
            unsafe {
                match (format, product.weights.interleaved, product.rows) {
                    $((Format::$format, None, 1) => U::stream::<$format, Strided, 1>(product, columns),)*
                    $((Format::$format, Some(_), 1) => U::stream::<$format, Interleaved, 1>(product, columns),)*
                    $((Format::$format, Some(_), 2..=STREAM_ROWS) => {
                        U::stream::<$format, Interleaved, STREAM_ROWS>(product, columns);
                    })*
                    _ => return U::look_up(format, product, columns),
                }
            }
            true
        }
    };
}

table!(Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K, Iq4Nl, Iq4Xs, Tq2_0, Mxfp4, Nvfp4, Q1_0);

native_kernel!(MULTIPLY, "matmul.integer.cpu", tile::<S>, workspace size_of::<ProductWorkspace>(), streams streamed);

/// A tile: some columns and some rows of one batch.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are rounded activations, weights and outputs of the extents in the
/// parameters, with at least as many columns as there are lanes.
#[inline(always)]
unsafe fn tile<U: Unit>(tile: &Tile<'_>) {
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
        multiply::<U>(format, &product, column..(column + tile_columns).min(n));
    }
}

/// Computes the outputs of some columns in a format: as a stream, or by panels.
///
/// # Safety
///
/// As for [`Product::multiply`].
#[inline(always)]
unsafe fn multiply<U: Unit>(format: Format, product: &Product, columns: Range<usize>) {
    let Some(layout) = layout(format) else { return };
    // SAFETY: the caller's promise.
    unsafe {
        if !stream::<U>(format, product, columns.clone()) {
            product.multiply::<U>(columns, layout, unpack::<U>, format as u32);
        }
    }
}

/// Whether a kernel may round activations to 8 bits for these weights.
pub(crate) fn may_round(dtype: DType) -> bool {
    dtype.format().and_then(layout).is_some()
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
        if problem.n < MAX_LANES {
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

/// Columns that are unpacked at a time where there are many rows: as many as leave half of a core's second cache to the
/// activations that pass.
fn panel_columns(on: &DeviceInfo) -> usize {
    (on.core_cache / 2 / product::COLUMN_BYTES / PANEL * PANEL).clamp(PANEL, MAX_COLUMNS)
}

/// Parameters and grid of a problem whose columns have so many bytes. Rows are cut only where there are too few columns to keep
/// many threads busy, since every cut unpacks the weights again; the number of threads plays no part.
fn tiles(problem: &Problem, column_bytes: usize, format: u32, on: &DeviceInfo) -> ([u32; 8], [u32; 3]) {
    let Problem { batch, m, n, k } = *problem;
    let (columns, rows, group, chunk) = if m <= FEW_ROWS {
        (stream_columns(column_bytes, n * batch).next_multiple_of(PANEL), m, PANEL, FEW_RUNS)
    } else {
        // Activations pass once for all columns of a tile; but tiles must not be too few.
        let columns = (n / WIDE_TILES).next_multiple_of(PANEL).clamp(PANEL, panel_columns(on));
        let most = m.div_ceil(enough_tiles(n.div_ceil(columns) * batch)).clamp(LEAST_ROWS, MOST_ROWS);
        (columns, m.div_ceil(m.div_ceil(most)).next_multiple_of(panel::MAX_ROWS), columns, MAX_RUNS)
    };
    let params = [m, n, k / LEN, columns, rows, group, chunk, format as usize].map(|word| word as u32);
    (params, [n.div_ceil(columns), m.div_ceil(rows), batch].map(|extent| extent as u32))
}
