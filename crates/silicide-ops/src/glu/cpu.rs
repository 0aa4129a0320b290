//! `glu` on the CPU: runs of both inputs to f32 lanes, activated, multiplied, and back.

use super::Glu;
use crate::cpu::element::{Target, code, read_on, size};
use crate::cpu::needs::{elements, in_tiles};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::activation::activate;
use crate::elementwise::fits_cpu;
use crate::product::needs as product;
use crate::quantize_q8::{BoundRow, quantize_row};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::isa::Task;
use silicide_gemm::q8::GROUP;
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::DType;
use std::marker::PhantomData;

/// Tiles of elements.
pub(super) struct Elements;

impl Kernel for Elements {
    type Op = Glu;

    fn name(&self) -> &'static str {
        "glu.elements.cpu"
    }

    fn fits(&self, op: &Glu, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if op.quantized {
            product::check_alignment(&io.output(1))?;
            // Tiles are not whole rows.
            if tiles(io.output(0).elements()) != [1; 3] {
                return Err(Decline("quantizes what one tile has written"));
            }
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &Glu, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let y = io.output(0);
        let params = [code(y.dtype), op.activation.code(), stream::worthwhile(io)];
        let [gate, up, to] = [0, 1, 2].map(Arg::slot);
        let grid = tiles(y.elements());
        if !op.quantized {
            return Plan::launch(Program::Native(&GLU), &[gate, up, to], &params, grid);
        }
        let [dtype, activation, streams] = params;
        let [rows, groups] = [y.shape.rows(), y.shape.last() / GROUP].map(|extent| extent as u32);
        let params = [dtype, activation, streams, rows, groups];
        Plan::launch(Program::Native(&QUANTIZED), &[gate, up, to, Arg::slot(3)], &params, grid)
    }
}

// SAFETY: a tile reads its own elements of gate and up and writes them to y, run by run.
native_kernel!(unsafe GLU, "glu.elements.cpu", run::<S>, needs needs);

/// The length of y is the number of elements.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let size = size(launch.param(0));
    let elements = elements(launch, 2, size);
    in_tiles(launch, elements)?;
    let bytes = elements * size;
    Some(Needs::new().read(bytes, size).read(bytes, size).write(bytes, size).over(0b11).extent())
}
// SAFETY: there is one tile. It writes all elements of y, and quantizes rows of y that lie in it.
native_kernel!(unsafe QUANTIZED, "glu.elements.quantized.cpu", run_quantized::<S>, needs quantized_need);

/// Those of [`GLU`], of f32, and quantized rows of y.
fn quantized_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (rows, groups) = (launch.count(3), launch.count(4));
    let is_one = launch.grid == [1; 3] && launch.param(0) == code(DType::F32);
    let is_inside = groups.0 > 0 && rows * groups * (GROUP * 4) <= launch.bytes(2);
    let quantized = product::quantized(rows, launch.param(4));
    needs(launch).filter(|_| is_one && is_inside).map(|needs| needs.write(quantized, product::ROW_ALIGN))
}

/// A tile of all elements, whose rows are then quantized. Quantized rows are the last binding; the last parameters are rows and
/// groups of a row.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `quantized_need` returned needs.
#[inline(always)]
unsafe fn run_quantized<S: Simd>(tile: &Tile<'_>) {
    // SAFETY: the plan is that of elements, with one more binding.
    unsafe { run::<S>(tile) };
    let [rows, groups] = [3, 4].map(|i| tile.param(i) as usize);
    for row in 0..rows {
        let [from, to] = [2, 3].map(|binding| BoundRow { binding, row });
        // SAFETY: the row was just written by this tile, which is the only one.
        unsafe { quantize_row(tile, from, to, groups) };
    }
}

/// Bindings: gate, up, y. Parameters: type, activation, whether to stream. The code is a function of its own, which both programs call.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    // SAFETY: by the caller, the CPU has `S`, and the launch is within `needs`, as `GluTile` says.
    unsafe { S::assume().run(GluTile::<S>(tile, PhantomData)) };
}

/// A tile of a launch for which [`needs`] returned needs, on a CPU that has `S`. Only [`run`] makes one.
struct GluTile<'t, S>(&'t Tile<'t>, PhantomData<S>);

impl<S: Simd> Task for GluTile<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let tile = self.0;
        let (dtype, activation) = (tile.param(0), tile.param(1));
        let target = Target::new(tile, 2, dtype, tile.param(2));
        let (mut gate, mut up) = ([0.0; CHUNK], [0.0; CHUNK]);
        for run in chunks(tile, tile.bytes(2) / size(dtype)) {
            let gate = gate.get_mut(..run.len()).unwrap_or_default();
            let up = up.get_mut(..run.len()).unwrap_or_default();
            // SAFETY: `needs` requires gate, up and y, of one type and length (`GluTile`); `run` is of this tile alone.
            unsafe {
                read_on::<S>(tile, 0, dtype, run.start, gate);
                read_on::<S>(tile, 1, dtype, run.start, up);
                activate::<S>(activation, gate);
                gate.iter_mut().zip(&*up).for_each(|(gate, up)| *gate *= *up);
                target.write::<S>(tile, run.start, gate);
            }
        }
        target.finish();
    }
}
