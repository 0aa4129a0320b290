//! The settings of a model, in one form for every kind of file: extents, norms, positions.
//!
//! [`Config::of`] reads GGUF metadata here and `config.json` in [`super::checkpoint`]. Nothing is trusted: extents are
//! bounded, and tensors are compared with them when they are loaded.

use super::checkpoint;
use super::conventions::Mixture;
use super::frequencies::RopeScaling;
use super::mixture::{self, ExpertConfig};
use super::settings::Settings;
use super::{ARCHITECTURES, unknown_architecture};
use crate::error::Result;
use silicide_ops::rope::RopeStyle;
use silicide_weights::gguf::Value;
use silicide_weights::{Container, Source};

/// Kinds of files, which name and lay out the same model in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// GGUF: rows of query and key heads are woven where rotation takes adjacent pairs.
    Gguf,
    /// safetensors with a `config.json`, MLX's among them.
    Checkpoint,
}

/// The extents and constants of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The architecture's name, as GGUF has it.
    pub architecture: String,
    /// The kind of file.
    pub layout: Layout,
    /// Blocks of attention and feed-forward.
    pub layers: usize,
    /// Numbers per token between layers.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Numbers per query or key head.
    pub head_dim: usize,
    /// Numbers per value head.
    pub value_dim: usize,
    /// Elements per token inside the feed-forward; not used if all layers have experts.
    pub feed_forward: usize,
    /// The experts that layers have for their feed-forward, if they have.
    pub experts: Option<ExpertConfig>,
    /// Tokens the model was trained to look back over.
    pub trained_context: usize,
    /// The constant of the norms.
    pub epsilon: f32,
    /// How positions turn queries and keys.
    pub rope: RopeConfig,
    /// Positions that local layers see, their own included.
    pub window: Option<u32>,
    /// The sliding-window layers, if the file names them; `None`: the architecture's default.
    pub local_layers: Option<LocalLayers>,
    /// The factor that replaces `1 / sqrt(head_dim)`.
    pub attention_scale: Option<f32>,
    /// Whether the token embedding is also the output projection. `None`: it is if the file has no output projection.
    pub tied: Option<bool>,
}

/// Which layers of a model are local.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalLayers {
    /// All layers but the last of each period of this length; 0: all layers.
    AllButLastOf(usize),
    /// Each layer by itself.
    Listed(Vec<bool>),
}

impl LocalLayers {
    /// Whether a layer is local.
    pub fn contains(&self, layer: usize) -> bool {
        match self {
            LocalLayers::AllButLastOf(0) => true,
            LocalLayers::AllButLastOf(period) => layer % period != period - 1,
            LocalLayers::Listed(layers) => layers.get(layer).copied().unwrap_or(false),
        }
    }
}

/// How positions turn queries and keys.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RopeConfig {
    /// The base of the frequencies.
    pub base: f64,
    /// The base in local layers, of architectures that have them.
    pub local_base: Option<f64>,
    /// Numbers of each head that are turned.
    pub rotated: usize,
    /// The scaling of the frequencies.
    pub scaling: RopeScaling,
}

impl Config {
    /// Reads the settings of a source.
    pub fn of(source: &Source) -> Result<Config> {
        match source.container() {
            Container::Gguf => gguf(source),
            _ => checkpoint::config(source),
        }
    }

    /// Returns the factor of scores.
    pub fn scale(&self) -> f32 {
        self.attention_scale.unwrap_or_else(|| 1.0 / (self.head_dim as f32).sqrt())
    }

    /// Which numbers of a head are turned together, where the architecture's GGUF files have adjacent pairs (`woven`)
    /// or halves.
    pub fn rope_style(&self, woven: bool) -> RopeStyle {
        match self.layout {
            Layout::Gguf if woven => RopeStyle::Interleaved,
            _ => RopeStyle::Halves,
        }
    }
}

/// The settings of GGUF metadata.
fn gguf(source: &Source) -> Result<Config> {
    let settings = Settings::new(source);
    let architecture = settings.text("general.architecture")?;
    if !ARCHITECTURES.contains(&architecture.as_str()) {
        // Said before anything is missed that other architectures do not have.
        return Err(unknown_architecture(source, &architecture));
    }
    let key = |name: &str| format!("{architecture}.{name}");
    for name in ["attn_logit_softcapping", "final_logit_softcapping"] {
        let cap = settings.optional_number(&key(name))?;
        settings.refuse_softcap(&key(name), cap)?;
    }
    let extent = |name: &str| settings.extent(&key(name));
    let optional = |name: &str| settings.optional_extent(&key(name));
    let number = |name: &str| settings.optional_number(&key(name));
    let mixed = super::conventions(&architecture).map_or(Mixture::Never, |conventions| conventions.experts);
    let experts = mixture::gguf(&settings, &architecture, mixed, optional("feed_forward_length")?)?;
    let (hidden, heads) = (extent("embedding_length")?, extent("attention.head_count")?);
    let usual = hidden / heads;
    let head_dim = optional("attention.key_length")?.unwrap_or(usual);
    Config {
        layers: extent("block_count")?,
        hidden,
        heads,
        kv_heads: optional("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        value_dim: optional("attention.value_length")?.unwrap_or(usual),
        feed_forward: match experts {
            Some(experts) => optional("feed_forward_length")?.unwrap_or(experts.feed_forward),
            None => extent("feed_forward_length")?,
        },
        experts,
        trained_context: extent("context_length")?,
        epsilon: settings.number(&key("attention.layer_norm_rms_epsilon"))? as f32,
        rope: RopeConfig {
            base: number("rope.freq_base")?.unwrap_or(10_000.0),
            local_base: number("rope.freq_base_swa")?,
            rotated: optional("rope.dimension_count")?.unwrap_or(head_dim),
            scaling: gguf_scaling(&settings, &architecture)?,
        },
        window: settings
            .optional_count(&key("attention.sliding_window"))?
            .and_then(|window| u32::try_from(window).ok())
            .filter(|&window| window > 0),
        local_layers: gguf_local_layers(&settings, &key("attention.sliding_window_pattern"))?,
        // 0 is how files say that the scale is the usual one.
        attention_scale: number("attention.scale")?.map(|scale| scale as f32).filter(|&scale| scale != 0.0),
        tied: None,
        layout: Layout::Gguf,
        architecture,
    }
    .checked(&settings)
}

/// How GGUF says which layers are local: a period, or layer by layer.
fn gguf_local_layers(settings: &Settings<'_>, key: &str) -> Result<Option<LocalLayers>> {
    let Some(value) = settings.value(key) else { return Ok(None) };
    let Some(array) = value.as_array() else {
        return Ok(settings.optional_count(key)?.map(LocalLayers::AllButLastOf));
    };
    let local = |value: Value<'_>| {
        let number = || value.as_u64().filter(|&number| number < 2).map(|number| number == 1);
        value
            .as_bool()
            .or_else(number)
            .ok_or_else(|| settings.wrong(key, "a period, or yes or no for each layer", value.kind().name()))
    };
    Ok(Some(LocalLayers::Listed(array.iter().map(local).collect::<Result<_>>()?)))
}

/// How GGUF says that frequencies are stretched. Frequency factors, as Llama 3 has them, are a tensor.
fn gguf_scaling(settings: &Settings<'_>, architecture: &str) -> Result<RopeScaling> {
    let key = |name: &str| format!("{architecture}.rope.{name}");
    let number = |name: &str| settings.optional_number(&key(name));
    let kind = settings.optional_text(&key("scaling.type"))?;
    let factor = match number("scaling.factor")? {
        Some(factor) => factor,
        None => number("scale_linear")?.unwrap_or(1.0),
    };
    match kind.as_deref() {
        Some("none") => Ok(RopeScaling::None),
        // Files from before there was a type name the factor alone.
        None | Some("linear") if factor == 1.0 || factor == 0.0 => Ok(RopeScaling::None),
        None | Some("linear") => Ok(RopeScaling::Linear { factor }),
        Some("yarn") => {
            let original = settings.number(&key("scaling.original_context_length"))?;
            // Both multiply YaRN's own factor, unlike the factor of checkpoints, which replaces it.
            let given = [number("scaling.attn_factor")?, number("scaling.yarn_attn_factor")?];
            let given = given.into_iter().flatten().reduce(|one, other| one * other);
            Ok(RopeScaling::Yarn {
                factor,
                original,
                beta_fast: number("scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: number("scaling.yarn_beta_slow")?.unwrap_or(1.0),
                attention_factor: given.map(|given| given * RopeScaling::usual_attention_factor(factor)),
            })
        }
        Some(other) => Err(settings.wrong(&key("scaling.type"), "none, linear or yarn", other)),
    }
}

impl Config {
    /// Refuses settings that contradict each other.
    pub(super) fn checked(self, settings: &Settings<'_>) -> Result<Config> {
        let refuse =
            |key: &str, expected: &str, got: usize| Err(settings.wrong(key, expected, &got.to_string()));
        let named = |gguf, checkpoint| if self.layout == Layout::Gguf { gguf } else { checkpoint };
        let tensors = settings.tensors();
        if self.layers > tensors {
            // Before anything is made for each of them.
            let expected = format!("at most one layer for each of the {tensors} tensors");
            return refuse(named("block_count", "num_hidden_layers"), &expected, self.layers);
        }
        if let Some(LocalLayers::Listed(listed)) = &self.local_layers
            && listed.len() != self.layers
        {
            let expected = format!("one entry for each of the {} layers", self.layers);
            return refuse(named("attention.sliding_window_pattern", "layer_types"), &expected, listed.len());
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let expected = format!("a divisor of the {} query heads", self.heads);
            return refuse("attention.head_count_kv", &expected, self.kv_heads);
        }
        for (key, dim) in
            [("attention.key_length", self.head_dim), ("attention.value_length", self.value_dim)]
        {
            if dim == 0 || dim > 512 || !dim.is_multiple_of(8) {
                return refuse(key, "a multiple of 8 up to 512", dim);
            }
        }
        if self.rope.rotated > self.head_dim || !self.rope.rotated.is_multiple_of(2) {
            let expected = format!("an even number up to the head's {}", self.head_dim);
            return refuse("rope.dimension_count", &expected, self.rope.rotated);
        }
        if !(self.epsilon.is_finite() && self.epsilon >= 0.0) {
            let got = self.epsilon.to_string();
            return Err(settings.wrong("attention.layer_norm_rms_epsilon", "a number from 0 up", &got));
        }
        for base in [Some(self.rope.base), self.rope.local_base].into_iter().flatten() {
            if !(base.is_finite() && base > 0.0) {
                return Err(settings.wrong("rope.freq_base", "a number above 0", &base.to_string()));
            }
        }
        Ok(self)
    }
}
