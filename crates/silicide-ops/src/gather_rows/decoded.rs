//! `gather_rows` from quantized tables on the CPU: a tile is a run of output elements, which may hold many rows or a part of one.
//! Chunks begin and end between groups of every encoding, so parts of rows do.

use super::{GatherRows, row_elements};
use crate::cpu::element::{Target, code, size};
use crate::cpu::needs::{in_tiles, wide};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::fits_cpu;
use crate::weight::{self, read_rows};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::{DType, Encoding};
use smallvec::SmallVec;

// Chunks are whole groups of every encoding: the longest block has 256 elements.
const _: () = assert!(CHUNK.is_multiple_of(256));

/// Rows, decoded.
pub(super) struct CpuDecodeRows;

impl Kernel for CpuDecodeRows {
    type Op = GatherRows;

    fn name(&self) -> &'static str {
        DECODED.name
    }

    fn fits(&self, op: &GatherRows, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        match op.encoding {
            Encoding::Element(_) => Err(Decline("is for quantized tables")),
            _ => fits_cpu(on),
        }
    }

    fn plan(&self, op: &GatherRows, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (y, planes) = (io.output(0), op.encoding.planes());
        let (row, count) = (row_elements(op, io) as u64, y.elements() as u64);
        let rows = io.input(0).shape.axes().first().copied().unwrap_or(0) as u64;
        let is_signed = io.inputs.last().is_some_and(|indices| indices.dtype == DType::I32);
        // Only what is written counts: a table is large, a lookup rarely.
        let streaming = stream::worthwhile(&Io { inputs: &[], outputs: io.outputs });
        let head =
            [weight::code(op.encoding).unwrap_or(u32::MAX), code(op.to), u32::from(is_signed), streaming];
        let wide = [row, rows, count].into_iter().flat_map(|count| [count as u32, (count >> 32) as u32]);
        let params: SmallVec<[u32; 10]> = head.into_iter().chain(wide).collect();
        let args: SmallVec<[Arg; 5]> = (0..planes as u8 + 2).map(Arg::slot).collect();
        Plan::launch(Program::Native(&DECODED), &args, &params, tiles(y.elements()))
    }
}

// SAFETY: rows are whole groups, so tiles, runs and rows begin between groups. An index is checked against the rows of the
// table before it is used; a tile writes its own elements of y.
native_kernel!(unsafe DECODED, "gather_rows.decoded.cpu", decoded::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (encoding, size) = (weight::from_code(launch.param(0))?, size(launch.param(1)));
    let [row, rows, count] = [4, 6, 8].map(|i| wide(launch, i));
    in_tiles(launch, count)?;
    let needs = read_rows(Needs::new(), encoding, [rows, row])?;
    Some(needs.read(count.div_ceil(row)? * 4u32, 4).write(count * size, size))
}

/// Bindings: planes, indices, y. Parameters: the encoding, the type of y, whether indices are signed, whether to stream; then, in
/// two words each, elements of a row, rows of the table, elements of y.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn decoded<S: Simd>(tile: &Tile<'_>) {
    let wide = |i: usize| (u64::from(tile.param(i)) | u64::from(tile.param(i + 1)) << 32) as usize;
    let [row, rows, count] = [wide(4).max(1), wide(6), wide(8)];
    let Some(table) = weight::Rows::new(tile, 0, tile.param(0), [rows, row]) else { return };
    let (indices, y) = (table.planes(), table.planes() + 1);
    let target = Target { binding: y, code: tile.param(1), streaming: tile.param(3) != 0 };
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, count) {
        let mut at = run.start;
        while at < run.end {
            let (number, column) = (at / row, at % row);
            let lanes = lanes.get_mut(..(row - column).min(run.end - at)).unwrap_or_default();
            // SAFETY: `needs` requires one index for each row of y; these elements of y are of this tile alone, and a valid
            // row lies in the table.
            unsafe {
                let index =
                    tile.read_part::<u32>(indices, number..number + 1).first().copied().unwrap_or(u32::MAX);
                let negative = tile.param(2) != 0 && index > i32::MAX as u32;
                if negative || index as usize >= rows {
                    lanes.fill(f32::NAN);
                } else {
                    table.decode(index as usize, column, lanes);
                }
                target.write::<S>(tile, at, lanes);
            }
            at += lanes.len();
        }
    }
    target.finish();
}
