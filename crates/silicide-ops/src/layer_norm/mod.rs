//! Layer normalisation of rows: `y = (x - mean) / sqrt(variance + eps) · weight + bias`, weight and bias optional,
//! the variance that of the row itself (divided by its length).
//!
//! Computed in f32 about the mean, so a large common offset costs no precision beyond that of `x`. NaN or an
//! infinity makes its row NaN.

pub mod cases;
mod rows;

use crate::rowwise::{Arguments, RowOp, RowRoles, RowWords, check_not_negative};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Recorder, Result};
use smallvec::SmallVec;

/// The op. Inputs: `x`, then `weight` and `bias` where it has them. Output: `y`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNorm {
    /// Added to the variance; finite, not negative.
    pub eps: f32,
    /// Whether the result is multiplied by a weight per column.
    pub weighted: bool,
    /// Whether a bias per column is added.
    pub biased: bool,
}

impl LayerNorm {
    /// Where the weight stands among the inputs.
    fn weight_index(&self) -> Option<u8> {
        self.weighted.then_some(1)
    }

    /// Where the bias stands among the inputs.
    fn bias_index(&self) -> Option<u8> {
        self.biased.then_some(1 + u8::from(self.weighted))
    }
}

impl Op for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    fn slots(&self) -> &'static [Slot] {
        const X: Slot = Slot::input("x");
        const WEIGHT: Slot = Slot::input("weight");
        const BIAS: Slot = Slot::input("bias");
        const Y: Slot = Slot::output_over("y", 0b1);
        match (self.weighted, self.biased) {
            (false, false) => &[X, Y],
            (true, false) => &[X, WEIGHT, Y],
            (false, true) => &[X, BIAS, Y],
            (true, true) => &[X, WEIGHT, BIAS, Y],
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        check_not_negative("layer_norm", "eps", self.eps)?;
        let mut arguments = Arguments::new("layer_norm", self.slots(), inputs)?;
        let x = arguments.rows()?;
        for _ in 1..inputs.len() {
            arguments.trailing(&x, 1)?;
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(x.dtype, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        let k = x.shape.last().max(1);
        let (ones, zeros) = (vec![1.0; k], vec![0.0; k]);
        let input = |index: Option<u8>| index.and_then(|i| inputs.get(i as usize)).map(|host| &host.values);
        let weight = input(self.weight_index()).unwrap_or(&ones);
        let bias = input(self.bias_index()).unwrap_or(&zeros);
        for (y, x) in y.values.chunks_exact_mut(k).zip(x.values.chunks_exact(k)) {
            let mean = x.iter().sum::<f64>() / k as f64;
            let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / k as f64;
            let scale = 1.0 / (variance + f64::from(self.eps)).sqrt();
            let affine = weight.iter().zip(bias);
            y.iter_mut().zip(x).zip(affine).for_each(|((y, x), (w, b))| *y = (x - mean) * scale * w + b);
        }
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        let rounding = Tolerance::rounding(output.dtype);
        // The mean of a row of far larger offset than spread keeps some of the offset's rounding.
        Tolerance { nmse: rounding.nmse * 10.0, max: rounding.max * 2.0 }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64 * 7)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        const { &[&rows::CPU, &rows::GPU] }
    }
}

impl RowOp for LayerNorm {
    const ROLES: RowRoles =
        RowRoles { columns: &["weight", "bias"], words: &["eps"], ..RowRoles::PER_ELEMENT };

    fn words(&self) -> RowWords {
        [self.eps, 0.0]
    }
}

/// Scale and shift of a normalised row, both per column and optional.
#[derive(Clone, Copy, Debug)]
pub struct Affine<'a, V> {
    /// Multiplied.
    pub weight: Option<&'a V>,
    /// Added after.
    pub bias: Option<&'a V>,
}

impl<V> Affine<'_, V> {
    /// Nothing.
    pub const NONE: Self = Affine { weight: None, bias: None };

    fn op(&self, eps: f32) -> LayerNorm {
        LayerNorm { eps, weighted: self.weight.is_some(), biased: self.bias.is_some() }
    }
}

/// `(x - mean) / sqrt(variance + eps)` along the last axis, times weight plus bias where given.
pub fn layer_norm<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    affine: Affine<'_, R::Value>,
    eps: f32,
) -> Result<R::Value> {
    let inputs: SmallVec<[&R::Value; 3]> =
        [Some(x), affine.weight, affine.bias].into_iter().flatten().collect();
    recorder.run_one(affine.op(eps), &inputs)
}
