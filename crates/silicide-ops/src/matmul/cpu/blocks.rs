//! Weights of every block format, multiplied exactly: blocks are decoded to f32 by the format's own decoder, into
//! memory that stays in the first caches, and multiplied there as f32 weights are.
//!
//! One kernel for few rows and one for many, as for single elements, for all formats: what differs is in the table of
//! formats. A new format works here at once; faster kernels come first in the list where there are some.

use super::{ARGS, FEW_ROWS_32, on_cpu, tiles};
use crate::cpu::native_kernel;
use crate::matmul::{Matmul, Problem};
use crate::product::{PANEL_DEPTH, Panel, TILE_COLUMNS, needs, stream_columns};
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::few::{self, Rows};
use silicide_gemm::f32::pack::{self, Columns};
use silicide_gemm::f32::tile::Block;
use silicide_gemm::f32::vector::Unit;
use silicide_hal::{DeviceInfo, NativeKernel, Program, Tile};
use silicide_quant::Format;

/// Elements of a column that are decoded at a time: whole blocks of every format, whose longest has 256.
const RUN: usize = 256;
/// Columns that are decoded at a time for few rows: a multiple of those that are multiplied at a time.
const COLUMNS: usize = 24;

const _: () = assert!(PANEL_DEPTH.is_multiple_of(RUN));

// SAFETY: a tile reads all rows of one batch and its own columns of weights, and writes its own columns of the outputs.
native_kernel!(unsafe FEW, "matmul.blocks.few.cpu", few_rows::<S>, needs needs::blocks_few, workspace size_of::<Decoded<COLUMNS>>());
// SAFETY: a tile reads its own rows and its own columns of weights of one batch, and writes the outputs of both.
native_kernel!(unsafe MANY, "matmul.blocks.many.cpu", many_rows::<S>, needs needs::blocks_many, workspace size_of::<ManyWorkspace>());

/// Workspace: runs of a tile's columns, decoded.
#[repr(C, align(64))]
struct Decoded<const COUNT: usize>([[f32; RUN]; COUNT]);

/// Workspace of a tile for many rows.
#[repr(C)]
struct ManyWorkspace {
    decoded: Decoded<TILE_COLUMNS>,
    panel: Panel,
}

/// Weights of a block format: `[n, k]` of them, for each batch.
struct Blocks<'a, 'b> {
    tile: &'a Tile<'b>,
    format: Format,
    k: usize,
}

impl Blocks<'_, '_> {
    /// Decodes up to [`RUN`] elements from `first` on of `count` columns from `column` on, counted through all batches,
    /// each to the start of a run of `to`. Returns the first.
    ///
    /// # Safety
    ///
    /// Binding 1 holds the blocks of these columns, and `first` is the start of one. `to` holds `count` runs of f32s that
    /// were initialised.
    #[inline(always)]
    unsafe fn decode(&self, column: usize, count: usize, first: usize, to: *mut [f32; RUN]) -> *const f32 {
        let elements = RUN.min(self.k - first);
        let (len, size) = (self.format.block_len(), self.format.block_bytes());
        for i in 0..count {
            let start = ((column + i) * self.k + first) / len * size;
            // SAFETY: the caller's promise.
            let (blocks, run) =
                unsafe { (self.tile.read_part(1, start..start + elements / len * size), &mut *to.add(i)) };
            // Lengths agree by construction, so decoding can't fail.
            let _ = self.format.decode(blocks, run.get_mut(..elements).unwrap_or_default());
        }
        to.cast_const().cast()
    }
}

/// Clears memory for decoded runs, and returns the first run.
///
/// # Safety
///
/// Nothing else refers to the memory.
#[inline(always)]
unsafe fn cleared<const COUNT: usize>(decoded: *mut Decoded<COUNT>) -> *mut [f32; RUN] {
    // SAFETY: the caller's promise; the type's own size.
    unsafe { decoded.write_bytes(0, 1) };
    decoded.cast()
}

/// A tile for few rows: some columns of one batch, all rows.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are activations, weights and outputs of the extents in the
/// parameters.
#[inline(always)]
unsafe fn few_rows<U: Unit>(tile: &Tile<'_>) {
    let [m, n, k, tile_columns, format] = [0, 1, 2, 3, 4].map(|i| tile.param(i) as usize);
    let Some(&format) = Format::ALL.get(format) else { return };
    let [x, _, batch] = tile.index.map(|i| i as usize);
    let blocks = Blocks { tile, format, k };
    // SAFETY: the only reference into the workspace.
    let decoded = unsafe { cleared(tile.workspace::<Decoded<COLUMNS>>().as_mut_ptr()) };
    let end = ((x + 1) * tile_columns).min(n);
    for column in (x * tile_columns..end).step_by(COLUMNS) {
        let columns = COLUMNS.min(end - column);
        for first in (0..k).step_by(RUN) {
            // SAFETY: the planner made the grid for these extents; tiles have different columns or batches.
            unsafe {
                few::multiply::<U, pack::F32>(&Rows {
                    a: tile.start(0).cast::<f32>().add(batch * m * k + first),
                    b: blocks.decode(batch * n + column, columns, first, decoded),
                    y: tile.start(2).cast::<f32>().add(batch * m * n + column),
                    depth: RUN.min(k - first),
                    a_stride: k,
                    b_stride: RUN,
                    y_stride: n,
                    rows: m,
                    columns,
                    accumulate: first > 0,
                    ahead: None,
                });
            }
        }
    }
}

/// A tile for many rows: some columns and some rows of one batch.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are activations, weights and outputs of the extents in the
/// parameters.
#[inline(always)]
unsafe fn many_rows<U: Unit>(tile: &Tile<'_>) {
    let [m, n, k, tile_rows, format] = [0, 1, 2, 3, 4].map(|i| tile.param(i) as usize);
    let Some(&format) = Format::ALL.get(format) else { return };
    let [x, y, batch] = tile.index.map(|i| i as usize);
    let (column, row) = (x * TILE_COLUMNS, y * tile_rows);
    let count = TILE_COLUMNS.min(n - column);
    let blocks = Blocks { tile, format, k };
    // SAFETY: the only reference into the workspace.
    let (decoded, panel) = unsafe {
        let workspace = tile.workspace::<ManyWorkspace>().as_mut_ptr();
        (cleared(&raw mut (*workspace).decoded), (&raw mut (*workspace).panel).cast::<f32>())
    };
    for depth in (0..k).step_by(PANEL_DEPTH) {
        let panel_depth = PANEL_DEPTH.min(k - depth);
        for at in (0..panel_depth).step_by(RUN) {
            // SAFETY: the planner made the grid for these extents; the panel has room for as many columns, a multiple
            // of every vector, and words.
            unsafe {
                let start = blocks.decode(batch * n + column, count, depth + at, decoded);
                let elements = RUN.min(panel_depth - at);
                pack::pack::<U, pack::F32>(
                    &Columns { start, stride: RUN, count, elements, panel_depth, at },
                    panel,
                );
            }
        }
        // SAFETY: as above; tiles have different rows, columns or batches, and the multiplication reads only what was
        // packed.
        unsafe {
            U::multiply(&Block {
                a: tile.start(0).cast::<f32>().add((batch * m + row) * k + depth),
                a_stride: k,
                panel,
                depth: panel_depth,
                y: tile.start(2).cast::<f32>().add((batch * m + row) * n + column),
                y_stride: n,
                rows: tile_rows.min(m - row),
                columns: count,
                accumulate: depth > 0,
            });
        }
    }
}

/// A kernel for every block format.
pub(in crate::matmul) struct Exact {
    program: &'static NativeKernel,
    many: bool,
}

/// The kernel for few rows.
pub(in crate::matmul) static BLOCKS_FEW: Exact = Exact { program: &FEW, many: false };
/// The kernel for many rows.
pub(in crate::matmul) static BLOCKS_MANY: Exact = Exact { program: &MANY, many: true };

impl Kernel for Exact {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        self.program.name
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = on_cpu(io, on)?;
        if !io.input(1).dtype.is_block() {
            return Err(Decline("is for block formats"));
        }
        // Both take any number of rows, to be held against each other; the one meant for it is cheaper.
        let meant = self.many == (problem.m > FEW_ROWS_32);
        Ok(if meant { Cost::FALLBACK } else { Cost(2 * Cost::FALLBACK.0) })
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let (Some(problem), Some(format)) = (Problem::of(io), io.input(1).dtype.format()) else {
            return Plan::default();
        };
        let Problem { batch, m, n, k } = problem;
        let (extents, grid) = if self.many {
            tiles(&problem)
        } else {
            let columns = stream_columns(k / format.block_len() * format.block_bytes(), n * batch)
                .next_multiple_of(COLUMNS);
            ([m, n, k, columns].map(|extent| extent as u32), [n.div_ceil(columns) as u32, 1, batch as u32])
        };
        let [m, n, k, tile] = extents;
        Plan::launch(Program::Native(self.program), &ARGS, &[m, n, k, tile, format as u32], grid)
    }
}
