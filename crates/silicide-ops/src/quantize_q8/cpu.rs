//! `quantize_q8` on the CPU: a tile is some rows. Other programs quantize rows that they have just written with [`quantize_part`].

use super::QuantizeQ8;
use crate::cpu::native_kernel;
use crate::elementwise::fits_cpu;
use crate::product::needs;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Launch, Plan, Step};
use silicide_gemm::q8::{GROUP, QuantizedRowsMut};
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::{DType, bf16};
use smallvec::smallvec;
use std::ops::Range;

/// Elements that one tile quantizes, about.
const TILE_ELEMENTS: usize = 16 << 10;

// SAFETY: a tile reads its own rows and writes as many quantized rows.
native_kernel!(
    /// Rows of f32 to quantized rows.
    unsafe QUANTIZE,
    "quantize_q8.rows.cpu",
    tile,
    needs needs::quantize
);

// SAFETY: a tile reads its own rows and writes as many quantized rows.
native_kernel!(
    /// Rows of bf16 to quantized rows.
    unsafe QUANTIZE_BF16,
    "quantize_q8.bf16.cpu",
    tile_bf16,
    needs needs::quantize_bf16
);

/// The launch that quantizes `rows` rows of `groups` groups of `from` to `to`.
pub(crate) fn quantize_launch([rows, groups]: [usize; 2], from: Arg, to: Arg) -> Launch {
    let tile_rows = (TILE_ELEMENTS / (groups * GROUP)).max(1);
    Launch {
        program: Program::Native(&QUANTIZE),
        args: smallvec![from, to],
        params: [rows, groups, tile_rows].into_iter().map(|extent| extent as u32).collect(),
        grid: [rows.div_ceil(tile_rows) as u32, 1, 1],
    }
}

/// The kernel.
pub(super) struct Rows;

impl Kernel for Rows {
    type Op = QuantizeQ8;

    fn name(&self) -> &'static str {
        QUANTIZE.name
    }

    fn fits(&self, _: &QuantizeQ8, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let shape = io.input(0).shape;
        if u32::try_from(shape.rows().max(shape.last())).is_err() {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        needs::check_alignment(&io.output(0))?;
        fits_cpu(on)
    }

    fn plan(&self, _: &QuantizeQ8, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let shape = io.input(0).shape;
        let mut launch = quantize_launch([shape.rows(), shape.last() / GROUP], Arg::slot(0), Arg::slot(1));
        if io.input(0).dtype == DType::BF16 {
            launch.program = Program::Native(&QUANTIZE_BF16);
        }
        Plan { steps: smallvec![Step::Dispatch(launch)], ..Plan::default() }
    }
}

/// A tile: some rows.
///
/// # Safety
///
/// The instruction set is present; bindings are rows of f32 and as many quantized rows as the parameters say.
#[inline(always)]
unsafe fn tile(tile: &Tile<'_>) {
    let [rows, groups, tile_rows] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let first = tile.index[0] as usize * tile_rows;
    for row in first..(first + tile_rows).min(rows) {
        // SAFETY: `needs::quantize` requires these rows and a grid that covers them; tiles have different rows.
        unsafe { quantize_row(tile, BoundRow { binding: 0, row }, BoundRow { binding: 1, row }, groups) }
    }
}

/// Elements of bf16 that are widened at a time: whole groups.
const WIDE: usize = 8 * GROUP;

/// A tile: some rows of bf16.
///
/// # Safety
///
/// The instruction set is present; bindings are rows of bf16 and as many quantized rows as the parameters say.
#[inline(always)]
unsafe fn tile_bf16(tile: &Tile<'_>) {
    let [rows, groups, tile_rows] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let (first, k) = (tile.index[0] as usize * tile_rows, groups * GROUP);
    let mut wide = [0f32; WIDE];
    for row in first..(first + tile_rows).min(rows) {
        // SAFETY: `needs::quantize_bf16` requires these rows, their alignment and a grid that covers them; tiles have different rows.
        let (values, mut to) = unsafe {
            let values = tile.read_part::<bf16>(0, row * k..(row + 1) * k);
            (values, QuantizedRowsMut::from_raw_parts(tile.start(1), row + 1, groups))
        };
        for (part, values) in values.chunks(WIDE).enumerate() {
            wide.iter_mut().zip(values).for_each(|(wide, value)| *wide = value.to_f32());
            // The row and its groups are those of the view, so nothing is refused.
            let done = to.quantize_groups(row, part * (WIDE / GROUP), &wide[..values.len()]);
            debug_assert_eq!(done, Ok(()));
        }
    }
}

/// A row of a binding.
#[derive(Clone, Copy)]
pub(crate) struct BoundRow {
    pub(crate) binding: usize,
    pub(crate) row: usize,
}

/// Quantizes a row of `groups` groups to a quantized row of another binding.
///
/// # Safety
///
/// The bindings have these rows, and nothing else touches the quantized one.
#[inline(always)]
pub(crate) unsafe fn quantize_row(tile: &Tile<'_>, from: BoundRow, to: BoundRow, groups: usize) {
    // SAFETY: the bindings have the row, by this function's contract; this is all of it.
    unsafe { quantize_part(tile, from, to, groups, 0..groups) }
}

/// Quantizes groups `part` of a row of `groups` groups to a quantized row of another binding.
///
/// # Safety
///
/// The bindings have these rows, and nothing else touches these groups of the quantized one.
#[inline(always)]
pub(crate) unsafe fn quantize_part(
    tile: &Tile<'_>,
    from: BoundRow,
    to: BoundRow,
    groups: usize,
    part: Range<usize>,
) {
    // SAFETY: the bindings have the rows, by this function's contract; the needs of every program that quantizes state the alignment
    // of quantized rows (`ROW_ALIGN`).
    let (values, mut rows) = unsafe {
        let start = from.row * groups * GROUP;
        let values =
            tile.read_part::<f32>(from.binding, start + part.start * GROUP..start + part.end * GROUP);
        (values, QuantizedRowsMut::from_raw_parts(tile.start(to.binding), to.row + 1, groups))
    };
    // The row and its groups are those of the view, so nothing is refused.
    let done = rows.quantize_groups(to.row, part.start, values);
    debug_assert_eq!(done, Ok(()));
}
