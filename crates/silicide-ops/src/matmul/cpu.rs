//! How matrices are multiplied on the CPU: the table of weight formats, and the choice of tiles.
//!
//! Two kernels per format of single elements; block formats are in [`blocks`]. For a few rows the weights stream past once ([`few`]); for many, each tile packs a panel
//! of weight columns in its thread's workspace and multiplies it with all its rows ([`tile`]). Both sum every output in a fixed
//! order that no tile boundary changes, so any number of threads gives the same bits; the two kernels differ from
//! each other in the last places.

pub(crate) mod blocks;
pub(crate) mod few;
pub(crate) mod integer;
pub(crate) mod pack;
pub(crate) mod tile;
pub(crate) mod vector;
pub(crate) mod weighted;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub(super) use blocks::{BLOCKS_FEW, BLOCKS_MANY};
pub(super) use integer::INTEGER;
pub(crate) use integer::may_round as may_round_blocks;

use super::{Matmul, Problem};
use crate::cpu::element::Float;
use crate::cpu::{Simd, native_kernel};
use few::Rows;
use pack::{Columns, Weight};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Launch, Plan};
use silicide_hal::cpu::Isa;
use silicide_hal::{Backend, DeviceInfo, NativeKernel, NativeVariant, Program, Stretch, Tile};
use silicide_quant::{DType, bf16};
use smallvec::smallvec;
use tile::Block;
use vector::Unit;

/// Columns of a tile: 1 x 48, 3 x 16 or 6 x 8 in register tiles.
pub(crate) const TILE_COLUMNS: usize = 48;
/// Words of depth in a panel.
pub(crate) const PANEL_DEPTH: usize = 1024;
/// Words of a panel: 192 KiB, to stay in the second-level cache beside the activations that pass.
const PANEL_WORDS: usize = TILE_COLUMNS * PANEL_DEPTH;
/// Up to this many rows, packing a panel does not pay, with weights of 32 bits and of 16, which move less.
const FEW_ROWS_32: usize = 8;
const FEW_ROWS_16: usize = 16;
/// Bytes of weights that one tile of a kernel for few rows reads, at least: about a microsecond.
const STREAM_BYTES: usize = 16 << 10;
/// Tiles into which large weights are cut, about.
const STREAM_TILES: usize = 64;
/// A multiple of every number of columns that the kernel for few rows takes at a time.
const BLOCKS: usize = 24;
/// Tiles that keep many threads busy.
const ENOUGH_TILES: usize = 32;
/// Fewer rows than this do not make up for packing a panel.
const LEAST_ROWS: usize = 96;
/// More rows than this gain nothing, and their activations fall out of the caches.
const MOST_ROWS: usize = 1536;
/// A multiple of the height of every register tile.
const STRIPS: usize = 24;
/// Activations that one tile rounds, about.
const ROUND_ELEMENTS: usize = 16 << 10;
/// Activations, weights, outputs.
const ARGS: [Arg; 3] = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];

native_kernel!(FEW_F32, "matmul.f32.few.cpu", few_rows::<S, pack::F32>, streams streamed);
native_kernel!(FEW_F16, "matmul.f16.few.cpu", few_rows::<S, pack::F16>, streams streamed);
native_kernel!(FEW_BF16, "matmul.bf16.few.cpu", few_rows::<S, pack::BF16>, streams streamed);
native_kernel!(MANY_F32, "matmul.f32.many.cpu", many_rows::<S, pack::F32>, workspace size_of::<Panel>());
native_kernel!(MANY_F16, "matmul.f16.many.cpu", many_rows::<S, pack::F16>, workspace size_of::<Panel>());
native_kernel!(MANY_BF16, "matmul.bf16.many.cpu", many_rows::<S, pack::BF16>, workspace size_of::<Panel>());

/// The bf16 unit multiplies pairs of bf16, so it is no instruction set of its own; elsewhere its emulation is only for tests.
pub(crate) static MANY_BF16_PAIRS: NativeKernel = {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(
        enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c"
    )]
    unsafe fn avx512bf16(tile: &Tile<'_>) {
        // SAFETY: the caller's promise.
        unsafe { many_rows::<x86::Avx512Pairs, pack::BF16Pairs>(tile) }
    }
    unsafe fn portable(tile: &Tile<'_>) {
        // SAFETY: the caller's promise.
        unsafe { many_rows::<vector::PortablePairs, pack::BF16Pairs>(tile) }
    }
    NativeKernel::new("matmul.bf16.pairs.cpu", &[
            #[cfg(target_arch = "x86_64")]
            NativeVariant { isa: Isa::Avx512Bf16, entry: avx512bf16 },
            NativeVariant { isa: Isa::Portable, entry: portable },
        ]).with_workspace(size_of::<Panel>())
};

native_kernel!(
    /// Activations to pairs of bf16.
    ROUND,
    "matmul.round.cpu",
    round_rows::<S>
);

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

/// Workspace: a panel of packed weights.
#[repr(C, align(64))]
pub(crate) struct Panel(pub(crate) [f32; PANEL_WORDS]);

/// A tile of the kernel for many rows: some columns and some rows of one batch. Activations are words: f32, or pairs
/// of bf16, as the unit wants them.
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
    let words = k.div_ceil(W::PER_WORD);
    // SAFETY: the only reference into the workspace.
    let panel = unsafe { tile.workspace::<Panel>() }.as_mut_ptr().cast::<f32>();
    for depth in (0..words).step_by(PANEL_DEPTH) {
        let first = depth * W::PER_WORD;
        // SAFETY: the planner made the grid for these extents; tiles have different rows, columns or batches. The
        // panel has room for as many columns, a multiple of every vector, and words. The multiplication reads only
        // what was packed.
        unsafe {
            let columns = Columns {
                start: tile.start(1).cast::<W::Stored>().add((batch * n + column) * k + first),
                stride: k,
                count: columns,
                elements: (k - first).min(PANEL_DEPTH * W::PER_WORD),
                panel_depth: (words - depth).min(PANEL_DEPTH),
                at: 0,
            };
            pack::pack::<U, W>(&columns, panel);
            U::multiply(&Block {
                a: tile.start(0).cast::<f32>().add((batch * m + row) * words + depth),
                a_stride: words,
                panel,
                depth: columns.panel_depth,
                y: tile.start(2).cast::<f32>().add((batch * m + row) * n + column),
                y_stride: n,
                rows: tile_rows.min(m - row),
                columns: columns.count,
                accumulate: depth > 0,
            });
        }
    }
}

/// A tile of rounding activations to bf16: some rows, each to whole words.
///
/// # Safety
///
/// The instruction set is present; bindings are `rows` rows of `k` f32, and as many of `k` bf16 rounded up to pairs.
#[inline(always)]
unsafe fn round_rows<S: Simd>(tile: &Tile<'_>) {
    let [rows, k, tile_rows] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let (first, padded) = (tile.index[0] as usize * tile_rows, k.next_multiple_of(2));
    for row in first..(first + tile_rows).min(rows) {
        // SAFETY: the planner made the grid for these extents; tiles have different rows.
        unsafe {
            let to = tile.write::<bf16>(1, row * padded..(row + 1) * padded);
            bf16::narrow::<S>(tile.read_part::<f32>(0, row * k..(row + 1) * k), to);
            to.iter_mut().skip(k).for_each(|pad| *pad = bf16::ZERO);
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

/// The kernel for many rows with the bf16 unit.
pub(super) struct Pairs;

/// The table's row for the bf16 unit.
pub(super) static PAIRS: Pairs = Pairs;

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

/// Whether a kernel may round the activations of this problem to bf16, given weights in bf16.
pub(super) fn may_round(problem: &Problem) -> bool {
    problem.m > FEW_ROWS_16
}

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

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Few {
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

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Many {
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

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Pairs {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        MANY_BF16_PAIRS.name
    }

    fn fits(&self, op: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = check(DType::BF16, io, on)?;
        if op.exact {
            return Err(Decline("rounds activations"));
        }
        if !may_round(&problem) {
            return Err(Decline("is for many rows"));
        }
        if on.isa < Some(Isa::Avx512Bf16) { Err(Decline("needs the bf16 unit")) } else { Ok(Cost(50)) }
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let Some(problem) = Problem::of(io) else { return Plan::default() };
        let (rows, words) = (problem.batch * problem.m, problem.k.div_ceil(2));
        let mut plan = Plan::default();
        let tile_rows = (ROUND_ELEMENTS / problem.k).max(1);
        let round = Launch {
            program: Program::Native(&ROUND),
            args: smallvec![Arg::slot(0)],
            params: [rows, problem.k, tile_rows].into_iter().map(|extent| extent as u32).collect(),
            grid: [rows.div_ceil(tile_rows) as u32, 1, 1],
        };
        let rounded = plan.derive(rows * words * 4, round);
        let (params, grid) = tiles(&problem);
        let args = [Arg::scratch(rounded, Access::Read), Arg::slot(1), Arg::slot(2)];
        plan.push(Program::Native(&MANY_BF16_PAIRS), &args, &params, grid);
        plan
    }
}

/// Columns of a tile for few rows, from the bytes of one and the number of all.
fn stream_columns(bytes: usize, all: usize) -> usize {
    (STREAM_BYTES / bytes).max(all / STREAM_TILES).clamp(1, 4096)
}

/// The weights of a tile of some columns, where there are few rows: all kernels that stream have the number of rows, of columns, and
/// of a tile's columns in the same places.
pub(crate) fn streamed(tile: &Tile<'_>) -> [Stretch; 2] {
    let [rows, columns, tile_columns] = [0, 1, 3].map(|i| tile.param(i) as usize);
    let ([x, _, batch], [_, _, batches]) = (tile.index, tile.grid);
    let first = x as usize * tile_columns;
    let all = tile.bytes(1) / batches.max(1) as usize;
    // Rounded where columns are not whole bytes of all, which a hint may be.
    let bytes = |column: usize| (all as u128 * column.min(columns) as u128 / columns.max(1) as u128) as usize;
    if rows > FEW_ROWS_16 {
        return Default::default();
    }
    let start = tile.start(1).addr() + batch as usize * all + bytes(first);
    [Stretch { start, bytes: bytes(first + tile_columns) - bytes(first) }, Stretch::default()]
}

/// Into how many parts the rows of each of so many tiles should be cut.
fn enough_tiles(tiles: usize) -> usize {
    ENOUGH_TILES.div_ceil(tiles)
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
