//! `unary` on the CPU: runs of elements to f32 lanes, the function over the lanes, and back.

use super::Unary;
use crate::cpu::element::{Target, code, read_on, size};
use crate::cpu::needs::{elements, in_tiles};
use crate::cpu::{CHUNK, Simd, chunks, math, native_kernel, stream, tiles};
use crate::elementwise::activation::{activate, map};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Tiles of elements.
pub(super) struct CpuUnary;

impl Kernel for CpuUnary {
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

// SAFETY: a tile reads its own elements of x and writes them to y, run by run.
native_kernel!(unsafe UNARY, "unary.elements.cpu", run::<S>, needs needs);

/// The length of y is the number of elements.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let size = size(launch.param(0));
    let elements = elements(launch, 1, size);
    in_tiles(launch, elements)?;
    Some(Needs::new().read(elements * size, size).write(elements * size, size).over(0b1).extent())
}

/// Bindings: x, y. Parameters: type, function, its parameter, whether to stream.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let (dtype, function, parameter) = (tile.param(0), tile.param(1), tile.param_f32(2));
    let target = Target::new(tile, 1, dtype, tile.param(3));
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, tile.bytes(1) / size(dtype)) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: `needs` requires x and y, of equal length and type; `run` is of this tile alone.
        unsafe {
            read_on::<S>(tile, 0, dtype, run.start, lanes);
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
        SOFTCAP => {
            let inverse = 1.0 / parameter;
            map(lanes, |x| parameter * math::tanh::<S>(x * inverse));
        }
        SCALE => map(lanes, |x| parameter * x),
        activation => activate::<S>(activation, lanes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::TILE;
    use crate::unary::Activation;
    use silicide_hal::TileBinding;
    use silicide_quant::{DType, encode};

    /// Runs every tile of a call on one instruction set; the output starts `shift` bytes off a line.
    fn run(entry: silicide_hal::NativeFn, dtype: DType, x: &[u8], shift: usize, streaming: u32) -> Vec<u8> {
        let mut x = x.to_vec();
        let mut y = vec![0xabu8; x.len() + 256];
        let start = y.as_ptr().align_offset(64) + shift;
        let bindings = [
            TileBinding { start: x.as_mut_ptr(), bytes: x.len() },
            TileBinding { start: y[start..].as_mut_ptr(), bytes: x.len() },
        ];
        let params = [code(dtype), Unary::Activate(Activation::Silu).code(), 0, streaming];
        let grid = tiles(x.len() / dtype.size());
        for index in 0..grid[0] {
            // SAFETY: the instruction set was detected; both bindings are ours and of one length.
            unsafe { entry(&Tile::new([index, 0, 0], grid, &params, &bindings)) };
        }
        assert!(y[..start].iter().chain(&y[start + x.len()..]).all(|&byte| byte == 0xab));
        y[start..start + x.len()].to_vec()
    }

    #[test]
    fn streaming_changes_no_result() {
        let values: Vec<f64> = (0..TILE + 777).map(|i| (i as f64 - 9000.0) / 1000.0).collect();
        for variant in UNARY.variants().iter().filter(|variant| variant.isa.is_available()) {
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                let x = encode(dtype, &values);
                let plain = run(variant.entry, dtype, &x, 0, 0);
                assert_eq!(plain, run(variant.entry, dtype, &x, 0, 1), "{} {dtype}", variant.isa);
                assert_eq!(plain, run(variant.entry, dtype, &x, 12, 1), "{} {dtype}, unaligned", variant.isa);
            }
        }
    }
}
