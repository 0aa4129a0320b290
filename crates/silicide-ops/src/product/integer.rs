//! Products in integers, with activations quantized to 8 bits: the program, and how many rows and columns each of its tiles has.

use super::{enough_tiles, needs, stream_columns, streamed};
use crate::cpu::native_kernel;
use crate::matmul::Problem;
use crate::quantize_q8::quantize_launch;
use crate::weight;
use silicide_core::kernel::{Access, Arg, Decline, Plan, Step};
use silicide_gemm::MatrixMut;
use silicide_gemm::q8::{
    Blocking, GROUP, MAX_MR, MAX_NC, MIN_OUTPUTS, NR, PANEL_OUTPUT_BYTES, Q8Gemm, Q8Kernels, Q8Weights,
    Q8Workspace, QuantizedRows, quantized_row_bytes,
};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::{Encoding, MlxPlanes, RowEncoding};
use smallvec::SmallVec;

/// Up to this many rows, weights are read as a stream.
pub(crate) const FEW_ROWS: usize = 16;
/// Neighbouring tiles that are enough to make them wider than a panel.
const WIDE_TILES: usize = 16;
/// Rows that make up for unpacking a panel.
const LEAST_ROWS: usize = 64;
/// Rows whose activations stay in the caches.
const MOST_ROWS: usize = 1536;

/// Returns the columns that are unpacked at a time for many rows: a panel takes half of a core's L2, and activations stream
/// through the other half.
pub(crate) fn panel_columns(on: &DeviceInfo) -> usize {
    (on.core_cache / 2 / PANEL_OUTPUT_BYTES / NR * NR).clamp(NR, MAX_NC)
}

/// Parameter words of the program ([`tiles`]).
const PARAMS: usize = 8;

// SAFETY: a tile reads its own quantized rows and its own columns of weights of one batch, and writes the outputs of both. Columns are whole
// panels, and at least as many as a vector has lanes.
native_kernel!(
    /// Quantized activations times codes: blocks or affine planes, interleaved or not.
    unsafe MULTIPLY,
    "product.integer.cpu",
    tile::<S: Q8Kernels>, needs needs::integer, workspace size_of::<Q8Workspace>(), streams streamed
);

/// Why there is no product in integers of this problem, if so.
pub(crate) fn check(problem: &Problem, encoding: Encoding) -> Result<(), Decline> {
    if !weight::has_integer_product(encoding) || !problem.k.is_multiple_of(GROUP) {
        return Err(Decline("is for formats that it has codes for, and whole groups of 32"));
    }
    if problem.n < MIN_OUTPUTS { Err(Decline("needs more columns")) } else { Ok(()) }
}

/// Whether there is a product in integers of rows with a weight `[n, k]` of this encoding.
pub(crate) fn takes(encoding: Encoding, [n, k]: [usize; 2]) -> bool {
    weight::has_integer_product(encoding) && n >= MIN_OUTPUTS && k > 0 && k.is_multiple_of(GROUP)
}

/// The plan of a problem that is not declined. Arguments are quantized rows, planes and outputs.
pub(crate) fn plan(problem: &Problem, encoding: Encoding, on: &DeviceInfo) -> Plan {
    let mut plan = Plan::default();
    multiply(&mut plan, Arg::slot(0), problem, encoding, on);
    plan
}

/// [`plan`] for activations of f32, which are quantized first.
pub(crate) fn plan_quantizing(problem: &Problem, encoding: Encoding, on: &DeviceInfo) -> Plan {
    let (rows, groups) = (problem.batch * problem.m, problem.k / GROUP);
    let mut plan = Plan::default();
    let quantized = plan.scratch(rows * quantized_row_bytes(groups));
    let launch = quantize_launch([rows, groups], Arg::slot(0), Arg::scratch(quantized, Access::Write));
    plan.steps.push(Step::Dispatch(launch));
    multiply(&mut plan, Arg::scratch(quantized, Access::Read), problem, encoding, on);
    plan
}

/// Appends the launch that multiplies quantized rows.
fn multiply(plan: &mut Plan, rows: Arg, problem: &Problem, encoding: Encoding, on: &DeviceInfo) {
    let slots = (1..encoding.planes() as u8 + 2).map(Arg::slot);
    let args: SmallVec<[Arg; 5]> = std::iter::once(rows).chain(slots).collect();
    let (params, grid) = tiles(problem, encoding, on);
    plan.push(Program::Native(&MULTIPLY), &args, &params, grid);
}

/// A tile: some columns and some rows of one batch.
///
/// # Safety
///
/// The CPU has `S`; bindings are quantized activations, planes and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn tile<S: Q8Kernels>(tile: &Tile<'_>) {
    let Some(&[_, n, groups, .., code]) = tile.params.first_chunk::<PARAMS>() else { return };
    let [n, k] = [n as usize, groups as usize * GROUP];
    let Some(encoding) = weight::from_code(code) else { return };
    let plane = |i: usize| tile.start(1 + i).cast_const();
    // SAFETY: the planes have `n` rows for each batch (`# Safety`), and only blocks have several; `tiles` made the grid for these extents,
    // so tiles have different rows, columns or batches.
    unsafe {
        let rhs = match encoding {
            Encoding::Block(format) => {
                let bytes = n * (k / format.block_len() * format.block_bytes());
                Q8Weights::blocks_from_raw(format, plane(0).add(tile.index[2] as usize * bytes), [n, k])
            }
            Encoding::Interleaved { of: RowEncoding::Block(format), .. } => {
                Q8Weights::interleaved_from_raw(format, plane(0), [n, k])
            }
            Encoding::Planes(format) => {
                let planes = MlxPlanes { packed: plane(0), scales: plane(1), biases: plane(2) };
                Q8Weights::affine_from_raw(format, planes, [n, k])
            }
            Encoding::Interleaved { of: RowEncoding::Planes(format), .. } => {
                let planes = MlxPlanes { packed: plane(0), scales: plane(1), biases: plane(2) };
                Q8Weights::interleaved_affine_from_raw(format, planes, [n, k])
            }
            _ => return,
        };
        if let Ok(rhs) = rhs {
            compute_tile::<S>(tile, rhs, 1 + encoding.planes());
        }
    }
}

/// Parameters and grid of a problem. Rows are cut only where there are too few columns to keep
/// many threads busy, since every cut unpacks the weights again; the number of threads plays no part.
fn tiles(problem: &Problem, encoding: Encoding, on: &DeviceInfo) -> ([u32; PARAMS], [u32; 3]) {
    let Problem { batch, m, n, k } = *problem;
    let column_bytes = weight::row_bytes(encoding, k);
    let code = weight::code(encoding).unwrap_or(u32::MAX) as usize;
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
    let params = [m, n, k / GROUP, columns, rows, nc, kc, code].map(|word| word as u32);
    (params, [n.div_ceil(columns), m.div_ceil(rows), batch].map(|extent| extent as u32))
}

/// Computes a tile of a product in integers: some outputs and some rows of one batch. Parameters begin with those of [`tiles`]; binding 0
/// has the quantized rows, binding `out` the outputs, and `rhs` is the weight of the tile's batch.
///
/// # Safety
///
/// The CPU has `S`. Bindings have the extents in the parameters, and no other tile writes these outputs.
#[inline(always)]
unsafe fn compute_tile<S: Q8Kernels>(tile: &Tile<'_>, rhs: Q8Weights<'_>, out: usize) {
    // Not by `map`: its closure would be called, and compiled without the instruction set.
    let Some(&[m, n, groups, tile_columns, tile_rows, nc, kc, _]) = tile.params.first_chunk::<PARAMS>()
    else {
        return;
    };
    let [m, n, groups, nc, kc] = [m as usize, n as usize, groups as usize, nc as usize, kc as usize];
    let [tile_columns, tile_rows] = [tile_columns as usize, tile_rows as usize];
    let [x, y, batch] = tile.index;
    let [x, y, batch] = [x as usize, y as usize, batch as usize];
    let (first, row) = (x * tile_columns, y * tile_rows);
    let (rows, outputs) = (tile_rows.min(m - row), first..(first + tile_columns).min(n));
    // SAFETY: the CPU has `S`, and bindings have `m` quantized rows and outputs for each batch (`# Safety`); scratch memory is aligned.
    // This is the only reference into the workspace.
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
