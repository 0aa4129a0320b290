//! `glu` on the CPU: runs of both inputs to f32 lanes, activated, multiplied, and back.

use super::Glu;
use crate::cpu::element::{Target, code, read_on, size};
use crate::cpu::needs::{elements, in_tiles};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::activation::activate;
use crate::elementwise::fits_cpu;
use crate::product::activations::{round_part, rounds};
use crate::product::needs as product;
use silicide_core::kernel::{Access, Arg, Cost, Decline, Derivation, Io, Kernel, Launch, Plan, Step};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::DType;

/// Tiles of elements.
pub(super) struct Elements;

impl Kernel for Elements {
    type Op = Glu;

    fn name(&self) -> &'static str {
        "glu.elements.cpu"
    }

    fn fits(&self, _op: &Glu, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_cpu(on)
    }

    fn plan(&self, op: &Glu, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let y = io.output(0);
        let params = [code(y.dtype), op.activation.code(), stream::worthwhile(io)];
        let args = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];
        Plan::launch(Program::Native(&GLU), &args, &params, tiles(y.elements()))
    }

    fn plan_with(&self, op: &Glu, io: &Io<'_>, on: &DeviceInfo, next: &Derivation<'_>) -> Option<Launch> {
        let rounded = rounds(next.launch)?;
        let plan = self.plan(op, io, on);
        let [Step::Dispatch(launch)] = plan.steps.as_slice() else { return None };
        if io.output(0).dtype != DType::F32 || launch.grid != [1; 3] {
            return None;
        }
        let mut launch = launch.clone();
        launch.program = Program::Native(&ROUNDED);
        launch.args.push(Arg::scratch(next.scratch, Access::Write));
        launch.params.extend(rounded);
        Some(launch)
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
// SAFETY: there is one tile. It writes all elements of y, and rounds rows of y that lie in it.
native_kernel!(unsafe ROUNDED, "glu.elements.rounded.cpu", run_rounded::<S>, needs rounded_need);

/// Those of [`GLU`], of f32, and rounded rows of y.
fn rounded_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (rows, runs) = (launch.count(3), launch.count(4));
    let is_one = launch.grid == [1; 3] && launch.param(0) == code(DType::F32);
    let is_inside = runs.0 > 0 && rows * runs * (silicide_gemm::q8::GROUP * 4) <= launch.bytes(2);
    let rounded = product::quantized(rows, launch.param(4));
    needs(launch).filter(|_| is_one && is_inside).map(|needs| needs.write(rounded, product::ROW_ALIGN))
}

/// A tile of all elements, which are then rounded for a product. Rounded rows are the last binding; the last parameters are rows
/// and runs of a row.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `rounded_need` returned needs.
#[inline(always)]
unsafe fn run_rounded<S: Simd>(tile: &Tile<'_>) {
    // SAFETY: the plan is that of elements, with one more binding.
    unsafe { run::<S>(tile) };
    let [rows, runs] = [3, 4].map(|i| tile.param(i) as usize);
    for row in 0..rows {
        // SAFETY: the row was just written by this tile, which is the only one.
        unsafe { round_part(tile, (row, 2), (row, 3), runs, 0..runs) };
    }
}

/// Bindings: gate, up, y. Parameters: type, activation, whether to stream.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let (dtype, activation) = (tile.param(0), tile.param(1));
    let target = Target::new(tile, 2, dtype, tile.param(2));
    let (mut gate, mut up) = ([0.0; CHUNK], [0.0; CHUNK]);
    for run in chunks(tile, tile.bytes(2) / size(dtype)) {
        let gate = gate.get_mut(..run.len()).unwrap_or_default();
        let up = up.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: `needs` requires gate, up and y, of one type and length; `run` is of this tile alone.
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
