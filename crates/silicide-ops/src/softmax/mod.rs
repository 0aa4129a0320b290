//! Softmax of rows: `y = exp(z - max(z)) / sum(exp(z - max(z)))` with `z = scale · x + mask`.
//!
//! The mask is optional, shaped as the last axes of `x` and repeated over the leading ones: for scores of shape
//! `[heads, queries, keys]` a mask `[queries, keys]` serves every head. Masked places hold -infinity.
//!
//! A row of -infinity alone becomes zeros (nothing to attend to), NaN anywhere in a row makes the row NaN,
//! and so does +infinity. Computed in f32; weights under 1e-38 become zero.

pub mod cases;
mod rows;

use crate::rowwise::{Arguments, RowOp, RowRoles, RowWords};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The op. Inputs: `x`, then `mask` where it has one. Output: `y`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softmax {
    /// Multiplied to `x` before the mask is added; finite.
    pub scale: f32,
    /// Whether a mask is added.
    pub masked: bool,
}

impl Op for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn slots(&self) -> &'static [Slot] {
        const X: Slot = Slot::input("x");
        const MASK: Slot = Slot::input("mask");
        const Y: Slot = Slot::output_over("y", 0b1);
        if self.masked { &[X, MASK, Y] } else { &[X, Y] }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        if !self.scale.is_finite() {
            let what = format!("scale must be finite, got {}", self.scale);
            return Err(Error::BadParameter { op: "softmax", what });
        }
        let mut arguments = Arguments::new("softmax", self.slots(), inputs)?;
        let x = arguments.rows()?;
        if self.masked {
            arguments.trailing(&x, x.shape.rank())?;
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(x.dtype, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        let k = x.shape.last().max(1);
        let none = [0.0];
        let mask = inputs.get(1).map_or(&none[..], |mask| &mask.values);
        let masked = x.values.iter().zip(mask.iter().cycle());
        let z: Vec<f64> = masked.map(|(x, mask)| x * f64::from(self.scale) + mask).collect();
        for (y, z) in y.values.chunks_exact_mut(k).zip(z.chunks_exact(k)) {
            // From the lowest number up, so that a row of -infinity has a finite maximum and its exponentials are 0.
            let max = z.iter().fold(f64::MIN, |max, &z| max.max(z));
            y.iter_mut().zip(z).for_each(|(y, z)| *y = (z - max).exp());
            let sum: f64 = y.iter().sum();
            let scale = if sum == 0.0 { 0.0 } else { 1.0 / sum };
            y.iter_mut().for_each(|y| *y *= scale);
        }
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        match output.dtype {
            // GPUs promise 3 + 2·|z| units in the last place for exp, and `z - max` reaches past -10 where it counts.
            DType::F32 => Tolerance { nmse: 1e-10, max: 2e-5 },
            other => Tolerance::rounding(other),
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64 * 6)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        const { &[&rows::CPU, &rows::GPU] }
    }
}

impl RowOp for Softmax {
    const ROLES: RowRoles =
        RowRoles { other: Some("mask"), words: &["scale", "unmasked"], ..RowRoles::PER_ELEMENT };

    fn words(&self) -> RowWords {
        [self.scale, if self.masked { 1.0 } else { self.scale }]
    }
}

/// Softmax of `scale · x + mask` along the last axis.
pub fn softmax<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    mask: Option<&R::Value>,
    scale: f32,
) -> Result<R::Value> {
    let op = Softmax { scale, masked: mask.is_some() };
    match mask {
        Some(mask) => recorder.run_one(op, &[x, mask]),
        None => recorder.run_one(op, &[x]),
    }
}

/// [`softmax`] into `y`, which may be `x`.
pub fn softmax_into<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    mask: Option<&R::Value>,
    scale: f32,
    y: &R::Value,
) -> Result<()> {
    let op = Softmax { scale, masked: mask.is_some() };
    match mask {
        Some(mask) => recorder.run_into(op, &[x, mask], &[y]),
        None => recorder.run_into(op, &[x], &[y]),
    }
}
