//! GEMV: few rows of activations times dense weights, which are read once and not packed.
//!
//! ```text
//! for LANES outputs j, for rows i:
//!     sum[i][j] = 0
//!     for l in 0..k: sum[i][j] = fma(x[i][l], w[j][l], sum[i][j])
//! ```
//!
//! Lanes are outputs and the depth is summed in sequence, as in the register tile of the GEMM. So an output has the same bits for any
//! number of rows, in any layout.
//!
//! - [`GemvInterleaved`]: a vector of weights is one load. A thread reads several sets of sixteen outputs at once, one stream each: one
//!   chain of dependent additions would be slower than memory.
//! - [`GemvInPlace`]: weights are transposed in registers, 8 elements of `LANES` rows at a time. On one core of a Xeon with AVX-512 the
//!   shuffles leave 0.55 to 0.72 of the speed of interleaved f16 weights, for one to eight rows. Rows of the next vector are prefetched, as
//!   hardware prefetchers do not follow as many streams as there are lanes.
//!
//! Rows of activations are padded to `ROWS` by the last one, which is computed again and not written.

use super::element::{Element, STEP, load_step};
use super::lanes::{DenseLanes, OutputTile};
use crate::isa::Task;
use crate::prefetch::{LINE, fetch};
use crate::q8::INTERLEAVE;
use crate::view::Matrix;

/// Prefetch distance in bytes along a stream of interleaved weights, to L1.
const STREAM_AHEAD: usize = 4096;
/// The most bytes between a weight in place and what is prefetched with it, to L2.
const FAR: usize = 128 << 10;
/// Prefetch distance in bytes along a weight row, where the rows of the next vector are farther.
const ALONG: usize = 2048;
/// Prefetch distance in bytes along a weight row, to L1.
const NEAR: usize = 512;

/// Rows times some outputs.
#[derive(Clone, Copy)]
pub(crate) struct GemvPart<'a, T> {
    pub(crate) lhs: Matrix<'a, f32>,
    /// Weight rows, or sets of sixteen that are interleaved. `DenseGemm::check` compared their depth with that of `lhs`.
    pub(crate) rhs: Matrix<'a, T>,
    /// An output for each row of `lhs` and each weight row, which nothing else touches.
    pub(crate) out: OutputTile,
}

impl<T: Element> GemvPart<'_, T> {
    /// Returns the addresses of `ROWS` rows of activations from `first` on; the last row stands in for those that there are none of.
    #[inline(always)]
    fn activations<const ROWS: usize>(&self, first: usize) -> [*const f32; ROWS] {
        let last = self.lhs.rows() - 1;
        std::array::from_fn(|row| self.lhs.as_ptr().wrapping_add((first + row).min(last) * self.lhs.stride()))
    }

    /// Returns what the sums of `ROWS` rows and `VECTORS` vectors of outputs start from, of which the last has `count` lanes.
    ///
    /// # Safety
    /// There are as many outputs from row `row`, column `output` on.
    #[inline(always)]
    unsafe fn start<I: DenseLanes, const ROWS: usize, const VECTORS: usize>(
        &self,
        isa: I,
        row: usize,
        output: usize,
        count: usize,
    ) -> [[I::Floats; VECTORS]; ROWS] {
        let mut sums = [[isa.zeros(); VECTORS]; ROWS];
        for (i, sums) in sums.iter_mut().enumerate().take(self.lhs.rows() - row) {
            for (vector, sum) in sums.iter_mut().enumerate() {
                // SAFETY: there are `VECTORS` vectors of outputs from `output` on (`# Safety`); rows past the last were left out.
                *sum = unsafe { self.out.skip(row + i, output + vector * I::LANES).load(isa, count) };
            }
        }
        sums
    }

    /// Stores sums.
    ///
    /// # Safety
    /// As for [`GemvPart::start`].
    #[inline(always)]
    unsafe fn finish<I: DenseLanes, const ROWS: usize, const VECTORS: usize>(
        &self,
        isa: I,
        sums: [[I::Floats; VECTORS]; ROWS],
        row: usize,
        output: usize,
        count: usize,
    ) {
        for (i, sums) in sums.into_iter().enumerate().take(self.lhs.rows() - row) {
            for (vector, sum) in sums.into_iter().enumerate() {
                // SAFETY: there are `VECTORS` vectors of outputs from `output` on (`# Safety`); rows past the last were left out.
                unsafe { self.out.skip(row + i, output + vector * I::LANES).store(isa, sum, count) };
            }
        }
    }
}

/// Adds the products of one element of depth, `at`, of `ROWS` rows and `VECTORS` vectors of weights.
///
/// # Safety
/// Rows have an element `at`.
#[inline(always)]
unsafe fn add_products<I: DenseLanes, const ROWS: usize, const VECTORS: usize>(
    isa: I,
    sums: &mut [[I::Floats; VECTORS]; ROWS],
    rows: &[*const f32; ROWS],
    at: usize,
    weights: [I::Floats; VECTORS],
) {
    for (sums, row) in sums.iter_mut().zip(rows) {
        // SAFETY: `at` is an element of every row (`# Safety`).
        let x = isa.broadcast(unsafe { row.add(at).read_unaligned() });
        for (sum, weights) in sums.iter_mut().zip(weights) {
            *sum = isa.fma(x, weights, *sum);
        }
    }
}

/// Loads a vector of each stream of weights, `at` elements after its start.
///
/// # Safety
/// `LANES` elements can be read there.
#[inline(always)]
unsafe fn load_vectors<I: DenseLanes, T: Element, const VECTORS: usize>(
    isa: I,
    streams: &[*const T; VECTORS],
    at: usize,
) -> [I::Floats; VECTORS] {
    let mut weights = [isa.zeros(); VECTORS];
    // Not by `map`: its closure would be compiled without the instruction set, and called.
    for (weights, stream) in weights.iter_mut().zip(streams) {
        // SAFETY: `LANES` elements can be read at `at` of every stream (`# Safety`).
        *weights = unsafe { T::load(isa, stream.wrapping_add(at)) };
    }
    weights
}

/// A GEMV over interleaved weights, `ROWS` rows and `VECTORS` vectors of outputs at a time.
pub(crate) struct GemvInterleaved<'a, I, T, const ROWS: usize, const VECTORS: usize> {
    isa: I,
    part: GemvPart<'a, T>,
}

impl<'a, I: DenseLanes, T: Element, const ROWS: usize, const VECTORS: usize>
    GemvInterleaved<'a, I, T, ROWS, VECTORS>
{
    #[inline(always)]
    pub(crate) fn new(isa: I, part: GemvPart<'a, T>) -> Self {
        GemvInterleaved { isa, part }
    }

    /// Computes `COUNT` vectors of outputs from `output` on, of all rows.
    ///
    /// # Safety
    /// There are as many outputs.
    #[inline(always)]
    unsafe fn vectors<const COUNT: usize>(&self, output: usize) {
        let Self { isa, part } = *self;
        let (rhs, k) = (part.rhs, part.lhs.columns());
        let sets = const { (COUNT * I::LANES).div_ceil(INTERLEAVE) };
        let bytes = const { INTERLEAVE * size_of::<T>() };
        let whole = k - k % STEP;
        let weights: [*const T; COUNT] = std::array::from_fn(|vector| {
            let output = output + vector * I::LANES;
            rhs.as_ptr().wrapping_add(output / INTERLEAVE * rhs.stride() + output % INTERLEAVE)
        });
        for row in (0..part.lhs.rows()).step_by(ROWS) {
            let x = part.activations::<ROWS>(row);
            // SAFETY: there are `COUNT` vectors of outputs (`# Safety`). Sets have `k` vectors of sixteen elements, and rows `k`
            // elements; every `at` is below `k`.
            unsafe {
                let mut sums = part.start::<I, ROWS, COUNT>(isa, row, output, I::LANES);
                for at in (0..whole).step_by(STEP) {
                    if row == 0 {
                        // After the end of a set comes the first set of the next vectors.
                        let ahead = at * bytes + STREAM_AHEAD;
                        let over =
                            if ahead < k * bytes { 0 } else { (sets - 1) * rhs.stride() * size_of::<T>() };
                        for set in 0..sets {
                            let stream = weights[set * COUNT / sets].cast::<u8>().wrapping_add(ahead + over);
                            for line in (0..STEP * bytes).step_by(LINE) {
                                fetch::<true>(stream.wrapping_add(line));
                            }
                        }
                    }
                    for word in 0..STEP {
                        let at = at + word;
                        let weights = load_vectors(isa, &weights, at * INTERLEAVE);
                        add_products(isa, &mut sums, &x, at, weights);
                    }
                }
                for at in whole..k {
                    let weights = load_vectors(isa, &weights, at * INTERLEAVE);
                    add_products(isa, &mut sums, &x, at, weights);
                }
                part.finish(isa, sums, row, output, I::LANES);
            }
        }
    }
}

impl<I: DenseLanes, T: Element, const ROWS: usize, const VECTORS: usize> Task
    for GemvInterleaved<'_, I, T, ROWS, VECTORS>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let n = self.part.rhs.rows() * INTERLEAVE;
        let whole = n - n % (VECTORS * I::LANES);
        // SAFETY: `n` is the number of outputs, which `LANES` divides: sets are whole vectors. Vectors end at or before it.
        unsafe {
            for output in (0..whole).step_by(VECTORS * I::LANES) {
                self.vectors::<VECTORS>(output);
            }
            for output in (whole..n).step_by(I::LANES) {
                self.vectors::<1>(output);
            }
        }
    }
}

/// A GEMV over weights in place, `ROWS` rows and a vector of outputs at a time.
pub(crate) struct GemvInPlace<'a, I, T, const ROWS: usize> {
    isa: I,
    part: GemvPart<'a, T>,
}

impl<'a, I: DenseLanes, T: Element, const ROWS: usize> GemvInPlace<'a, I, T, ROWS> {
    #[inline(always)]
    pub(crate) fn new(isa: I, part: GemvPart<'a, T>) -> Self {
        GemvInPlace { isa, part }
    }

    /// Computes a vector of outputs from `output` on, of all rows. If `WHOLE`, there is a weight row for every lane.
    ///
    /// # Safety
    /// There is a weight row `output`, and one for every lane if `WHOLE`.
    #[inline(always)]
    unsafe fn vector<const WHOLE: bool>(&self, output: usize) {
        let Self { isa, part } = *self;
        let (rhs, k) = (part.rhs, part.lhs.columns());
        let count = if WHOLE { I::LANES } else { rhs.rows() - output };
        let line = const { LINE / size_of::<T>() };
        let apart = I::LANES * rhs.stride() * size_of::<T>();
        let ahead = if apart > FAR { ALONG } else { apart };
        let from = rhs.as_ptr().wrapping_add(output * rhs.stride());
        let whole = if WHOLE { k - k % STEP } else { 0 };
        for row in (0..part.lhs.rows()).step_by(ROWS) {
            let x = part.activations::<ROWS>(row);
            // SAFETY: `count` outputs are those of weight rows that there are. `whole` elements of a row for every lane are inside `rhs`,
            // and rows of `lhs` have `k` elements.
            unsafe {
                let mut sums = part.start::<I, ROWS, 1>(isa, row, output, count);
                for at in (0..whole).step_by(STEP) {
                    if row == 0 && at.is_multiple_of(line) {
                        for lane in 0..I::LANES {
                            let from = from.wrapping_add(lane * rhs.stride() + at).cast::<u8>();
                            fetch::<false>(from.wrapping_add(ahead));
                            fetch::<true>(from.wrapping_add(NEAR));
                        }
                    }
                    let weights = T::load_transposed(isa, from.add(at), rhs.stride());
                    for (word, weights) in weights.into_iter().enumerate() {
                        add_products(isa, &mut sums, &x, at + word, [weights]);
                    }
                }
                for at in (whole..k).step_by(STEP) {
                    let weights = load_step(isa, &rhs, output, at);
                    for (word, weights) in weights.into_iter().enumerate().take(k - at) {
                        add_products(isa, &mut sums, &x, at + word, [weights]);
                    }
                }
                part.finish(isa, sums, row, output, count);
            }
        }
    }
}

impl<I: DenseLanes, T: Element, const ROWS: usize> Task for GemvInPlace<'_, I, T, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let n = self.part.rhs.rows();
        let whole = n - n % I::LANES;
        // SAFETY: there are `n` weight rows, and whole vectors of them before `whole`. Where `whole` is below `n`, there is a weight row
        // `whole`, and `WHOLE` is false.
        unsafe {
            for output in (0..whole).step_by(I::LANES) {
                self.vector::<true>(output);
            }
            if whole < n {
                self.vector::<false>(whole);
            }
        }
    }
}
