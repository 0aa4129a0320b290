//! Keys and values where they are stored: their types, told by code at run time, to the products that read them.
//!
//! f32, f16 and bf16 are read in place. Blocks are decoded first, a few keys at a time, into room that the caller has.

use super::bytes_of;
use crate::matmul::cpu::few::{self, Rows};
use crate::matmul::cpu::pack::{self, Columns, Weight, load_part};
use crate::matmul::cpu::vector::{Unit, Vector};
use silicide_hal::Tile;
use silicide_quant::{DType, Format};

const F16: u32 = DType::F16.code();
const BF16: u32 = DType::BF16.code();
const PLAIN: u32 = DType::ALL.len() as u32;

/// The type of a code.
#[inline(always)]
pub(super) fn dtype(code: u32) -> DType {
    let format = || Format::ALL.get(code.wrapping_sub(PLAIN) as usize).copied();
    DType::ALL.get(code as usize).copied().or_else(|| format().map(DType::Block)).unwrap_or(DType::F32)
}

/// Rows of elements of one type, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Stored {
    /// The code of their type: f32, f16 or bf16.
    code: u32,
    start: *const u8,
    /// Elements of a row.
    pub(super) dim: usize,
    /// Rows.
    pub(super) count: usize,
}

impl Stored {
    /// Rows `first..first + count` of `dim` elements of a binding whose elements have this type. Blocks are decoded into
    /// `room`.
    ///
    /// # Safety
    /// The binding holds the rows, nobody writes them, and `room` is good for as many f32 as they have elements.
    #[inline(always)]
    pub(super) unsafe fn of(
        tile: &Tile<'_>,
        (binding, code): (usize, u32),
        (first, count): (usize, usize),
        dim: usize,
        room: *mut f32,
    ) -> Stored {
        let (start, bytes) = (bytes_of(code, first * dim), bytes_of(code, count * dim));
        if code < PLAIN {
            // SAFETY: the caller's promise.
            return Stored { code, start: unsafe { tile.start(binding).add(start) }, dim, count };
        }
        // SAFETY: the caller's promise.
        let (blocks, wide) = unsafe {
            room.write_bytes(0, count * dim);
            (
                tile.read_part::<u8>(binding, start..start + bytes),
                std::slice::from_raw_parts_mut(room, count * dim),
            )
        };
        if let DType::Block(format) = dtype(code) {
            // Rows are whole blocks, as every shape of a block format; so decoding can't fail.
            let _ = format.decode(blocks, wide);
        }
        Stored { code: 0, start: room.cast_const().cast(), dim, count }
    }

    /// The products of `rows` rows of f32 with every stored row, to `y` with `stride` of them for each of the former.
    ///
    /// # Safety
    /// The vector's instruction set is present; `a` holds the rows, and `y` has room that nobody else touches.
    #[inline(always)]
    pub(super) unsafe fn multiply<V: Vector>(&self, a: *const f32, rows: usize, y: *mut f32, stride: usize) {
        macro_rules! multiply {
            ($type:ty) => {
                few::multiply::<V, $type>(&Rows {
                    a,
                    b: self.start.cast(),
                    y,
                    depth: self.dim,
                    a_stride: self.dim,
                    b_stride: self.dim,
                    y_stride: stride,
                    rows,
                    columns: self.count,
                    accumulate: false,
                })
            };
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.code {
                F16 => multiply!(pack::F16),
                BF16 => multiply!(pack::BF16),
                _ => multiply!(pack::F32),
            }
        }
    }

    /// Adds stored rows, each times its weight, to each row of `sums`, which are [`padded`](Stored::padded) apart.
    ///
    /// # Safety
    /// The vector's instruction set is present; there are `rows` rows of weights, `stride` apart, and of sums.
    #[inline(always)]
    pub(super) unsafe fn add_weighted<V: Vector>(
        &self,
        weights: *const f32,
        stride: usize,
        rows: usize,
        sums: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.code {
                F16 => add_rows::<V, pack::F16>(self, (weights, stride), rows, sums),
                BF16 => add_rows::<V, pack::BF16>(self, (weights, stride), rows, sums),
                _ => add_rows::<V, pack::F32>(self, (weights, stride), rows, sums),
            }
        }
    }

    /// Elements from one row of sums to the next: whole vectors of any machine.
    #[inline(always)]
    pub(super) fn padded(dim: usize) -> usize {
        dim.next_multiple_of(16)
    }

    /// Packs rows as the columns of a panel: for products with them.
    ///
    /// # Safety
    /// The unit's instruction set is present; the panel has room for whole vectors of rows.
    #[inline(always)]
    pub(super) unsafe fn pack_columns<U: Unit>(&self, panel: *mut f32) {
        macro_rules! pack {
            ($type:ty) => {{
                let columns = Columns {
                    start: self.start.cast(),
                    stride: self.dim,
                    count: self.count,
                    elements: self.dim,
                    panel_depth: self.dim.div_ceil(<$type as pack::Weight>::PER_WORD),
                    at: 0,
                };
                pack::pack::<U, $type>(&columns, panel)
            }};
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.code {
                F16 => pack!(pack::F16),
                BF16 => pack!(pack::BF16),
                _ => pack!(pack::F32),
            }
        }
    }

    /// Packs rows as the depth of a panel: for sums of them.
    ///
    /// # Safety
    /// The unit's instruction set is present; the panel has room for rows of whole vectors.
    #[inline(always)]
    pub(super) unsafe fn pack_depth<U: Unit>(&self, panel: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.code {
                F16 => pack_rows::<U, pack::F16>(self, panel),
                BF16 => pack_rows::<U, pack::BF16>(self, panel),
                _ => pack_rows::<U, pack::F32>(self, panel),
            }
        }
    }
}

/// See [`Stored::pack_depth`]: sub-panels as wide as the register tile, each with its part of every row.
#[inline(always)]
unsafe fn pack_rows<U: Unit, W: Weight>(stored: &Stored, panel: *mut f32) {
    let (lanes, width) = (U::Vector::LANES, U::VECTORS * U::Vector::LANES);
    let start = stored.start.cast::<W::Stored>();
    for column in (0..stored.dim).step_by(width) {
        let width = (stored.dim - column).next_multiple_of(lanes).min(width);
        // SAFETY: only elements that exist are read; a sub-panel is `count` rows of its width.
        unsafe {
            let panel = panel.add(column * stored.count);
            for row in 0..stored.count {
                let (from, to) = (start.add(row * stored.dim + column), panel.add(row * width));
                let whole = width.min(stored.dim - column) / lanes * lanes;
                for at in (0..whole).step_by(lanes) {
                    W::load::<U::Vector>(from.add(at)).store(to.add(at));
                }
                if whole < width {
                    let left = stored.dim - column - whole;
                    load_part::<U::Vector, W>(from.add(whole), left).store(to.add(whole));
                }
            }
        }
    }
}

/// Rows of sums that share one pass over the stored rows.
const TOGETHER: usize = 4;

/// See [`Stored::add_weighted`].
#[inline(always)]
unsafe fn add_rows<V: Vector, W: Weight>(
    stored: &Stored,
    (weights, stride): (*const f32, usize),
    rows: usize,
    sums: *mut f32,
) {
    let apart = Stored::padded(stored.dim);
    let mut row = 0;
    while row < rows {
        let count = (rows - row).min(TOGETHER);
        // SAFETY: the rows are part of all.
        unsafe {
            let (weights, sums) = (weights.add(row * stride), sums.add(row * apart));
            match count {
                1 => add_columns::<V, W, 1>(stored, (weights, stride), sums),
                2 => add_columns::<V, W, 2>(stored, (weights, stride), sums),
                3 => add_columns::<V, W, 3>(stored, (weights, stride), sums),
                _ => add_columns::<V, W, TOGETHER>(stored, (weights, stride), sums),
            }
        }
        row += count;
    }
}

#[inline(always)]
unsafe fn add_columns<V: Vector, W: Weight, const ROWS: usize>(
    stored: &Stored,
    weights: (*const f32, usize),
    sums: *mut f32,
) {
    // As many vectors beside each other as there are registers for sums.
    let most = if V::REGISTERS >= 32 { 4 } else { 2 };
    let mut column = 0;
    while column < stored.dim {
        let left = stored.dim - column;
        // SAFETY: the columns are part of all; the last vector of sums may be longer than they are, which is padding.
        unsafe {
            if left >= most * V::LANES {
                if most == 4 {
                    add_block::<V, W, ROWS, 4, true>(stored, weights, column, sums);
                } else {
                    add_block::<V, W, ROWS, 2, true>(stored, weights, column, sums);
                }
                column += most * V::LANES;
            } else {
                if left >= V::LANES {
                    add_block::<V, W, ROWS, 1, true>(stored, weights, column, sums);
                } else {
                    add_block::<V, W, ROWS, 1, false>(stored, weights, column, sums);
                }
                column += V::LANES;
            }
        }
    }
}

/// Some rows of sums and some vectors of each, which are `WHOLE` or end in padding. The latter costs a way through memory,
/// and room in registers where it is only possible.
#[inline(always)]
unsafe fn add_block<V: Vector, W: Weight, const ROWS: usize, const VECTORS: usize, const WHOLE: bool>(
    stored: &Stored,
    (weights, stride): (*const f32, usize),
    column: usize,
    sums: *mut f32,
) {
    let apart = Stored::padded(stored.dim);
    let start = stored.start.cast::<W::Stored>();
    // SAFETY: the caller's promise.
    unsafe {
        let mut totals = [[V::zero(); VECTORS]; ROWS];
        for (row, totals) in totals.iter_mut().enumerate() {
            for (i, total) in totals.iter_mut().enumerate() {
                *total = V::load(sums.add(row * apart + column + i * V::LANES));
            }
        }
        for key in 0..stored.count {
            let mut values = [V::zero(); VECTORS];
            for (i, value) in values.iter_mut().enumerate() {
                let at = column + i * V::LANES;
                let from = start.add(key * stored.dim + at);
                *value = if WHOLE { W::load::<V>(from) } else { load_part::<V, W>(from, stored.dim - at) };
            }
            for (row, totals) in totals.iter_mut().enumerate() {
                let weight = V::splat(weights.add(row * stride + key));
                for (total, value) in totals.iter_mut().zip(values) {
                    *total = weight.multiply_add(value, *total);
                }
            }
        }
        for (row, totals) in totals.into_iter().enumerate() {
            for (i, total) in totals.into_iter().enumerate() {
                total.store(sums.add(row * apart + column + i * V::LANES));
            }
        }
    }
}
