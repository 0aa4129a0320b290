//! Keys and values where they are stored: their types, told by code at run time, to the products that read them.
//!
//! f32, f16 and bf16 are read in place. Blocks are decoded first, a few keys at a time, into room that the caller has.

use silicide_gemm::f32::few::{self, Rows};
use silicide_gemm::f32::pack::{self, Columns};
use silicide_gemm::f32::vector::Unit;
use silicide_gemm::f32::weighted::{self, Weighted};
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

/// A binding that holds rows of elements.
#[derive(Clone, Copy)]
pub(super) struct Cache {
    pub(super) binding: usize,
    /// The code of their type.
    pub(super) code: u32,
    /// Elements of a row: whole blocks.
    pub(super) dim: usize,
}

impl Cache {
    /// How many rows can be taken at a time, if there is room to decode so many.
    #[inline(always)]
    pub(super) fn together(self, room: usize) -> usize {
        if self.code < PLAIN { usize::MAX } else { room }
    }

    /// Where some rows begin, and how many bytes they have.
    #[inline(always)]
    pub(super) fn bytes(self, run: Run) -> (usize, usize) {
        let dtype = dtype(self.code);
        let bytes = |rows: usize| rows * self.dim / dtype.block_len().max(1) * dtype.size();
        (bytes(run.first), bytes(run.count))
    }
}

/// Some rows, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Run {
    /// Parts of at most `most` rows, and how many rows are before each.
    #[inline(always)]
    pub(super) fn parts(self, most: usize) -> impl Iterator<Item = (usize, Run)> {
        let part = move |at: usize| Run { first: self.first + at, count: most.min(self.count - at) };
        (0..self.count).step_by(most).map(move |at| (at, part(at)))
    }
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
    /// How many bytes ahead rows are asked for, unless they were decoded.
    ahead: Option<usize>,
}

impl Stored {
    /// Rows of a cache. Blocks are decoded into `room`.
    ///
    /// # Safety
    /// The binding holds the rows, nobody writes them, and `room` is good for as many f32 as they have elements.
    #[inline(always)]
    pub(super) unsafe fn of(tile: &Tile<'_>, cache: Cache, run: Run, room: *mut f32) -> Stored {
        let (Cache { binding, code, dim }, count) = (cache, run.count);
        let (start, bytes) = cache.bytes(run);
        if code < PLAIN {
            // SAFETY: the caller's promise.
            let start = unsafe { tile.start(binding).add(start) };
            return Stored { code, start, dim, count, ahead: Some(AHEAD) };
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
        Stored { code: 0, start: room.cast_const().cast(), dim, count, ahead: None }
    }

    /// The products of `rows` rows of f32 with every stored row, to `y` with `stride` of them for each of the former.
    ///
    /// # Safety
    /// The unit's instruction set is present; `a` holds the rows, and `y` has room that nobody else touches.
    #[inline(always)]
    pub(super) unsafe fn multiply<U: Unit>(&self, a: *const f32, rows: usize, y: *mut f32, stride: usize) {
        macro_rules! multiply {
            ($type:ty) => {
                few::multiply::<U, $type>(&Rows {
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
                    ahead: self.ahead,
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
    /// The unit's instruction set is present; there are `rows` rows of weights, `stride` apart, and of sums.
    #[inline(always)]
    pub(super) unsafe fn add_weighted<U: Unit>(
        &self,
        weights: *const f32,
        stride: usize,
        rows: usize,
        sums: *mut f32,
    ) {
        macro_rules! add {
            ($type:ty) => {
                weighted::add::<U, $type>(&Weighted {
                    rows: self.start.cast(),
                    dim: self.dim,
                    count: self.count,
                    weights,
                    stride,
                    sums,
                    apart: Stored::padded(self.dim),
                    wanted: rows,
                    ahead: self.ahead,
                })
            };
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.code {
                F16 => add!(pack::F16),
                BF16 => add!(pack::BF16),
                _ => add!(pack::F32),
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
                    panel_depth: self.dim,
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
        let (dim, count) = (self.dim, self.count);
        // SAFETY: the caller's promise.
        unsafe {
            match self.code {
                F16 => pack::pack_depth::<U, pack::F16>(self.start.cast(), dim, count, panel),
                BF16 => pack::pack_depth::<U, pack::BF16>(self.start.cast(), dim, count, panel),
                _ => pack::pack_depth::<U, pack::F32>(self.start.cast(), dim, count, panel),
            }
        }
    }
}

/// How far ahead rows are asked for: the machine's own guess ends where a page does, and where keys end and values begin. What
/// follows the last of a tile's rows are the first of the next tile's.
const AHEAD: usize = 8192;
