//! `cumsum` on the CPU: groups of 16 are scanned in lanes, and what came before is carried along in f64.

use super::Cumsum;
use crate::cpu::Simd;
use crate::cpu::element::{Target, code, read_coded};
use crate::rows::cpu::{HEADER, LONG, Lanes, RowKernel, Run, fits, plan, row_programs, streaming};
use crate::rows::lanes::sum_of;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Tile};

/// Bindings.
const X: usize = 0;
const Y: usize = 1;

/// Parameter word.
const CODE: usize = HEADER;

struct Scan;

row_programs!(PROGRAMS, Scan, "cumsum.rows.cpu");

impl RowKernel for Scan {
    type Partial = f64;
    const LONGEST: usize = LONG;
    const WRITES_RUNS: bool = true;

    #[inline(always)]
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> f64 {
        let mut sum = 0.0;
        for block in run.blocks() {
            let values = lanes.one(block.len());
            // SAFETY: the caller's promise; the blocks lie in the tensor.
            unsafe { read_coded::<S>(tile, X, tile.param(CODE), run.at(block.start), values) };
            sum += sum_of(values, |x| x);
        }
        sum
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run, partials: &[f64]) {
        let mut carry: f64 = partials.iter().take(run.index).sum();
        let target = Target { binding: Y, code: tile.param(CODE), streaming: streaming(tile) };
        for block in run.blocks() {
            let values = lanes.one(block.len());
            let at = run.at(block.start);
            // SAFETY: the caller's promise; every block is read before it is written.
            unsafe { read_coded::<S>(tile, X, tile.param(CODE), at, values) };
            carry = scan(values, carry);
            // SAFETY: as above.
            unsafe { target.write::<S>(tile, at, values) };
        }
    }

    #[inline(always)]
    unsafe fn row<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) {
        // Nothing comes before the only run. SAFETY: the caller's promise.
        unsafe { Self::finish::<S>(tile, lanes, run, &[]) };
    }
}

/// Replaces values by their running sums on top of `carry`, and returns the last.
#[inline(always)]
fn scan(values: &mut [f32], mut carry: f64) -> f64 {
    const GROUP: usize = 16;
    let (groups, rest) = values.as_chunks_mut::<GROUP>();
    for group in groups {
        // After each step a lane holds the sum of twice as many neighbours, itself the last.
        for reach in [1, 2, 4, 8] {
            let before = *group;
            for (lane, &before) in group.iter_mut().skip(reach).zip(&before) {
                *lane += before;
            }
        }
        let [.., sum] = *group;
        for lane in group.iter_mut() {
            *lane = (carry + f64::from(*lane)) as f32;
        }
        carry += f64::from(sum);
    }
    for value in rest {
        carry += f64::from(*value);
        *value = carry as f32;
    }
    carry
}

/// Tiles of rows.
pub(super) struct Rows;

impl Kernel for Rows {
    type Op = Cumsum;

    fn name(&self) -> &'static str {
        "cumsum.rows.cpu"
    }

    fn fits(&self, _op: &Cumsum, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, _op: &Cumsum, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        plan::<Scan>(&PROGRAMS, io, &[Arg::slot(0), Arg::slot(1)], &[code(io.input(0).dtype)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_sums_of_whole_numbers_are_exact() {
        for count in [1, 15, 16, 17, 100] {
            let mut values: Vec<f32> = (1..=count).map(|i| i as f32).collect();
            let last = scan(&mut values, 0.5);
            let expected: Vec<f32> = (1..=count).map(|i| (i * (i + 1) / 2) as f32 + 0.5).collect();
            assert_eq!(values, expected);
            assert_eq!(last, f64::from(expected[expected.len() - 1]));
        }
    }
}
