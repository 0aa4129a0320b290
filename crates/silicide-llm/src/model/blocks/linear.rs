//! Linear layers, in whatever encoding a file has their weights.

use crate::error::Result;
use crate::model::Tensors;
use silicide_core::{Buffer, Recorder, Weight};
use silicide_ops as ops;

/// `x · weightᵀ + bias`.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Weight,
    bias: Option<Buffer>,
}

impl Linear {
    /// Loads the tensors `name.weight` of `[outputs, inputs]` and, if the file has it, `name.bias`.
    pub fn load(tensors: &mut Tensors<'_>, name: &str, [outputs, inputs]: [usize; 2]) -> Result<Linear> {
        let weight = tensors.factor(&format!("{name}.weight"), [outputs, inputs])?;
        let bias = tensors.optional_vector(&format!("{name}.bias"), outputs)?;
        Ok(Linear { weight, bias })
    }

    /// Loads the tensors `name.weight` of `[outputs, inputs]` and `name.bias`, which the file must have.
    pub fn load_biased(
        tensors: &mut Tensors<'_>,
        name: &str,
        [outputs, inputs]: [usize; 2],
    ) -> Result<Linear> {
        let weight = tensors.factor(&format!("{name}.weight"), [outputs, inputs])?;
        let bias = tensors.vector(&format!("{name}.bias"), outputs)?;
        Ok(Linear { weight, bias: Some(bias) })
    }

    /// Records the product and the sum with the bias.
    pub fn apply<R: Recorder>(&self, recorder: &mut R, x: &R::Value) -> Result<R::Value> {
        let weight = self.weight.constant(recorder);
        let bias = self.bias.as_ref().map(|bias| recorder.constant(bias));
        Ok(ops::linear(recorder, x, &weight, bias.as_ref())?)
    }
}
