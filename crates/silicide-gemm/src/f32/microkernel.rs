//! The register tile of a GEMM: MR rows of activations times a packed panel.
//!
//! ```text
//! sum[MR][NR] = accumulate ? out : 0
//! for l in 0..depth:
//!     for i in 0..MR: for j in 0..NR: sum[i][j] = fma(x[i][l], panel[l][j], sum[i][j])
//! out = sum
//! ```
//!
//! Every output is summed over the depth in sequence, in registers, and passes through the output from one panel to the next. So its
//! bits depend neither on the shape of the tile, nor on its place in it, nor on where panels are cut.

use super::lanes::{DenseLanes, MAX_MR, MAX_NR_VECTORS, OutputTile};
use super::pack::PackedPanel;
use crate::isa::{MAX_LANES, Task};
use crate::view::Matrix;

/// Rows times a packed panel.
pub(super) struct MultiplyPanel<'a, I> {
    pub(super) isa: I,
    /// As deep as the panel.
    pub(super) lhs: Matrix<'a, f32>,
    pub(super) panel: PackedPanel<'a, I>,
    /// An output for each row of `lhs` and each of the panel, which nothing else touches.
    pub(super) out: OutputTile,
}

impl<I: DenseLanes> Task for MultiplyPanel<'_, I> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, lhs, panel, out } = self;
        const { assert!(I::MR <= MAX_MR && I::NR_VECTORS <= MAX_NR_VECTORS) };
        let nr = I::NR_VECTORS * I::LANES;
        // Strips of nearly equal height: seven and six rows rather than eight and five.
        let strips = lhs.rows().div_ceil(I::MR);
        let mut row = 0;
        for strip in 0..strips {
            let end = (strip + 1) * lhs.rows() / strips;
            for output in (0..panel.outputs).step_by(nr) {
                let tile = RegisterTile {
                    isa,
                    x: lhs.as_ptr().wrapping_add(row * lhs.stride()),
                    x_stride: lhs.stride(),
                    weights: panel.start.wrapping_add(output * panel.depth),
                    depth: panel.depth,
                    outputs: nr.min(panel.outputs - output),
                    out: out.skip(row, output),
                };
                // SAFETY: rows from `row` to `end` are in `lhs`, which is as deep as the panel, and outputs are in the panel.
                unsafe {
                    match tile.outputs.div_ceil(I::LANES) {
                        1 => tile.rows::<1>(end - row),
                        2 if I::NR_VECTORS >= 2 => tile.rows::<2>(end - row),
                        _ if I::NR_VECTORS >= 3 => tile.rows::<3>(end - row),
                        _ => {}
                    }
                }
            }
            row = end;
        }
    }
}

/// Rows times a sub-panel.
struct RegisterTile<I> {
    isa: I,
    /// The first activation of the first row, and activations from one row to the next.
    x: *const f32,
    x_stride: usize,
    /// The sub-panel: `depth` rows of as many vectors as `outputs` fill.
    weights: *const f32,
    depth: usize,
    outputs: usize,
    out: OutputTile,
}

impl<I: DenseLanes> RegisterTile<I> {
    /// Computes `rows` rows, at most MR, and `VECTORS` vectors of outputs.
    ///
    /// # Safety
    /// There are as many rows of activations and outputs, and as many vectors in the sub-panel.
    #[inline(always)]
    unsafe fn rows<const VECTORS: usize>(&self, rows: usize) {
        // SAFETY: there are `rows` rows (`# Safety`), and each arm computes as many as it names.
        unsafe {
            match rows {
                1 => self.compute::<1, VECTORS>(),
                2 => self.compute::<2, VECTORS>(),
                3 => self.compute::<3, VECTORS>(),
                4 => self.compute::<4, VECTORS>(),
                5 if I::MR >= 5 => self.compute::<5, VECTORS>(),
                6 if I::MR >= 6 => self.compute::<6, VECTORS>(),
                7 if I::MR >= 7 => self.compute::<7, VECTORS>(),
                8 if I::MR >= 8 => self.compute::<8, VECTORS>(),
                _ => {}
            }
        }
    }

    /// Computes `ROWS` rows and `VECTORS` vectors of outputs over the whole depth.
    ///
    /// # Safety
    /// As for [`RegisterTile::rows`].
    #[inline(always)]
    unsafe fn compute<const ROWS: usize, const VECTORS: usize>(&self) {
        let Self { isa, x, x_stride, weights, depth, outputs, out } = *self;
        // Sums stay in registers only if every index of them is constant. So outputs that do not fill their vectors are in `edge`.
        let mut edge = [0.0; MAX_MR * MAX_NR_VECTORS * MAX_LANES];
        let is_whole = outputs == VECTORS * I::LANES;
        let stored = OutputTile { start: edge.as_mut_ptr(), stride: VECTORS * I::LANES, ..out };
        let stored = if is_whole { out } else { stored };
        // SAFETY: by `# Safety` there are rows of `depth` activations, `depth` times VECTORS vectors of weights, and the outputs; `edge`
        // has VECTORS vectors for each of ROWS rows, as `run` asserts.
        unsafe {
            if !is_whole && out.accumulate {
                for row in 0..ROWS {
                    stored.skip(row, 0).start.copy_from_nonoverlapping(out.skip(row, 0).start, outputs);
                }
            }
            let mut sums = [[isa.zeros(); VECTORS]; ROWS];
            for (row, sums) in sums.iter_mut().enumerate() {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = stored.skip(row, i * I::LANES).load(isa, I::LANES);
                }
            }
            for at in 0..depth {
                let from = weights.add(at * VECTORS * I::LANES);
                let mut weights = [isa.zeros(); VECTORS];
                for (i, weights) in weights.iter_mut().enumerate() {
                    *weights = isa.load(from.add(i * I::LANES));
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = isa.broadcast(x.add(row * x_stride + at).read_unaligned());
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        *sum = isa.fma(x, weights, *sum);
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                for (i, sum) in sums.iter().enumerate() {
                    stored.skip(row, i * I::LANES).store(isa, *sum, I::LANES);
                }
            }
            if !is_whole {
                for row in 0..ROWS {
                    out.skip(row, 0).start.copy_from_nonoverlapping(stored.skip(row, 0).start, outputs);
                }
            }
        }
    }
}
