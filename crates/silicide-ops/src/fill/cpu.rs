//! `fill` on the CPU, element by element.

use super::Fill;
use crate::cpu::needs::{elements, in_tiles};
use crate::cpu::{chunks, native_kernel, tiles};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Tiles of elements.
pub(super) struct CpuFill;

impl Kernel for CpuFill {
    type Op = Fill;

    fn name(&self) -> &'static str {
        "fill.elements.cpu"
    }

    fn fits(&self, _op: &Fill, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_cpu(on)
    }

    fn plan(&self, op: &Fill, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let [low, high] = op.bits();
        let params = [op.dtype.size() as u32, low, high];
        Plan::launch(Program::Native(&FILL), &[Arg::slot(0)], &params, tiles(io.output(0).elements()))
    }
}

// SAFETY: a tile writes its own elements of y, of 1, 2, 4 or 8 bytes.
native_kernel!(unsafe FILL, "fill.elements.cpu", run, needs needs);

/// The length of y is the number of elements.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let size = launch.param(0) as usize;
    if !matches!(size, 1 | 2 | 4 | 8) {
        return None;
    }
    let elements = elements(launch, 0, size);
    in_tiles(launch, elements)?;
    Some(Needs::new().write(elements * size, size).extent())
}

/// Binding: y. Parameters: bytes of an element, its bits.
///
/// # Safety
/// Parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run(tile: &Tile<'_>) {
    let size = tile.param(0) as usize;
    let bits = u64::from(tile.param(1)) | u64::from(tile.param(2)) << 32;
    for run in chunks(tile, tile.bytes(0) / size) {
        // SAFETY: `needs` requires y, of elements of this size; `run` is of this tile alone.
        unsafe {
            match size {
                1 => tile.write::<u8>(0, run).fill(bits as u8),
                2 => tile.write::<u16>(0, run).fill(bits as u16),
                4 => tile.write::<u32>(0, run).fill(bits as u32),
                _ => tile.write::<u64>(0, run).fill(bits),
            }
        }
    }
}
