//! `dequantize` on the CPU: the format's own decoder, a chunk of blocks at a time, through f32 lanes.

use super::Dequantize;
use crate::cpu::element::{Target, code};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::Format;

/// Any format.
pub(super) struct Blocks;

// Chunks are whole blocks of every format: the longest has 256 elements.
const _: () = assert!(CHUNK.is_multiple_of(256));

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Blocks {
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
        let params = [format, code(op.to), stream::worthwhile(io), y.elements() as u32];
        Plan::launch(Program::Native(&BLOCKS), &[Arg::slot(0), Arg::slot(1)], &params, tiles(y.elements()))
    }
}

native_kernel!(BLOCKS, "dequantize.blocks.cpu", blocks::<S>);

/// Bindings: x, y. Parameters: the format, the type of y, whether to stream, the number of elements.
#[inline(always)]
unsafe fn blocks<S: Simd>(tile: &Tile<'_>) {
    let Some(&format) = Format::ALL.get(tile.param(0) as usize) else { return };
    let target = Target { binding: 1, code: tile.param(1), streaming: tile.param(2) != 0 };
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, tile.param(3) as usize) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        let (start, count) = (run.start / format.block_len(), run.len() / format.block_len());
        let bytes = start * format.block_bytes()..(start + count) * format.block_bytes();
        // SAFETY: the core bound blocks and values of one number of elements; nobody writes the blocks, and `run` is of
        // this tile alone.
        unsafe {
            // Lengths agree by construction, so decoding can't fail.
            let _ = format.decode(tile.read_part::<u8>(0, bytes), lanes);
            target.write::<S>(tile, run.start, lanes);
        }
    }
    target.finish();
}
