//! `reduce` on the CPU: one pass over a row.

use super::{Reduce, Reduction};
use crate::cpu::Simd;
use crate::cpu::element::{Target, code, view_coded};
use crate::rows::cpu::{HEADER, Lanes, Room, RowKernel, Run, SHORT, fits, plan, row_programs};
use crate::rows::lanes::{largest_key, sum_of, value_of};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Tile};

/// Bindings.
const X: usize = 0;
const Y: usize = 1;

/// Parameter word.
const CODE: usize = HEADER;

/// Writes a row's result.
///
/// # Safety
/// As for [`RowKernel`].
#[inline(always)]
unsafe fn store<S: Simd>(tile: &Tile<'_>, row: usize, result: f32) {
    let target = Target { binding: Y, code: tile.param(CODE), streaming: false };
    // SAFETY: the caller's promise; each row has one element of `y`.
    unsafe { target.write::<S>(tile, row, &[result]) };
}

struct Sum;

row_programs!(SUM, Sum, "reduce.sum.cpu");

impl RowKernel for Sum {
    type Partial = f64;
    const LONGEST: usize = SHORT;
    const WRITES_RUNS: bool = false;

    #[inline(always)]
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> f64 {
        let mut sum = 0.0;
        for block in run.blocks() {
            let Room { first, .. } = lanes.room(block.len());
            // SAFETY: the caller's promise; the blocks lie in the tensor.
            let values = unsafe { view_coded::<S>(tile, X, tile.param(CODE), run.at(block.start), first) };
            sum += sum_of(values, |x| x);
        }
        sum
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, _lanes: &mut Lanes, run: Run, partials: &[f64]) {
        // SAFETY: the caller's promise.
        unsafe { store::<S>(tile, run.row, partials.iter().sum::<f64>() as f32) };
    }
}

struct Max;

row_programs!(MAX, Max, "reduce.max.cpu");

impl RowKernel for Max {
    /// A key: see [`crate::rows::lanes::key`].
    type Partial = i32;
    const LONGEST: usize = SHORT;
    const WRITES_RUNS: bool = false;

    #[inline(always)]
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> i32 {
        let mut best = i32::MIN;
        for block in run.blocks() {
            let Room { first, .. } = lanes.room(block.len());
            // SAFETY: the caller's promise; the blocks lie in the tensor.
            let values = unsafe { view_coded::<S>(tile, X, tile.param(CODE), run.at(block.start), first) };
            best = best.max(largest_key(values));
        }
        best
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, _lanes: &mut Lanes, run: Run, partials: &[i32]) {
        let best = partials.iter().copied().fold(i32::MIN, i32::max);
        // SAFETY: the caller's promise.
        unsafe { store::<S>(tile, run.row, value_of(best)) };
    }
}

/// Tiles of rows.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = Reduce;

    fn name(&self) -> &'static str {
        "reduce.rows.cpu"
    }

    fn fits(&self, _op: &Reduce, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &Reduce, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (args, params) = ([Arg::slot(0), Arg::slot(1)], [code(io.input(0).dtype)]);
        match op.reduction {
            Reduction::Sum => plan::<Sum>(&SUM, io, &args, &params),
            Reduction::Max => plan::<Max>(&MAX, io, &args, &params),
        }
    }
}
