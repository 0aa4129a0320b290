//! `softmax` on the CPU: maximum and sum of exponentials in a first pass over a row, weights written in a second.
//! The exponentials are computed in both: that is cheaper than writing them twice.

use super::Softmax;
use crate::cpu::element::{Target, code, read_coded};
use crate::cpu::math::exp;
use crate::cpu::{Portable, Simd};
use crate::rows::cpu::{HEADER, LONG, Lanes, RowKernel, Run, fits, plan, row_programs, streaming};
use crate::rows::lanes::{largest, sum_of};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Tile};
use std::ops::Range;

/// Bindings; without a mask, `x` stands in for it.
const X: usize = 0;
const MASK: usize = 1;
const Y: usize = 2;

/// Parameter words; a mask of no rows is none.
const SCALE: usize = HEADER;
const MASK_ROWS: usize = HEADER + 1;
const X_CODE: usize = HEADER + 2;
const MASK_CODE: usize = HEADER + 3;

/// The largest logit of a run, and the sum of `exp(logit - largest)`.
#[derive(Clone, Copy, Debug)]
struct Weights {
    largest: f32,
    sum: f64,
}

impl Weights {
    /// Of nothing. The lowest number lies below every logit but -infinity, whose exponentials it makes 0.
    const NONE: Weights = Weights { largest: f32::MIN, sum: 0.0 };

    /// Of both together.
    #[inline(always)]
    fn with(self, other: Weights) -> Weights {
        let largest = if other.largest > self.largest { other.largest } else { self.largest };
        // One value, so the instruction set does not matter.
        let scaled = |weights: Weights| weights.sum * f64::from(exp::<Portable>(weights.largest - largest));
        Weights { largest, sum: scaled(self) + scaled(other) }
    }
}

struct Weigh;

row_programs!(PROGRAMS, Weigh, "softmax.rows.cpu");

/// Reads a block of logits: `scale · x + mask`.
///
/// # Safety
/// As for [`RowKernel`]; `block` lies in the run.
#[inline(always)]
unsafe fn load<'a, S: Simd>(
    tile: &Tile<'_>,
    run: Run,
    block: Range<usize>,
    lanes: &'a mut Lanes,
) -> &'a mut [f32] {
    let (values, mask) = lanes.pair(block.len());
    let (scale, mask_rows) = (tile.param_f32(SCALE), tile.param(MASK_ROWS) as usize);
    // SAFETY: the caller's promise; the mask has rows as long as those of `x`.
    unsafe {
        read_coded::<S>(tile, X, tile.param(X_CODE), run.at(block.start), values);
        if mask_rows == 0 {
            for value in values.iter_mut() {
                *value *= scale;
            }
        } else {
            let at = run.row % mask_rows * run.k + block.start;
            read_coded::<S>(tile, MASK, tile.param(MASK_CODE), at, mask);
            for (value, mask) in values.iter_mut().zip(mask) {
                *value = *value * scale + *mask;
            }
        }
    }
    values
}

impl RowKernel for Weigh {
    type Partial = Weights;
    const LONGEST: usize = LONG;
    const WRITES_RUNS: bool = true;

    #[inline(always)]
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> Weights {
        let mut weights = Weights::NONE;
        for block in run.blocks() {
            // SAFETY: the caller's promise.
            let values = unsafe { load::<S>(tile, run, block, lanes) };
            let largest = largest(values, f32::MIN);
            let sum = sum_of(values, |z| exp::<S>(z - largest));
            weights = weights.with(Weights { largest, sum });
        }
        weights
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run, partials: &[Weights]) {
        let Weights { largest, sum } = partials.iter().fold(Weights::NONE, |all, part| all.with(*part));
        let scale = if sum == 0.0 { 0.0 } else { (1.0 / sum) as f32 };
        let target = Target { binding: Y, code: tile.param(X_CODE), streaming: streaming(tile) };
        for block in run.blocks() {
            let at = run.at(block.start);
            // SAFETY: the caller's promise; every block is read before it is written.
            unsafe {
                let values = load::<S>(tile, run, block, lanes);
                for value in values.iter_mut() {
                    *value = exp::<S>(*value - largest) * scale;
                }
                target.write::<S>(tile, at, values);
            }
        }
    }
}

/// Tiles of rows.
pub(super) struct Rows;

impl Kernel for Rows {
    type Op = Softmax;

    fn name(&self) -> &'static str {
        "softmax.rows.cpu"
    }

    fn fits(&self, _op: &Softmax, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &Softmax, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let mask = u8::from(op.masked);
        let mask_info = io.input(mask as usize);
        let mask_rows = if op.masked { mask_info.elements() / io.input(0).shape.last().max(1) } else { 0 };
        let args = [Arg::slot(0), Arg::slot(mask), Arg::slot(1 + mask)];
        let params =
            [op.scale.to_bits(), mask_rows as u32, code(io.input(0).dtype), code(mask_info.dtype)];
        plan::<Weigh>(&PROGRAMS, io, &args, &params)
    }
}
