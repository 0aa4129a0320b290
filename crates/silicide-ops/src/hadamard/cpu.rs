//! `hadamard` on the CPU: a tile is some rows.

use super::Hadamard;
use crate::cpu::needs::in_tiles_of;
use crate::cpu::{TILE, native_kernel};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::turbo::{HEAD_LENGTHS, is_rotated, rotate, unrotate};

/// Tiles of rows.
pub(super) struct CpuHadamard;

impl Kernel for CpuHadamard {
    type Op = Hadamard;

    fn name(&self) -> &'static str {
        "hadamard.rows.cpu"
    }

    fn fits(&self, _op: &Hadamard, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if io.input(0).elements() > u32::MAX as usize {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &Hadamard, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (rows, dim) = (io.input(0).shape.rows(), io.input(0).shape.last());
        let together = (TILE / dim.max(1)).max(1);
        let params = [rows, dim, together, usize::from(op.inverse)].map(|word| word as u32);
        let grid = [rows.div_ceil(together).max(1) as u32, 1, 1];
        Plan::launch(Program::Native(&ROWS), &[Arg::slot(0), Arg::slot(1)], &params, grid)
    }
}

// SAFETY: a tile reads its own rows of x and writes them to y. Where y is x, a row is read before it is written.
native_kernel!(unsafe ROWS, "hadamard.rows.cpu", run, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, dim, together] = [0, 1, 2].map(|i| launch.count(i));
    in_tiles_of(launch, rows, together)?;
    let bytes = rows * dim * 4u32;
    is_rotated(dim.0 as usize).then(|| Needs::new().read(bytes, 4).write(bytes, 4).over(0b1))
}

/// Bindings: x, y. Parameters: rows, elements of a row, rows of a tile, whether they are rotated back.
///
/// # Safety
/// Parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run(tile: &Tile<'_>) {
    let [rows, dim, together] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let (first, inverse) = (tile.index[0] as usize * together, tile.param(3) != 0);
    let mut buffer = [0.0; *HEAD_LENGTHS.end()];
    let Some(row) = buffer.get_mut(..dim) else { return };
    for at in first..(first + together).min(rows) {
        let elements = at * dim..(at + 1) * dim;
        // SAFETY: `needs` requires `rows` rows of x and y. This one is of this tile alone, and read before it is written.
        unsafe {
            row.copy_from_slice(tile.read_part::<f32>(0, elements.clone()));
            if inverse {
                unrotate(row)
            } else {
                rotate(row)
            }
            tile.write::<f32>(1, elements).copy_from_slice(row);
        }
    }
}
