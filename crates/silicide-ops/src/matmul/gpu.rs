//! How matrices are multiplied on GPUs: one kernel for few rows, one for many, each for every weight format through the
//! shared element access, in planes too. Calls whose arguments exceed a binding are cut by batches, or by rows and columns.

use super::{Matmul, Problem, gpu_needs};
use crate::weight;
use crate::wgsl::{self, params};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Program, Snippet, WgslKernel};
use silicide_quant::{DType, Encoding};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// The parameters: an offset for each plane of the weights, then the same words for all. `y_stride` counts elements from one row
/// of the output to the next; `y_column` is the first column of this launch.
macro_rules! planes {
    ($name:literal, $($plane:literal)*) => {
        Snippet {
            name: $name,
            text: params!(["a" $($plane)* "y"] ["rows" "columns" "k" "batches" "y_stride" "y_column"]),
        }
    };
}

static PARAMS_ONE: Snippet = planes!("matmul params", "b");
static PARAMS_TWO: Snippet = planes!("matmul params, scales", "b" "b_scales");
static PARAMS_THREE: Snippet = planes!("matmul params, biases", "b" "b_scales" "b_biases");
/// The entry point, which calls `multiply(group, lane)`.
pub(crate) static MAIN: Snippet = Snippet { name: "matmul main", text: include_str!("main.wgsl") };
static TILED_BODY: Snippet = Snippet { name: "matmul.tiled.wgsl", text: include_str!("tiled.wgsl") };
/// Common code of the kernels for many rows, and a square of outputs over the weights of one binding.
pub(crate) static TILED_CELLS: Snippet = Snippet {
    name: "matmul tiled, cells",
    text: concat!(include_str!("tile.wgsl"), include_str!("tiled_cells.wgsl")),
};
pub(crate) static TILED_SQUARE: Snippet =
    Snippet { name: "matmul tiled, square", text: include_str!("tiled_square.wgsl") };
/// How the cells of one binding are filled: by eight elements, or one by one; and what a fill needs of activations and of weights.
pub(crate) static FILL_EIGHT: Snippet =
    Snippet { name: "matmul fill, eight", text: include_str!("fill_eight.wgsl") };
pub(crate) static FILL_SINGLE: Snippet =
    Snippet { name: "matmul fill, single", text: include_str!("fill_single.wgsl") };
pub(crate) static FILL_ROWS: Snippet =
    Snippet { name: "matmul fill, rows", text: include_str!("fill_rows.wgsl") };
pub(crate) static FILL_COLUMNS: Snippet =
    Snippet { name: "matmul fill, columns", text: include_str!("fill_columns.wgsl") };

/// Invocations along each side of a workgroup's square, which every device has room for, as in `tiled.wgsl`.
const SIDE: u32 = 8;
/// Problems with more rows and columns than this have squares of 8 x 8 outputs in an invocation, others of 4 x 4.
pub(super) const LARGE: usize = 40;
/// Depth that passes through shared memory at a time, as in `tiled.wgsl`.
pub(crate) const STEP: usize = 16;
/// Parameter words.
const PARAMS: u32 = 6;

/// The kernel for many rows: squares of outputs through shared memory.
pub(super) struct TiledMatmul;

/// The kernel for many rows.
pub(super) static TILED: TiledMatmul = TiledMatmul;

/// One launch: part of a problem whose arguments fit their bindings.
pub(super) struct Run {
    pub(super) batches: Range<usize>,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
}

/// Whether a GPU kernel can run the problem.
pub(crate) fn check(problem: Option<Problem>, on: &DeviceInfo) -> Result<Problem, Decline> {
    if !on.is_gpu() {
        return Err(Decline("runs on GPUs"));
    }
    let problem = problem.ok_or(Decline("takes extents of at most 32 bits"))?;
    if problem.k.max(problem.n).saturating_mul(4) > room(on) {
        return Err(Decline("a row exceeds the largest binding"));
    }
    Ok(problem)
}

/// Bytes that a window can have: bindings start at aligned offsets and end on whole words.
fn room(on: &DeviceInfo) -> usize {
    on.limits.max_binding.saturating_sub(on.limits.binding_alignment + 4)
}

/// The launches of a problem.
pub(super) fn runs(problem: &Problem, weights: Encoding, on: &DeviceInfo) -> Vec<Run> {
    let Problem { batch, m, n, k } = *problem;
    // At least a byte per weight, as weights too are counted in 32 bits.
    let row = weight::gpu::room(weights, k);
    let widest = m.saturating_mul(k.max(n)).saturating_mul(4).max(n.saturating_mul(row));
    if widest <= room(on) {
        let whole = |batches| Run { batches, rows: 0..m, columns: 0..n };
        return wgsl::spans(batch, widest, on).map(whole).collect();
    }
    let mut runs = Vec::new();
    for batch in 0..batch {
        for rows in wgsl::spans(m, k.max(n) * 4, on) {
            for columns in wgsl::spans(n, row, on) {
                runs.push(Run { batches: batch..batch + 1, rows: rows.clone(), columns });
            }
        }
    }
    runs
}

/// Whether a problem is one launch: all its arguments fit their bindings.
pub(crate) fn is_one_run(problem: &Problem, weights: Encoding, on: &DeviceInfo) -> bool {
    runs(problem, weights, on).len() == 1
}

impl Run {
    /// Windows of activations, weights and outputs.
    pub(super) fn args(&self, problem: &Problem, weights: Encoding) -> SmallVec<[Arg; 6]> {
        let Problem { m, n, k, .. } = *problem;
        let batch = self.batches.start;
        let (batches, rows, columns) = (self.batches.len(), self.rows.len(), self.columns.len());
        let mut args: SmallVec<[Arg; 6]> =
            smallvec![Arg::slot(0).window((batch * m + self.rows.start) * k * 4, batches * rows * k * 4)];
        for (row, slot) in weight::gpu::row_bytes(weights, k).into_iter().zip(1..) {
            args.push(
                Arg::slot(slot).window((batch * n + self.columns.start) * row, batches * columns * row),
            );
        }
        let y = Arg::slot(args.len() as u8);
        args.push(y.window((batch * m + self.rows.start) * n * 4, batches * rows * n * 4));
        weight::gpu::bind(&args, weights)
    }

    /// Parameter words.
    pub(super) fn params(&self, problem: &Problem) -> [u32; PARAMS as usize] {
        [self.rows.len(), self.columns.len(), problem.k, self.batches.len(), problem.n, self.columns.start]
            .map(|extent| extent as u32)
    }
}

/// A kernel of the given body for a weight format.
pub(super) fn kernel(bodies: &[&'static Snippet], weights: Encoding, on: &DeviceInfo) -> Option<WgslKernel> {
    let mut parts = weight::gpu::parts(weights, 1)?;
    let planes = parts.len() as u32;
    let params = match planes {
        1 => &PARAMS_ONE,
        2 => &PARAMS_TWO,
        _ => &PARAMS_THREE,
    };
    parts.extend([
        Part::bound(wgsl::load(DType::F32)?, "a", 0),
        Part::bound(wgsl::store(DType::F32, &on.features)?, "y", planes + 1),
        Part::plain(params),
        Part::plain(&wgsl::LINEAR),
    ]);
    parts.extend(bodies.iter().map(|body| Part::plain(body)));
    let kernel = WgslKernel::new(bodies.first()?.name, &parts, planes + 2, PARAMS);
    Some(weight::gpu::finish(kernel, weights))
}

/// How cells are filled, for depths of `k` that pass through shared memory `step` at a time.
pub(crate) fn fill(k: usize, step: usize) -> &'static Snippet {
    if k.is_multiple_of(step) { &FILL_EIGHT } else { &FILL_SINGLE }
}

/// Parts that define `fill_a` and `fill_b`.
pub(super) fn fills(fill: &'static Snippet) -> [Part; 4] {
    [(&FILL_ROWS, "a"), (fill, "a"), (&FILL_COLUMNS, "b"), (fill, "b")]
        .map(|(snippet, name)| Part::bound(snippet, name, 0))
}

/// Returns `step` if it divides depth `k`; otherwise 1, as [`fill`] then reads elements one by one.
pub(crate) fn fill_step(k: usize, step: usize) -> usize {
    if k.is_multiple_of(step) { step } else { 1 }
}

/// Sets the `override` constants of a kernel for `rows` rows and `columns` columns. Returns it with the side of a workgroup's square.
pub(crate) fn tiled_constants(kernel: WgslKernel, rows: usize, columns: usize) -> (WgslKernel, usize) {
    let quads = if rows.min(columns) > LARGE { 2 } else { 1 };
    let pitch = SIDE * quads + 1;
    let kernel = kernel
        .constant("WG", SIDE * SIDE)
        .constant("QUADS", quads)
        .constant("PITCH", pitch)
        .constant("CELLS", pitch * STEP as u32);
    (kernel, (4 * SIDE * quads) as usize)
}

/// The plan for many rows.
pub(crate) fn plan_tiled(problem: &Problem, weights: Encoding, on: &DeviceInfo) -> Plan {
    let mut plan = Plan::default();
    let Some(mut kernel) = kernel(&[&TILED_BODY, &TILED_CELLS], weights, on) else { return plan };
    kernel.append(fills(fill(problem.k, STEP)));
    kernel.append([Part::bound(&TILED_SQUARE, "b", 1)]);
    let (kernel, side) = tiled_constants(kernel, problem.m, problem.n);
    let step = fill_step(problem.k, STEP);
    // SAFETY: past the last row or column it is the last one's that is read, or nothing, and nothing is stored; `needs` requires depths
    // of whole steps where they are not looked at one by one.
    let kernel = unsafe { kernel.unchecked(gpu_needs::needs, &gpu_needs::facts(weights, step)) };
    for run in runs(problem, weights, on) {
        let tiles = run.rows.len().div_ceil(side) * run.columns.len().div_ceil(side) * run.batches.len();
        let (args, params) = (run.args(problem, weights), run.params(problem));
        plan.push(Program::Wgsl(kernel.clone()), &args, &params, wgsl::grid(tiles, on));
    }
    plan
}

impl Kernel for TiledMatmul {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        TILED_BODY.name
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        check(Problem::of(io), on).map(|_| Cost::GOOD)
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let weights = Encoding::from(io.input(1).dtype);
        Problem::of(io).map_or(Plan::default(), |problem| plan_tiled(&problem, weights, on))
    }
}

#[cfg(test)]
mod tests;
