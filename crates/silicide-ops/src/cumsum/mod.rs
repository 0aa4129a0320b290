//! Running sums along rows: `y[i] = x[0] + ... + x[i]`, the last axis.
//!
//! Summed in f32 or better, in a fixed order, and rounded once to the type of `x`. From the first NaN of a row on
//! every sum is NaN.

pub mod cases;
mod rows;

use crate::rowwise::{Arguments, RowOp, RowRoles};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance};
use silicide_core::{Recorder, Result};
use silicide_quant::DType;

/// The op. Input: `x`. Output: `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cumsum;

impl Op for Cumsum {
    fn name(&self) -> &'static str {
        "cumsum"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output_over("y", 0b1)] }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        let x = Arguments::new("cumsum", self.slots(), inputs)?.rows()?;
        Ok(Outputs::from_slice(&[TensorInfo::new(x.dtype, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        let k = x.shape.last().max(1);
        for (y, x) in y.values.chunks_exact_mut(k).zip(x.values.chunks_exact(k)) {
            let mut sum = 0.0;
            for (y, x) in y.iter_mut().zip(x) {
                sum += x;
                *y = sum;
            }
        }
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        match output.dtype {
            // Terms of both signs cancel, so the error can be large beside the sums though small beside the terms.
            DType::F32 => Tolerance { nmse: 1e-9, max: 1e-4 },
            other => Tolerance::rounding(other),
        }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        const { &[&rows::CPU, &rows::GPU] }
    }
}

impl RowOp for Cumsum {
    const ROLES: RowRoles = RowRoles::PER_ELEMENT;
}

/// Running sums along the last axis.
pub fn cumsum<R: Recorder>(recorder: &mut R, x: &R::Value) -> Result<R::Value> {
    recorder.run_one(Cumsum, &[x])
}
