//! `gather_rows` from tables of single elements on the CPU: a tile is a run of output elements, which may hold many rows or a
//! part of one.

use super::{GatherRows, row_elements};
use crate::cpu::element::{Target, code, read_coded};
use crate::cpu::needs::{elements, in_tiles, wide};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::{fits_cpu, is_float};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::{DType, Encoding};
use std::ops::Range;

/// Rows, copied or converted.
pub(super) struct CpuGatherRows;

impl Kernel for CpuGatherRows {
    type Op = GatherRows;

    fn name(&self) -> &'static str {
        "gather_rows.rows.cpu"
    }

    fn fits(&self, op: &GatherRows, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        match op.encoding {
            Encoding::Element(_) => fits_cpu(on),
            _ => Err(Decline("is for tables of single elements")),
        }
    }

    fn plan(&self, op: &GatherRows, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (table, indices, y) = (io.input(0), io.input(1), io.output(0));
        let row = row_elements(op, io) as u64;
        let [low, high] = op.blank();
        let params = [
            code(table.dtype),
            code(op.to),
            u32::from(indices.dtype == DType::I32),
            row as u32,
            (row >> 32) as u32,
            low,
            high,
            // Only what is written counts: a table is large, a lookup rarely.
            stream::worthwhile(&Io { inputs: &[], outputs: io.outputs }),
        ];
        let args = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];
        Plan::launch(Program::Native(&GATHER_ROWS), &args, &params, tiles(y.elements()))
    }
}

// SAFETY: an index is checked against the rows that the table holds before it is used. A tile writes its own elements of y.
native_kernel!(unsafe GATHER_ROWS, "gather_rows.rows.cpu", run::<S>, needs needs);

/// The length of the table is the number of its rows, that of y the number of elements.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (from, to, row) =
        (DType::from_code(launch.param(0))?, DType::from_code(launch.param(1))?, wide(launch, 3));
    let is_converted = is_float(from) && is_float(to);
    if from.is_compressed() || to.is_compressed() || !(from == to || is_converted) || row == Count(0) {
        return None;
    }
    let elements = elements(launch, 2, to.size());
    in_tiles(launch, elements)?;
    let needs = Needs::new().read(0u32, from.size()).extent().read(elements.div_ceil(row)? * 4u32, 4);
    Some(needs.write(elements * to.size(), to.size()).extent())
}

/// Bindings: table, indices, y. Parameters: types of table and y, whether indices are signed, elements of a row in
/// two words, bits of a blank element in two words, whether to stream.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let (from, to) = (tile.param(0), tile.param(1));
    let size = |code: u32| DType::ALL.get(code as usize).map_or(4, |dtype| dtype.size());
    let row = (u64::from(tile.param(3)) | u64::from(tile.param(4)) << 32) as usize;
    let rows = tile.bytes(0) / size(from) / row;
    let target = Target::new(tile, 2, to, tile.param(7));
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, tile.bytes(2) / size(to)) {
        let mut at = run.start;
        while at < run.end {
            let (number, column) = (at / row, at % row);
            let count = (row - column).min(run.end - at);
            // SAFETY: `needs` requires one index for each row of y; `at..at + count` of y is of this tile alone, and
            // a valid row lies in the table.
            unsafe {
                let index = index(tile, number).filter(|&index| index < rows);
                match index.map(|index| index * row + column) {
                    None => blank(tile, size(to), at..at + count),
                    Some(start) if from == to => {
                        copy::<S>(tile, size(to), start..start + count, at);
                    }
                    Some(start) => {
                        let lanes = lanes.get_mut(..count).unwrap_or_default();
                        read_coded::<S>(tile, 0, from, start, lanes);
                        target.write::<S>(tile, at, lanes);
                    }
                }
            }
            at += count;
        }
    }
    target.finish();
}

/// Index `i`, if not negative.
///
/// # Safety
/// Binding 1 holds it.
#[inline(always)]
unsafe fn index(tile: &Tile<'_>, i: usize) -> Option<usize> {
    // SAFETY: binding 1 holds word `i`, by the caller; i32 and u32 are both words.
    let word = unsafe { tile.read_part::<u32>(1, i..i + 1) }.first().copied()?;
    let negative = tile.param(2) != 0 && word > i32::MAX as u32;
    (!negative).then_some(word as usize)
}

/// Copies elements of `size` bytes from the table to y.
///
/// # Safety
/// The CPU has `S`; both hold them; those of y are the caller's alone.
#[inline(always)]
unsafe fn copy<S: Simd>(tile: &Tile<'_>, size: usize, from: Range<usize>, to: usize) {
    let count = from.len();
    // SAFETY: by the caller, the CPU has `S`; the table holds `from` and y holds `to`, which is this tile's alone: the caller checked
    // the index.
    let (isa, from, to) = unsafe {
        let to = to * size..(to + count) * size;
        (S::assume(), tile.read_part::<u8>(0, from.start * size..from.end * size), tile.write::<u8>(2, to))
    };
    if tile.param(7) != 0 {
        stream::copy(isa, from, to);
    } else {
        to.copy_from_slice(from);
    }
}

/// Writes blank elements of `size` bytes to y.
///
/// # Safety
/// It holds them; they are the caller's alone.
#[inline(always)]
unsafe fn blank(tile: &Tile<'_>, size: usize, to: Range<usize>) {
    let bits = u64::from(tile.param(5)) | u64::from(tile.param(6)) << 32;
    // SAFETY: y holds `to`, of elements of `size` bytes, for this tile alone, by the caller.
    unsafe {
        match size {
            1 => tile.write::<u8>(2, to).fill(bits as u8),
            2 => tile.write::<u16>(2, to).fill(bits as u16),
            4 => tile.write::<u32>(2, to).fill(bits as u32),
            _ => tile.write::<u64>(2, to).fill(bits),
        }
    }
}
