//! `mlx_dequantize` on the CPU: the format's own decoder, a chunk of groups at a time, through f32 lanes.

use super::MlxDequantize;
use crate::cpu::element::{Target, code, size};
use crate::cpu::needs::{in_tiles, wide};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::fits_cpu;
use crate::mlx::{self, Planes};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};
use smallvec::SmallVec;

/// Any format.
pub(super) struct Groups;

// Chunks are whole groups of every format: the longest has 128 elements.
const _: () = assert!(CHUNK.is_multiple_of(128));

impl Kernel for Groups {
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

// SAFETY: tiles and runs begin between groups, as the elements end there. A tile reads its own groups of each plane, byte by
// byte, and writes their elements of y.
native_kernel!(unsafe GROUPS, "mlx_dequantize.groups.cpu", groups::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (size, elements) = (size(launch.param(1)), wide(launch, 3));
    in_tiles(launch, elements)?;
    Some(
        mlx::read_planes(Needs::new(), mlx::from_code(launch.param(0))?, elements)?
            .write(elements * size, size),
    )
}

/// Bindings: planes, y. Parameters: the format, the type of y, whether to stream, the number of elements in two words.
#[inline(always)]
unsafe fn groups<S: Simd>(tile: &Tile<'_>) {
    let Some(planes) = Planes::new(tile, 0, tile.param(0)) else { return };
    let target = Target { binding: planes.count(), code: tile.param(1), streaming: tile.param(2) != 0 };
    let count = u64::from(tile.param(3)) | u64::from(tile.param(4)) << 32;
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, count as usize) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: `needs` requires planes and values of one number of elements; nobody writes the planes, and `run` is of
        // this tile alone.
        unsafe {
            planes.decode(run.start, lanes);
            target.write::<S>(tile, run.start, lanes);
        }
    }
    target.finish();
}
