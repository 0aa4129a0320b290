//! The register tile: some rows of activations times a packed panel of weight columns.
//!
//! Every output is summed over the depth one word after the other, in accumulators that stay in registers for the
//! whole depth of a panel and pass through the output between panels. So an output's bits depend neither on the
//! shape of the tile, nor on its place in it, nor on where panels are cut.

use super::vector::{MAX_LANES, Unit, Vector};

/// The most rows of any register tile.
pub const MAX_ROWS: usize = 8;
/// The most vectors in a row of any register tile.
pub const MAX_VECTORS: usize = 3;

/// A block of outputs: all of `rows`, and as many `columns` as the panel holds.
#[derive(Clone, Copy)]
pub struct Block {
    /// First activation word of the first row.
    pub a: *const f32,
    /// Words from one row of activations to the next.
    pub a_stride: usize,
    /// The packed weights; see [`super::pack`].
    pub panel: *const f32,
    /// Words of depth in the panel.
    pub depth: usize,
    /// First output.
    pub y: *mut f32,
    /// Outputs from one row to the next.
    pub y_stride: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Whether to add to the outputs rather than to overwrite them.
    pub accumulate: bool,
}

/// Computes a block.
///
/// # Safety
///
/// The unit's instruction set is present; the pointers are valid for the block's extents; nobody else touches its
/// outputs.
#[inline(always)]
pub unsafe fn multiply<U: Unit>(block: &Block) {
    let width = U::VECTORS * U::Vector::LANES;
    // Strips of nearly equal height: seven and six rows rather than eight and five.
    let strips = block.rows.div_ceil(U::ROWS);
    let mut row = 0;
    for strip in 0..strips {
        let end = (strip + 1) * block.rows / strips;
        let mut column = 0;
        const { assert!(U::ROWS <= MAX_ROWS && U::VECTORS <= MAX_VECTORS) };
        while column < block.columns {
            let columns = (block.columns - column).min(width);
            // SAFETY: the strip and the columns are part of the block.
            unsafe {
                let part = Block {
                    a: block.a.add(row * block.a_stride),
                    panel: block.panel.add(column * block.depth),
                    y: block.y.add(row * block.y_stride + column),
                    rows: end - row,
                    columns,
                    ..*block
                };
                match columns.div_ceil(U::Vector::LANES) {
                    1 => multiply_rows::<U, 1>(&part),
                    2 if U::VECTORS >= 2 => multiply_rows::<U, 2>(&part),
                    _ if U::VECTORS >= 3 => multiply_rows::<U, 3>(&part),
                    _ => {}
                }
            }
            column += columns;
        }
        row = end;
    }
}

/// [`multiply_tile`] for the block's number of rows, which is at most [`MAX_ROWS`].
#[inline(always)]
unsafe fn multiply_rows<U: Unit, const VECTORS: usize>(block: &Block) {
    // SAFETY: the caller's promise.
    unsafe {
        match block.rows {
            1 => multiply_tile::<U, 1, VECTORS>(block),
            2 => multiply_tile::<U, 2, VECTORS>(block),
            3 => multiply_tile::<U, 3, VECTORS>(block),
            4 => multiply_tile::<U, 4, VECTORS>(block),
            5 if U::ROWS >= 5 => multiply_tile::<U, 5, VECTORS>(block),
            6 if U::ROWS >= 6 => multiply_tile::<U, 6, VECTORS>(block),
            7 if U::ROWS >= 7 => multiply_tile::<U, 7, VECTORS>(block),
            8 if U::ROWS >= 8 => multiply_tile::<U, 8, VECTORS>(block),
            _ => {}
        }
    }
}

/// One register tile over the whole depth of the panel.
#[inline(always)]
unsafe fn multiply_tile<U: Unit, const ROWS: usize, const VECTORS: usize>(block: &Block) {
    let lanes = U::Vector::LANES;
    let whole = block.columns == VECTORS * lanes;
    // SAFETY: the caller's promise: the panel has depth x VECTORS vectors, padded with zeros; rows and columns of
    // activations and outputs are inside theirs.
    unsafe {
        let mut sums = [[U::Vector::zero(); VECTORS]; ROWS];
        if block.accumulate {
            for (row, sums) in sums.iter_mut().enumerate() {
                let y = block.y.add(row * block.y_stride);
                for (i, sum) in sums.iter_mut().enumerate() {
                    let left = block.columns - i * lanes;
                    *sum = if whole {
                        U::Vector::load(y.add(i * lanes))
                    } else {
                        load_part(y.add(i * lanes), left)
                    };
                }
            }
        }
        for depth in 0..block.depth {
            let panel = block.panel.add(depth * VECTORS * lanes);
            let mut weights = [U::Vector::zero(); VECTORS];
            for (i, weights) in weights.iter_mut().enumerate() {
                *weights = U::Vector::load(panel.add(i * lanes));
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = U::Vector::splat(block.a.add(row * block.a_stride + depth));
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    *sum = a.multiply_add(weights, *sum);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let y = block.y.add(row * block.y_stride);
            for (i, sum) in sums.iter().enumerate() {
                let left = block.columns - i * lanes;
                if whole { sum.store(y.add(i * lanes)) } else { store_part(*sum, y.add(i * lanes), left) }
            }
        }
    }
}

/// The first `count` words, and zeros.
#[inline(always)]
unsafe fn load_part<V: Vector>(from: *const f32, count: usize) -> V {
    let mut words = [0.0f32; MAX_LANES];
    // SAFETY: the caller's promise; no more than the vector's lanes are copied.
    unsafe {
        std::ptr::copy_nonoverlapping(from, words.as_mut_ptr(), count.min(V::LANES));
        V::load(words.as_ptr())
    }
}

/// Writes the first `count` words.
#[inline(always)]
unsafe fn store_part<V: Vector>(vector: V, to: *mut f32, count: usize) {
    let mut words = [0.0f32; MAX_LANES];
    // SAFETY: the caller's promise; no more than the vector's lanes are copied.
    unsafe {
        vector.store(words.as_mut_ptr());
        std::ptr::copy_nonoverlapping(words.as_ptr(), to, count.min(V::LANES));
    }
}
