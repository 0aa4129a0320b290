//! What the kernels of matrix products on GPUs share: those for few rows (`few.rs`) and those for many (`tiled.rs`, `matrix.rs`).
//! Each reads every weight format through the shared element access, in planes too. Calls whose arguments exceed a binding are cut by
//! batches, or by rows and columns.

use super::Problem;
use crate::weight;
use crate::wgsl::{self, params};
use silicide_core::kernel::{Arg, Decline, Plan};
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
/// Parameter words.
const PARAMS: u32 = 6;

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

/// The texts that fill shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    /// For activations.
    pub(crate) rows: &'static Snippet,
    /// For the weights of a binding.
    pub(crate) columns: &'static Snippet,
    /// What depths are a multiple of.
    pub(crate) step: usize,
}

/// The plan of a kernel whose workgroups have a tile of outputs each: `tiles` counts those of some rows and columns.
pub(super) fn plan_tiles(
    kernel: &WgslKernel,
    problem: &Problem,
    weights: Encoding,
    on: &DeviceInfo,
    tiles: impl Fn(usize, usize) -> usize,
) -> Plan {
    let mut plan = Plan::default();
    for run in runs(problem, weights, on) {
        let tiles = tiles(run.rows.len(), run.columns.len()) * run.batches.len();
        let (args, params) = (run.args(problem, weights), run.params(problem));
        plan.push(Program::Wgsl(kernel.clone()), &args, &params, wgsl::grid(tiles, on));
    }
    plan
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

#[cfg(test)]
mod tests;
