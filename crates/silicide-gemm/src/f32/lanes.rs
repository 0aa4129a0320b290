//! Instruction sets of dense products, beyond [`DenseFloats`]: the shapes of register tiles, and writing outputs.

use super::element::{Element, load_part};
use super::gemv::{GemvInPlace, GemvInterleaved, GemvPart};
use crate::isa::{DenseFloats, MAX_LANES, Simd};

/// The most rows of any register tile.
pub(crate) const MAX_MR: usize = 8;
/// The most vectors of outputs of any register tile.
pub(crate) const MAX_NR_VECTORS: usize = 3;

/// An instruction set with dense products.
pub(crate) trait DenseLanes: Simd + DenseFloats {
    /// MR: rows of the register tile of a GEMM, at most [`MAX_MR`].
    const MR: usize;
    /// NR in vectors: outputs of the register tile of a GEMM, at most [`MAX_NR_VECTORS`] vectors.
    const NR_VECTORS: usize;
    /// Rows of a strip: rows of queries, or sums, that attention computes beside each other; at most 6.
    const MAX_STRIP: usize;

    /// Computes a part of a GEMV over weights in place.
    fn gemv_in_place<T: Element>(self, part: GemvPart<'_, T>);

    /// Computes a part of a GEMV over interleaved weights.
    fn gemv_interleaved<T: Element>(self, part: GemvPart<'_, T>);
}

/// Implements [`DenseLanes`]: MR x vectors of the GEMM's register tile, rows of attention's strips, then rows and vectors of the GEMV's. A GEMV pads its rows to the
/// first of these that holds them, or to a multiple of the last.
macro_rules! dense_lanes {
    ($(#[$meta:meta])* $name:ident, gemm $mr:literal x $nr:literal, strip $strip:literal,
     gemv 1 x $one:literal, $few:literal x $few_vectors:literal, $most:literal x $most_vectors:literal) => {
        $(#[$meta])*
        impl DenseLanes for crate::isa::$name {
            const MR: usize = $mr;
            const NR_VECTORS: usize = $nr;
            const MAX_STRIP: usize = $strip;

            #[inline(always)]
            fn gemv_in_place<T: Element>(self, part: GemvPart<'_, T>) {
                match part.lhs.rows() {
                    1 => self.run(GemvInPlace::<Self, T, 1>::new(self, part)),
                    2..=$few => self.run(GemvInPlace::<Self, T, $few>::new(self, part)),
                    _ => self.run(GemvInPlace::<Self, T, $most>::new(self, part)),
                }
            }

            #[inline(always)]
            fn gemv_interleaved<T: Element>(self, part: GemvPart<'_, T>) {
                match part.lhs.rows() {
                    1 => self.run(GemvInterleaved::<Self, T, 1, $one>::new(self, part)),
                    2..=$few => self.run(GemvInterleaved::<Self, T, $few, $few_vectors>::new(self, part)),
                    _ => self.run(GemvInterleaved::<Self, T, $most, $most_vectors>::new(self, part)),
                }
            }
        }
    };
}

// GEMM: 24 sums, 3 vectors of weights, 1 activation: 28 of 32 registers. GEMV: four streams of weights where rows leave room.
dense_lanes!(
    #[cfg(target_arch = "x86_64")]
    Avx512, gemm 8 x 3, strip 6, gemv 1 x 4, 4 x 4, 8 x 2
);
// GEMM: 12 sums, 2 vectors of weights, 1 activation: 15 of 16 registers. GEMV: a stream is two vectors.
dense_lanes!(
    #[cfg(target_arch = "x86_64")]
    Avx2, gemm 6 x 2, strip 6, gemv 1 x 8, 2 x 4, 4 x 2
);
// GEMM: 24 sums and four registers of weights, of 32: a vector is two registers.
dense_lanes!(
    #[cfg(target_arch = "aarch64")]
    Neon, gemm 6 x 2, strip 6, gemv 1 x 8, 2 x 4, 4 x 2
);
// GEMM: eight sums and two registers of weights, of the sixteen that SSE2 has: a vector is two registers. Strips have
// two rows: the sums of more do not stay in registers.
dense_lanes!(Portable, gemm 4 x 1, strip 2, gemv 1 x 4, 2 x 2, 4 x 1);

/// Returns the vectors of sums that attention computes beside each other for `rows` rows: at most 64 lanes, and as many as stay in registers
/// with the factors or vectors of [`add_outer`] and two more.
pub(crate) const fn sums_beside<I: DenseLanes>(rows: usize) -> usize {
    let mut vectors = 64 / I::LANES;
    loop {
        let kept = if rows < vectors { rows } else { vectors };
        if vectors == 1 || rows * vectors + kept + 2 <= I::REGISTERS {
            return vectors;
        }
        // Of 8, 4, 3, 2 and 1.
        vectors = if vectors > 4 { 4 } else { vectors - 1 };
    }
}

/// Adds products to sums: `sums[i][j] += x[i] * vectors[j]`, with `x` and `vectors` from memory. The side with fewer vectors stays in
/// registers, and the other passes one by one.
#[inline(always)]
pub(crate) fn add_outer<I: DenseLanes, const ROWS: usize, const VECTORS: usize>(
    isa: I,
    sums: &mut [[I::Floats; VECTORS]; ROWS],
    x: impl Fn(usize) -> f32,
    vector: impl Fn(usize) -> I::Floats,
) {
    if const { ROWS < VECTORS } {
        let mut factors = [isa.zeros(); ROWS];
        for (row, factor) in factors.iter_mut().enumerate() {
            *factor = isa.broadcast(x(row));
        }
        for i in 0..VECTORS {
            let vector = vector(i);
            for (sums, factor) in sums.iter_mut().zip(factors) {
                sums[i] = isa.fma(factor, vector, sums[i]);
            }
        }
    } else {
        let mut vectors = [isa.zeros(); VECTORS];
        for (i, to) in vectors.iter_mut().enumerate() {
            *to = vector(i);
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            let factor = isa.broadcast(x(row));
            for (sum, vector) in sums.iter_mut().zip(vectors) {
                *sum = isa.fma(factor, vector, *sum);
            }
        }
    }
}

/// Outputs of a product: the address of the first one, and the elements from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputTile {
    pub(crate) start: *mut f32,
    pub(crate) stride: usize,
    /// Whether sums start from what is there, rather than from zero.
    pub(crate) accumulate: bool,
}

impl OutputTile {
    /// Returns the outputs from row `row`, column `column` on.
    #[inline(always)]
    pub(crate) fn skip(self, row: usize, column: usize) -> OutputTile {
        OutputTile { start: self.start.wrapping_add(row * self.stride + column), ..self }
    }

    /// Returns what sums of a vector start from, whose first `count` lanes are the first outputs.
    ///
    /// # Safety
    /// The first `count.min(LANES)` outputs can be read.
    #[inline(always)]
    pub(crate) unsafe fn load<I: DenseLanes>(self, isa: I, count: usize) -> I::Floats {
        if !self.accumulate {
            return isa.zeros();
        }
        // SAFETY: the outputs can be read, by this function's contract.
        unsafe { load_part(isa, self.start.cast_const(), count) }
    }

    /// Stores the first `count` lanes of a vector in the first outputs.
    ///
    /// # Safety
    /// The first `count.min(LANES)` outputs can be written.
    #[inline(always)]
    pub(crate) unsafe fn store<I: DenseLanes>(self, isa: I, sums: I::Floats, count: usize) {
        // SAFETY: the outputs can be written, by this function's contract; the array has `MAX_LANES`.
        unsafe {
            if count >= I::LANES {
                return isa.store(sums, self.start);
            }
            let mut words = [0.0f32; MAX_LANES];
            isa.store(sums, words.as_mut_ptr());
            std::ptr::copy_nonoverlapping(words.as_ptr(), self.start, count);
        }
    }
}
