//! Qwen 3 with experts: Qwen 3, each of whose layers has a mixture of experts for its feed-forward.

use super::conventions::{ConfigDefaults, Conventions, Mixture};
use super::qwen3::Qwen3;
use super::{Architecture, ForwardInputs, Tensors};
use crate::error::Result;
use silicide_core::Recorder;

/// The model.
#[derive(Debug)]
pub struct Qwen3Moe(Qwen3);

impl Architecture for Qwen3Moe {
    const CONVENTIONS: Conventions = Conventions {
        experts: Mixture::Always,
        defaults: ConfigDefaults { epsilon: Some(1e-6), context: 32_768, ..Conventions::USUAL.defaults },
        ..Conventions::USUAL
    };

    fn load(tensors: &mut Tensors<'_>) -> Result<Qwen3Moe> {
        Qwen3::load(tensors).map(Qwen3Moe)
    }

    fn forward<R: Recorder>(&self, recorder: &mut R, inputs: &ForwardInputs<R::Value>) -> Result<R::Value> {
        self.0.forward(recorder, inputs)
    }
}
