//! `binary` on the CPU: runs of both inputs to f32 lanes, the function over the lanes, and back.

use super::Binary;
use crate::cpu::element::{Target, code, read_on, size};
use crate::cpu::needs::{elements, in_tiles};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Tiles of elements.
pub(super) struct CpuBinary;

impl Kernel for CpuBinary {
    type Op = Binary;

    fn name(&self) -> &'static str {
        "binary.elements.cpu"
    }

    fn fits(&self, _op: &Binary, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_cpu(on)
    }

    fn plan(&self, op: &Binary, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (a, b, y) = (io.input(0), io.input(1), io.output(0));
        let params = [code(a.dtype), code(b.dtype), code(y.dtype), op.code(), stream::worthwhile(io)];
        let args = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];
        Plan::launch(Program::Native(&BINARY), &args, &params, tiles(y.elements()))
    }
}

// SAFETY: a tile reads whole elements of a and b, at `i % period`, and writes elements `i` of y, where `i` are its own.
native_kernel!(unsafe BINARY, "binary.elements.cpu", run::<S>, needs needs);

/// The length of y is the number of elements. An input that is y has the same elements at the same places; it is read,
/// run by run, before y is written.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [a, b, y] = [0, 1, 2].map(|i| size(launch.param(i)));
    let elements = elements(launch, 2, y);
    in_tiles(launch, elements)?;
    let same = u32::from(a == y) | u32::from(b == y) << 1;
    Some(Needs::new().read(a, a).extent().read(b, b).extent().write(elements * y, y).over(same).extent())
}

/// Bindings: a, b, y. Parameters: their types, function, whether to stream.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let function = tile.param(3);
    let target = Target::new(tile, 2, tile.param(2), tile.param(4));
    let (mut left, mut right) = ([0.0; CHUNK], [0.0; CHUNK]);
    for run in chunks(tile, tile.bytes(2) / size(tile.param(2))) {
        let left = left.get_mut(..run.len()).unwrap_or_default();
        let right = right.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: `needs` requires an element of a and of b, and all elements of y, of the types the parameters say; `run` of y
        // is of this tile alone.
        unsafe {
            read_repeated::<S>(tile, 0, run.start, left);
            read_repeated::<S>(tile, 1, run.start, right);
            apply(function, left, right);
            target.write::<S>(tile, run.start, left);
        }
    }
    target.finish();
}

/// Reads input `i`, whose type is parameter `i`, as if it were repeated without end, from `start` on.
///
/// # Safety
/// The input exists, is of that type, not empty, and nothing writes it now.
#[inline(always)]
unsafe fn read_repeated<S: Simd>(tile: &Tile<'_>, i: usize, start: usize, lanes: &mut [f32]) {
    let dtype = tile.param(i);
    let period = tile.bytes(i) / size(dtype);
    let mut at = start % period;
    let mut filled = 0;
    // Once a whole period is there, the rest are copies of it.
    while filled < lanes.len().min(period) {
        let count = (period - at).min(lanes.len().min(period) - filled);
        let part = lanes.get_mut(filled..filled + count).unwrap_or_default();
        // SAFETY: `at + count` is at most `period`, the input's length.
        unsafe { read_on::<S>(tile, i, dtype, at, part) };
        at = (at + count) % period;
        filled += count;
    }
    while filled < lanes.len() {
        let (done, rest) = lanes.split_at_mut(filled);
        let count = filled.min(rest.len());
        rest.iter_mut().zip(done).for_each(|(to, from)| *to = *from);
        filled += count;
    }
}

#[inline(always)]
fn apply(function: u32, left: &mut [f32], right: &[f32]) {
    const SUB: u32 = Binary::Sub.code();
    const MUL: u32 = Binary::Mul.code();
    const DIV: u32 = Binary::Div.code();
    const MAX: u32 = Binary::Max.code();
    const MIN: u32 = Binary::Min.code();
    match function {
        SUB => combine(left, right, |a, b| a - b),
        MUL => combine(left, right, |a, b| a * b),
        DIV => combine(left, right, |a, b| a / b),
        MAX => combine(left, right, |a, b| if a > b || a.is_nan() { a } else { b }),
        MIN => combine(left, right, |a, b| if a < b || a.is_nan() { a } else { b }),
        _ => combine(left, right, |a, b| a + b),
    }
}

#[inline(always)]
fn combine(left: &mut [f32], right: &[f32], function: impl Fn(f32, f32) -> f32) {
    for (a, b) in left.iter_mut().zip(right) {
        *a = function(*a, *b);
    }
}
