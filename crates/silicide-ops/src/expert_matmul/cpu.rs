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
use crate::product::dense::{DecodedWorkspace, compute_decoded, weights};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::{DenseGemm, DenseWorkspace, F32Kernels, NC};
use silicide_gemm::{Matrix, MatrixMut};
use silicide_hal::{DeviceInfo, LaunchShape, NativeKernel, Needs, Program, Tile};
use silicide_quant::{DType, Format};
use std::mem::MaybeUninit;
use std::ops::Range;
use strips::{Cut, HEADER, STRIP, Strip};

// SAFETY: a tile is a strip of pairs of its own ([`Strip::of`] checks it) and some columns: it reads their rows and the columns of
// their expert, which is checked against the experts, and writes their outputs.
native_kernel!(unsafe DENSE, "expert_matmul.dense.cpu", elements::<S>, needs elements_need, workspace size_of::<ElementsWorkspace>());
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

/// The parameter after [`HEADER`] is the code of the weights' type.
fn elements_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (n, k) = (launch.count(4), launch.count(5));
    let dtype = *DType::ALL.get(launch.param(HEADER) as usize)?;
    let is_dense = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    let needs = strips::multiply_need(launch, [k * 4u32, n * k * dtype.size()], [4, dtype.size()]);
    needs.filter(|_| is_dense)
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
struct Outputs([f32; STRIP * NC]);

/// Workspace of a tile for weights of single elements.
#[repr(C)]
struct ElementsWorkspace {
    outputs: Outputs,
    dense: MaybeUninit<DenseWorkspace>,
}

/// Workspace of a tile for block formats.
#[repr(C)]
struct BlocksWorkspace {
    outputs: Outputs,
    decoded: MaybeUninit<DecodedWorkspace>,
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

    /// The activations of the strip.
    ///
    /// # Safety
    ///
    /// Binding 0 has these rows.
    #[inline(always)]
    unsafe fn activations(&self) -> Matrix<'a, f32> {
        // SAFETY: the caller vouches for the rows of the strip.
        unsafe {
            let start = self.tile.start(0).cast::<f32>().add(self.strip.row * self.k);
            Matrix::from_raw_parts(start, [self.strip.len(), self.k], self.k)
        }
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

/// A tile for weights of single elements. The parameter after [`HEADER`] is the code of their type.
///
/// # Safety
///
/// The CPU has `S`; bindings are activations, weights, places and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn elements<S: F32Kernels>(tile: &Tile<'_>) {
    let Some(&dtype) = DType::ALL.get(tile.param(HEADER) as usize) else { return };
    // SAFETY: parameters and bindings are those of a multiplying kernel, by the caller.
    let Some(part) = (unsafe { Part::of(tile) }) else { return };
    let Some(expert) = part.strip.expert else {
        // SAFETY: the tile's own outputs.
        return unsafe { part.put(part.columns.clone(), None) };
    };
    let (rows, n, k) = (part.strip.len(), part.n, part.k);
    // SAFETY: the only reference into the workspace. `elements_need` has checked that the expert's weights are in binding 1.
    let (isa, y, dense, rhs, lhs) = unsafe {
        let workspace = tile.workspace::<ElementsWorkspace>().as_mut_ptr();
        let start = tile.start(1).add(expert * n * k * dtype.size());
        (
            S::assume(),
            (&raw mut (*workspace).outputs).cast::<f32>(),
            DenseWorkspace::from_uninit(&mut (*workspace).dense),
            weights(dtype, start, [n, k], 1),
            part.activations(),
        )
    };
    let Some(rhs) = rhs else { return };
    for first in part.columns.clone().step_by(NC) {
        let outputs = first..(first + NC).min(part.columns.end);
        let product = DenseGemm { lhs, rhs, outputs: outputs.clone(), accumulate: false };
        // SAFETY: there is room for the outputs of a strip and NC columns; what is put was written.
        unsafe {
            let out = MatrixMut::from_raw_parts(y, [rows, outputs.len()], outputs.len());
            // The extents are those of the expert, so the product is not refused.
            let done = product.compute(isa, out, dense);
            debug_assert_eq!(done, Ok(()));
            part.put(outputs, Some(y));
        }
    }
}

/// A tile for weights of any block format: blocks are decoded to f32 by the format's own decoder, and multiplied there.
///
/// # Safety
///
/// As for [`elements`]; the parameter after [`HEADER`] is the format.
#[inline(always)]
unsafe fn blocks<S: F32Kernels>(tile: &Tile<'_>) {
    let Some(&format) = Format::ALL.get(tile.param(HEADER) as usize) else { return };
    // SAFETY: parameters and bindings are those of a multiplying kernel, by the caller.
    let Some(part) = (unsafe { Part::of(tile) }) else { return };
    let Some(expert) = part.strip.expert else {
        // SAFETY: the tile's own outputs.
        return unsafe { part.put(part.columns.clone(), None) };
    };
    let (len, size, k) = (format.block_len(), format.block_bytes(), part.k);
    // SAFETY: the only reference into the workspace.
    let (isa, y, decoded, lhs) = unsafe {
        let workspace = tile.workspace::<BlocksWorkspace>().as_mut_ptr();
        (
            S::assume(),
            (&raw mut (*workspace).outputs).cast::<f32>(),
            DecodedWorkspace::from_uninit(&mut (*workspace).decoded),
            part.activations(),
        )
    };
    for first in part.columns.clone().step_by(NC) {
        let outputs = first..(first + NC).min(part.columns.end);
        // SAFETY: there is room for the outputs of a strip and NC columns.
        let out = unsafe { MatrixMut::from_raw_parts(y, [lhs.rows(), outputs.len()], outputs.len()) };
        compute_decoded(isa, lhs, out, decoded, |output, at, to| {
            let start = ((expert * part.n + first + output) * k + at) / len * size;
            // SAFETY: `blocks_need` has checked that the expert's weights, whole blocks, are in binding 1.
            let blocks = unsafe { tile.read_part(1, start..start + to.len() / len * size) };
            // Lengths agree by construction, so decoding can't fail.
            let _ = format.decode(blocks, to);
        });
        // SAFETY: the outputs of all pairs and columns were written.
        unsafe { part.put(outputs, Some(y)) }
    }
}

/// The problem, on the CPU.
fn on_cpu(io: &Io<'_>, on: &DeviceInfo) -> Result<Problem, Decline> {
    fits_cpu(on)?;
    Problem::of(io).ok_or(Decline("takes extents of at most 32 bits"))
}

/// The plan of a kernel that takes activations as they are. `code` is that of the weights' type, or format.
fn plan(problem: &Problem, program: &'static NativeKernel, code: u32) -> Plan {
    let (cut, mut plan) = (Cut::of(problem), Plan::default());
    let (mut activations, mut places) = (Arg::slot(0), Arg::slot(2));
    if !cut.is_single() {
        let sorted = strips::sort(&mut plan, problem, &ORDER, (problem.k * 4, problem.k));
        (activations, places) = (sorted.activations, sorted.places);
    }
    let mut params = cut.params(problem, NC).to_vec();
    params.push(code);
    let grid = [problem.n.div_ceil(NC) as u32, cut.tiles() as u32, 1];
    plan.push(Program::Native(program), &[activations, Arg::slot(1), places, Arg::slot(3)], &params, grid);
    plan
}

/// Block formats, in integers.
pub(super) struct Integer;

/// Weights of single elements.
pub(super) struct Elements;

/// Block formats, exactly.
pub(super) struct Blocks;

/// The kernel in integers.
pub(super) static INTEGER: Integer = Integer;
/// The kernel for single elements.
pub(super) static ELEMENTS: Elements = Elements;
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
        DENSE.name
    }

    fn fits(&self, _: &ExpertMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        on_cpu(io, on)?;
        match io.input(1).dtype {
            DType::F32 | DType::F16 | DType::BF16 => Ok(Cost::GOOD),
            _ => Err(Decline("is for dense weights")),
        }
    }

    fn plan(&self, _: &ExpertMatmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let code = io.input(1).dtype.code();
        Problem::of(io).map_or(Plan::default(), |problem| plan(&problem, &DENSE, code))
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
        let (Some(problem), Some(format)) = (Problem::of(io), io.input(1).dtype.format()) else {
            return Plan::default();
        };
        plan(&problem, &DECODED, format as u32)
    }
}
