//! Llama, and what is built like it: Mistral, SmolLM2, Llama 3 with its stretched frequencies, Mixtral with its experts.

use super::blocks::{Attention, AttentionOptions, Embedding, FeedForwardKind, Head, Norm};
use super::conventions::{Conventions, Mixture};
use super::{Architecture, ForwardInputs, Tensors};
use crate::error::Result;
use silicide_core::Recorder;
use silicide_ops::glu::Activation;

/// A decoder with a norm before each part. Qwen 2 and 3 differ from it in their attention only.
#[derive(Debug)]
pub struct Llama {
    embedding: Embedding,
    layers: Vec<Layer>,
    head: Head,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Norm,
    attention: Attention,
    feed_forward_norm: Norm,
    feed_forward: FeedForwardKind,
}

impl Llama {
    /// Loads a model whose layers have the attention that `options` says.
    pub(super) fn with_attention(tensors: &mut Tensors<'_>, options: AttentionOptions) -> Result<Llama> {
        let embedding = Embedding::load(tensors, None)?;
        let hidden = tensors.config().hidden;
        let layers = (0..tensors.config().layers).map(|layer| {
            Ok(Layer {
                attention_norm: Norm::load(tensors, &format!("blk.{layer}.attn_norm"), hidden)?,
                attention: Attention::load(tensors, layer, options)?,
                feed_forward_norm: Norm::load(tensors, &format!("blk.{layer}.ffn_norm"), hidden)?,
                feed_forward: FeedForwardKind::load(tensors, layer, Activation::Silu)?,
            })
        });
        let layers = layers.collect::<Result<_>>()?;
        let head = Head::load(tensors, &embedding)?;
        Ok(Llama { embedding, layers, head })
    }
}

impl Architecture for Llama {
    const CONVENTIONS: Conventions = Conventions { experts: Mixture::Possible, ..Conventions::USUAL };

    fn load(tensors: &mut Tensors<'_>) -> Result<Llama> {
        let style = tensors.config().rope_style(true);
        let options = AttentionOptions { style, rope: 0, window: None, head_norms: false };
        Llama::with_attention(tensors, options)
    }

    fn forward<R: Recorder>(&self, recorder: &mut R, inputs: &ForwardInputs<R::Value>) -> Result<R::Value> {
        let mut x = self.embedding.apply(recorder, inputs)?;
        // The output of the previous part, which is not yet added to `x`.
        let mut more: Option<R::Value> = None;
        for layer in &self.layers {
            let h = match more.take() {
                Some(more) => {
                    let (h, sum) = layer.attention_norm.apply_to_sum(recorder, &more, &x)?;
                    x = sum;
                    h
                }
                None => layer.attention_norm.apply(recorder, &x)?,
            };
            let h = recorder.scope("attention", |recorder| layer.attention.apply(recorder, &h, inputs))?;
            let (h, sum) = layer.feed_forward_norm.apply_to_sum(recorder, &h, &x)?;
            x = sum;
            more = Some(recorder.scope("feed-forward", |recorder| layer.feed_forward.apply(recorder, &h))?);
        }
        recorder.scope("head", |recorder| {
            if let Some(more) = more {
                x = silicide_ops::add(recorder, &x, &more)?;
            }
            self.head.apply(recorder, &x, inputs)
        })
    }
}
