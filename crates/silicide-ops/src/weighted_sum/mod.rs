//! Weighted sums: `y = Σ weights[i] · x[i]` over the axis before the last, what joins the outputs of experts.
//!
//! Summed in f32, one after the other. NaN and infinity go through as the arithmetic has it.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};
use smallvec::SmallVec;

/// The op. Inputs: `x` of f32, `[..., count, n]`, and `weights` of f32, `[..., count]`. Output: `y` of f32, `[..., n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightedSum;

/// The extents of a call, for kernels: `sums` sums of `count` rows of `n`.
#[derive(Clone, Copy)]
struct WeightedSumExtents {
    sums: usize,
    count: usize,
    n: usize,
}

impl WeightedSumExtents {
    /// Those of a checked call.
    fn of(io: &Io<'_>) -> WeightedSumExtents {
        let (n, count) = (io.input(0).shape.last(), io.input(1).shape.last());
        WeightedSumExtents { sums: io.output(0).elements() / n.max(1), count, n }
    }
}

impl Op for WeightedSum {
    fn name(&self) -> &'static str {
        "weighted_sum"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::input("weights"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "weighted_sum";
        let [x, weights] = inputs(op, self.slots(), given)?;
        for (slot, input) in [("x", x), ("weights", weights)] {
            if input.dtype != DType::F32 {
                return Err(Error::DTypeMismatch { op, slot, expected: "f32".to_owned(), got: input.dtype });
            }
        }
        let [leading @ .., _, n] = x.shape.axes() else {
            return Err(Error::Shape { op, slot: "x", expected: "[..., count, n]".to_owned(), got: x.shape });
        };
        let rows = x.shape.axes().split_last().map_or(&[][..], |(_, rows)| rows);
        if weights.shape.axes() != rows {
            let expected = format!("a number for each row of x {}", x.shape);
            return Err(Error::Shape { op, slot: "weights", expected, got: weights.shape });
        }
        let axes: SmallVec<[usize; 8]> = leading.iter().chain([n]).copied().collect();
        let shape = Shape::new(&axes).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([x, weights, ..], [y, ..]) = (inputs, outputs) else { return };
        let (n, count) = (x.shape.last().max(1), weights.shape.last().max(1));
        let sums = x.values.chunks_exact(n * count).zip(weights.values.chunks_exact(count));
        for ((x, weights), y) in sums.zip(y.values.chunks_exact_mut(n)) {
            y.fill(0.0);
            for (x, weight) in x.chunks_exact(n).zip(weights) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y += weight * x);
            }
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.input(0).elements() as u64 * 2)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuWeightedSum, &gpu::GpuWeightedSum]
    }
}

/// Records the sums of `x`, `[..., count, n]`, under `weights`, `[..., count]`.
pub fn weighted_sum<R: Recorder>(recorder: &mut R, x: &R::Value, weights: &R::Value) -> Result<R::Value> {
    recorder.run_one(WeightedSum, &[x, weights])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_argument() {
        let info = |dtype, axes: &[usize]| TensorInfo::new(dtype, Shape::new(axes).unwrap());
        let slot = |x, weights| match WeightedSum.infer(&[x, weights]) {
            Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
            other => panic!("{other:?}"),
        };
        use DType::{F16, F32};
        assert_eq!(slot(info(F32, &[7]), info(F32, &[7])), "x");
        assert_eq!(slot(info(F16, &[2, 7]), info(F32, &[2])), "x");
        assert_eq!(slot(info(F32, &[3, 2, 7]), info(F32, &[2])), "weights");
        assert_eq!(slot(info(F32, &[2, 7]), info(F32, &[7])), "weights");
        assert_eq!(slot(info(F32, &[2, 7]), info(F16, &[2])), "weights");
        let y = WeightedSum.infer(&[info(F32, &[3, 2, 7]), info(F32, &[3, 2])]).unwrap();
        assert_eq!(y.as_slice(), [info(F32, &[3, 7])]);
    }
}
