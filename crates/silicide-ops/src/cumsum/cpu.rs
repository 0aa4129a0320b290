//! `cumsum` on the CPU: groups of 16 are scanned in lanes, and what came before is carried along in f64.

use super::Cumsum;
use crate::cpu::Simd;
use crate::cpu::element::{Target, code, read_coded, view_coded};
use crate::rows::cpu::{HEADER, LONG, Lanes, Room, RowKernel, Run, fits, plan, row_programs, streaming};
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
            let Room { first, .. } = lanes.room(block.len());
            // SAFETY: the caller's promise; the blocks lie in the tensor.
            let values = unsafe { view_coded::<S>(tile, X, tile.param(CODE), run.at(block.start), first) };
            sum += sum_of(values, |x| x);
        }
        sum
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run, partials: &[f64]) {
        let mut carry: f64 = partials.iter().take(run.index).sum();
        let target = Target { binding: Y, code: tile.param(CODE), streaming: streaming(tile) };
        for block in run.blocks() {
            let values = lanes.room(block.len()).results;
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

/// Values that a scan works on at a time.
type Group = [f32; 16];

/// Each value plus the one `REACH` before it.
#[inline(always)]
fn add_before<const REACH: usize>(values: Group) -> Group {
    let mut sums = values;
    for (sum, before) in sums.iter_mut().skip(REACH).zip(values) {
        *sum += before;
    }
    sums
}

/// Replaces values by their running sums on top of `carry`, and returns the last.
#[inline(always)]
fn scan(values: &mut [f32], mut carry: f64) -> f64 {
    let (groups, rest) = values.as_chunks_mut();
    for group in groups {
        // After each step a value is the sum of twice as many neighbours, itself the last.
        let sums: Group = add_before::<8>(add_before::<4>(add_before::<2>(add_before::<1>(*group))));
        for (value, sum) in group.iter_mut().zip(sums) {
            *value = (carry + f64::from(sum)) as f32;
        }
        let [.., sum] = sums;
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

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
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
