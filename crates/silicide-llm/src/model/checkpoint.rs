//! Settings from the `config.json` of safetensors and MLX checkpoints.

use super::config::{Config, Layout, RopeConfig};
use super::settings::Settings;
use crate::error::{Error, Result};
use serde::Deserialize;
use silicide::ops::rope::RopeScaling;
use silicide::weights::Source;

/// The names of architectures in `config.json`, and in GGUF.
const ARCHITECTURES: [(&str, &str); 6] = [
    ("llama", "llama"),
    ("mistral", "llama"),
    ("qwen2", "qwen2"),
    ("qwen3", "qwen3"),
    ("gemma3_text", "gemma3"),
    ("gemma3", "gemma3"),
];

/// What kind of model `config.json` is of.
#[derive(Debug, Deserialize)]
struct Kind {
    model_type: String,
}

/// Models that see pictures too have the language model's part in `text_config`.
#[derive(Debug, Deserialize)]
struct Outer {
    text_config: Option<Model>,
}

#[derive(Debug, Deserialize)]
struct Model {
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    #[serde(default = "usual_context")]
    max_position_embeddings: usize,
    rms_norm_eps: f32,
    rope_theta: Option<f64>,
    rope_local_base_freq: Option<f64>,
    rope_scaling: Option<Rope>,
    /// Where newer files have both the base and the scaling.
    rope_parameters: Option<Rope>,
    sliding_window: Option<u32>,
    use_sliding_window: Option<bool>,
    query_pre_attn_scalar: Option<f32>,
}

#[derive(Debug, Deserialize)]
struct Rope {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    attention_factor: Option<f64>,
}

fn usual_context() -> usize {
    2048
}

/// The settings of a checkpoint.
pub(super) fn config(source: &Source) -> Result<Config> {
    let settings = Settings::new(source);
    let Some(text) = source.config() else {
        return Err(settings.wrong("config.json", "a file beside the weights", "none"));
    };
    // First by itself: other architectures name their settings otherwise.
    let Kind { model_type } = text.parse()?;
    let found = ARCHITECTURES.iter().find(|(name, _)| *name == model_type);
    let Some(&(_, architecture)) = found else {
        return Err(Error::UnknownArchitecture {
            path: source.path().to_owned(),
            architecture: model_type,
            known: ARCHITECTURES.map(|(name, _)| name).join(", "),
        });
    };
    let model = match text.parse()? {
        Outer { text_config: Some(model) } => model,
        Outer { text_config: None } => text.parse()?,
    };
    for (key, extent) in [
        ("hidden_size", model.hidden_size),
        ("intermediate_size", model.intermediate_size),
        ("num_hidden_layers", model.num_hidden_layers),
        ("num_attention_heads", model.num_attention_heads),
        ("num_key_value_heads", model.num_key_value_heads.unwrap_or(1)),
        ("max_position_embeddings", model.max_position_embeddings),
    ] {
        if extent == 0 || extent > 1 << 24 {
            return Err(settings.wrong(key, "a count between 1 and 16777216", &extent.to_string()));
        }
    }
    let head_dim = model.head_dim.unwrap_or(model.hidden_size / model.num_attention_heads);
    let rope = model.rope_parameters.as_ref().or(model.rope_scaling.as_ref());
    let base = model.rope_theta.or(rope.and_then(|rope| rope.rope_theta)).unwrap_or(10_000.0);
    Config {
        architecture: architecture.to_owned(),
        layout: Layout::Checkpoint,
        layers: model.num_hidden_layers,
        hidden: model.hidden_size,
        heads: model.num_attention_heads,
        kv_heads: model.num_key_value_heads.unwrap_or(model.num_attention_heads),
        head_dim,
        value_dim: head_dim,
        feed_forward: model.intermediate_size,
        trained_context: model.max_position_embeddings,
        epsilon: model.rms_norm_eps,
        rope: RopeConfig {
            base,
            local_base: model.rope_local_base_freq,
            rotated: head_dim,
            scaling: rope.map_or(Ok(RopeScaling::None), |rope| rope.scaling(&settings))?,
        },
        window: model.sliding_window.filter(|_| model.use_sliding_window != Some(false)),
        attention_scale: model.query_pre_attn_scalar.map(|scalar| 1.0 / scalar.sqrt()),
    }
    .checked(&settings)
}

impl Rope {
    fn scaling(&self, settings: &Settings<'_>) -> Result<RopeScaling> {
        let need = |key: &str, value: Option<f64>| {
            let key = format!("rope_scaling.{key}");
            value
                .filter(|value| value.is_finite() && *value > 0.0)
                .ok_or_else(|| settings.wrong(&key, "a number above 0", "none"))
        };
        let factor = || need("factor", self.factor);
        let original = || need("original_max_position_embeddings", self.original_max_position_embeddings);
        match self.rope_type.as_deref() {
            None | Some("default") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear { factor: factor()? }),
            Some("llama3") => Ok(RopeScaling::Llama3 {
                factor: factor()?,
                low: need("low_freq_factor", self.low_freq_factor)?,
                high: need("high_freq_factor", self.high_freq_factor)?,
                original: original()?,
            }),
            Some("yarn") => Ok(RopeScaling::Yarn {
                factor: factor()?,
                original: original()?,
                beta_fast: self.beta_fast.unwrap_or(32.0),
                beta_slow: self.beta_slow.unwrap_or(1.0),
                attention_factor: self.attention_factor,
            }),
            Some(other) => {
                let known = "default, linear, llama3 or yarn";
                Err(settings.wrong("rope_scaling.rope_type", known, other))
            }
        }
    }
}
