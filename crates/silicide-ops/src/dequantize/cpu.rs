//! `dequantize` on the CPU: the format's own decoder, a chunk of blocks at a time, through f32 lanes.

use super::Dequantize;
use crate::cpu::element::{Target, code, size};
use crate::cpu::needs::{in_tiles, wide};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::fits_cpu;
use crate::needs::bytes;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::{DType, Format};

/// Any format.
pub(super) struct Blocks;

// Chunks are whole blocks of every format: the longest has 256 elements.
const _: () = assert!(CHUNK.is_multiple_of(256));

impl Kernel for Blocks {
    type Op = Dequantize;

    fn name(&self) -> &'static str {
        "dequantize.blocks.cpu"
    }

    fn fits(&self, _op: &Dequantize, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_cpu(on)
    }

    fn plan(&self, op: &Dequantize, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (x, y) = (io.input(0), io.output(0));
        let format = x.dtype.format().map_or(0, |format| format as u32);
        let count = y.elements() as u64;
        let params = [format, code(op.to), stream::worthwhile(io), count as u32, (count >> 32) as u32];
        Plan::launch(Program::Native(&BLOCKS), &[Arg::slot(0), Arg::slot(1)], &params, tiles(y.elements()))
    }
}

// SAFETY: tiles and runs begin between blocks, as the elements end there. A tile reads its own blocks, byte by byte, and
// writes their elements of y.
native_kernel!(unsafe BLOCKS, "dequantize.blocks.cpu", blocks::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let format = DType::Block(*Format::ALL.get(launch.param(0) as usize)?);
    let (size, elements) = (size(launch.param(1)), wide(launch, 3));
    in_tiles(launch, elements)?;
    Some(Needs::new().read(bytes(format, elements)?, 1).write(elements * size, size))
}

/// Bindings: x, y. Parameters: the format, the type of y, whether to stream, the number of elements in two words.
#[inline(always)]
unsafe fn blocks<S: Simd>(tile: &Tile<'_>) {
    let Some(&format) = Format::ALL.get(tile.param(0) as usize) else { return };
    let target = Target { binding: 1, code: tile.param(1), streaming: tile.param(2) != 0 };
    let mut lanes = [0.0; CHUNK];
    let count = u64::from(tile.param(3)) | u64::from(tile.param(4)) << 32;
    for run in chunks(tile, count as usize) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        let (start, count) = (run.start / format.block_len(), run.len() / format.block_len());
        let bytes = start * format.block_bytes()..(start + count) * format.block_bytes();
        // SAFETY: `needs` requires blocks and values of one number of elements; nobody writes the blocks, and `run` is of
        // this tile alone.
        unsafe {
            // Lengths agree by construction, so decoding can't fail.
            let _ = format.decode(tile.read_part::<u8>(0, bytes), lanes);
            target.write::<S>(tile, run.start, lanes);
        }
    }
    target.finish();
}
