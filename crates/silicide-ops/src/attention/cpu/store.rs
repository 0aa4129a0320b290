//! Keys and values where they are stored: their types, told by code at run time, to the products that read them.
//!
//! f32, f16 and bf16 are read in place. Blocks are decoded first, a few keys at a time, into room that the caller has.

use silicide_gemm::f32::{DenseRows, F32Kernels, PackedPanel, SUM_PADDING};
use silicide_gemm::f32::{dot_products, pack_depth, pack_rows, weighted_sum};
use silicide_gemm::{Matrix, MatrixMut};
use silicide_hal::Tile;
use silicide_quant::{DType, Format};
use std::mem::MaybeUninit;

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
    /// Returns how many rows can be read at a time, with memory to decode `room` rows.
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
    /// Prefetch distance in bytes, unless rows were decoded.
    ahead: Option<usize>,
}

impl Stored {
    /// Rows of a cache. Blocks are decoded into `room`.
    ///
    /// # Safety
    /// The binding holds the rows, nothing writes them, and `room` is valid for as many f32 as they have elements.
    #[inline(always)]
    pub(super) unsafe fn of(tile: &Tile<'_>, cache: Cache, run: Run, room: *mut f32) -> Stored {
        let (Cache { binding, code, dim }, count) = (cache, run.count);
        let (start, bytes) = cache.bytes(run);
        if code < PLAIN {
            // SAFETY: the binding holds the rows, by the caller; `start` is where the first begins.
            let start = unsafe { tile.start(binding).add(start) };
            return Stored { code, start, dim, count, ahead: Some(AHEAD) };
        }
        // SAFETY: by the caller, `room` has `count * dim` f32s, and the binding holds the rows, whose `bytes` no tile writes.
        // All bits zero are an f32.
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

    /// The rows, as a matrix.
    ///
    /// # Safety
    /// The rows that [`Stored::of`] was given can still be read.
    #[inline(always)]
    unsafe fn rows<'a>(&self) -> Option<DenseRows<'a>> {
        // SAFETY: the caller vouches for `count` rows of `dim` elements.
        unsafe { DenseRows::from_raw_parts(dtype(self.code), self.start, [self.count, self.dim], self.dim) }
    }

    /// Computes the dot products of `rows` rows of f32 with every stored row, to `y` with `stride` of them for each of the former.
    ///
    /// # Safety
    /// The CPU has `S`; `a` holds the rows, and `y` has room that nothing else touches.
    #[inline(always)]
    pub(super) unsafe fn multiply<S: F32Kernels>(
        &self,
        a: *const f32,
        rows: usize,
        y: *mut f32,
        stride: usize,
    ) {
        // SAFETY: the caller vouches for the CPU, `rows` rows of `dim` activations and of `count` outputs.
        unsafe {
            let Some(stored) = self.rows() else { return };
            let lhs = Matrix::from_raw_parts(a, [rows, self.dim], self.dim);
            let out = MatrixMut::from_raw_parts(y, [rows, self.count], stride);
            let done = dot_products(S::assume(), lhs, stored, out, self.ahead);
            debug_assert_eq!(done, Ok(()));
        }
    }

    /// Adds stored rows, each times its weight, to each row of `sums`, which are [`padded`](Stored::padded) apart.
    ///
    /// # Safety
    /// The CPU has `S`; there are `rows` rows of weights, `stride` apart, and of sums.
    #[inline(always)]
    pub(super) unsafe fn add_weighted<S: F32Kernels>(
        &self,
        weights: *const f32,
        stride: usize,
        rows: usize,
        sums: *mut f32,
    ) {
        let padded = Stored::padded(self.dim);
        // SAFETY: the caller vouches for the CPU, `rows` rows of `count` weights and of padded sums.
        unsafe {
            let Some(stored) = self.rows() else { return };
            let weights = Matrix::from_raw_parts(weights, [rows, self.count], stride);
            let sums = MatrixMut::from_raw_parts(sums, [rows, padded], padded);
            let done = weighted_sum(S::assume(), weights, stored, sums, self.ahead);
            debug_assert_eq!(done, Ok(()));
        }
    }

    /// Elements from one row of sums to the next: whole vectors of any machine.
    #[inline(always)]
    pub(super) fn padded(dim: usize) -> usize {
        dim.next_multiple_of(SUM_PADDING)
    }

    /// Packs rows as the outputs of a panel: for products with them. Returns none if they do not fit.
    ///
    /// # Safety
    /// The CPU has `S`.
    #[inline(always)]
    pub(super) unsafe fn pack_columns<'a, S: F32Kernels>(
        &self,
        panel: &'a mut [MaybeUninit<f32>],
    ) -> Option<PackedPanel<'a, S>> {
        // SAFETY: the caller vouches for the CPU; nothing has changed the rows since [`Stored::of`].
        unsafe { pack_rows(S::assume(), self.rows()?, panel).ok() }
    }

    /// Packs rows as the depth of a panel: for sums of them. Returns none if they do not fit.
    ///
    /// # Safety
    /// The CPU has `S`.
    #[inline(always)]
    pub(super) unsafe fn pack_depth<'a, S: F32Kernels>(
        &self,
        panel: &'a mut [MaybeUninit<f32>],
    ) -> Option<PackedPanel<'a, S>> {
        // SAFETY: the caller vouches for the CPU; nothing has changed the rows since [`Stored::of`].
        unsafe { pack_depth(S::assume(), self.rows()?, panel).ok() }
    }
}

/// Prefetch distance in bytes. The hardware prefetcher stops at the end of a page, and where keys end and values begin. The last of
/// a tile's rows are followed by the first of the next tile's.
const AHEAD: usize = 8192;
