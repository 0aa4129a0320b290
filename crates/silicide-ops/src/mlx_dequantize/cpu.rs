//! `mlx_dequantize` on the CPU: the format's own decoder, a chunk of groups at a time, through f32 lanes.

use super::MlxDequantize;
use crate::cpu::element::{Target, code};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::fits_cpu;
use crate::mlx::{self, Planes};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Program, Tile};
use smallvec::SmallVec;

/// Any format.
pub(super) struct Groups;

// Chunks are whole groups of every format: the longest has 128 elements.
const _: () = assert!(CHUNK.is_multiple_of(128));

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Groups {
    type Op = MlxDequantize;

    fn name(&self) -> &'static str {
        "mlx_dequantize.groups.cpu"
    }

    fn fits(&self, _op: &MlxDequantize, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_cpu(on)
    }

    fn plan(&self, op: &MlxDequantize, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let count = io.output(0).elements();
        let params = [
            mlx::code(op.format),
            code(op.to),
            stream::worthwhile(io),
            count as u32,
            (count as u64 >> 32) as u32,
        ];
        let args: SmallVec<[Arg; 4]> = (0..=mlx::planes(op.format) as u8).map(Arg::slot).collect();
        Plan::launch(Program::Native(&GROUPS), &args, &params, tiles(count))
    }
}

native_kernel!(GROUPS, "mlx_dequantize.groups.cpu", groups::<S>);

/// Bindings: planes, y. Parameters: the format, the type of y, whether to stream, the number of elements in two words.
#[inline(always)]
unsafe fn groups<S: Simd>(tile: &Tile<'_>) {
    let Some(planes) = Planes::new(tile, 0, tile.param(0)) else { return };
    let target = Target { binding: planes.count(), code: tile.param(1), streaming: tile.param(2) != 0 };
    let count = u64::from(tile.param(3)) | u64::from(tile.param(4)) << 32;
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, count as usize) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: the core bound planes and values of one number of elements; nobody writes the planes, and `run` is of
        // this tile alone.
        unsafe {
            planes.decode(run.start, lanes);
            target.write::<S>(tile, run.start, lanes);
        }
    }
    target.finish();
}
