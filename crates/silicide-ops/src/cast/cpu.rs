//! `cast` on the CPU: among f32, f16 and bf16 through f32 lanes, all else through f64 lanes, which hold every value
//! of every type but the 64-bit integers.

use super::Cast;
use crate::cpu::element::{Target, code, read_coded, size};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::{fits_cpu, is_float};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, NativeKernel, Program, Tile};
use silicide_quant::{DType, Element, bf16, f16};
use std::ops::Range;

/// Among f32, f16 and bf16.
pub(super) struct Floats;

/// Among all types.
pub(super) struct Numbers;

impl Kernel for Floats {
    type Op = Cast;

    fn name(&self) -> &'static str {
        "cast.floats.cpu"
    }

    fn fits(&self, op: &Cast, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if is_float(io.input(0).dtype) && is_float(op.to) {
            fits_cpu(on)
        } else {
            Err(Decline("takes f32, f16 and bf16 only"))
        }
    }

    fn plan(&self, op: &Cast, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        launch(&FLOATS, op, io)
    }
}

impl Kernel for Numbers {
    type Op = Cast;

    fn name(&self) -> &'static str {
        "cast.numbers.cpu"
    }

    fn fits(&self, _op: &Cast, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_cpu(on).map(|_| Cost::FALLBACK)
    }

    fn plan(&self, op: &Cast, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        launch(&NUMBERS, op, io)
    }
}

fn launch(kernel: &'static NativeKernel, op: &Cast, io: &Io<'_>) -> Plan {
    let x = io.input(0);
    let params = [code(x.dtype), code(op.to), stream::worthwhile(io)];
    Plan::launch(Program::Native(kernel), &[Arg::slot(0), Arg::slot(1)], &params, tiles(x.elements()))
}

native_kernel!(FLOATS, "cast.floats.cpu", floats::<S>);
native_kernel!(NUMBERS, "cast.numbers.cpu", numbers);

/// Bindings: x, y. Parameters: their types, whether to stream.
#[inline(always)]
unsafe fn floats<S: Simd>(tile: &Tile<'_>) {
    let from = tile.param(0);
    let target = Target { binding: 1, code: tile.param(1), streaming: tile.param(2) != 0 };
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, tile.bytes(0) / size(from)) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: the core bound x and y of these types and one length; `run` is of this tile alone.
        unsafe {
            read_coded::<S>(tile, 0, from, run.start, lanes);
            target.write::<S>(tile, run.start, lanes);
        }
    }
    target.finish();
}

/// The type with this code.
#[inline(always)]
fn dtype(code: u32) -> DType {
    DType::ALL.get(code as usize).copied().unwrap_or(DType::F32)
}

/// Bindings: x, y. Parameters: their types.
#[inline(always)]
unsafe fn numbers(tile: &Tile<'_>) {
    let (from, to) = (dtype(tile.param(0)), dtype(tile.param(1)));
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, tile.bytes(0) / from.size()) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: the core bound x and y of these types and one length; `run` is of this tile alone.
        unsafe {
            match (from, to) {
                // f64 would lose their low bits.
                (DType::I64, DType::U64) => each(tile, run, |x: i64| x.max(0) as u64),
                (DType::U64, DType::I64) => each(tile, run, |x: u64| x.min(i64::MAX as u64) as i64),
                _ => {
                    read(tile, from, run.clone(), lanes);
                    write(tile, to, run, lanes);
                }
            }
        }
    }
}

/// Converts a run directly.
///
/// # Safety
/// The bindings hold the run, of these types; it is the caller's alone.
#[inline(always)]
unsafe fn each<T: Element, U: Element>(tile: &Tile<'_>, run: Range<usize>, convert: impl Fn(T) -> U) {
    // SAFETY: the caller's promise.
    let (from, to) = unsafe { (tile.read_part::<T>(0, run.clone()), tile.write::<U>(1, run)) };
    to.iter_mut().zip(from).for_each(|(to, from)| *to = convert(*from));
}

/// Runs one of two bodies with `$T` the Rust type: `$native` where Rust's own casts to and from f64, which vectorise,
/// do what is wanted, `$other` elsewhere.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $native:expr, $other:expr) => {
        match $dtype {
            DType::F32 => with_type!(@ f32, $T => $native),
            DType::I8 => with_type!(@ i8, $T => $native),
            DType::I16 => with_type!(@ i16, $T => $native),
            DType::I32 => with_type!(@ i32, $T => $native),
            DType::I64 => with_type!(@ i64, $T => $native),
            DType::U8 => with_type!(@ u8, $T => $native),
            DType::U16 => with_type!(@ u16, $T => $native),
            DType::U32 => with_type!(@ u32, $T => $native),
            DType::U64 => with_type!(@ u64, $T => $native),
            DType::F64 => with_type!(@ f64, $T => $other),
            DType::F16 => with_type!(@ f16, $T => $other),
            _ => with_type!(@ bf16, $T => $other),
        }
    };
    (@ $rust:ty, $T:ident => $body:expr) => {{
        type $T = $rust;
        $body
    }};
}

/// # Safety
/// Binding 0 holds the run, of type `from`.
#[inline(always)]
unsafe fn read(tile: &Tile<'_>, from: DType, run: Range<usize>, lanes: &mut [f64]) {
    with_type!(from, T => {
        // SAFETY: the caller's promise.
        let from = unsafe { tile.read_part::<T>(0, run) };
        lanes.iter_mut().zip(from).for_each(|(to, from)| *to = *from as f64);
    }, {
        // SAFETY: the caller's promise.
        let from = unsafe { tile.read_part::<T>(0, run) };
        lanes.iter_mut().zip(from).for_each(|(to, from)| *to = Element::to_f64(*from));
    });
}

/// # Safety
/// Binding 1 holds the run, of type `to`; it is the caller's alone.
#[inline(always)]
unsafe fn write(tile: &Tile<'_>, to: DType, run: Range<usize>, lanes: &[f64]) {
    with_type!(to, T => {
        // SAFETY: the caller's promise.
        let to = unsafe { tile.write::<T>(1, run) };
        to.iter_mut().zip(lanes).for_each(|(to, from)| *to = *from as T);
    }, {
        // SAFETY: the caller's promise.
        let to = unsafe { tile.write::<T>(1, run) };
        to.iter_mut().zip(lanes).for_each(|(to, from)| *to = <T as Element>::from_f64(*from));
    });
}
