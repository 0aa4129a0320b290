//! Reductions of rows to one number: the sum or the largest element. The last axis goes away.
//!
//! Sums are taken in f32 in a fixed order. NaN makes its row's result NaN, in `max` too.

pub mod cases;
mod rows;

use crate::rowwise::{Arguments, RowOp, RowRoles, without_last};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Recorder, Result};
use silicide_quant::DType;

/// The function that reduces a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum of its elements.
    Sum,
    /// The largest of its elements.
    Max,
}

/// The op. Input: `x`. Output: `y`, without the last axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduce {
    /// The function.
    pub reduction: Reduction,
}

impl Op for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output("y")] }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        let x = Arguments::new("reduce", self.slots(), inputs)?.rows()?;
        Ok(Outputs::from_slice(&[TensorInfo::new(x.dtype, without_last("reduce", &x.shape)?)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        let k = x.shape.last().max(1);
        for (y, x) in y.values.iter_mut().zip(x.values.chunks_exact(k)) {
            *y = match self.reduction {
                Reduction::Sum => x.iter().sum(),
                // `f64::max` would drop NaN.
                Reduction::Max => {
                    x.iter().fold(f64::NEG_INFINITY, |max, &x| if x > max || x.is_nan() { x } else { max })
                }
            };
        }
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        match (self.reduction, output.dtype) {
            (Reduction::Max, _) => Tolerance::EXACT,
            // Terms of both signs cancel, so the error can be large beside the sum though small beside the terms.
            (Reduction::Sum, DType::F32) => Tolerance { nmse: 1e-9, max: 1e-4 },
            (Reduction::Sum, other) => Tolerance::rounding(other),
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.input(0).elements() as u64)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        const { &[&rows::CPU, &rows::GPU] }
    }
}

impl RowOp for Reduce {
    const ROLES: RowRoles = RowRoles::PER_ROW;
}

/// The sum of each row; the last axis goes away.
pub fn sum<R: Recorder>(recorder: &mut R, x: &R::Value) -> Result<R::Value> {
    recorder.run_one(Reduce { reduction: Reduction::Sum }, &[x])
}

/// The largest element of each row; the last axis goes away.
pub fn max<R: Recorder>(recorder: &mut R, x: &R::Value) -> Result<R::Value> {
    recorder.run_one(Reduce { reduction: Reduction::Max }, &[x])
}
