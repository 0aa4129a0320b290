//! `mlx_gather_rows` on the CPU: a tile is a run of output elements, which may hold many rows or a part of one. Chunks
//! begin and end between groups of every format, so parts of rows do.

use super::MlxGatherRows;
use crate::cpu::element::{Target, code, size};
use crate::cpu::needs::{elements, in_tiles};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::fits_cpu;
use crate::mlx::{self, Planes};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::DType;
use smallvec::SmallVec;

/// Rows, decoded.
pub(super) struct Rows;

impl Kernel for Rows {
    type Op = MlxGatherRows;

    fn name(&self) -> &'static str {
        "mlx_gather_rows.rows.cpu"
    }

    fn fits(&self, _op: &MlxGatherRows, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if u32::try_from(io.output(0).shape.last()).is_err() {
            return Err(Decline("takes rows of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &MlxGatherRows, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let y = io.output(0);
        let signed = io.inputs.last().is_some_and(|indices| indices.dtype == DType::I32);
        // Only what is written counts: a table is large, a lookup rarely.
        let streaming = stream::worthwhile(&Io { inputs: &[], outputs: io.outputs });
        let params = [mlx::code(op.format), code(op.to), u32::from(signed), y.shape.last() as u32, streaming];
        let args: SmallVec<[Arg; 5]> = (0..mlx::planes(op.format) as u8 + 2).map(Arg::slot).collect();
        Plan::launch(Program::Native(&ROWS), &args, &params, tiles(y.elements()))
    }
}

// SAFETY: rows are whole groups, so tiles, runs and rows begin between groups. An index is checked against the rows of the
// table before it is used; a tile writes its own elements of y.
native_kernel!(unsafe ROWS, "mlx_gather_rows.rows.cpu", rows::<S>, needs needs);

/// The length of the codes is the number of rows of the table, that of the indices the number of rows of y.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let format = mlx::from_code(launch.param(0))?;
    let (size, row) = (size(launch.param(1)), launch.count(3).max(Count(1)));
    let table = Count(launch.bytes(0).0 / format.bits() as u64 * 8 / row.0) * row;
    let indices = elements(launch, mlx::planes(format), 4);
    in_tiles(launch, indices * row)?;
    if !row.0.is_multiple_of(format.group() as u64) {
        return None;
    }
    let needs = mlx::read_planes(Needs::new(), format, table)?.extent_of(0).read(indices * 4u32, 4).extent();
    Some(needs.write(indices * row * size, size))
}

/// Bindings: planes, indices, y. Parameters: the format, the type of y, whether indices are signed, elements of a row,
/// whether to stream.
#[inline(always)]
unsafe fn rows<S: Simd>(tile: &Tile<'_>) {
    let Some(planes) = Planes::new(tile, 0, tile.param(0)) else { return };
    let (indices, y, to) = (planes.count(), planes.count() + 1, tile.param(1));
    let row = (tile.param(3) as usize).max(1);
    let count = tile.bytes(0) / planes.format.bits() * 8 / row;
    let target = Target { binding: y, code: to, streaming: tile.param(4) != 0 };
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, tile.bytes(indices) / 4 * row) {
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
                if negative || index as usize >= count {
                    lanes.fill(f32::NAN);
                } else {
                    planes.decode(index as usize * row + column, lanes);
                }
                target.write::<S>(tile, at, lanes);
            }
            at += lanes.len();
        }
    }
    target.finish();
}
