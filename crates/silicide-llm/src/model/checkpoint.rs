//! Settings from the `config.json` of safetensors and MLX checkpoints.
//!
//! The architecture's [`Conventions`] have the defaults of omitted settings. A setting that is not implemented is refused,
//! because results without it would be silently wrong.

use super::config::{Config, Layout, LocalLayers, RopeConfig};
use super::conventions::{ConfigDefaults, Conventions, Mixture};
use super::frequencies::RopeScaling;
use super::mixture::{ExpertConfig, RawExpertConfig};
use super::rope_settings::Ropes;
use super::settings::Settings;
use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer};
use silicide_weights::Source;

/// The names of architectures in `config.json`, and in GGUF.
const ARCHITECTURES: [(&str, &str); 8] = [
    ("llama", "llama"),
    ("mistral", "llama"),
    ("mixtral", "llama"),
    ("qwen2", "qwen2"),
    ("qwen3", "qwen3"),
    ("qwen3_moe", "qwen3moe"),
    ("gemma3_text", "gemma3"),
    ("gemma3", "gemma3"),
];

/// The kind of model in `config.json`.
#[derive(Debug, Deserialize)]
struct ModelType {
    model_type: String,
}

/// Models that see pictures too have the language model's part in `text_config`.
#[derive(Debug, Deserialize)]
struct Outer {
    text_config: Option<TextConfig>,
    tie_word_embeddings: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct TextConfig {
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: Option<usize>,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    max_position_embeddings: Option<usize>,
    rms_norm_eps: Option<f32>,
    hidden_act: Option<String>,
    hidden_activation: Option<String>,
    tie_word_embeddings: Option<bool>,
    rope_theta: Option<f64>,
    rope_local_base_freq: Option<f64>,
    rope_scaling: Option<Ropes>,
    /// Where newer files have both the base and the scaling.
    rope_parameters: Option<Ropes>,
    /// `null`: no window; omitted: the architecture's default.
    #[serde(default, deserialize_with = "given")]
    sliding_window: Option<Option<u32>>,
    use_sliding_window: Option<bool>,
    sliding_window_pattern: Option<usize>,
    /// Its name in newer files.
    #[serde(rename = "_sliding_window_pattern")]
    kept_sliding_window_pattern: Option<usize>,
    layer_types: Option<Vec<String>>,
    query_pre_attn_scalar: Option<f32>,
    num_experts: Option<usize>,
    /// Its name in Mixtral's files.
    num_local_experts: Option<usize>,
    num_experts_per_tok: Option<usize>,
    moe_intermediate_size: Option<usize>,
    norm_topk_prob: Option<bool>,
    decoder_sparse_step: Option<usize>,
    mlp_only_layers: Option<Vec<usize>>,
    attn_logit_softcapping: Option<f64>,
    final_logit_softcapping: Option<f64>,
}

/// A key that is there, be it `null`.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The settings of a checkpoint.
pub(super) fn config(source: &Source) -> Result<Config> {
    let settings = Settings::new(source);
    let Some(text) = source.config() else {
        return Err(settings.wrong("config.json", "a file beside the weights", "none"));
    };
    // First by itself: other architectures name their settings otherwise.
    let ModelType { model_type } = text.parse()?;
    let found = ARCHITECTURES.iter().find(|(name, _)| *name == model_type);
    let Some(&(_, architecture)) = found else {
        return Err(Error::UnknownArchitecture {
            path: source.path().to_owned(),
            architecture: model_type,
            known: ARCHITECTURES.map(|(name, _)| name).join(", "),
        });
    };
    let Outer { text_config, tie_word_embeddings } = text.parse()?;
    let mut model = match text_config {
        Some(model) => model,
        None => text.parse()?,
    };
    model.tie_word_embeddings = model.tie_word_embeddings.or(tie_word_embeddings);
    let conventions = super::conventions(architecture).unwrap_or(Conventions::USUAL);
    model.check(&settings, &conventions)?;
    let experts = model.experts(&settings, conventions.experts)?;
    Ok(Config { experts, ..model.config(architecture, &settings, &conventions.defaults)? })
}

impl TextConfig {
    /// Refuses what this architecture does not compute.
    fn check(&self, settings: &Settings<'_>, conventions: &Conventions) -> Result<()> {
        for (key, activation) in
            [("hidden_act", &self.hidden_act), ("hidden_activation", &self.hidden_activation)]
        {
            if let Some(activation) = activation.as_deref().filter(|name| *name != conventions.activation) {
                return Err(settings.wrong(key, conventions.activation, activation));
            }
        }
        settings.refuse_softcap("attn_logit_softcapping", self.attn_logit_softcapping)?;
        settings.refuse_softcap("final_logit_softcapping", self.final_logit_softcapping)
    }

    fn config(
        &self,
        architecture: &str,
        settings: &Settings<'_>,
        defaults: &ConfigDefaults,
    ) -> Result<Config> {
        let extent = |key: &str, value: Option<usize>| match value {
            Some(extent @ 1..=16_777_216) => Ok(extent),
            Some(extent) => Err(settings.wrong(key, "a count between 1 and 16777216", &extent.to_string())),
            None => Err(settings.wrong(key, "a count above 0", "nothing: the key is missing")),
        };
        let hidden = extent("hidden_size", Some(self.hidden_size))?;
        let heads = extent("num_attention_heads", self.num_attention_heads.or(defaults.heads))?;
        let kv_heads = self.num_key_value_heads.or(defaults.kv_heads).unwrap_or(heads);
        let head_dim = self.head_dim.or(defaults.head_dim).unwrap_or(hidden / heads);
        let context = self.max_position_embeddings.unwrap_or(defaults.context);
        let epsilon = self.rms_norm_eps.or(defaults.epsilon);
        let window = self.sliding_window.unwrap_or(defaults.window).filter(|&window| window > 0);
        Config {
            architecture: architecture.to_owned(),
            layout: Layout::Checkpoint,
            layers: extent("num_hidden_layers", Some(self.num_hidden_layers))?,
            hidden,
            heads,
            kv_heads: extent("num_key_value_heads", Some(kv_heads))?,
            head_dim,
            value_dim: head_dim,
            feed_forward: extent("intermediate_size", Some(self.intermediate_size))?,
            experts: None,
            trained_context: extent("max_position_embeddings", Some(context))?,
            epsilon: epsilon
                .ok_or_else(|| settings.wrong("rms_norm_eps", "a number", "nothing: the key is missing"))?,
            rope: self.rope(settings, defaults, head_dim)?,
            window: window.filter(|_| self.use_sliding_window != Some(false)),
            local_layers: self.local_layers(settings)?,
            attention_scale: self.attention_scale(settings, defaults)?,
            tied: Some(self.tie_word_embeddings.unwrap_or(defaults.tied)),
        }
        .checked(settings)
    }

    /// The experts, if there are any.
    fn experts(&self, settings: &Settings<'_>, mixture: Mixture) -> Result<Option<ExpertConfig>> {
        let (key, count) = match (self.num_experts, self.num_local_experts) {
            (None, Some(count)) => ("num_local_experts", Some(count)),
            (count, _) => ("num_experts", count),
        };
        let sparse =
            self.decoder_sparse_step.unwrap_or(1) == 1 && self.mlp_only_layers.iter().all(Vec::is_empty);
        if count.unwrap_or(0) > 0 && !sparse {
            let expected = "experts in every layer";
            return Err(settings.wrong("decoder_sparse_step", expected, "layers without them"));
        }
        let raw = RawExpertConfig {
            keys: [key, "num_experts_per_tok"],
            count,
            used: self.num_experts_per_tok,
            feed_forward: self.moe_intermediate_size.unwrap_or(self.intermediate_size),
            // Mixtral's weights are a softmax over the chosen: the same as being divided by their sum.
            normalized: self.norm_topk_prob.unwrap_or(key == "num_local_experts"),
            scale: None,
        };
        raw.checked(settings, mixture)
    }

    fn rope(&self, settings: &Settings<'_>, defaults: &ConfigDefaults, rotated: usize) -> Result<RopeConfig> {
        let (key, ropes) = match (&self.rope_parameters, &self.rope_scaling) {
            (Some(ropes), _) => ("rope_parameters", Some(ropes)),
            (None, ropes) => ("rope_scaling", ropes.as_ref()),
        };
        let global = ropes.map(Ropes::global);
        let local = ropes.and_then(Ropes::local);
        let scaling = |rope: &super::rope_settings::Rope| rope.scaling(settings, key);
        if let Some(local) = local
            && scaling(local)? != RopeScaling::None
        {
            let key = format!("{key}.sliding_attention.rope_type");
            return Err(settings.wrong(&key, "default: local layers are never stretched", "another"));
        }
        let base = global.and_then(|rope| rope.rope_theta).or(self.rope_theta).unwrap_or(defaults.base);
        Ok(RopeConfig {
            base,
            local_base: local.and_then(|rope| rope.rope_theta).or(self.rope_local_base_freq),
            rotated,
            scaling: global.map_or(Ok(RopeScaling::None), scaling)?,
        })
    }

    fn local_layers(&self, settings: &Settings<'_>) -> Result<Option<LocalLayers>> {
        if let Some(types) = &self.layer_types {
            let local = |kind: &String| match kind.as_str() {
                "sliding_attention" => Ok(true),
                "full_attention" => Ok(false),
                other => Err(settings.wrong("layer_types", "sliding_attention or full_attention", other)),
            };
            return Ok(Some(LocalLayers::Listed(types.iter().map(local).collect::<Result<_>>()?)));
        }
        match self.sliding_window_pattern.or(self.kept_sliding_window_pattern) {
            Some(0) => Err(settings.wrong("sliding_window_pattern", "a count above 0", "0")),
            period => Ok(period.map(LocalLayers::AllButLastOf)),
        }
    }

    fn attention_scale(&self, settings: &Settings<'_>, defaults: &ConfigDefaults) -> Result<Option<f32>> {
        let Some(scalar) = self.query_pre_attn_scalar.or(defaults.query_scalar) else { return Ok(None) };
        if scalar.is_finite() && scalar > 0.0 {
            return Ok(Some(1.0 / scalar.sqrt()));
        }
        Err(settings.wrong("query_pre_attn_scalar", "a number above 0", &scalar.to_string()))
    }
}
