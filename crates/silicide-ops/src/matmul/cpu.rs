//! How matrices are multiplied on the CPU: the table of weight formats, and the choice of tiles.
//!
//! Two kernels per format of single elements; block formats are in [`blocks`]. For a few rows the weights stream past once ([`silicide_gemm::f32::few`]); for many, each tile packs a panel
//! of weight columns in its thread's workspace and multiplies it with all its rows ([`silicide_gemm::f32::tile`]). Both sum every output in a fixed
//! order that no tile boundary changes, so any number of threads gives the same bits; the two kernels differ from
//! each other in the last places.

mod blocks;
mod integer;

#[cfg(test)]
mod tests;

pub(super) use blocks::{BLOCKS_FEW, BLOCKS_MANY};
pub(super) use integer::INTEGER;

use super::{Matmul, Problem};
use crate::cpu::native_kernel;
use crate::product::{
    Cut, FEW_ROWS_16, PANEL_DEPTH, Panel, TILE_COLUMNS, enough_tiles, needs, stream_columns, streamed,
};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::few::{self, Rows};
use silicide_gemm::f32::pack::{self, Columns, Weight};
use silicide_gemm::f32::tile::Block;
use silicide_gemm::f32::vector::Unit;
use silicide_hal::{Backend, DeviceInfo, NativeKernel, Program, Tile};
use silicide_quant::DType;

/// Up to this many rows, packing a panel does not pay, with weights of 32 bits and of 16, which move less.
const FEW_ROWS_32: usize = 8;
/// A multiple of every number of columns that the kernel for few rows takes at a time.
const BLOCKS: usize = 24;
/// Fewer rows than this do not make up for packing a panel.
const LEAST_ROWS: usize = 96;
/// More rows than this gain nothing, and their activations fall out of the caches.
const MOST_ROWS: usize = 1536;
/// A multiple of the height of every register tile.
const STRIPS: usize = 24;
/// Activations, weights, outputs.
const ARGS: [Arg; 3] = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];

// SAFETY: a tile reads all rows of one batch and its own columns of weights, and writes its own columns of the outputs.
native_kernel!(unsafe FEW_F32, "matmul.f32.few.cpu", few_rows::<S, pack::F32>, needs needs::few::<4>, streams streamed);
// SAFETY: a tile reads all rows of one batch and its own columns of weights, and writes its own columns of the outputs.
native_kernel!(unsafe FEW_F16, "matmul.f16.few.cpu", few_rows::<S, pack::F16>, needs needs::few::<2>, streams streamed);
// SAFETY: a tile reads all rows of one batch and its own columns of weights, and writes its own columns of the outputs.
native_kernel!(unsafe FEW_BF16, "matmul.bf16.few.cpu", few_rows::<S, pack::BF16>, needs needs::few::<2>, streams streamed);
// SAFETY: a tile reads its own rows and its own columns of weights of one batch, and writes the outputs of both.
native_kernel!(unsafe MANY_F32, "matmul.f32.many.cpu", many_rows::<S, pack::F32>, needs needs::many::<4>, workspace size_of::<Panel>());
// SAFETY: a tile reads its own rows and its own columns of weights of one batch, and writes the outputs of both.
native_kernel!(unsafe MANY_F16, "matmul.f16.many.cpu", many_rows::<S, pack::F16>, needs needs::many::<2>, workspace size_of::<Panel>());
// SAFETY: a tile reads its own rows and its own columns of weights of one batch, and writes the outputs of both.
native_kernel!(unsafe MANY_BF16, "matmul.bf16.many.cpu", many_rows::<S, pack::BF16>, needs needs::many::<2>, workspace size_of::<Panel>());

/// Every program of the op, and how its tiles cut the output.
pub(crate) static PROGRAMS: [(&NativeKernel, Cut); 9] = [
    (&FEW_F32, Cut::Columns(3)),
    (&FEW_F16, Cut::Columns(3)),
    (&FEW_BF16, Cut::Columns(3)),
    (&MANY_F32, Cut::Rows(TILE_COLUMNS, 3)),
    (&MANY_F16, Cut::Rows(TILE_COLUMNS, 3)),
    (&MANY_BF16, Cut::Rows(TILE_COLUMNS, 3)),
    (&blocks::FEW, Cut::Columns(3)),
    (&blocks::MANY, Cut::Rows(TILE_COLUMNS, 3)),
    (&integer::MULTIPLY, Cut::Both(3, 4)),
];

/// A tile of the kernel for few rows: some columns of one batch, all rows.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are activations, weights and outputs of the extents in the
/// parameters.
#[inline(always)]
unsafe fn few_rows<U: Unit, W: Weight>(tile: &Tile<'_>) {
    let [m, n, k, tile_columns] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
    let [x, _, batch] = tile.index.map(|i| i as usize);
    let column = x * tile_columns;
    // SAFETY: the planner made the grid for these extents; tiles have different columns or batches.
    unsafe {
        few::multiply::<U, W>(&Rows {
            a: tile.start(0).cast::<f32>().add(batch * m * k),
            b: tile.start(1).cast::<W::Stored>().add((batch * n + column) * k),
            y: tile.start(2).cast::<f32>().add(batch * m * n + column),
            depth: k,
            a_stride: k,
            b_stride: k,
            y_stride: n,
            rows: m,
            columns: tile_columns.min(n - column),
            accumulate: false,
            ahead: Some(few::ahead::<W>(k)),
        });
    }
}

/// A tile of the kernel for many rows: some columns and some rows of one batch.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are activations, weights and outputs of the extents in the
/// parameters.
#[inline(always)]
unsafe fn many_rows<U: Unit, W: Weight>(tile: &Tile<'_>) {
    let [m, n, k, tile_rows] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
    let [x, y, batch] = tile.index.map(|i| i as usize);
    let (column, row) = (x * TILE_COLUMNS, y * tile_rows);
    let columns = TILE_COLUMNS.min(n - column);
    // SAFETY: the only reference into the workspace.
    let panel = unsafe { tile.workspace::<Panel>() }.as_mut_ptr().cast::<f32>();
    for depth in (0..k).step_by(PANEL_DEPTH) {
        let panel_depth = PANEL_DEPTH.min(k - depth);
        // SAFETY: the planner made the grid for these extents; tiles have different rows, columns or batches. The
        // panel has room for as many columns, a multiple of every vector, and words. The multiplication reads only
        // what was packed.
        unsafe {
            let columns = Columns {
                start: tile.start(1).cast::<W::Stored>().add((batch * n + column) * k + depth),
                stride: k,
                count: columns,
                elements: panel_depth,
                panel_depth,
                at: 0,
            };
            pack::pack::<U, W>(&columns, panel);
            U::multiply(&Block {
                a: tile.start(0).cast::<f32>().add((batch * m + row) * k + depth),
                a_stride: k,
                panel,
                depth: panel_depth,
                y: tile.start(2).cast::<f32>().add((batch * m + row) * n + column),
                y_stride: n,
                rows: tile_rows.min(m - row),
                columns: columns.count,
                accumulate: depth > 0,
            });
        }
    }
}

/// The kernel for few rows of one weight format.
pub(super) struct Few {
    dtype: DType,
    most_rows: usize,
    program: &'static NativeKernel,
}

/// The kernel for many rows of one weight format.
pub(super) struct Many {
    dtype: DType,
    program: &'static NativeKernel,
}

/// The table of weight formats, for few rows.
pub(super) static FEW: [Few; 3] = [
    Few { dtype: DType::F32, most_rows: FEW_ROWS_32, program: &FEW_F32 },
    Few { dtype: DType::F16, most_rows: FEW_ROWS_16, program: &FEW_F16 },
    Few { dtype: DType::BF16, most_rows: FEW_ROWS_16, program: &FEW_BF16 },
];

/// The table of weight formats, for many rows.
pub(super) static MANY: [Many; 3] = [
    Many { dtype: DType::F32, program: &MANY_F32 },
    Many { dtype: DType::F16, program: &MANY_F16 },
    Many { dtype: DType::BF16, program: &MANY_BF16 },
];

/// The problem, if a kernel for `dtype` on the CPU is meant at all.
fn check(dtype: DType, io: &Io<'_>, on: &DeviceInfo) -> Result<Problem, Decline> {
    let problem = on_cpu(io, on)?;
    if io.input(1).dtype == dtype { Ok(problem) } else { Err(Decline("is for another weight format")) }
}

/// The problem, on the CPU.
fn on_cpu(io: &Io<'_>, on: &DeviceInfo) -> Result<Problem, Decline> {
    if on.backend != Backend::Cpu {
        return Err(Decline("runs on the CPU"));
    }
    Problem::of(io).ok_or(Decline("takes extents of at most 32 bits"))
}

impl Kernel for Few {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        self.program.name
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = check(self.dtype, io, on)?;
        if problem.m > self.most_rows { Err(Decline("is for few rows")) } else { Ok(Cost::BEST) }
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let Some(Problem { batch, m, n, k }) = Problem::of(io) else { return Plan::default() };
        let columns = stream_columns(k * self.dtype.size(), n * batch).next_multiple_of(BLOCKS);
        let params = [m, n, k, columns].map(|extent| extent as u32);
        let grid = [n.div_ceil(columns) as u32, 1, batch as u32];
        Plan::launch(Program::Native(self.program), &ARGS, &params, grid)
    }
}

impl Kernel for Many {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        self.program.name
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        check(self.dtype, io, on).map(|_| Cost::GOOD)
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let Some(problem) = Problem::of(io) else { return Plan::default() };
        let (params, grid) = tiles(&problem);
        Plan::launch(Program::Native(self.program), &ARGS, &params, grid)
    }
}

/// Parameters and grid for many rows. Rows are cut only where there are too few columns to keep many threads busy,
/// since every cut packs the weights again; the number of threads plays no part.
fn tiles(problem: &Problem) -> ([u32; 4], [u32; 3]) {
    let Problem { batch, m, n, k } = *problem;
    let across = n.div_ceil(TILE_COLUMNS);
    let most = m.div_ceil(enough_tiles(across.saturating_mul(batch))).clamp(LEAST_ROWS, MOST_ROWS);
    let rows = m.div_ceil(m.div_ceil(most)).next_multiple_of(STRIPS);
    ([m, n, k, rows].map(|extent| extent as u32), [across as u32, m.div_ceil(rows) as u32, batch as u32])
}
