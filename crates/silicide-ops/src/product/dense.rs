//! Tiles of products in f32: how many rows and outputs each has, for dense weights and for weights that are decoded first.
//!
//! A product sums the depth in sequence, whatever its tiles are ([`DenseGemm`]). So an output has the same bits for any number of rows,
//! any layout of the weights and any number of threads.

use super::{enough_tiles, stream_columns};
use crate::matmul::Problem;
use silicide_gemm::f32::{DenseGemm, DenseRows, DenseWeights, DenseWorkspace, F32Kernels, GEMV_ROWS, NC};
use silicide_gemm::{Matrix, MatrixMut};
use silicide_hal::Tile;
use silicide_quant::DType;
use std::mem::MaybeUninit;

/// A multiple of the outputs that a GEMV takes at a time.
const GEMV_OUTPUTS: usize = 64;
/// Fewer rows than this do not make up for packing a panel.
const LEAST_ROWS: usize = 96;
/// More rows than this gain nothing, and their activations fall out of the caches.
const MOST_ROWS: usize = 1536;
/// A multiple of the height of every register tile.
const STRIPS: usize = 24;
/// The depth of weights that are decoded at a time: whole blocks and groups of every format, whose longest has 256.
const DECODED_DEPTH: usize = 256;
/// Outputs that are decoded at a time for few rows: they stay in L1.
const DECODED_OUTPUTS: usize = 16;

/// Parameters and grid of a product, whose weights have `bytes` bytes for each output: m, n, k, outputs and rows of a tile. Rows are cut only
/// where there are too few outputs to keep many threads busy, since every cut packs the weights again; the number of threads plays no part.
pub(crate) fn tiles(problem: &Problem, bytes: usize) -> ([u32; 5], [u32; 3]) {
    let Problem { batch, m, n, k } = *problem;
    let (outputs, rows) = if m <= GEMV_ROWS {
        (stream_columns(bytes, n * batch).next_multiple_of(GEMV_OUTPUTS), m)
    } else {
        let across = n.div_ceil(NC);
        let most = m.div_ceil(enough_tiles(across.saturating_mul(batch))).clamp(LEAST_ROWS, MOST_ROWS);
        (NC, m.div_ceil(m.div_ceil(most)).next_multiple_of(STRIPS))
    };
    let params = [m, n, k, outputs, rows].map(|extent| extent as u32);
    (params, [n.div_ceil(outputs), m.div_ceil(rows), batch].map(|extent| extent as u32))
}

/// A tile of a product: some outputs and some rows of one batch. Parameters begin with those of [`tiles`].
#[derive(Clone, Copy)]
pub(crate) struct DenseTile {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) batch: usize,
    /// The first output and the number of outputs.
    pub(crate) first: usize,
    pub(crate) outputs: usize,
    /// The first row, counted through all batches, and the number of rows.
    row: usize,
    rows: usize,
}

impl DenseTile {
    #[inline(always)]
    pub(crate) fn of(tile: &Tile<'_>) -> DenseTile {
        let [m, n, k, tile_outputs, tile_rows] = [0, 1, 2, 3, 4].map(|i| tile.param(i) as usize);
        let [x, y, batch] = tile.index.map(|i| i as usize);
        let (first, row) = (x * tile_outputs, y * tile_rows);
        let (outputs, rows) = (tile_outputs.min(n - first), tile_rows.min(m - row));
        DenseTile { n, k, batch, first, outputs, row: batch * m + row, rows }
    }

    /// Returns the activations of binding 0 and the outputs of binding `out`.
    ///
    /// # Safety
    /// Bindings have the extents in the parameters, and no other tile writes these outputs.
    #[inline(always)]
    pub(crate) unsafe fn views<'a>(
        &self,
        tile: &'a Tile<'_>,
        out: usize,
    ) -> (Matrix<'a, f32>, MatrixMut<'a, f32>) {
        let DenseTile { n, k, first, outputs, row, rows, .. } = *self;
        // SAFETY: binding 0 has `k` activations and binding `out` has `n` outputs for each row (`# Safety`); `of` cut rows and outputs
        // to those that there are.
        unsafe {
            let lhs = tile.start(0).cast::<f32>().add(row * k);
            let y = tile.start(out).cast::<f32>().add(row * n + first);
            (Matrix::from_raw_parts(lhs, [rows, k], k), MatrixMut::from_raw_parts(y, [rows, outputs], n))
        }
    }
}

/// Returns weights of `dtype`, `[n, k]`, of which `interleaved` rows are interleaved: sixteen, or one. Those after the last whole set lie in
/// place.
///
/// # Safety
/// As many elements can be read at `start`, which is aligned to them; nothing writes them.
#[inline(always)]
pub(crate) unsafe fn weights<'a>(
    dtype: DType,
    start: *const u8,
    [n, k]: [usize; 2],
    interleaved: usize,
) -> Option<DenseWeights<'a>> {
    let whole = if interleaved > 1 { n / interleaved * interleaved } else { 0 };
    // SAFETY: `n * k` elements can be read (`# Safety`): `whole * k` of the sets, and those of the `n - whole` rows after them.
    let (sets, tail) = unsafe {
        let extents = [whole / interleaved.max(1), k * interleaved];
        let sets = DenseRows::from_raw_parts(dtype, start, extents, extents[1])?;
        let start = start.add(whole * k * dtype.size());
        (sets, DenseRows::from_raw_parts(dtype, start, [n - whole, k], k)?)
    };
    match whole {
        0 => Some(tail.into()),
        _ => DenseWeights::interleaved(sets, (whole < n).then_some(tail)).ok(),
    }
}

/// Workspace of a product whose weights are decoded: the decoded weights, and a packed panel of them.
#[repr(C, align(64))]
pub(crate) struct DecodedWorkspace {
    decoded: [MaybeUninit<[f32; DECODED_DEPTH]>; NC],
    dense: MaybeUninit<DenseWorkspace>,
}

impl DecodedWorkspace {
    /// Returns a thread's workspace as memory for decoded weights.
    #[inline(always)]
    pub(crate) fn from_uninit(memory: &mut MaybeUninit<DecodedWorkspace>) -> &mut DecodedWorkspace {
        // SAFETY: all fields are `MaybeUninit`.
        unsafe { memory.assume_init_mut() }
    }

    /// Returns rows for the weights of `outputs` outputs, at most [`NC`], and memory for a panel. Rows are zeroed, once for all the weights
    /// that a tile decodes: decoders write to numbers, not to uninitialised memory.
    #[inline(always)]
    fn rows(&mut self, outputs: usize) -> (&mut [[f32; DECODED_DEPTH]], &mut MaybeUninit<DenseWorkspace>) {
        let rows = self.decoded.get_mut(..outputs).unwrap_or_default();
        for row in rows.iter_mut() {
            row.write([0.0; DECODED_DEPTH]);
        }
        // SAFETY: the loop has written every row of the slice; `MaybeUninit` has the layout of what it holds.
        let rows = unsafe { &mut *(&raw mut *rows as *mut [[f32; DECODED_DEPTH]]) };
        (rows, &mut self.dense)
    }
}

/// Computes `out = lhs . w^T` for weights that `decode` decodes exactly: it is given an output, the first element of its depth, and room for at
/// most [`DECODED_DEPTH`] elements. Products are those of dense weights in f32, in the same order.
#[inline(always)]
pub(crate) fn compute_decoded<S: F32Kernels>(
    isa: S,
    lhs: Matrix<'_, f32>,
    mut out: MatrixMut<'_, f32>,
    workspace: &mut DecodedWorkspace,
    mut decode: impl FnMut(usize, usize, &mut [f32]),
) {
    let [m, k, n] = [lhs.rows(), lhs.columns(), out.columns()];
    let together = if m <= GEMV_ROWS { DECODED_OUTPUTS } else { NC };
    let (decoded, dense) = workspace.rows(together.min(n));
    for first in (0..n).step_by(together) {
        let outputs = together.min(n - first);
        for at in (0..k).step_by(DECODED_DEPTH) {
            let depth = DECODED_DEPTH.min(k - at);
            for (i, to) in decoded.iter_mut().enumerate().take(outputs) {
                decode(first + i, at, to.get_mut(..depth).unwrap_or_default());
            }
            let rows = Matrix::new("decoded", decoded.as_flattened(), [outputs, depth], DECODED_DEPTH);
            let (Some(lhs), Some(out), Ok(rows)) =
                (lhs.tile(0..m, at..at + depth), out.tile_mut(0..m, first..first + outputs), rows)
            else {
                return;
            };
            let rhs = DenseRows::F32(rows).into();
            let product = DenseGemm { lhs, rhs, outputs: 0..outputs, accumulate: at > 0 };
            // The views are of these extents, so the product is not refused.
            let done = product.compute(isa, out, DenseWorkspace::from_uninit(dense));
            debug_assert_eq!(done, Ok(()));
        }
    }
}
