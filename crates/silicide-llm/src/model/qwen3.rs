//! Qwen 3: Llama with queries and keys normalised head by head, and halves turned.

use super::blocks::AttentionOptions;
use super::llama::Llama;
use super::{Architecture, ForwardInputs, Tensors};
use crate::error::Result;
use silicide_core::Recorder;

/// The model.
#[derive(Debug)]
pub struct Qwen3(Llama);

impl Architecture for Qwen3 {
    fn load(tensors: &mut Tensors<'_>) -> Result<Qwen3> {
        let style = tensors.config().rope_style(false);
        let options = AttentionOptions { style, rope: 0, window: None, head_norms: true };
        Ok(Qwen3(Llama::with_attention(tensors, options)?))
    }

    fn forward<R: Recorder>(&self, recorder: &mut R, inputs: &ForwardInputs<R::Value>) -> Result<R::Value> {
        self.0.forward(recorder, inputs)
    }
}
