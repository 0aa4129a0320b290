//! The index of the largest element of each row, as u32. The last axis goes away.
//!
//! Of equal elements the first wins, -0 and +0 being equal. NaN counts as larger than everything, so for a row with one
//! the result is the index of its first NaN, as `reduce`'s `max` is NaN: an error upstream stays visible.

pub mod cases;
mod rows;

use crate::rowwise::{Arguments, RowOp, RowRoles, without_last};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The op. Input: `x`. Output: `index`, without the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argmax;

impl Op for Argmax {
    fn name(&self) -> &'static str {
        "argmax"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output("index")] }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        let x = Arguments::new("argmax", self.slots(), inputs)?.rows()?;
        if u32::try_from(x.shape.last()).is_err() {
            let expected = "rows of at most 4294967295 elements, so that u32 can count them".to_owned();
            return Err(Error::Shape { op: "argmax", slot: "x", expected, got: x.shape });
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::U32, without_last("argmax", &x.shape)?)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [index, ..]) = (inputs.first(), outputs) else { return };
        let k = x.shape.last().max(1);
        for (index, x) in index.values.iter_mut().zip(x.values.chunks_exact(k)) {
            let mut best = (0, x.first().copied().unwrap_or(0.0));
            for (i, &x) in x.iter().enumerate() {
                if x > best.1 || (x.is_nan() && !best.1.is_nan()) {
                    best = (i, x);
                }
            }
            *index = best.0 as f64;
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.input(0).elements() as u64)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        const { &[&rows::CPU, &rows::GPU] }
    }
}

impl RowOp for Argmax {
    const ROLES: RowRoles = RowRoles::PER_ROW;
}

/// The index of the largest element of each row, as u32; the last axis goes away.
pub fn argmax<R: Recorder>(recorder: &mut R, x: &R::Value) -> Result<R::Value> {
    recorder.run_one(Argmax, &[x])
}
