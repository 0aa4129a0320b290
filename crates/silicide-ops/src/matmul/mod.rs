//! Matrix multiplication: `y = a · bᵀ`, with activations `a` in f32 and weights `b` in f32, f16, bf16 or any block format.
//!
//! Both factors have their depth `k` as the last axis, as weights are stored: `a` is `[..., m, k]`, `b` is
//! `[..., n, k]`, `y` is `[..., m, n]` in f32. A `b` of two axes serves every row of `a`. Otherwise `b` has as many
//! axes as `a` and the same leading ones, but for the last of them, of which `a` may have a multiple: batch `i` of `a`
//! meets batch `i / g` of `b`, as grouped query heads share a head of keys.
//!
//! Because batches that share weights lie side by side, all of this is one problem to a kernel: `batch` separate
//! products of `[m, k]` and `[n, k]` ([`Problem`]).
//!
//! Products are summed in f32. NaN and infinity go through as the arithmetic has it. On the CPU an instruction set sums an
//! output in one order, so a row of the result has the same bits for any number of rows beside it. On GPUs each kernel has an
//! order of its own.

pub mod cases;
mod cpu;
pub(crate) mod few;
pub(crate) mod gpu;
pub(crate) mod gpu_needs;
pub(crate) mod matrix;
pub(crate) mod tiled;

pub(crate) use cpu::{DENSE_WEIGHTS, dense_launch};

use crate::elementwise::is_float;
use crate::weight::{self, has_integer_product};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};
use smallvec::smallvec;

/// `y = a · bᵀ`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matmul {
    /// Multiply activations as they are. Otherwise a kernel may round them first to what its arithmetic takes, within
    /// the tolerance stated here.
    pub exact: bool,
}

/// Records `a · bᵀ`: `[..., m, k]` by `[..., n, k]` is `[..., m, n]`.
pub fn matmul<R: Recorder>(recorder: &mut R, a: &R::Value, b: &R::Value) -> Result<R::Value> {
    recorder.run_one(Matmul::default(), &[a, b])
}

/// [`matmul`] into a value that exists.
pub fn matmul_into<R: Recorder>(recorder: &mut R, a: &R::Value, b: &R::Value, y: &R::Value) -> Result<()> {
    recorder.run_into(Matmul::default(), &[a, b], &[y])
}

/// The extents of a call, for kernels: `batch` products of `[m, k]` activations and `[n, k]` weights, each dense and one after the
/// other. Every extent and the number of rows, `batch * m`, fit in 32 bits, and none is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

impl Problem {
    /// The problem of a checked call, unless it is out of range.
    pub(crate) fn of(io: &Io<'_>) -> Option<Problem> {
        let (a, b) = (io.input(0).shape, io.input(1).shape);
        let [leading @ .., n, k] = b.axes() else { return None };
        let batch: usize = leading.iter().product();
        let rows = a.rows();
        let fit = |extent: usize| extent > 0 && u32::try_from(extent).is_ok();
        let fits = fit(batch) && fit(rows) && fit(*n) && fit(*k);
        fits.then(|| Problem { batch, m: rows / batch, n: *n, k: *k })
    }
}

impl Op for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn slots(&self) -> &'static [Slot] {
        const SLOTS: [Slot; 3] = [Slot::input("a"), Slot::input("b"), Slot::output("y")];
        &SLOTS
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        let [a, b] = inputs else {
            let got = inputs.len();
            return Err(Error::ArgumentCount { op: "matmul", what: "inputs", expected: 2, got });
        };
        if a.dtype != DType::F32 {
            return Err(wrong_type("a", "f32", a.dtype));
        }
        if !is_float(b.dtype) && !b.dtype.is_block() {
            return Err(wrong_type("b", "f32, f16, bf16 or a block format", b.dtype));
        }
        let [b_leading @ .., n, k] = b.shape.axes() else {
            return Err(wrong_shape("b", "[..., n, k]".into(), b.shape));
        };
        let block = b.dtype.block_len();
        if !k.is_multiple_of(block) {
            return Err(wrong_shape("b", format!("rows of whole blocks of {block}"), b.shape));
        }
        if b.elements() == 0 {
            return Err(wrong_shape("b", "no axis of length zero".into(), b.shape));
        }
        if a.shape.axes().last() != Some(k) || a.elements() == 0 {
            return Err(wrong_shape(
                "a",
                format!("[..., m, {k}] for b {}, no axis of length zero", b.shape),
                a.shape,
            ));
        }
        if let [same @ .., shared] = b_leading {
            let matches = match a.shape.axes() {
                [a_same @ .., heads, _, _] => a_same == same && heads.is_multiple_of(*shared),
                _ => false,
            };
            if !matches {
                let expected =
                    format!("the leading axes of b {}, the last of them times any whole number", b.shape);
                return Err(wrong_shape("a", expected, a.shape));
            }
        }
        let shape = a.shape.with_last(*n).map_err(|source| Error::bad_shape("matmul", source))?;
        Ok(smallvec![TensorInfo::new(DType::F32, shape)])
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([a, b], [y]) = (inputs, outputs) else { return };
        let (k, n) = (b.shape.last(), y.shape.last());
        // Rows of `a` that meet the same [n, k] weights lie side by side.
        let together = a.shape.rows() * n / b.shape.rows();
        for (row, (a, y)) in a.values.chunks_exact(k).zip(y.values.chunks_exact_mut(n)).enumerate() {
            let weights = b.values.chunks_exact(k).skip(row / together * n);
            for (y, weights) in y.iter_mut().zip(weights) {
                *y = a.iter().zip(weights).map(|(a, b)| a * b).sum();
            }
        }
    }

    fn tolerance(&self, io: &Io<'_>, _: &TensorInfo) -> Tolerance {
        let k = io.input(0).shape.last() as f64;
        if !self.exact && has_integer_product(io.input(1).dtype.into()) {
            // On the CPU, activations are quantized to 8 bits: an error of at most 1/254 of the largest of 32.
            return Tolerance { nmse: 2e-4, max: 2e-2 };
        }
        if !self.exact && weight::may_round(io.input(1).dtype.into()) {
            return weight::ROUNDED;
        }
        // Each of k additions in f32 rounds a sum that has grown with the square root of k.
        Tolerance { nmse: 1e-12 + 1e-13 * k, max: 1e-6 + 1e-6 * k.sqrt() }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let k = io.input(0).shape.last() as u64;
        Work::streaming(io, (io.output(0).elements() as u64).saturating_mul(2).saturating_mul(k))
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Matmul>] {
        static KERNELS: [&dyn Kernel<Op = Matmul>; 9] = [
            &cpu::DENSE,
            &cpu::INTEGER,
            &cpu::BLOCKS,
            &few::FEW[0],
            &few::FEW[1],
            &tiled::TILED,
            &matrix::MATRIX[0],
            &matrix::MATRIX[1],
            &matrix::MATRIX[2],
        ];
        &KERNELS
    }
}

/// An argument of the wrong element type.
fn wrong_type(slot: &'static str, expected: &str, got: DType) -> Error {
    Error::DTypeMismatch { op: "matmul", slot, expected: expected.to_owned(), got }
}

/// An argument of the wrong shape.
fn wrong_shape(slot: &'static str, expected: String, got: Shape) -> Error {
    Error::Shape { op: "matmul", slot, expected, got }
}

#[cfg(test)]
mod tests;
