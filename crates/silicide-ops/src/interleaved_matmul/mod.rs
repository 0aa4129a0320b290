//! Matrix multiplication with interleaved weights: `y = a · bᵀ`, with activations `a` in f32 and a weight `b` that
//! [`interleave`](crate::interleave) has rearranged for the CPU.
//!
//! `a` is `[..., m, k]`, `b` the bytes of `[n, k]` weights, `y` is `[..., m, n]` in f32. Activations are rounded within the
//! tolerance stated here, as in [`matmul`](crate::matmul), whose results these are to the last bit.

pub mod cases;
mod cpu;

pub(crate) use cpu::PROGRAMS;

use crate::interleave::{interleaved_values, interleaves};
use crate::matmul::Problem;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Format};

/// The op. Inputs: `a`, and `b`, `[n, bytes of a column]`. Output: `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterleavedMatmul {
    /// The format of the weights.
    pub format: Format,
}

/// The problem of a checked call, unless it is out of range.
fn problem(io: &Io<'_>) -> Option<Problem> {
    let (a, y) = (io.input(0).shape, io.output(0).shape);
    let (m, n, k) = (a.rows(), y.last(), a.last());
    let fit = |extent: usize| extent > 0 && u32::try_from(extent).is_ok();
    (fit(m) && fit(n) && fit(k)).then_some(Problem { batch: 1, m, n, k })
}

impl Op for InterleavedMatmul {
    fn name(&self) -> &'static str {
        "interleaved_matmul"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("a"), Slot::input("b"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, format) = ("interleaved_matmul", self.format);
        let [a, b] = given else {
            return Err(Error::ArgumentCount { op, what: "inputs", expected: 2, got: given.len() });
        };
        for (slot, info, expected) in [("a", a, DType::F32), ("b", b, DType::U8)] {
            if info.dtype != expected {
                return Err(Error::DTypeMismatch {
                    op,
                    slot,
                    expected: expected.to_string(),
                    got: info.dtype,
                });
            }
        }
        let k = b.shape.last() / format.block_bytes() * format.block_len();
        let n = match b.shape.axes() {
            [n, bytes] if bytes.is_multiple_of(format.block_bytes()) && interleaves(format, *n, k) => *n,
            _ => {
                let expected = format!("[n, bytes of a column] of interleaved {format}");
                return Err(Error::Shape { op, slot: "b", expected, got: b.shape });
            }
        };
        if a.shape.axes().last() != Some(&k) || a.elements() == 0 {
            let expected = format!("[..., m, {k}], no axis of length zero");
            return Err(Error::Shape { op, slot: "a", expected, got: a.shape });
        }
        let shape = a.shape.with_last(n).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([a, b], [y, ..]) = (inputs, outputs) else { return };
        let (weights, k, n) = (interleaved_values(self.format, b), a.shape.last(), y.shape.last());
        for (a, y) in a.values.chunks_exact(k).zip(y.values.chunks_exact_mut(n)) {
            for (y, weights) in y.iter_mut().zip(weights.chunks_exact(k)) {
                *y = a.iter().zip(weights).map(|(a, b)| a * b).sum();
            }
        }
    }

    fn tolerance(&self, _: &Io<'_>, _: &TensorInfo) -> Tolerance {
        // Activations are rounded to 8 bits: an error of at most 1/254 of the largest of 32.
        Tolerance { nmse: 2e-4, max: 2e-2 }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let k = io.input(0).shape.last() as u64;
        Work::streaming(io, (io.output(0).elements() as u64).saturating_mul(2).saturating_mul(k))
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Integer]
    }
}

/// Records `a · bᵀ` with an interleaved weight: `[..., m, k]` by `[n, k]` gives `[..., m, n]`.
pub fn interleaved_matmul<R: Recorder>(
    recorder: &mut R,
    a: &R::Value,
    b: &R::Value,
    format: Format,
) -> Result<R::Value> {
    recorder.run_one(InterleavedMatmul { format }, &[a, b])
}

/// [`interleaved_matmul`] into a value that exists.
pub fn interleaved_matmul_into<R: Recorder>(
    recorder: &mut R,
    (a, b): (&R::Value, &R::Value),
    format: Format,
    y: &R::Value,
) -> Result<()> {
    recorder.run_into(InterleavedMatmul { format }, &[a, b], &[y])
}
