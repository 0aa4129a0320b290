//! Gemma 3: norms before and after each part, five local layers to each global one, two kinds of rotation.

use super::blocks::{Attention, AttentionOptions, Embedding, FeedForward, Head, Norm};
use super::{
    Architecture, Config, ConfigDefaults, Conventions, ForwardInputs, LayerKind, LocalLayers, Mixture,
    RopeScaling, Tensors,
};
use crate::error::Result;
use silicide_core::Recorder;
use silicide_ops as ops;
use silicide_ops::glu::Activation;

/// The default period: the last layer of each period has full attention.
const PERIOD: usize = 6;
/// The default RoPE base of sliding-window layers.
const LOCAL_BASE: f64 = 10_000.0;
/// The one size whose scores are scaled by the hidden extent, known by its layers.
const LARGEST_LAYERS: usize = 62;

/// The model.
#[derive(Debug)]
pub struct Gemma3 {
    embedding: Embedding,
    layers: Vec<Layer>,
    head: Head,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Norm,
    attention: Attention,
    after_attention: Norm,
    feed_forward_norm: Norm,
    feed_forward: FeedForward,
    after_feed_forward: Norm,
}

impl Architecture for Gemma3 {
    const CONVENTIONS: Conventions = Conventions {
        four_norms: true,
        norms_less_one: true,
        activation: "gelu_pytorch_tanh",
        experts: Mixture::Never,
        defaults: ConfigDefaults {
            heads: Some(8),
            kv_heads: Some(4),
            head_dim: Some(256),
            epsilon: Some(1e-6),
            base: 1_000_000.0,
            context: 131_072,
            window: Some(4096),
            query_scalar: Some(256.0),
            tied: true,
        },
    };

    fn adapt(config: &mut Config) {
        if config.attention_scale.is_none() && config.layers == LARGEST_LAYERS {
            config.attention_scale = Some(((config.heads as f32) / config.hidden as f32).sqrt());
        }
    }

    fn kinds(config: &Config) -> Vec<LayerKind> {
        let layers = config.local_layers.clone().unwrap_or(LocalLayers::AllButLastOf(PERIOD));
        let local = |layer: usize| config.window.is_some() && layers.contains(layer);
        let kind = |local: bool| LayerKind { rope: local.into(), window: config.window.filter(|_| local) };
        (0..config.layers).map(|layer| kind(local(layer))).collect()
    }

    fn ropes(config: &Config) -> Vec<(f64, RopeScaling)> {
        let rope = &config.rope;
        // Only global layers are stretched.
        vec![(rope.base, rope.scaling), (rope.local_base.unwrap_or(LOCAL_BASE), RopeScaling::None)]
    }

    fn load(tensors: &mut Tensors<'_>) -> Result<Gemma3> {
        let config = tensors.config().clone();
        let hidden = config.hidden;
        let embedding = Embedding::load(tensors, Some((hidden as f32).sqrt()))?;
        let layers = Gemma3::kinds(&config).into_iter().enumerate().map(|(layer, kind)| {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let style = config.rope_style(false);
            let options = AttentionOptions { style, rope: kind.rope, window: kind.window, head_norms: true };
            Ok(Layer {
                attention_norm: Norm::load(tensors, &name("attn_norm"), hidden)?,
                attention: Attention::load(tensors, layer, options)?,
                after_attention: Norm::load(tensors, &name("post_attention_norm"), hidden)?,
                feed_forward_norm: Norm::load(tensors, &name("ffn_norm"), hidden)?,
                feed_forward: FeedForward::load(tensors, layer, Activation::GeluTanh)?,
                after_feed_forward: Norm::load(tensors, &name("post_ffw_norm"), hidden)?,
            })
        });
        let layers = layers.collect::<Result<_>>()?;
        let head = Head::load(tensors, &embedding)?;
        Ok(Gemma3 { embedding, layers, head })
    }

    fn forward<R: Recorder>(&self, recorder: &mut R, inputs: &ForwardInputs<R::Value>) -> Result<R::Value> {
        let mut x = self.embedding.apply(recorder, inputs)?;
        for layer in &self.layers {
            let h = layer.attention_norm.apply(recorder, &x)?;
            let h = recorder.scope("attention", |recorder| layer.attention.apply(recorder, &h, inputs))?;
            let h = layer.after_attention.apply(recorder, &h)?;
            let (h, sum) = layer.feed_forward_norm.apply_to_sum(recorder, &h, &x)?;
            let h = recorder.scope("feed-forward", |recorder| layer.feed_forward.apply(recorder, &h))?;
            let h = layer.after_feed_forward.apply(recorder, &h)?;
            x = ops::add(recorder, &sum, &h)?;
        }
        recorder.scope("head", |recorder| self.head.apply(recorder, &x, inputs))
    }
}
