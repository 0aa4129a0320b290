//! `cast` on GPUs, joined from what the source and the target are: a float, a 64-bit integer, a narrower one.

use super::Cast;
use crate::elementwise::{fits_gpu, gpu, is_float};
use crate::wgsl::{self, spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};
use silicide_quant::DType;

/// Declares snippets of one function.
macro_rules! functions {
    ($($name:ident = $text:literal;)*) => {
        $(static $name: Snippet = Snippet { name: concat!("cast ", stringify!($name)), text: $text };)*
    };
}

static NUMBER: Snippet = Snippet { name: "cast", text: include_str!("cast.wgsl") };
functions! {
    FROM_NARROW = "fn number(i: u32) -> Number { return from_narrow(get_x(i)); }";
    FROM_WIDE = "fn number(i: u32) -> Number { return from_wide(get_x(i)); }";
    FROM_FLOAT = "fn number(i: u32) -> Number { return from_float(load_x(i)); }";
    TO_NARROW = "fn element(i: u32) { put_y(i, to_bits(number(i)).x); }";
    TO_WIDE = "fn element(i: u32) { put_y(i, to_bits(number(i))); }";
    TO_FLOAT = "fn element(i: u32) { store_y(i, to_float(number(i))); }";
}

/// Among all types but f64.
pub(super) struct GpuCastNumbers;

impl Kernel for GpuCastNumbers {
    type Op = Cast;

    fn name(&self) -> &'static str {
        "cast.numbers.wgsl"
    }

    fn fits(&self, op: &Cast, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if io.input(0).dtype == DType::F64 || op.to == DType::F64 {
            return Err(Decline("f64 is for the CPU"));
        }
        fits_gpu(on)
    }

    fn plan(&self, op: &Cast, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (from, to) = (io.input(0).dtype, op.to);
        let (kernel, params) = kernel(from, to, on);
        // SAFETY: `element(i)`, called for `i` below the count, touches element `i` of each binding.
        let kernel = unsafe {
            gpu::sized(kernel, on).unchecked(gpu::each_element, &[from.size() as u32, to.size() as u32])
        };
        let mut plan = Plan::default();
        for span in spans(io.input(0).elements(), from.size().max(to.size()), on) {
            let window = |slot, dtype: DType| {
                Arg::slot(slot).window(span.start * dtype.size(), span.len() * dtype.size())
            };
            let mut words = vec![span.len() as u32];
            words.extend_from_slice(&params);
            gpu::push(&mut plan, &kernel, &[window(0, from), window(1, to)], &words, on);
        }
        plan
    }
}

/// The kernel between two types, and its parameters after the count.
fn kernel(from: DType, to: DType, on: &DeviceInfo) -> (WgslKernel, Vec<u32>) {
    let [linear, main] = gpu::entry();
    let load = wgsl::load(from).unwrap_or_else(|| wgsl::load_bits(from));
    let store = wgsl::store(to, &on.features).unwrap_or_else(|| wgsl::store_bits(to, &on.features));
    let (load, store) = (Part::bound(load, "x", 0), Part::bound(store, "y", 1));
    if is_float(from) && is_float(to) {
        let [params, convert] = gpu::convert();
        let parts = [params, convert, load, store, linear, main];
        return (WgslKernel::new("cast.numbers.wgsl", &parts, 2, 1), Vec::new());
    }
    let source = match from.size() {
        _ if is_float(from) => &FROM_FLOAT,
        8 => &FROM_WIDE,
        _ => &FROM_NARROW,
    };
    let target = match to.size() {
        _ if is_float(to) => &TO_FLOAT,
        8 => &TO_WIDE,
        _ => &TO_NARROW,
    };
    let parts = [Part::plain(&NUMBER), load, store, Part::plain(source), Part::plain(target), linear, main];
    let (above, below) = limits(to);
    let params = vec![
        from.size() as u32 * 8,
        u32::from(is_signed(from)),
        above as u32,
        (above >> 32) as u32,
        below as u32,
        (below >> 32) as u32,
    ];
    (WgslKernel::new("cast.numbers.wgsl", &parts, 2, 7), params)
}

fn is_signed(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64)
}

/// The largest magnitudes of an integer type above and below zero.
fn limits(dtype: DType) -> (u64, u64) {
    let bits = dtype.size() as u32 * 8;
    if is_signed(dtype) {
        let below = 1u64 << (bits - 1);
        (below - 1, below)
    } else {
        (u64::MAX >> (64 - bits), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_types() {
        assert_eq!(limits(DType::I8), (127, 128));
        assert_eq!(limits(DType::U16), (65_535, 0));
        assert_eq!(limits(DType::I64), (i64::MAX as u64, i64::MAX as u64 + 1));
        assert_eq!(limits(DType::U64), (u64::MAX, 0));
    }
}
