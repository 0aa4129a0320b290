//! `dequantize` on the CPU: the format's own decoder, a chunk of groups at a time, through f32 lanes.

use super::Dequantize;
use crate::cpu::element::{Target, code, size};
use crate::cpu::needs::{in_tiles, wide};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::fits_cpu;
use crate::weight::{self, read_rows};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};
use smallvec::SmallVec;

/// Any encoding.
pub(super) struct CpuDequantize;

// Chunks are whole groups of every encoding: the longest block has 256 elements.
const _: () = assert!(CHUNK.is_multiple_of(256));

impl Kernel for CpuDequantize {
    type Op = Dequantize;

    fn name(&self) -> &'static str {
        DECODED.name
    }

    fn fits(&self, _op: &Dequantize, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_cpu(on)
    }

    fn plan(&self, op: &Dequantize, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let y = io.output(0);
        // Rows that lie one after the other are one long row.
        let is_interleaved = op.encoding.interleaved_rows() > 1;
        let row = if is_interleaved { y.shape.last() } else { y.elements() };
        let n = y.shape.axes().iter().rev().nth(1).copied().filter(|_| is_interleaved).unwrap_or(1);
        let head = [weight::code(op.encoding).unwrap_or(u32::MAX), code(op.to), stream::worthwhile(io)];
        let wide = [row, y.elements(), n].into_iter().flat_map(|n| [n as u32, (n as u64 >> 32) as u32]);
        let params: SmallVec<[u32; 10]> = head.into_iter().chain(wide).collect();
        let args: SmallVec<[Arg; 4]> = (0..=op.encoding.planes() as u8).map(Arg::slot).collect();
        Plan::launch(Program::Native(&DECODED), &args, &params, tiles(y.elements()))
    }
}

// SAFETY: tiles and runs begin between groups, as rows end there. A tile reads its own groups of each plane, byte by byte, and
// writes their elements of y.
native_kernel!(unsafe DECODED, "dequantize.decoded.cpu", decoded::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (encoding, size) = (weight::from_code(launch.param(0))?, size(launch.param(1)));
    let [row, count, n] = [3, 5, 7].map(|i| wide(launch, i));
    in_tiles(launch, count)?;
    let rows = count.div_ceil(row)?;
    if rows * row != count || rows.div_ceil(n)? * n != rows {
        return None;
    }
    Some(read_rows(Needs::new(), encoding, [rows, row])?.write(count * size, size))
}

/// Bindings: planes, y. Parameters: the encoding, the type of y, whether to stream; then, in two words each, elements of a row and
/// of y, and rows of a matrix.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn decoded<S: Simd>(tile: &Tile<'_>) {
    let wide = |i: usize| (u64::from(tile.param(i)) | u64::from(tile.param(i + 1)) << 32) as usize;
    let [row, count, n] = [wide(3).max(1), wide(5), wide(7)];
    let Some(weight) = weight::Rows::new(tile, 0, tile.param(0), [n, row]) else { return };
    let target = Target { binding: weight.planes(), code: tile.param(1), streaming: tile.param(2) != 0 };
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, count) {
        let mut at = run.start;
        while at < run.end {
            let lanes = lanes.get_mut(..(row - at % row).min(run.end - at)).unwrap_or_default();
            // SAFETY: `needs` requires planes and values of one number of elements; nothing writes the planes, and `run` is of
            // this tile alone.
            unsafe {
                weight.decode(at / row, at % row, lanes);
                target.write::<S>(tile, at, lanes);
            }
            at += lanes.len();
        }
    }
    target.finish();
}
