//! `fill` on the CPU, element by element.

use super::Fill;
use crate::cpu::{chunks, native_kernel, tiles};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Program, Tile};

/// Tiles of elements.
pub(super) struct Elements;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Elements {
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

native_kernel!(FILL, "fill.elements.cpu", run);

/// Binding: y. Parameters: bytes of an element, its bits.
#[inline(always)]
unsafe fn run(tile: &Tile<'_>) {
    let size = tile.param(0) as usize;
    let bits = u64::from(tile.param(1)) | u64::from(tile.param(2)) << 32;
    for run in chunks(tile, tile.bytes(0) / size) {
        // SAFETY: the core bound y, of elements of this size; `run` is of this tile alone.
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
