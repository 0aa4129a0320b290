//! `unary` on the CPU: runs of elements to f32 lanes, the function over the lanes, and back.

use super::Unary;
use crate::cpu::element::{Target, code, read_coded, size};
use crate::cpu::{CHUNK, Simd, chunks, math, native_kernel, stream, tiles};
use crate::elementwise::activation::{activate, map};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Program, Tile};

/// Tiles of elements.
pub(super) struct Elements;

impl Kernel for Elements {
    type Op = Unary;

    fn name(&self) -> &'static str {
        "unary.elements.cpu"
    }

    fn fits(&self, _op: &Unary, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_cpu(on)
    }

    fn plan(&self, op: &Unary, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        let params = [code(x.dtype), op.code(), op.parameter().to_bits(), stream::worthwhile(io)];
        Plan::launch(Program::Native(&UNARY), &[Arg::slot(0), Arg::slot(1)], &params, tiles(x.elements()))
    }
}

native_kernel!(UNARY, "unary.elements.cpu", run::<S>);

/// Bindings: x, y. Parameters: type, function, its parameter, whether to stream.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let (dtype, function, parameter) = (tile.param(0), tile.param(1), tile.param_f32(2));
    let target = Target { binding: 1, code: dtype, streaming: tile.param(3) != 0 };
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, tile.bytes(1) / size(dtype)) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: the core bound x and y, of equal length and type; `run` is of this tile alone.
        unsafe {
            read_coded::<S>(tile, 0, dtype, run.start, lanes);
            apply::<S>(function, parameter, lanes);
            target.write::<S>(tile, run.start, lanes);
        }
    }
    target.finish();
}

#[inline(always)]
fn apply<S: Simd>(function: u32, parameter: f32, lanes: &mut [f32]) {
    const RELU: u32 = Unary::Relu.code();
    const TANH: u32 = Unary::Tanh.code();
    const EXP: u32 = Unary::Exp.code();
    const LOG: u32 = Unary::Log.code();
    const SQRT: u32 = Unary::Sqrt.code();
    const NEG: u32 = Unary::Neg.code();
    const SOFTCAP: u32 = Unary::Softcap { cap: 0.0 }.code();
    const SCALE: u32 = Unary::Scale { factor: 0.0 }.code();
    match function {
        RELU => map(lanes, |x| if x < 0.0 { 0.0 } else { x }),
        TANH => map(lanes, math::tanh::<S>),
        EXP => map(lanes, math::exp::<S>),
        LOG => map(lanes, math::log::<S>),
        SQRT => map(lanes, f32::sqrt),
        NEG => map(lanes, |x| -x),
        SOFTCAP => map(lanes, |x| parameter * math::tanh::<S>(x / parameter)),
        SCALE => map(lanes, |x| parameter * x),
        activation => activate::<S>(activation, lanes),
    }
}
