//! `l2_norm` on the CPU: squares are summed in a first pass over a row, scaled values written in a second.

use super::L2Norm;
use crate::cpu::Simd;
use crate::cpu::element::{Target, code, view_coded};
use crate::rows::cpu::{HEADER, LONG, Lanes, Room, RowKernel, Run, fits, plan, row_programs, streaming};
use crate::rows::lanes::sum_of;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Tile};

/// Bindings.
const X: usize = 0;
const Y: usize = 1;

/// Parameter words.
const EPS: usize = HEADER;
const CODE: usize = HEADER + 1;

struct Normalise;

row_programs!(PROGRAMS, Normalise, "l2_norm.rows.cpu");

impl RowKernel for Normalise {
    type Partial = f64;
    const LONGEST: usize = LONG;
    const WRITES_RUNS: bool = true;

    #[inline(always)]
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> f64 {
        let mut squares = 0.0;
        for block in run.blocks() {
            let Room { first, .. } = lanes.room(block.len());
            // SAFETY: the caller's promise; the blocks lie in the tensor.
            let values = unsafe { view_coded::<S>(tile, X, tile.param(CODE), run.at(block.start), first) };
            squares += sum_of(values, |x| x * x);
        }
        squares
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run, partials: &[f64]) {
        let norm = partials.iter().sum::<f64>().sqrt();
        let eps = f64::from(tile.param_f32(EPS));
        // Not `max`, which would drop NaN.
        let scale = (1.0 / if norm < eps { eps } else { norm }) as f32;
        let target = Target { binding: Y, code: tile.param(CODE), streaming: streaming(tile) };
        for block in run.blocks() {
            let Room { first, results, .. } = lanes.room(block.len());
            let at = run.at(block.start);
            // SAFETY: the caller's promise; every block is read before it is written.
            unsafe {
                let values = view_coded::<S>(tile, X, tile.param(CODE), at, first);
                for (result, value) in results.iter_mut().zip(values) {
                    *result = *value * scale;
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
    type Op = L2Norm;

    fn name(&self) -> &'static str {
        "l2_norm.rows.cpu"
    }

    fn fits(&self, _op: &L2Norm, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &L2Norm, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let params = [op.eps.to_bits(), code(io.input(0).dtype)];
        plan::<Normalise>(&PROGRAMS, io, &[Arg::slot(0), Arg::slot(1)], &params)
    }
}
