//! RMS norms.

use crate::error::Result;
use crate::model::Tensors;
use silicide_core::{Buffer, Recorder};
use silicide_ops as ops;

/// `x / sqrt(mean(x²) + epsilon) * weight` along the last axis.
#[derive(Clone, Debug)]
pub struct Norm {
    weight: Buffer,
    epsilon: f32,
}

impl Norm {
    /// Loads the norm with the weights `name.weight`, of `length` elements.
    pub fn load(tensors: &mut Tensors<'_>, name: &str, length: usize) -> Result<Norm> {
        let weight = tensors.norm(&format!("{name}.weight"), length)?;
        Ok(Norm { weight, epsilon: tensors.config().epsilon })
    }

    /// Records the norm of `x`.
    pub fn apply<R: Recorder>(&self, recorder: &mut R, x: &R::Value) -> Result<R::Value> {
        let weight = recorder.constant(&self.weight);
        Ok(ops::rms_norm(recorder, x, Some(&weight), self.epsilon)?)
    }
}
