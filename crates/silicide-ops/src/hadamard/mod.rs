//! The rotation of heads before they are quantized, and its inverse: signs and a Walsh-Hadamard transform along the last axis.
//!
//! ```text
//! y = H (s * x) / sqrt(d)        inverse: y = s * (H x) / sqrt(d)        H[i][j] = -1 if i & j has an odd number of bits, else 1
//! ```
//!
//! Coordinates of the result look normal, so codebooks and blocks with one scale fit them. Products stay, so attention takes rotated queries
//! and keys, and the inverse of its result where values are rotated ([`silicide_quant::turbo`]).

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;
use silicide_quant::turbo::{HEAD_LENGTHS, is_negative, is_rotated};

/// The op. Input: `x` of f32, whose last axis is a power of two from 32 to 512. Output: `y`, like `x`, which it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hadamard {
    /// Whether rows are rotated back.
    pub inverse: bool,
}

impl Op for Hadamard {
    fn name(&self) -> &'static str {
        "hadamard"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output_over("y", 0b1)] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "hadamard";
        let [x] = inputs(op, self.slots(), given)?;
        if x.dtype != DType::F32 {
            return Err(Error::DTypeMismatch { op, slot: "x", expected: "f32".to_owned(), got: x.dtype });
        }
        if !is_rotated(x.shape.last()) {
            let (least, most) = (HEAD_LENGTHS.start(), HEAD_LENGTHS.end());
            let expected = format!("[..., a power of two from {least} to {most}]");
            return Err(Error::Shape { op, slot: "x", expected, got: x.shape });
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        let dim = x.shape.last().max(1);
        for (x, y) in x.values.chunks_exact(dim).zip(y.values.chunks_exact_mut(dim)) {
            for (i, y) in y.iter_mut().enumerate() {
                let sign = |at: usize| if is_negative(at) { -1.0 } else { 1.0 };
                let of = |j: usize| if (i & j).count_ones() % 2 == 1 { -1.0 } else { 1.0 };
                let term = |(j, x): (usize, &f64)| of(j) * if self.inverse { *x } else { sign(j) * x };
                let sum: f64 = x.iter().enumerate().map(term).sum();
                *y = sum / (dim as f64).sqrt() * if self.inverse { sign(i) } else { 1.0 };
            }
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let x = io.input(0);
        Work::streaming(io, x.elements() as u64 * u64::from(x.shape.last().max(1).ilog2() + 1))
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuHadamard, &gpu::GpuHadamard]
    }
}

/// Rotates the rows of `x`.
pub fn hadamard<R: Recorder>(recorder: &mut R, x: &R::Value) -> Result<R::Value> {
    recorder.run_one(Hadamard { inverse: false }, &[x])
}

/// Rotates the rows of `x` back.
pub fn hadamard_inverse<R: Recorder>(recorder: &mut R, x: &R::Value) -> Result<R::Value> {
    recorder.run_one(Hadamard { inverse: true }, &[x])
}
