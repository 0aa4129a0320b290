//! The gated feed-forward part of a layer.

use super::Linear;
use crate::error::Result;
use crate::model::Tensors;
use silicide_core::Recorder;
use silicide_ops as ops;
use silicide_ops::glu::Activation;

/// `down(activation(gate(x)) * up(x))`.
#[derive(Clone, Debug)]
pub struct FeedForward {
    gate: Linear,
    up: Linear,
    down: Linear,
    activation: Activation,
}

impl FeedForward {
    /// Loads the feed-forward of layer `layer`, with `width` elements per token between its projections.
    pub fn load(
        tensors: &mut Tensors<'_>,
        layer: usize,
        width: usize,
        activation: Activation,
    ) -> Result<FeedForward> {
        let hidden = tensors.config().hidden;
        let name = |part: &str| format!("blk.{layer}.{part}");
        Ok(FeedForward {
            gate: Linear::load(tensors, &name("ffn_gate"), [width, hidden])?,
            up: Linear::load(tensors, &name("ffn_up"), [width, hidden])?,
            down: Linear::load(tensors, &name("ffn_down"), [hidden, width])?,
            activation,
        })
    }

    /// Records the part.
    pub fn apply<R: Recorder>(&self, recorder: &mut R, x: &R::Value) -> Result<R::Value> {
        let gate = self.gate.apply(recorder, x)?;
        let up = self.up.apply(recorder, x)?;
        let h = ops::glu(recorder, self.activation, &gate, &up)?;
        self.down.apply(recorder, &h)
    }
}
