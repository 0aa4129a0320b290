//! Qwen 2 and 2.5: Llama with biases on queries, keys and values (read where the file has them) and halves turned.

use super::blocks::AttentionOptions;
use super::llama::Llama;
use super::{Architecture, ForwardInputs, Tensors};
use crate::error::Result;
use silicide_core::Recorder;

/// The model.
#[derive(Debug)]
pub struct Qwen2(Llama);

impl Architecture for Qwen2 {
    fn load(tensors: &mut Tensors<'_>) -> Result<Qwen2> {
        let style = tensors.config().rope_style(false);
        let options = AttentionOptions { style, rope: 0, window: None, head_norms: false };
        Ok(Qwen2(Llama::with_attention(tensors, options)?))
    }

    fn forward<R: Recorder>(&self, recorder: &mut R, inputs: &ForwardInputs<R::Value>) -> Result<R::Value> {
        self.0.forward(recorder, inputs)
    }
}
