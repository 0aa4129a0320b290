//! Common code of GPU kernels: typed element access, reductions over a workgroup, large grids, and splitting a call
//! into windows that fit a binding.
//!
//! A kernel is joined from parts. It declares `override WG: u32`, `var<immediate> p` with one `u32` per binding
//! first, named `<name>_offset`, and takes its element access from here, so that the same text serves every dtype:
//!
//! ```wgsl
//! struct Params { x_offset: u32, y_offset: u32, count: u32 }
//! var<immediate> p: Params;
//! override WG: u32 = 256;
//! // Part::bound(load(dtype), "x", 0) defines load_x(i) -> f32, Part::bound(store(dtype, ..), "y", 1) defines store_y(i, v).
//! ```
//!
//! Loads need no device feature. A binding's last word may hold bytes of another buffer, and so may its first:
//! stores of less than a word are therefore native 16-bit stores or atomics, never a read and a write.

mod span;

pub(crate) use span::{most, row_spans, spans};

use silicide_core::kernel::{Arg, Cost, Decline, Io};
use silicide_hal::{DeviceInfo, Features, Part, Snippet, WgslKernel};
use silicide_quant::turbo::TurboFormat;
use silicide_quant::{DType, Format};
use smallvec::SmallVec;
use std::sync::LazyLock;

/// The text of a kernel's parameters: an offset for each binding, then words of the kernel. All are `u32`.
macro_rules! params {
    ([$($binding:literal)*] [$($word:literal)*]) => {
        concat!(
            "struct Params {\n",
            $("    ", $binding, "_offset: u32,\n",)*
            $crate::wgsl::words!($($word)*)
        )
    };
}
/// The end of [`params`], from the kernel's words on.
macro_rules! words {
    ($($word:literal)*) => {
        concat!($("    ", $word, ": u32,\n",)* "}\nvar<immediate> p: Params;\n")
    };
}
pub(crate) use {params, words};

/// Declares snippets made of joined files.
macro_rules! snippets {
    ($($name:ident = $($file:literal)+;)*) => {$(
        static $name: Snippet =
            Snippet { name: stringify!($name), text: concat!($(include_str!($file)),+) };
    )*};
}

snippets! {
    READ_8 = "element/read_8.wgsl";
    READ_F16 = "element/read_16.wgsl" "element/codes.wgsl" "element/read_f16.wgsl";
    READ_BF16 = "element/read_16.wgsl" "element/codes.wgsl" "element/read_bf16.wgsl";
    READ_32 = "element/read_32.wgsl" "element/codes.wgsl";
    READ_F16_ALIGNED = "element/read_16_aligned.wgsl" "element/read_f16.wgsl";
    READ_BF16_ALIGNED = "element/read_16_aligned.wgsl" "element/read_bf16.wgsl";
    READ_32_ALIGNED = "element/read_32_aligned.wgsl";
    READ_64 = "element/read_64.wgsl";
    WRITE_8 = "element/write_8.wgsl";
    WRITE_F16 = "element/write_16.wgsl" "element/narrow_f16.wgsl" "element/write_f16.wgsl";
    WRITE_F16_ATOMIC = "element/write_16_atomic.wgsl" "element/narrow_f16.wgsl" "element/write_f16.wgsl";
    WRITE_BF16 = "element/write_16.wgsl" "element/write_bf16.wgsl";
    WRITE_BF16_ATOMIC = "element/write_16_atomic.wgsl" "element/write_bf16.wgsl";
    WRITE_32 = "element/write_32.wgsl";
    WRITE_64 = "element/write_64.wgsl";
    WRITE_32_ALIGNED = "element/write_32_aligned.wgsl";
}

/// `linear_group(group, groups) -> u32`: the number of a workgroup in a grid made by [`grid`].
pub(crate) static LINEAR: Snippet = Snippet { name: "LINEAR", text: include_str!("linear.wgsl") };

/// `main`, which calls `compute_row(row, lane)` of the kernel, with a workgroup for each row. The kernel has `LINEAR`.
pub(crate) static ROW_MAIN: Snippet = Snippet { name: "ROW_MAIN", text: include_str!("row_main.wgsl") };

/// `team_sum(value, lane, team)`, `team_max(..)`, `team_first(..)` over teams of neighbouring invocations, WG for the
/// whole workgroup, and `maximum(a, b)`, all keeping NaN. The kernel declares `override WG`, a power of two.
pub(crate) static REDUCE: Snippet = Snippet { name: "REDUCE", text: include_str!("reduce.wgsl") };

/// `key(v: f32) -> u32`: keys that compare as the floats do, with NaN at the top.
pub(crate) static ORDER: Snippet = Snippet { name: "ORDER", text: include_str!("order.wgsl") };

/// `weight(d) -> f32`, the exponential of a softmax, `larger(a, b)` and `LOWEST`. The kernel has `is_nan` from `ACTIVATION`.
pub(crate) static WEIGHT: Snippet = Snippet { name: "WEIGHT", text: include_str!("weight.wgsl") };

/// A read-only binding of f32, f16, bf16 or a block format: `load_$NAME`, `eight_$NAME`, `sixteen_$NAME` and `SPREAD_$NAME`, as
/// [`Format::wgsl`] says, the last two not of types of TurboQuant; of a plain type, for any `at`, and also `get_$NAME(i) -> u32` for the bits. Kernels of block formats
/// go through [`with_table`] and [`bind`].
pub(crate) fn load(dtype: DType) -> Option<&'static Snippet> {
    match dtype {
        DType::F32 => Some(&READ_32),
        DType::F16 => Some(&READ_F16),
        DType::BF16 => Some(&READ_BF16),
        DType::Block(format) => FORMATS.get(format as usize),
        DType::Turbo(format) => TURBO.get(format.number()),
        _ => None,
    }
}

/// The alignment in bytes of bindings that [`load_eights`] reads as vectors.
pub(crate) const EIGHTS_ALIGNMENT: u32 = 16;

/// A read-only binding as [`load`] says, of which `eight_$NAME` is called with multiples of 8 alone. A binding that is `aligned` to
/// [`EIGHTS_ALIGNMENT`] bytes is read by vectors, and has no `sixteen_$NAME`.
pub(crate) fn load_eights(dtype: DType, aligned: bool) -> Option<&'static Snippet> {
    match dtype {
        DType::F32 if aligned => Some(&READ_32_ALIGNED),
        DType::F16 if aligned => Some(&READ_F16_ALIGNED),
        DType::BF16 if aligned => Some(&READ_BF16_ALIGNED),
        other => load(other),
    }
}

/// Returns the alignment in bytes for which the texts of [`load`] have the items of GEMV over codes; `None` without them.
pub(crate) fn codes_alignment(dtype: DType) -> Option<u32> {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => Some(16),
        DType::Block(format) => format.wgsl_codes_alignment(),
        _ => None,
    }
}

/// The decoders of every block format, in the order of [`Format::ALL`].
static FORMATS: LazyLock<Vec<Snippet>> = LazyLock::new(|| {
    Format::ALL.into_iter().map(|format| Snippet { name: format.name(), text: format.wgsl() }).collect()
});

/// The decoders of compressed KV caches, in the order of [`TurboFormat::ALL`].
static TURBO: LazyLock<Vec<Snippet>> = LazyLock::new(|| {
    static TEXTS: LazyLock<Vec<String>> =
        LazyLock::new(|| TurboFormat::ALL.into_iter().map(|format| format.wgsl().concat()).collect());
    let snippet = |(format, text): (TurboFormat, &'static String)| Snippet { name: format.name(), text };
    TurboFormat::ALL.into_iter().zip(TEXTS.iter()).map(snippet).collect()
});

static TABLE: Snippet = Snippet { name: "TABLE", text: Format::WGSL_TABLE };

/// The kernel with the table that reading `name`, of this type, needs, if any: its binding comes last, and
/// [`bind`] adds the argument.
pub(crate) fn with_table(mut kernel: WgslKernel, dtype: DType, name: &'static str) -> WgslKernel {
    if table(dtype).is_none() {
        return kernel;
    }
    kernel.append([Part::bound(&TABLE, name, kernel.bindings)]);
    kernel.table()
}

/// Arguments, and after them the table of the type, if it has one.
pub(crate) fn bind(args: &[Arg], dtype: DType) -> SmallVec<[Arg; 6]> {
    args.iter().copied().chain(table(dtype).map(Arg::table)).collect()
}

/// Whether reading a type takes a table.
pub(crate) fn has_table(dtype: DType) -> bool {
    table(dtype).is_some()
}

/// The table that reading a type takes.
pub(crate) fn table(dtype: DType) -> Option<&'static [u32]> {
    dtype.format().and_then(Format::wgsl_table)
}

/// A writable binding of f32, f16 or bf16: `store_$NAME(i, v: f32)`, which rounds to nearest even and keeps NaN,
/// and `put_$NAME(i, bits: u32)`.
pub(crate) fn store(dtype: DType, features: &Features) -> Option<&'static Snippet> {
    let native = features.storage_16 && features.int_16;
    match dtype {
        DType::F32 => Some(&WRITE_32),
        DType::F16 if native => Some(&WRITE_F16),
        DType::F16 => Some(&WRITE_F16_ATOMIC),
        DType::BF16 if native => Some(&WRITE_BF16),
        DType::BF16 => Some(&WRITE_BF16_ATOMIC),
        _ => None,
    }
}

/// A read-only binding of f32 that is aligned to [`EIGHTS_ALIGNMENT`] bytes: `four_$NAME(i) -> vec4<f32>`, and `load_$NAME`.
pub(crate) fn load_fours() -> &'static Snippet {
    &READ_32_ALIGNED
}

/// A writable binding of f32 that is aligned to [`EIGHTS_ALIGNMENT`] bytes: `store_four_$NAME(i, v: vec4<f32>)`.
pub(crate) fn store_fours() -> &'static Snippet {
    &WRITE_32_ALIGNED
}

/// A read-only binding of any dtype as bits: `get_$NAME(i) -> u32`, zero-extended; `vec2<u32>`, low word first, for
/// 64-bit types.
pub(crate) fn load_bits(dtype: DType) -> &'static Snippet {
    match dtype.size() {
        1 => &READ_8,
        2 => &READ_F16,
        4 => &READ_32,
        _ => &READ_64,
    }
}

/// A writable binding of any dtype as bits: `put_$NAME(i, bits: u32)` keeps the low bits; `vec2<u32>` for 64-bit
/// types.
pub(crate) fn store_bits(dtype: DType, features: &Features) -> &'static Snippet {
    match dtype.size() {
        1 => &WRITE_8,
        2 if features.storage_16 && features.int_16 => &WRITE_F16,
        2 => &WRITE_F16_ATOMIC,
        4 => &WRITE_32,
        _ => &WRITE_64,
    }
}

/// For a WGSL kernel that binds whole arguments, of elements of at most 32 bits.
pub(crate) fn fits_whole(io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
    if !on.is_gpu() {
        return Err(Decline("runs on GPUs only"));
    }
    let largest = io.inputs.iter().chain(io.outputs).map(|info| info.elements()).max().unwrap_or(0);
    if largest > most(4, on) {
        return Err(Decline("an argument is larger than a binding"));
    }
    Ok(Cost::GOOD)
}

/// The workgroup size of kernels that have no reason for another: 256, or the power of two below the limit.
pub(crate) fn workgroup(on: &DeviceInfo) -> u32 {
    let limit = on.limits.max_workgroup.clamp(1, 256);
    1 << limit.ilog2()
}

/// A grid of at least `count` workgroups within the device's limits, as square as need be. Kernels number their
/// workgroups with `linear_group` and leave when the number is past the end.
pub(crate) fn grid(count: usize, on: &DeviceInfo) -> [u32; 3] {
    let max = on.limits.max_grid.map(|axis| axis.max(1) as usize);
    let [x, y, z] = max;
    let count = count.max(1);
    let columns = count.min(x);
    let rows = count.div_ceil(columns);
    let layers = rows.div_ceil(rows.min(y));
    [columns as u32, rows.min(y) as u32, layers.min(z) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::Backend;

    #[test]
    fn grids_cover_the_count_within_limits() {
        let mut on = DeviceInfo::new(Backend::Null, "null", "null");
        on.limits.max_grid = [100, 10, 10];
        for count in [1, 2, 99, 100, 101, 999, 1000, 1001, 9999, 10_000] {
            let [x, y, z] = grid(count, &on);
            assert!(x <= 100 && y <= 10 && z <= 10);
            let groups = (x * y * z) as usize;
            assert!(groups >= count && groups < 2 * count.max(1000) + 100, "{count} -> {x} {y} {z}");
        }
    }

    #[test]
    fn every_dtype_has_bits_and_floats_have_values() {
        let features = Features::default();
        for dtype in DType::ALL {
            let text = load_bits(dtype).text;
            assert!(text.contains("fn get_$NAME") && text.contains("p.$NAME_offset"), "{dtype}");
            assert!(store_bits(dtype, &features).text.contains("fn put_$NAME"), "{dtype}");
            let float = dtype.is_float() && dtype.size() <= 4;
            assert_eq!(load(dtype).is_some(), float, "{dtype}");
            assert_eq!(store(dtype, &features).is_some(), float, "{dtype}");
        }
    }
}
