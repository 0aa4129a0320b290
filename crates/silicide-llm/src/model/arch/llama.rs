//! Llama, and architectures that differ from it in details: [`VARIANTS`].

use super::{Architecture, Decoder, ModelConfig};
use crate::error::Result;
use crate::model::blocks::{Attention, AttentionOptions, Embedding, FeedForwardKind, Head, Norm};
use crate::model::config::{Config, ConfigDefaults, FeedForwardConfig, Mixture, RopeConfig, Settings};
use crate::model::{ForwardInputs, PassRecorder, PassValue, Tensors};
use silicide_core::Recorder;
use silicide_ops as ops;
use silicide_ops::glu::Activation;
use silicide_ops::rope::RopeStyle;

/// Llama 1 to 3, Mistral, Mixtral, SmolLM2.
const LLAMA: LlamaVariant = LlamaVariant {
    name: "llama",
    model_types: &["llama", "mistral", "mixtral"],
    rope: RopeStyle::Interleaved,
    qkv_bias: false,
    head_norms: false,
    experts: Mixture::Possible,
    defaults: ConfigDefaults::LLAMA,
};

/// The architectures of this file. A column that a row leaves out is that of Llama.
pub const VARIANTS: [LlamaVariant; 4] = [
    LLAMA,
    LlamaVariant {
        name: "qwen2",
        model_types: &["qwen2"],
        rope: RopeStyle::Halves,
        qkv_bias: true,
        experts: Mixture::Never,
        ..LLAMA
    },
    LlamaVariant {
        name: "qwen3",
        model_types: &["qwen3"],
        rope: RopeStyle::Halves,
        head_norms: true,
        experts: Mixture::Never,
        ..LLAMA
    },
    LlamaVariant {
        name: "qwen3moe",
        model_types: &["qwen3_moe"],
        rope: RopeStyle::Halves,
        head_norms: true,
        experts: Mixture::Always,
        defaults: ConfigDefaults { epsilon: Some(1e-6), context: Some(32_768), ..ConfigDefaults::LLAMA },
        ..LLAMA
    },
];

/// An architecture that is Llama but for these details.
#[derive(Clone, Copy, Debug)]
pub struct LlamaVariant {
    /// Its name in GGUF.
    pub name: &'static str,
    /// Its names in `config.json`.
    pub model_types: &'static [&'static str],
    /// Which elements of a head rotate together in GGUF files. In checkpoints, halves do.
    pub rope: RopeStyle,
    /// Whether queries, keys and values must have biases. Otherwise they are read if the file has them.
    pub qkv_bias: bool,
    /// Whether queries and keys are normalised head by head before they are rotated.
    pub head_norms: bool,
    /// Whether layers have experts for their feed-forward.
    pub experts: Mixture,
    /// Defaults for settings that `config.json` may omit.
    pub defaults: ConfigDefaults,
}

impl Architecture for LlamaVariant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn model_types(&self) -> &'static [&'static str] {
        self.model_types
    }

    fn configure(&self, settings: &Settings<'_>) -> Result<Box<dyn ModelConfig>> {
        settings.refuse_softcaps()?;
        settings.require_activation("silu")?;
        let config = Config::read(settings, &self.defaults)?;
        Ok(Box::new(LlamaConfig {
            attention: AttentionOptions {
                style: config.rope_style(self.rope),
                rope: 0,
                qkv_bias: self.qkv_bias,
                head_norms: self.head_norms,
            },
            feed_forward: FeedForwardConfig::read(settings, self.experts)?,
            rope: RopeConfig::read(settings, config.head_dim, &self.defaults)?,
            config,
        }))
    }
}

/// The settings of a model.
#[derive(Clone, Debug)]
struct LlamaConfig {
    config: Config,
    attention: AttentionOptions,
    feed_forward: FeedForwardConfig,
    rope: RopeConfig,
}

impl ModelConfig for LlamaConfig {
    fn config(&self) -> &Config {
        &self.config
    }

    fn ropes(&self) -> Vec<RopeConfig> {
        vec![self.rope]
    }

    fn load(&self, tensors: &mut Tensors<'_>) -> Result<Box<dyn Decoder>> {
        let (hidden, layers) = (self.config.hidden, self.config.layers);
        let embedding = Embedding::load(tensors, None)?;
        let layers = (0..layers).map(|layer| {
            Ok(Layer {
                attention_norm: Norm::load(tensors, &format!("blk.{layer}.attn_norm"), hidden)?,
                attention: Attention::load(tensors, layer, self.attention)?,
                feed_forward_norm: Norm::load(tensors, &format!("blk.{layer}.ffn_norm"), hidden)?,
                feed_forward: FeedForwardKind::load(tensors, layer, &self.feed_forward, Activation::Silu)?,
            })
        });
        let layers = layers.collect::<Result<_>>()?;
        let head = Head::load(tensors, &embedding)?;
        Ok(Box::new(Llama { embedding, layers, head }))
    }
}

/// A decoder with a norm before each part of a layer.
#[derive(Debug)]
struct Llama {
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

impl Decoder for Llama {
    fn forward(&self, pass: &mut PassRecorder, inputs: &ForwardInputs<PassValue>) -> Result<PassValue> {
        let mut x = self.embedding.apply(pass, inputs)?;
        for layer in &self.layers {
            let h = layer.attention_norm.apply(pass, &x)?;
            let h = pass.scope("attention", |pass| layer.attention.apply(pass, &h, inputs))?;
            x = ops::add(pass, &x, &h)?;
            let h = layer.feed_forward_norm.apply(pass, &x)?;
            let h = pass.scope("feed-forward", |pass| layer.feed_forward.apply(pass, &h))?;
            x = ops::add(pass, &x, &h)?;
        }
        pass.scope("head", |pass| self.head.apply(pass, &x, inputs))
    }
}
