//! `rms_norm` on the CPU: squares are summed in a first pass over a row, scaled values written in a second.

use super::RmsNorm;
use crate::cpu::element::{Float, Target, code, read_coded, view_coded};
use crate::cpu::{CHUNK, Simd, native_kernel};
use crate::matmul::cpu::integer::activations::{round_part, rounds};
use crate::rows::cpu::{
    HEADER, LONG, Lanes, Room, RowKernel, Run, fits, plan, row_programs, streaming, whole,
};
use crate::rows::lanes::sum_of;
use silicide_core::kernel::{Access, Arg, Cost, Decline, Derivation, Io, Kernel, Launch, Plan, Step};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::{DType, bf16, f16};
use smallvec::{SmallVec, smallvec};

/// Bindings; without a weight, `x` stands in for it. The last two are there with a residual only.
const X: usize = 0;
const WEIGHT: usize = 1;
const Y: usize = 2;
const RESIDUAL: usize = 3;
const SUM: usize = 4;

/// Parameter words.
const EPS: usize = HEADER;
const WEIGHTED: usize = HEADER + 1;
const HAS_RESIDUAL: usize = HEADER + 2;
const X_CODE: usize = HEADER + 3;
const WEIGHT_CODE: usize = HEADER + 4;

struct Normalise;

row_programs!(PROGRAMS, Normalise, "rms_norm.rows.cpu");

const F16: u32 = DType::F16.code();
const BF16: u32 = DType::BF16.code();

/// Rounds values to what they will be once stored.
///
/// # Safety
/// The instruction set is present.
#[inline(always)]
unsafe fn round<S: Simd, T: Float>(values: &mut [f32]) {
    let mut stored = [T::zeroed(); CHUNK];
    // SAFETY: the caller's promise; a block has at most `CHUNK` elements.
    unsafe {
        T::narrow::<S>(values, &mut stored);
        T::widen::<S>(&stored, values);
    }
}

/// A block of what is normalised: `x`, or the sum rounded to its type. It is summed again for each pass instead of
/// read back, so that `sum` and `y` may be `x` and `residual`.
///
/// # Safety
/// As for [`RowKernel`]; the block lies in the tensor.
#[inline(always)]
unsafe fn load<'a, S: Simd>(
    tile: &Tile<'a>,
    at: usize,
    first: &'a mut [f32],
    second: &mut [f32],
) -> &'a [f32] {
    let code = tile.param(X_CODE);
    // SAFETY: the caller's promise.
    unsafe {
        if tile.param(HAS_RESIDUAL) == 0 {
            return view_coded::<S>(tile, X, code, at, first);
        }
        read_coded::<S>(tile, X, code, at, first);
        read_coded::<S>(tile, RESIDUAL, code, at, second);
        for (value, residual) in first.iter_mut().zip(second) {
            *value += *residual;
        }
        match code {
            F16 => round::<S, f16>(first),
            BF16 => round::<S, bf16>(first),
            _ => {}
        }
    }
    first
}

impl RowKernel for Normalise {
    type Partial = f64;
    const LONGEST: usize = LONG;
    const WRITES_RUNS: bool = true;

    #[inline(always)]
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> f64 {
        let mut squares = 0.0;
        for block in run.blocks() {
            let Room { first, second, .. } = lanes.room(block.len());
            // SAFETY: the caller's promise.
            let values = unsafe { load::<S>(tile, run.at(block.start), first, second) };
            squares += sum_of(values, |x| x * x);
        }
        squares
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run, partials: &[f64]) {
        let mean = partials.iter().sum::<f64>() / run.k as f64;
        let scale = (1.0 / (mean + f64::from(tile.param_f32(EPS))).sqrt()) as f32;
        let target = |binding| Target { binding, code: tile.param(X_CODE), streaming: streaming(tile) };
        for block in run.blocks() {
            let Room { first, second, results } = lanes.room(block.len());
            let at = run.at(block.start);
            // SAFETY: the caller's promise; every block is read before it is written.
            unsafe {
                let values = load::<S>(tile, at, first, second);
                if tile.param(WEIGHTED) != 0 {
                    let code = tile.param(WEIGHT_CODE);
                    let weights = view_coded::<S>(tile, WEIGHT, code, block.start, second);
                    for ((result, value), weight) in results.iter_mut().zip(values).zip(weights) {
                        *result = *value * scale * *weight;
                    }
                } else {
                    for (result, value) in results.iter_mut().zip(values) {
                        *result = *value * scale;
                    }
                }
                if tile.param(HAS_RESIDUAL) != 0 {
                    target(SUM).write::<S>(tile, at, values);
                }
                target(Y).write::<S>(tile, at, results);
            }
        }
    }
}

native_kernel!(ROUNDED, "rms_norm.rows.rounded.cpu", whole_rounded::<S>);

/// A tile of whole rows, whose outputs are then rounded for a product. Rounded rows are the last binding; the last parameter is
/// their runs.
#[inline(always)]
unsafe fn whole_rounded<S: Simd>(tile: &Tile<'_>) {
    // SAFETY: the plan is that of whole rows, with one more binding.
    unsafe { whole::<S, Normalise>(tile) };
    let [rows, per_tile, runs] = [1, 2, WEIGHT_CODE + 1].map(|i| tile.param(i) as usize);
    let first = tile.index[0] as usize * per_tile;
    for row in first..(first + per_tile).min(rows) {
        // SAFETY: the row was just written by this tile; nobody else touches it or the rounded one.
        unsafe { round_part(tile, (row, Y), (row, tile.bound() - 1), runs, 0..runs) };
    }
}

/// Tiles of rows.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = RmsNorm;

    fn name(&self) -> &'static str {
        "rms_norm.rows.cpu"
    }

    fn fits(&self, _op: &RmsNorm, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &RmsNorm, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (weight, y) = (op.weight_index().unwrap_or(0), op.first_output());
        let mut args: SmallVec<[Arg; 5]> = smallvec![Arg::slot(0), Arg::slot(weight), Arg::slot(y)];
        if op.residual {
            args.extend([Arg::slot(1), Arg::slot(y + 1)]);
        }
        let params = [
            op.eps.to_bits(),
            u32::from(op.weighted),
            u32::from(op.residual),
            code(io.input(0).dtype),
            code(io.input(weight as usize).dtype),
        ];
        plan::<Normalise>(&PROGRAMS, io, &args, &params)
    }

    fn plan_with(&self, op: &RmsNorm, io: &Io<'_>, on: &DeviceInfo, next: &Derivation<'_>) -> Option<Launch> {
        let [rows, runs] = rounds(next.launch)?;
        let y = io.output(0);
        let fits = next.output == 0 && y.dtype == DType::F32 && y.shape.rows() == rows as usize;
        let plan = self.plan(op, io, on);
        let ([Step::Dispatch(launch)], true) = (plan.steps.as_slice(), fits) else { return None };
        let mut launch = launch.clone();
        launch.program = Program::Native(&ROUNDED);
        launch.args.push(Arg::scratch(next.scratch, Access::Write));
        launch.params.push(runs);
        Some(launch)
    }
}
