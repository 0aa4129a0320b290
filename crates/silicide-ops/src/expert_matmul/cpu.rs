//! How experts are multiplied on the CPU: a tile is some columns of one expert and a strip of the pairs that go to it ([`strips`]).
//!
//! Activations are first put in the order of strips, so that those of a strip lie together: rounded to 8 bits for block formats
//! ([`integer`]), as they are for others. Outputs of a strip are computed together and then put where
//! their pairs belong. Strips depend on the ids alone and every output is summed in an order of its own, so any number of threads
//! gives the same bits.

mod integer;
mod strips;

use super::{ExpertMatmul, Problem};
use crate::cpu::native_kernel;
use crate::elementwise::fits_cpu;
use crate::needs::bytes;
use crate::product::{PANEL_DEPTH, Panel, TILE_COLUMNS};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::few::{self, Rows};
use silicide_gemm::f32::pack::{self, Columns, Weight};
use silicide_gemm::f32::tile::Block;
use silicide_gemm::f32::vector::Unit;
use silicide_hal::{DeviceInfo, LaunchShape, NativeKernel, Needs, Program, Tile};
use silicide_quant::{DType, Format};
use std::ops::Range;
use strips::{Cut, HEADER, STRIP, Strip};

/// Up to this many rows, packing a panel does not pay.
const FEW_ROWS: usize = 8;
/// Elements of a column that are decoded at a time: whole blocks of every format, whose longest has 256.
const RUN: usize = 256;
/// Columns that are decoded at a time: a multiple of those that are multiplied at a time.
const COLUMNS: usize = 24;

// SAFETY: a tile is a strip of pairs of its own ([`Strip::of`] checks it) and some columns: it reads their rows and the columns of
// their expert, which is checked against the experts, and writes their outputs.
native_kernel!(unsafe F32, "expert_matmul.f32.cpu", elements::<S, pack::F32>, needs elements_need::<4>, workspace size_of::<ElementsWorkspace>());
// SAFETY: a tile is a strip of pairs of its own ([`Strip::of`] checks it) and some columns: it reads their rows and the columns of
// their expert, which is checked against the experts, and writes their outputs.
native_kernel!(unsafe F16, "expert_matmul.f16.cpu", elements::<S, pack::F16>, needs elements_need::<2>, workspace size_of::<ElementsWorkspace>());
// SAFETY: a tile is a strip of pairs of its own ([`Strip::of`] checks it) and some columns: it reads their rows and the columns of
// their expert, which is checked against the experts, and writes their outputs.
native_kernel!(unsafe BF16, "expert_matmul.bf16.cpu", elements::<S, pack::BF16>, needs elements_need::<2>, workspace size_of::<ElementsWorkspace>());
// SAFETY: a tile is a strip of pairs of its own ([`Strip::of`] checks it) and some columns: it reads their rows and the columns of
// their expert, which is checked against the experts, and writes their outputs.
native_kernel!(unsafe DECODED, "expert_matmul.blocks.cpu", blocks::<S>, needs blocks_need, workspace size_of::<BlocksWorkspace>());
// SAFETY: a tile reads the rows of its own places, which are checked against the pairs, and writes those places.
native_kernel!(
    /// Activations in the order of strips.
    unsafe ORDER,
    "expert_matmul.order.cpu",
    order,
    needs order_need
);

fn order_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let row = launch.count(4) * 4u32;
    strips::order_need(launch, row, row, 4)
}

fn elements_need<const SIZE: usize>(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (n, k) = (launch.count(4), launch.count(5));
    strips::multiply_need(launch, [k * 4u32, n * k * SIZE], [4, SIZE])
}

fn blocks_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (n, k) = (launch.count(4), launch.count(5));
    let format = DType::Block(*Format::ALL.get(launch.param(HEADER) as usize)?);
    strips::multiply_need(launch, [k * 4u32, n * bytes(format, k)?], [4, 1])
}

/// Puts rows of f32 in the order of strips.
///
/// # Safety
///
/// Parameters and bindings are those of [`strips::sort`], for rows of `k` f32.
#[inline(always)]
unsafe fn order(tile: &Tile<'_>) {
    let k = tile.param(4) as usize;
    // SAFETY: the planner made the grid for these extents; tiles have different places.
    unsafe {
        for (place, row) in strips::places(tile) {
            let from = tile.read_part::<f32>(0, row * k..(row + 1) * k);
            tile.write::<f32>(3, place * k..(place + 1) * k).copy_from_slice(from);
        }
    }
}

/// The outputs of a strip and some columns.
#[repr(C, align(64))]
struct Outputs([f32; STRIP * TILE_COLUMNS]);

/// Workspace of a tile for weights of single elements.
#[repr(C)]
struct ElementsWorkspace {
    outputs: Outputs,
    panel: Panel,
}

/// Workspace of a tile for block formats.
#[repr(C)]
struct BlocksWorkspace {
    outputs: Outputs,
    decoded: [[f32; RUN]; COLUMNS],
}

/// What a tile has to do: a strip, and columns of its expert.
struct Part<'a, 'b> {
    tile: &'a Tile<'b>,
    strip: Strip<'b>,
    /// All columns of an expert, and their depth.
    n: usize,
    k: usize,
    columns: Range<usize>,
}

impl<'a, 'b> Part<'a, 'b> {
    /// The part of a tile, if there is one left for it.
    ///
    /// # Safety
    ///
    /// Parameters and bindings are those of a multiplying kernel.
    #[inline(always)]
    unsafe fn of(tile: &'a Tile<'b>) -> Option<Part<'a, 'b>> {
        let [n, k, columns] = [4, 5, 6].map(|i| tile.param(i) as usize);
        let first = tile.index[0] as usize * columns;
        // SAFETY: the caller's promise.
        let strip = unsafe { Strip::of(tile)? };
        Some(Part { tile, strip, n, k, columns: first..(first + columns).min(n) })
    }

    /// The first activation of the strip.
    #[inline(always)]
    unsafe fn activations(&self) -> *const f32 {
        // SAFETY: the caller's promise: binding 0 has these rows.
        unsafe { self.tile.start(0).cast::<f32>().add(self.strip.row * self.k) }
    }

    /// Puts outputs of some columns, `[pairs, columns]`, where they belong; NaN without outputs.
    #[inline(always)]
    unsafe fn put(&self, columns: Range<usize>, outputs: Option<*const f32>) {
        for (i, pair) in self.strip.pairs().enumerate() {
            // SAFETY: the caller's promise: there are as many outputs, and no other tile has this pair and these columns.
            unsafe {
                let to =
                    self.tile.write::<f32>(3, pair * self.n + columns.start..pair * self.n + columns.end);
                match outputs {
                    Some(outputs) => {
                        to.copy_from_slice(std::slice::from_raw_parts(outputs.add(i * to.len()), to.len()));
                    }
                    None => to.fill(f32::NAN),
                }
            }
        }
    }
}

/// A tile for weights of single elements.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are activations, weights, places and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn elements<U: Unit, W: Weight>(tile: &Tile<'_>) {
    // SAFETY: the caller's promise.
    let Some(part) = (unsafe { Part::of(tile) }) else { return };
    let Some(expert) = part.strip.expert else {
        // SAFETY: the tile's own outputs.
        return unsafe { part.put(part.columns.clone(), None) };
    };
    let (rows, k) = (part.strip.len(), part.k);
    // SAFETY: the only reference into the workspace.
    let (y, panel) = unsafe {
        let workspace = tile.workspace::<ElementsWorkspace>().as_mut_ptr();
        ((&raw mut (*workspace).outputs).cast::<f32>(), (&raw mut (*workspace).panel).cast::<f32>())
    };
    for first in part.columns.clone().step_by(TILE_COLUMNS) {
        let count = TILE_COLUMNS.min(part.columns.end - first);
        // SAFETY: the planner made the grid for these extents. Panel and outputs have room for as many rows and columns, and what
        // is read of them was written.
        unsafe {
            let start = tile.start(1).cast::<W::Stored>().add((expert * part.n + first) * k);
            if rows <= FEW_ROWS {
                few::multiply::<U, W>(&Rows {
                    a: part.activations(),
                    b: start,
                    y,
                    depth: k,
                    a_stride: k,
                    b_stride: k,
                    y_stride: count,
                    rows,
                    columns: count,
                    accumulate: false,
                    ahead: None,
                });
            } else {
                for depth in (0..k).step_by(PANEL_DEPTH) {
                    let panel_depth = PANEL_DEPTH.min(k - depth);
                    let start = start.add(depth);
                    let columns =
                        Columns { start, stride: k, count, elements: panel_depth, panel_depth, at: 0 };
                    pack::pack::<U, W>(&columns, panel);
                    U::multiply(&Block {
                        a: part.activations().add(depth),
                        a_stride: k,
                        panel,
                        depth: panel_depth,
                        y,
                        y_stride: count,
                        rows,
                        columns: count,
                        accumulate: depth > 0,
                    });
                }
            }
            part.put(first..first + count, Some(y));
        }
    }
}

/// A tile for weights of any block format: blocks are decoded to f32 by the format's own decoder, and multiplied there.
///
/// # Safety
///
/// As for [`elements`]; the parameter after [`HEADER`] is the format.
#[inline(always)]
unsafe fn blocks<U: Unit>(tile: &Tile<'_>) {
    let Some(&format) = Format::ALL.get(tile.param(HEADER) as usize) else { return };
    // SAFETY: the caller's promise.
    let Some(part) = (unsafe { Part::of(tile) }) else { return };
    let Some(expert) = part.strip.expert else {
        // SAFETY: the tile's own outputs.
        return unsafe { part.put(part.columns.clone(), None) };
    };
    let (len, size) = (format.block_len(), format.block_bytes());
    // SAFETY: the only reference into the workspace; all bits zero are f32s.
    let (y, decoded) = unsafe {
        let workspace = tile.workspace::<BlocksWorkspace>().as_mut_ptr();
        (&raw mut (*workspace).decoded).write_bytes(0, 1);
        ((&raw mut (*workspace).outputs).cast::<f32>(), &mut (*workspace).decoded)
    };
    for first in part.columns.clone().step_by(COLUMNS) {
        let count = COLUMNS.min(part.columns.end - first);
        for at in (0..part.k).step_by(RUN) {
            let depth = RUN.min(part.k - at);
            // SAFETY: the planner made the grid for these extents. The outputs have room for as many rows and columns.
            unsafe {
                for (i, run) in decoded.iter_mut().take(count).enumerate() {
                    let start = ((expert * part.n + first + i) * part.k + at) / len * size;
                    let blocks = tile.read_part(1, start..start + depth / len * size);
                    // Lengths agree by construction, so decoding can't fail.
                    let _ = format.decode(blocks, run.get_mut(..depth).unwrap_or_default());
                }
                few::multiply::<U, pack::F32>(&Rows {
                    a: part.activations().add(at),
                    b: decoded.as_ptr().cast(),
                    y,
                    depth,
                    a_stride: part.k,
                    b_stride: RUN,
                    y_stride: count,
                    rows: part.strip.len(),
                    columns: count,
                    accumulate: at > 0,
                    ahead: None,
                });
            }
        }
        // SAFETY: the outputs of all pairs and columns were written.
        unsafe { part.put(first..first + count, Some(y)) }
    }
}

/// The problem, on the CPU.
fn on_cpu(io: &Io<'_>, on: &DeviceInfo) -> Result<Problem, Decline> {
    fits_cpu(on)?;
    Problem::of(io).ok_or(Decline("takes extents of at most 32 bits"))
}

/// The plan of a kernel that takes activations as they are.
fn plan(problem: &Problem, program: &'static NativeKernel, format: Option<Format>) -> Plan {
    let (cut, mut plan) = (Cut::of(problem), Plan::default());
    let (mut activations, mut places) = (Arg::slot(0), Arg::slot(2));
    if !cut.is_single() {
        let sorted = strips::sort(&mut plan, problem, &ORDER, (problem.k * 4, problem.k));
        (activations, places) = (sorted.activations, sorted.places);
    }
    let columns = if format.is_some() { COLUMNS } else { TILE_COLUMNS };
    let mut params = cut.params(problem, columns).to_vec();
    params.extend(format.map(|format| format as u32));
    let grid = [problem.n.div_ceil(columns) as u32, cut.tiles() as u32, 1];
    plan.push(Program::Native(program), &[activations, Arg::slot(1), places, Arg::slot(3)], &params, grid);
    plan
}

/// Block formats, in integers.
pub(super) struct Integer;

/// Weights of single elements.
pub(super) struct Elements {
    dtype: DType,
    program: &'static NativeKernel,
}

/// Block formats, exactly.
pub(super) struct Blocks;

/// The kernel in integers.
pub(super) static INTEGER: Integer = Integer;
/// The kernels for single elements.
pub(super) static ELEMENTS: [Elements; 3] = [
    Elements { dtype: DType::F32, program: &F32 },
    Elements { dtype: DType::F16, program: &F16 },
    Elements { dtype: DType::BF16, program: &BF16 },
];
/// The kernel for all block formats.
pub(super) static BLOCKS: Blocks = Blocks;

impl Kernel for Integer {
    type Op = ExpertMatmul;

    fn name(&self) -> &'static str {
        integer::NAME
    }

    fn fits(&self, op: &ExpertMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = on_cpu(io, on)?;
        if op.exact {
            return Err(Decline("rounds activations"));
        }
        let dtype = op.interleaved.map_or(io.input(1).dtype, DType::Block);
        integer::declines(&problem, dtype).map_or(Ok(Cost::BEST), |why| Err(Decline(why)))
    }

    fn plan(&self, op: &ExpertMatmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let format = op.interleaved.or(io.input(1).dtype.format());
        let (Some(problem), Some(format)) = (Problem::of(io), format) else { return Plan::default() };
        integer::plan(&problem, (format, op.interleaved.is_some()), on)
    }
}

impl Kernel for Elements {
    type Op = ExpertMatmul;

    fn name(&self) -> &'static str {
        self.program.name
    }

    fn fits(&self, _: &ExpertMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        on_cpu(io, on)?;
        if io.input(1).dtype == self.dtype {
            Ok(Cost::GOOD)
        } else {
            Err(Decline("is for another weight format"))
        }
    }

    fn plan(&self, _: &ExpertMatmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        Problem::of(io).map_or(Plan::default(), |problem| plan(&problem, self.program, None))
    }
}

impl Kernel for Blocks {
    type Op = ExpertMatmul;

    fn name(&self) -> &'static str {
        DECODED.name
    }

    fn fits(&self, _: &ExpertMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        on_cpu(io, on)?;
        if io.input(1).dtype.is_block() { Ok(Cost::FALLBACK) } else { Err(Decline("is for block formats")) }
    }

    fn plan(&self, _: &ExpertMatmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let format = io.input(1).dtype.format();
        Problem::of(io).map_or(Plan::default(), |problem| plan(&problem, &DECODED, format))
    }
}
