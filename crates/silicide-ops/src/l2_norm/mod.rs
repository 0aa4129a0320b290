//! Euclidean normalisation of rows: `y = x / max(sqrt(sum(x²)), eps)`.
//!
//! Computed in f32. Squares underflow for rows of magnitudes under 1e-19, so that with `eps` below that such rows
//! may become infinite, and they overflow past 1e19, which makes the row zero. NaN makes its row NaN; an infinity
//! becomes NaN and the rest of its row zero.

pub mod cases;
mod rows;

use crate::rowwise::{Arguments, RowOp, RowRoles, RowWords, check_not_negative};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Recorder, Result};

/// The op. Input: `x`. Output: `y`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct L2Norm {
    /// The least norm that is divided by; finite, not negative.
    pub eps: f32,
}

impl Op for L2Norm {
    fn name(&self) -> &'static str {
        "l2_norm"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output_over("y", 0b1)] }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        check_not_negative("l2_norm", "eps", self.eps)?;
        let x = Arguments::new("l2_norm", self.slots(), inputs)?.rows()?;
        Ok(Outputs::from_slice(&[TensorInfo::new(x.dtype, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        let k = x.shape.last().max(1);
        for (y, x) in y.values.chunks_exact_mut(k).zip(x.values.chunks_exact(k)) {
            let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
            // Written so that NaN stays: `f64::max` would drop it.
            let divisor = if norm < f64::from(self.eps) { f64::from(self.eps) } else { norm };
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x / divisor);
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64 * 3)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        const { &[&rows::CPU, &rows::GPU] }
    }
}

impl RowOp for L2Norm {
    const ROLES: RowRoles = RowRoles { words: &["eps"], ..RowRoles::PER_ELEMENT };

    fn words(&self) -> RowWords {
        [self.eps, 0.0]
    }
}

/// `x / max(sqrt(sum(x²)), eps)` along the last axis.
pub fn l2_norm<R: Recorder>(recorder: &mut R, x: &R::Value, eps: f32) -> Result<R::Value> {
    recorder.run_one(L2Norm { eps }, &[x])
}
