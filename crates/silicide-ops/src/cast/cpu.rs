//! `cast` on the CPU: among f32, f16 and bf16 through f32 lanes, all else through f64 lanes, which hold every value
//! of every type but the 64-bit integers.

use super::Cast;
use crate::cpu::element::{Target, code, read_on, size};
use crate::cpu::needs::{elements, in_tiles};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, stream, tiles};
use crate::elementwise::{fits_cpu, is_float};
use bytemuck::Zeroable;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, NativeKernel, Needs, Program, Tile};
use silicide_quant::{DType, Element, bf16, f16};
use std::ops::Range;

/// Among f32, f16 and bf16.
pub(super) struct CpuCastFloats;

/// Among all types.
pub(super) struct CpuCastNumbers;

impl Kernel for CpuCastFloats {
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

impl Kernel for CpuCastNumbers {
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

// SAFETY: a tile reads its own elements of x and writes them to y. Codes that are no float are taken as f32, here and in
// `size`.
native_kernel!(unsafe FLOATS, "cast.floats.cpu", floats::<S>, needs floats_need);
// SAFETY: as above; codes that are no plain type are taken as f32, here and in `dtype`.
native_kernel!(unsafe NUMBERS, "cast.numbers.cpu", numbers::<S>, needs numbers_need);

fn floats_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    needs(launch, [0, 1].map(|i| size(launch.param(i))))
}

fn numbers_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    needs(launch, [0, 1].map(|i| dtype(launch.param(i)).size()))
}

/// The length of x, of elements of `from` bytes, is the number of elements.
fn needs(launch: &LaunchShape<'_>, [from, to]: [usize; 2]) -> Option<Needs> {
    let elements = elements(launch, 0, from);
    in_tiles(launch, elements)?;
    Some(Needs::new().read(elements * from, from).extent().write(elements * to, to))
}

/// Bindings: x, y. Parameters: their types, whether to stream.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `floats_need` returned needs.
#[inline(always)]
unsafe fn floats<S: Simd>(tile: &Tile<'_>) {
    let from = tile.param(0);
    let target = Target::new(tile, 1, tile.param(1), tile.param(2));
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, tile.bytes(0) / size(from)) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: `needs` requires x and y of these types and one length; `run` is of this tile alone.
        unsafe {
            read_on::<S>(tile, 0, from, run.start, lanes);
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

/// Bindings: x, y. Parameters: their types, whether to stream.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `numbers_need` returned needs.
#[inline(always)]
unsafe fn numbers<S: Simd>(tile: &Tile<'_>) {
    let (from, to) = (dtype(tile.param(0)), dtype(tile.param(1)));
    let mut lanes = [0.0; CHUNK];
    for run in chunks(tile, tile.bytes(0) / from.size()) {
        let lanes = lanes.get_mut(..run.len()).unwrap_or_default();
        // SAFETY: `needs` requires x and y of these types and one length; `run` is of this tile alone.
        unsafe {
            match (from, to) {
                // f64 would lose their low bits.
                (DType::I64, DType::U64) => each(tile, run, |x: i64| x.max(0) as u64),
                (DType::U64, DType::I64) => each(tile, run, |x: u64| x.min(i64::MAX as u64) as i64),
                _ => {
                    read(tile, from, run.clone(), lanes);
                    write::<S>(tile, to, run, lanes);
                }
            }
        }
    }
    stream::fence();
}

/// Converts a run directly.
///
/// # Safety
/// The bindings hold the run, of these types; it is the caller's alone.
#[inline(always)]
unsafe fn each<T: Element, U: Element>(tile: &Tile<'_>, run: Range<usize>, convert: impl Fn(T) -> U) {
    // SAFETY: both bindings hold `run`, of types `T` and `U`, and no other tile touches it, by the caller: `numbers`
    // takes `run` from `chunks`, and `needs` requires x and y.
    let (from, to) = unsafe { (tile.read_part::<T>(0, run.clone()), tile.write::<U>(1, run)) };
    to.iter_mut().zip(from).for_each(|(to, from)| *to = convert(*from));
}

/// A type and f64 lanes, in code that vectorises.
trait Number: Copy {
    fn widen(self) -> f64;
    /// As `Element::from_f64` does.
    fn narrow(x: f64) -> Self;
}

/// Integers whose ends f64 holds exactly: clamped first, so that the conversion, through a wider integer, is a plain
/// one. Rust's own saturating cast is one element at a time.
macro_rules! clamped {
    ($($integer:ty => $wider:ty),*) => {$(
        impl Number for $integer {
            #[inline(always)]
            fn widen(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn narrow(x: f64) -> $integer {
                let (least, most) = (f64::from(<$integer>::MIN), f64::from(<$integer>::MAX));
                let x = if x.is_nan() { 0.0 } else { x };
                let x = if x > least { x } else { least };
                let x = if x < most { x } else { most };
                // SAFETY: a number between the ends of the type.
                unsafe { x.to_int_unchecked::<$wider>() as $integer }
            }
        }
    )*};
}
clamped!(i8 => i32, i16 => i32, i32 => i32, u8 => i32, u16 => i32, u32 => i64);

macro_rules! element {
    ($($rust:ty),*) => {$(
        impl Number for $rust {
            #[inline(always)]
            fn widen(self) -> f64 {
                Element::to_f64(self)
            }
            #[inline(always)]
            fn narrow(x: f64) -> $rust {
                <$rust as Element>::from_f64(x)
            }
        }
    )*};
}
element!(f64, f16, bf16, i64, u64);

impl Number for f32 {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn narrow(x: f64) -> f32 {
        x as f32
    }
}

/// Runs a body with `$T` the Rust type.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_type!(@ $dtype, $T => $body; F32 f32, F64 f64, F16 f16, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16,
            U32 u32, U64 u64)
    };
    (@ $dtype:expr, $T:ident => $body:expr; $($name:ident $rust:ty),*) => {
        match $dtype {
            $(DType::$name => {
                type $T = $rust;
                $body
            })*
            _ => {
                type $T = bf16;
                $body
            }
        }
    };
}

/// # Safety
/// Binding 0 holds the run, of type `from`.
#[inline(always)]
unsafe fn read(tile: &Tile<'_>, from: DType, run: Range<usize>, lanes: &mut [f64]) {
    with_type!(from, T => {
        // SAFETY: binding 0 holds `run`, of type `from`, by the caller; `T` is that type's Rust type.
        let from = unsafe { tile.read_part::<T>(0, run) };
        lanes.iter_mut().zip(from).for_each(|(to, from)| *to = from.widen());
    });
}

/// # Safety
/// Binding 1 holds the run, of type `to`; it is the caller's alone.
#[inline(always)]
unsafe fn write<S: Simd>(tile: &Tile<'_>, to: DType, run: Range<usize>, lanes: &[f64]) {
    with_type!(to, T => {
        // SAFETY: by the caller, the CPU has `S`, and binding 1 holds `run`, of type `to`, for this tile alone; `T` is that type's
        // Rust type.
        let (isa, to) = unsafe { (S::assume(), tile.write::<T>(1, run)) };
        if tile.param(2) == 0 {
            to.iter_mut().zip(lanes).for_each(|(to, from)| *to = T::narrow(*from));
        } else {
            let mut narrow = [T::zeroed(); CHUNK];
            narrow.iter_mut().zip(lanes).for_each(|(to, from)| *to = T::narrow(*from));
            stream::copy(isa, &narrow, to);
        }
    });
}
