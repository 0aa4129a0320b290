//! `tri_solve` on the CPU: a tile is a block of a system's columns, which are lanes.

use super::{Systems, TriSolve};
use crate::cpu::{Simd, native_kernel};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Columns of a tile.
const BLOCK: usize = 64;

/// Tiles of columns.
pub(super) struct CpuTriSolve;

impl Kernel for CpuTriSolve {
    type Op = TriSolve;

    fn name(&self) -> &'static str {
        "tri_solve.columns.cpu"
    }

    fn fits(&self, _op: &TriSolve, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if io.inputs.iter().any(|info| u32::try_from(info.elements()).is_err()) {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, _op: &TriSolve, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = Systems::of(io) else { return Plan::default() };
        let params = extents.words();
        let [systems, _, columns, _] = params;
        let grid = [columns.div_ceil(BLOCK as u32), systems, 1];
        Plan::launch(Program::Native(&COLUMNS), &[0, 1, 2].map(Arg::slot), &params, grid)
    }
}

// SAFETY: a tile writes its own columns of its own system, and reads of them the rows that it has written.
native_kernel!(unsafe COLUMNS, "tri_solve.columns.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [systems, n, columns] = [0, 1, 2].map(|i| launch.count(i));
    let fits = launch.plane()? == [columns.div_ceil(BLOCK)?, systems];
    let right = if launch.param(3) == 0 { systems } else { Count(1) };
    let needs = Needs::new().read(systems * n * n * 4u32, 4).read(right * n * columns * 4u32, 4);
    fits.then(|| needs.write(systems * n * columns * 4u32, 4))
}

/// Bindings: l, b, x. Parameters: systems, rows of a system, columns, whether all systems have one `b`.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [n, columns] = [1, 2].map(|i| tile.param(i) as usize);
    let [block, system, _] = tile.index.map(|index| index as usize);
    let first = block * BLOCK;
    let count = (columns - first).min(BLOCK);
    for i in 0..n {
        let at = |row: usize| (system * n + row) * columns + first;
        let right = if tile.param(3) != 0 { i * columns + first } else { at(i) };
        let mut sums = [0f32; BLOCK];
        // SAFETY: `needs` requires systems of these extents; rows of x above `i` were written by this tile, and no tile writes
        // them again.
        unsafe {
            sums[..count].copy_from_slice(tile.read_part::<f32>(1, right..right + count));
            let factors = tile.read_part::<f32>(0, (system * n + i) * n..(system * n + i) * n + i);
            for (j, factor) in factors.iter().enumerate() {
                let x = tile.read_part::<f32>(2, at(j)..at(j) + count);
                sums.iter_mut().zip(x).for_each(|(sum, x)| *sum = S::mul_add(-factor, *x, *sum));
            }
            tile.write::<f32>(2, at(i)..at(i) + count).copy_from_slice(&sums[..count]);
        }
    }
}
