//! Settings of models, read from GGUF metadata or from `config.json`.
//!
//! | file | what |
//! |---|---|
//! | [`Settings`], [`Key`] | typed access by key; `hf.rs` reads `config.json` |
//! | [`Config`] | the settings that all decoders have |
//! | [`RopeConfig`], [`RopeScaling`] | rotary position embeddings |
//! | [`FeedForwardConfig`], [`ExpertConfig`] | the feed-forward part of a layer |
//! | [`LocalLayers`], [`sliding_window`] | which layers have a sliding window, and its length |
//! | [`Names`] | names of tensors in checkpoints |
//!
//! An architecture reads its settings with these, in its own file. Nothing is trusted: counts are bounded, and tensors are
//! compared with them when they are loaded.

mod experts;
mod frequencies;
mod hf;
mod names;
mod rope;
mod settings;
mod windows;

pub use experts::{ExpertConfig, FeedForwardConfig, Mixture};
pub use frequencies::RopeScaling;
pub use names::{Conventions, Names};
pub use rope::RopeConfig;
pub(super) use settings::wrong;
pub use settings::{Key, Settings};
pub use windows::{LocalLayers, sliding_window};

use crate::error::Result;
use silicide_ops::rope::RopeStyle;

const LAYERS: Key = Key::new("block_count", "num_hidden_layers");
const HIDDEN: Key = Key::new("embedding_length", "hidden_size");
const HEADS: Key = Key::new("attention.head_count", "num_attention_heads");
const KV_HEADS: Key = Key::new("attention.head_count_kv", "num_key_value_heads");
const HEAD_DIM: Key = Key::new("attention.key_length", "head_dim");
const VALUE_DIM: Key = Key::gguf("attention.value_length");
const CONTEXT: Key = Key::new("context_length", "max_position_embeddings");
const EPSILON: Key = Key::new("attention.layer_norm_rms_epsilon", "rms_norm_eps");
const ATTENTION_SCALE: Key = Key::gguf("attention.scale");
const TIED: Key = Key::hf("tie_word_embeddings");

/// Kinds of files: GGUF and checkpoints name and store the same model differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// GGUF. Architectures that rotate adjacent elements have rows of query and key heads permuted for it.
    Gguf,
    /// safetensors with a `config.json`, MLX's among them.
    Checkpoint,
}

/// The settings that all decoders have. Other settings are part of the configuration of an architecture.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The kind of file.
    pub layout: Layout,
    /// Blocks of attention and feed-forward.
    pub layers: usize,
    /// Elements per token between layers.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Elements per query or key head.
    pub head_dim: usize,
    /// Elements per value head.
    pub value_dim: usize,
    /// The context length that the model was trained on, in tokens.
    pub trained_context: usize,
    /// The constant of the norms.
    pub epsilon: f32,
    /// The factor of attention scores, if it is not `1 / sqrt(head_dim)`.
    pub attention_scale: Option<f32>,
    /// Whether the token embedding is also the output projection. `None`: it is if the file has no output projection.
    pub tied: Option<bool>,
}

/// Defaults for settings that `config.json` may omit. `None` if the setting is required, or follows from others.
#[derive(Clone, Copy, Debug)]
pub struct ConfigDefaults {
    /// Query heads.
    pub heads: Option<usize>,
    /// Heads of keys and values; `None`: as many as query heads.
    pub kv_heads: Option<usize>,
    /// Elements per head; `None`: the hidden size divided by the heads.
    pub head_dim: Option<usize>,
    /// The constant of the norms.
    pub epsilon: Option<f32>,
    /// The context length that the model was trained on, in tokens.
    pub context: Option<usize>,
    /// The base of the RoPE frequencies.
    pub rope_base: f64,
    /// Whether the token embedding is also the output projection.
    pub tied: bool,
}

impl ConfigDefaults {
    /// The defaults of Llama.
    pub const LLAMA: ConfigDefaults = ConfigDefaults { context: Some(2048), ..ConfigDefaults::NONE };

    /// All settings are required that do not follow from others.
    const NONE: ConfigDefaults = ConfigDefaults {
        heads: None,
        kv_heads: None,
        head_dim: None,
        epsilon: None,
        context: None,
        rope_base: 10_000.0,
        tied: false,
    };

    /// Returns these defaults for `config.json`. GGUF has its own: those of Llama without a context.
    fn of(&self, layout: Layout) -> &ConfigDefaults {
        match layout {
            Layout::Gguf => &ConfigDefaults::NONE,
            Layout::Checkpoint => self,
        }
    }
}

impl Config {
    /// Reads the settings of a file, and checks them.
    pub fn read(settings: &Settings<'_>, defaults: &ConfigDefaults) -> Result<Config> {
        let layout = settings.layout();
        let defaults = defaults.of(layout);
        let extent = |key: Key, default: Option<usize>| match (settings.optional_extent(key)?, default) {
            (Some(extent), _) | (None, Some(extent)) => Ok(extent),
            (None, None) => settings.extent(key),
        };
        let hidden = extent(HIDDEN, None)?;
        let heads = extent(HEADS, defaults.heads)?;
        let usual = hidden / heads;
        let head_dim = extent(HEAD_DIM, defaults.head_dim.or(Some(usual)))?;
        let value_dim = match layout {
            Layout::Gguf => extent(VALUE_DIM, Some(usual))?,
            Layout::Checkpoint => head_dim,
        };
        let epsilon = match (settings.optional_number(EPSILON)?, defaults.epsilon) {
            (Some(epsilon), _) => epsilon as f32,
            (None, Some(epsilon)) => epsilon,
            (None, None) => settings.number(EPSILON)? as f32,
        };
        // Files write 0 for the usual scale.
        let scale = settings.optional_number(ATTENTION_SCALE)?.map(|scale| scale as f32);
        let config = Config {
            layout,
            layers: extent(LAYERS, None)?,
            hidden,
            heads,
            kv_heads: extent(KV_HEADS, defaults.kv_heads.or(Some(heads)))?,
            head_dim,
            value_dim,
            trained_context: extent(CONTEXT, defaults.context)?,
            epsilon,
            attention_scale: scale.filter(|&scale| scale != 0.0),
            tied: match layout {
                Layout::Gguf => None,
                Layout::Checkpoint => Some(settings.optional_flag(TIED)?.unwrap_or(defaults.tied)),
            },
        };
        config.check(settings)?;
        Ok(config)
    }

    /// Refuses settings that contradict each other.
    fn check(&self, settings: &Settings<'_>) -> Result<()> {
        let refuse =
            |key: Key, expected: &str, got: usize| Err(settings.wrong(key, expected, &got.to_string()));
        let tensors = settings.source().len();
        if self.layers > tensors {
            // Checked before anything is allocated per layer.
            return refuse(
                LAYERS,
                &format!("at most one layer for each of the {tensors} tensors"),
                self.layers,
            );
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return refuse(KV_HEADS, &format!("a divisor of the {} query heads", self.heads), self.kv_heads);
        }
        for (key, dim) in [(HEAD_DIM, self.head_dim), (VALUE_DIM, self.value_dim)] {
            if dim == 0 || dim > 512 || !dim.is_multiple_of(8) {
                return refuse(key, "a multiple of 8 up to 512", dim);
            }
        }
        if !(self.epsilon.is_finite() && self.epsilon >= 0.0) {
            return Err(settings.wrong(EPSILON, "a number from 0 up", &self.epsilon.to_string()));
        }
        Ok(())
    }

    /// Returns the factor of attention scores.
    pub fn scale(&self) -> f32 {
        self.attention_scale.unwrap_or_else(|| 1.0 / (self.head_dim as f32).sqrt())
    }

    /// Returns which elements of a head rotate together, of an architecture whose GGUF files have `style`. Checkpoints
    /// always have halves.
    pub fn rope_style(&self, style: RopeStyle) -> RopeStyle {
        match self.layout {
            Layout::Gguf => style,
            Layout::Checkpoint => RopeStyle::Halves,
        }
    }
}
