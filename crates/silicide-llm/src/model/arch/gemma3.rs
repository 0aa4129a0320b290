//! Gemma 3: norms before and after each part of a layer, five layers with a sliding window to each with full attention, two
//! rotations.

use super::{Architecture, Decoder, ModelConfig};
use crate::error::Result;
use crate::model::blocks::{Attention, AttentionOptions, Embedding, FeedForwardKind, Head, Norm};
use crate::model::config::{
    Config, ConfigDefaults, Conventions, FeedForwardConfig, Key, Layout, LocalLayers, Mixture, RopeConfig,
    Settings, sliding_window,
};
use crate::model::{ForwardInputs, LayerKind, PassRecorder, PassValue, Tensors};
use silicide_core::Recorder;
use silicide_ops as ops;
use silicide_ops::glu::Activation;
use silicide_ops::rope::RopeStyle;

/// The number whose square root divides scores.
const QUERY_SCALAR: Key = Key::hf("query_pre_attn_scalar");

/// Defaults for settings that `config.json` may omit.
const DEFAULTS: ConfigDefaults = ConfigDefaults {
    heads: Some(8),
    kv_heads: Some(4),
    head_dim: Some(256),
    epsilon: Some(1e-6),
    context: Some(131_072),
    rope_base: 1_000_000.0,
    tied: true,
};
const DEFAULT_QUERY_SCALAR: f64 = 256.0;
const DEFAULT_WINDOW: u32 = 4096;
/// The default period: the last layer of each period has full attention.
const DEFAULT_PERIOD: usize = 6;
/// The default RoPE base of sliding-window layers.
const DEFAULT_LOCAL_BASE: f64 = 10_000.0;
/// Layers of the one size whose scores are scaled by the hidden size. GGUF does not have the scale.
const LARGEST_LAYERS: usize = 62;

/// The architecture.
#[derive(Clone, Copy, Debug)]
pub struct Gemma3;

impl Architecture for Gemma3 {
    fn name(&self) -> &'static str {
        "gemma3"
    }

    fn model_types(&self) -> &'static [&'static str] {
        &["gemma3_text", "gemma3"]
    }

    fn conventions(&self) -> Conventions {
        Conventions {
            modules: &[
                ("attn_norm", "input_layernorm"),
                ("post_attention_norm", "post_attention_layernorm"),
                ("ffn_norm", "pre_feedforward_layernorm"),
                ("post_ffw_norm", "post_feedforward_layernorm"),
            ],
            norm_offset: 1.0,
        }
    }

    fn configure(&self, settings: &Settings<'_>) -> Result<Box<dyn ModelConfig>> {
        settings.refuse_softcaps()?;
        settings.require_activation("gelu_pytorch_tanh")?;
        let mut config = Config::read(settings, &DEFAULTS)?;
        config.attention_scale = attention_scale(settings, &config)?;
        let window = sliding_window(settings, Some(DEFAULT_WINDOW))?;
        let local = LocalLayers::read(settings, config.layers)?;
        let local = local.unwrap_or(LocalLayers::AllButLastOf(DEFAULT_PERIOD));
        let kind = |layer: usize| match window.filter(|_| local.contains(layer)) {
            Some(window) => LayerKind { rope: 1, window: Some(window) },
            None => LayerKind { rope: 0, window: None },
        };
        let rope = RopeConfig::read(settings, config.head_dim, &DEFAULTS)?;
        Ok(Box::new(Gemma3Config {
            layers: (0..config.layers).map(kind).collect(),
            ropes: [rope, rope.read_local(settings, DEFAULT_LOCAL_BASE)?],
            feed_forward: FeedForwardConfig::read(settings, Mixture::Never)?,
            config,
        }))
    }
}

/// Returns the factor of scores, if it is not `1 / sqrt(head_dim)`.
fn attention_scale(settings: &Settings<'_>, config: &Config) -> Result<Option<f32>> {
    match (settings.layout(), config.attention_scale) {
        (Layout::Gguf, None) if config.layers == LARGEST_LAYERS => {
            Ok(Some(((config.heads as f32) / config.hidden as f32).sqrt()))
        }
        (Layout::Gguf, scale) => Ok(scale),
        (Layout::Checkpoint, _) => {
            let scalar = settings.optional_number(QUERY_SCALAR)?.unwrap_or(DEFAULT_QUERY_SCALAR) as f32;
            if scalar.is_finite() && scalar > 0.0 {
                return Ok(Some(1.0 / scalar.sqrt()));
            }
            Err(settings.wrong(QUERY_SCALAR, "a number above 0", &scalar.to_string()))
        }
    }
}

/// The settings of a model.
#[derive(Clone, Debug)]
struct Gemma3Config {
    config: Config,
    layers: Vec<LayerKind>,
    /// That of layers with full attention, that of layers with a sliding window.
    ropes: [RopeConfig; 2],
    feed_forward: FeedForwardConfig,
}

impl ModelConfig for Gemma3Config {
    fn config(&self) -> &Config {
        &self.config
    }

    fn layers(&self) -> Vec<LayerKind> {
        self.layers.clone()
    }

    fn ropes(&self) -> Vec<RopeConfig> {
        self.ropes.to_vec()
    }

    fn load(&self, tensors: &mut Tensors<'_>) -> Result<Box<dyn Decoder>> {
        let hidden = self.config.hidden;
        let embedding = Embedding::load(tensors, Some((hidden as f32).sqrt()))?;
        let layers = self.layers.iter().enumerate().map(|(layer, kind)| {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let attention = AttentionOptions {
                style: RopeStyle::Halves,
                rope: kind.rope,
                qkv_bias: false,
                head_norms: true,
            };
            Ok(Layer {
                attention_norm: Norm::load(tensors, &name("attn_norm"), hidden)?,
                attention: Attention::load(tensors, layer, attention)?,
                after_attention: Norm::load(tensors, &name("post_attention_norm"), hidden)?,
                feed_forward_norm: Norm::load(tensors, &name("ffn_norm"), hidden)?,
                feed_forward: FeedForwardKind::load(
                    tensors,
                    layer,
                    &self.feed_forward,
                    Activation::GeluTanh,
                )?,
                after_feed_forward: Norm::load(tensors, &name("post_ffw_norm"), hidden)?,
            })
        });
        let layers = layers.collect::<Result<_>>()?;
        let head = Head::load(tensors, &embedding)?;
        Ok(Box::new(Gemma3Model { embedding, layers, head }))
    }
}

/// The decoder.
#[derive(Debug)]
struct Gemma3Model {
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
    feed_forward: FeedForwardKind,
    after_feed_forward: Norm,
}

impl Decoder for Gemma3Model {
    fn forward(&self, pass: &mut PassRecorder, inputs: &ForwardInputs<PassValue>) -> Result<PassValue> {
        let mut x = self.embedding.apply(pass, inputs)?;
        for layer in &self.layers {
            let h = layer.attention_norm.apply(pass, &x)?;
            let h = pass.scope("attention", |pass| layer.attention.apply(pass, &h, inputs))?;
            let h = layer.after_attention.apply(pass, &h)?;
            x = ops::add(pass, &x, &h)?;
            let h = layer.feed_forward_norm.apply(pass, &x)?;
            let h = pass.scope("feed-forward", |pass| layer.feed_forward.apply(pass, &h))?;
            let h = layer.after_feed_forward.apply(pass, &h)?;
            x = ops::add(pass, &x, &h)?;
        }
        pass.scope("head", |pass| self.head.apply(pass, &x, inputs))
    }
}
