//! Matrix multiplication with MLX weights: `y = a · bᵀ`, with activations `a` in f32 and a weight `b` in planes.
//!
//! `a` is `[..., m, k]`, the weight `[n, k]`, `y` is `[..., m, n]` in f32. Weights are decoded to f32 and products summed
//! in f32, or activations are rounded within the tolerance stated here, as in `matmul`.

pub mod cases;
mod cpu;
mod gpu;

pub(crate) use cpu::PROGRAMS;

use crate::matmul::Problem;
use crate::mlx::{self, MlxOperands};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, MlxFormat};

/// The op. Inputs: `a`, and `packed`, `scales` and, for affine formats, `biases` of a weight `[n, k]`. Output: `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MlxMatmul {
    /// The format of the planes.
    pub format: MlxFormat,
}

/// The problem of a checked call, unless it is out of range.
fn problem(io: &Io<'_>) -> Option<Problem> {
    let (a, y) = (io.input(0).shape, io.output(0).shape);
    let (m, n, k) = (a.rows(), y.last(), a.last());
    let fit = |extent: usize| extent > 0 && u32::try_from(extent).is_ok();
    (fit(m) && fit(n) && fit(k)).then_some(Problem { batch: 1, m, n, k })
}

impl Op for MlxMatmul {
    fn name(&self) -> &'static str {
        "mlx_matmul"
    }

    fn slots(&self) -> &'static [Slot] {
        const BIASES: [Slot; 5] = [
            Slot::input("a"),
            Slot::input("packed"),
            Slot::input("scales"),
            Slot::input("biases"),
            Slot::output("y"),
        ];
        const PLAIN: [Slot; 4] =
            [Slot::input("a"), Slot::input("packed"), Slot::input("scales"), Slot::output("y")];
        if self.format.has_biases() { &BIASES } else { &PLAIN }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, expected) = ("mlx_matmul", mlx::planes(self.format) + 1);
        let Some((a, planes)) = given.split_first().filter(|_| given.len() == expected) else {
            return Err(Error::ArgumentCount { op, what: "inputs", expected, got: given.len() });
        };
        if a.dtype != DType::F32 {
            return Err(Error::DTypeMismatch { op, slot: "a", expected: "f32".to_owned(), got: a.dtype });
        }
        let weight = mlx::check(op, self.format, planes)?;
        let [n, k] = weight.axes() else {
            let expected = "two axes: columns and their words".to_owned();
            return Err(Error::Shape { op, slot: "packed", expected, got: weight });
        };
        if a.shape.axes().last() != Some(k) || a.elements() == 0 {
            let expected = format!("[..., m, {k}] for a weight {weight}, no axis of length zero");
            return Err(Error::Shape { op, slot: "a", expected, got: a.shape });
        }
        let shape = a.shape.with_last(*n).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([a, planes @ ..], [y, ..]) = (inputs, outputs) else { return };
        let (weights, k, n) = (mlx::values(self.format, planes), a.shape.last(), y.shape.last());
        for (a, y) in a.values.chunks_exact(k).zip(y.values.chunks_exact_mut(n)) {
            for (y, weights) in y.iter_mut().zip(weights.chunks_exact(k)) {
                *y = a.iter().zip(weights).map(|(a, b)| a * b).sum();
            }
        }
    }

    fn tolerance(&self, io: &Io<'_>, _: &TensorInfo) -> Tolerance {
        if self.format.has_biases() {
            // On the CPU, activations are rounded to 8 bits: an error of at most 1/254 of the largest of 32.
            return Tolerance { nmse: 2e-4, max: 2e-2 };
        }
        // Each of k additions in f32 rounds a sum that has grown with the square root of k.
        let k = io.input(0).shape.last() as f64;
        Tolerance { nmse: 1e-12 + 1e-13 * k, max: 1e-6 + 1e-6 * k.sqrt() }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let k = io.input(0).shape.last() as u64;
        Work::streaming(io, (io.output(0).elements() as u64).saturating_mul(2).saturating_mul(k))
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Integer, &cpu::Groups, &gpu::Few, &gpu::Tiled, &gpu::Matrix]
    }
}

/// Records `a · bᵀ` with an MLX weight: `[..., m, k]` by `[n, k]` gives `[..., m, n]`.
pub fn mlx_matmul<R: Recorder>(
    recorder: &mut R,
    a: &R::Value,
    weight: &MlxOperands<'_, R::Value>,
) -> Result<R::Value> {
    recorder.run_one(MlxMatmul { format: weight.format }, &weight.after(Some(a)))
}

/// [`mlx_matmul`] into a value that exists.
pub fn mlx_matmul_into<R: Recorder>(
    recorder: &mut R,
    a: &R::Value,
    weight: &MlxOperands<'_, R::Value>,
    y: &R::Value,
) -> Result<()> {
    recorder.run_into(MlxMatmul { format: weight.format }, &weight.after(Some(a)), &[y])
}
