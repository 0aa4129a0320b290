//! `layer_norm` on the CPU: the mean in a first pass over a row, the squares about it in a second, the result in a
//! third.

use super::LayerNorm;
use crate::cpu::Simd;
use crate::cpu::element::{Target, code, read_coded, view_coded};
use crate::rows::cpu::{
    HEADER, LONG, Lanes, Room, RowKernel, Run, fetch_next_row, fits, plan, row_programs, streaming,
};
use crate::rows::lanes::sum_of;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Tile};

/// Bindings; where there is no weight or bias, `x` stands in for it.
const X: usize = 0;
const WEIGHT: usize = 1;
const BIAS: usize = 2;
const Y: usize = 3;

/// Parameter words.
const EPS: usize = HEADER;
const WEIGHTED: usize = HEADER + 1;
const BIASED: usize = HEADER + 2;
const X_CODE: usize = HEADER + 3;
const WEIGHT_CODE: usize = HEADER + 4;
const BIAS_CODE: usize = HEADER + 5;

/// Count, mean, and sum of squares about the mean.
#[derive(Clone, Copy, Debug)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Of both runs together.
    #[inline(always)]
    fn with(self, other: Moments) -> Moments {
        let count = self.count + other.count;
        let apart = other.mean - self.mean;
        Moments {
            count,
            mean: self.mean + apart * other.count / count,
            squares: self.squares + other.squares + apart * apart * self.count * other.count / count,
        }
    }

    /// The mean in two parts, so that subtracting it from f32 values near it loses nothing.
    #[inline(always)]
    fn split_mean(self) -> (f32, f32) {
        let high = self.mean as f32;
        (high, (self.mean - f64::from(high)) as f32)
    }
}

struct Normalise;

row_programs!(PROGRAMS, Normalise, "layer_norm.rows.cpu");

impl RowKernel for Normalise {
    type Partial = Moments;
    const LONGEST: usize = LONG;
    const WRITES_RUNS: bool = true;

    #[inline(always)]
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> Moments {
        let code = tile.param(X_CODE);
        let mut centre = [0.0];
        // SAFETY: the caller's promise; a run has at least one element.
        unsafe { read_coded::<S>(tile, X, code, run.at(run.start), &mut centre) };
        let [centre] = centre;
        // About the first element, so that an offset common to the row does not drown its spread.
        let mut sum = 0.0;
        for block in run.blocks() {
            let Room { first, .. } = lanes.room(block.len());
            // SAFETY: the caller's promise; the blocks lie in the tensor.
            let values = unsafe { view_coded::<S>(tile, X, code, run.at(block.start), first) };
            sum += sum_of(values, |x| x - centre);
        }
        let count = (run.end - run.start) as f64;
        let mut moments = Moments { count, mean: f64::from(centre) + sum / count, squares: 0.0 };
        let (high, low) = moments.split_mean();
        for block in run.blocks() {
            let Room { first, .. } = lanes.room(block.len());
            // SAFETY: as above.
            let values = unsafe { view_coded::<S>(tile, X, code, run.at(block.start), first) };
            moments.squares += sum_of(values, |x| ((x - high) - low) * ((x - high) - low));
        }
        moments
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run, partials: &[Moments]) {
        let none = Moments { count: 0.0, mean: f64::NAN, squares: f64::NAN };
        let moments = partials.iter().copied().reduce(Moments::with).unwrap_or(none);
        let (high, low) = moments.split_mean();
        let variance = moments.squares / moments.count;
        let scale = (1.0 / (variance + f64::from(tile.param_f32(EPS))).sqrt()) as f32;
        let target = Target { binding: Y, code: tile.param(X_CODE), streaming: streaming(tile) };
        for block in run.blocks() {
            let Room { first, second, results } = lanes.room(block.len());
            let at = run.at(block.start);
            fetch_next_row(tile, X, tile.param(X_CODE), run, block.clone());
            // SAFETY: the caller's promise; every block is read before it is written.
            unsafe {
                let values = view_coded::<S>(tile, X, tile.param(X_CODE), at, first);
                for (result, value) in results.iter_mut().zip(values) {
                    *result = ((*value - high) - low) * scale;
                }
                if tile.param(WEIGHTED) != 0 {
                    let weights = view_coded::<S>(tile, WEIGHT, tile.param(WEIGHT_CODE), block.start, second);
                    for (result, weight) in results.iter_mut().zip(weights) {
                        *result *= *weight;
                    }
                }
                if tile.param(BIASED) != 0 {
                    let biases = view_coded::<S>(tile, BIAS, tile.param(BIAS_CODE), block.start, second);
                    for (result, bias) in results.iter_mut().zip(biases) {
                        *result += *bias;
                    }
                }
                target.write::<S>(tile, at, results);
            }
        }
    }
}

/// Tiles of rows.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = LayerNorm;

    fn name(&self) -> &'static str {
        "layer_norm.rows.cpu"
    }

    fn fits(&self, _op: &LayerNorm, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &LayerNorm, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (weight, bias) = (op.weight_index().unwrap_or(0), op.bias_index().unwrap_or(0));
        let args = [Arg::slot(0), Arg::slot(weight), Arg::slot(bias), Arg::slot(op.output_index())];
        let params = [
            op.eps.to_bits(),
            u32::from(op.weighted),
            u32::from(op.biased),
            code(io.input(0).dtype),
            code(io.input(weight as usize).dtype),
            code(io.input(bias as usize).dtype),
        ];
        plan::<Normalise>(&PROGRAMS, io, &args, &params)
    }
}
