//! `argmax` on the CPU: the largest key of each block, and, where it is a new best, its place.

use super::Argmax;
use crate::cpu::Simd;
use crate::cpu::element::{code, view_coded};
use crate::rows::cpu::{HEADER, Lanes, Room, RowKernel, Run, SHORT, fits, plan, row_programs};
use crate::rows::lanes::{key, largest_key};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Tile};

/// Bindings.
const X: usize = 0;
const INDEX: usize = 1;

/// Parameter word.
const CODE: usize = HEADER;

/// The best element of a run.
#[derive(Clone, Copy, Debug)]
struct Best {
    /// See [`crate::rows::lanes::key`].
    key: i32,
    column: u32,
}

impl Best {
    /// The better of both, the first of equals.
    #[inline(always)]
    fn or(self, later: Best) -> Best {
        if later.key > self.key { later } else { self }
    }
}

struct Find;

row_programs!(PROGRAMS, Find, "argmax.rows.cpu");

impl RowKernel for Find {
    type Partial = Best;
    const LONGEST: usize = SHORT;
    const WRITES_RUNS: bool = false;

    #[inline(always)]
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> Best {
        // Every key is greater than this one.
        let mut best = Best { key: i32::MIN, column: run.start as u32 };
        for block in run.blocks() {
            let Room { first, .. } = lanes.room(block.len());
            // SAFETY: the caller's promise; the blocks lie in the tensor.
            let values = unsafe { view_coded::<S>(tile, X, tile.param(CODE), run.at(block.start), first) };
            let found = largest_key(values);
            if found > best.key {
                let place = values.iter().position(|&value| key(value) == found).unwrap_or(0);
                best = Best { key: found, column: (block.start + place) as u32 };
            }
        }
        best
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, _lanes: &mut Lanes, run: Run, partials: &[Best]) {
        let column = partials.iter().copied().reduce(Best::or).map_or(0, |best| best.column);
        // SAFETY: the caller's promise; each row has one element of `index`.
        unsafe { tile.write::<u32>(INDEX, run.row..run.row + 1).fill(column) };
    }
}

/// Tiles of rows.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = Argmax;

    fn name(&self) -> &'static str {
        "argmax.rows.cpu"
    }

    fn fits(&self, _op: &Argmax, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, _op: &Argmax, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        plan::<Find>(&PROGRAMS, io, &[Arg::slot(0), Arg::slot(1)], &[code(io.input(0).dtype)])
    }
}
