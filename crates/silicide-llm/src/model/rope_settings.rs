//! The RoPE settings of a checkpoint's `config.json`: once for all layers, or for each kind of layer.

use super::frequencies::RopeScaling;
use super::settings::Settings;
use crate::error::Result;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The value of `rope_scaling` or `rope_parameters`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Ropes {
    /// One rotation for layers that see everything and one for those that do not.
    OfKinds { full_attention: Box<Rope>, sliding_attention: Option<Box<Rope>> },
    /// The same in all layers, or in those that see everything.
    OfAll(Box<Rope>),
}

/// One rotation.
#[derive(Debug, Deserialize)]
pub(super) struct Rope {
    rope_type: Option<String>,
    /// Its name in older files; some have both.
    #[serde(rename = "type")]
    old_type: Option<String>,
    pub(super) rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    attention_factor: Option<f64>,
    /// Keys that would change the rotation in ways that are not implemented.
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl Ropes {
    /// That of layers that see everything.
    pub(super) fn global(&self) -> &Rope {
        match self {
            Ropes::OfKinds { full_attention: rope, .. } | Ropes::OfAll(rope) => rope,
        }
    }

    /// That of local layers, where it is told apart.
    pub(super) fn local(&self) -> Option<&Rope> {
        match self {
            Ropes::OfKinds { sliding_attention, .. } => sliding_attention.as_deref(),
            Ropes::OfAll(_) => None,
        }
    }
}

impl Rope {
    /// How frequencies are stretched, as the setting `key` says.
    pub(super) fn scaling(&self, settings: &Settings<'_>, key: &str) -> Result<RopeScaling> {
        if let Some((name, value)) = self.other.iter().find(|(_, value)| !value.is_null()) {
            let known = "only settings of default, linear, llama3 and yarn rotation";
            return Err(settings.wrong(&format!("{key}.{name}"), known, &value.to_string()));
        }
        let need = |name: &str, value: Option<f64>| {
            let got = value.map_or("none".to_owned(), |value| value.to_string());
            value
                .filter(|value| value.is_finite() && *value > 0.0)
                .ok_or_else(|| settings.wrong(&format!("{key}.{name}"), "a number above 0", &got))
        };
        let factor = || need("factor", self.factor);
        let original = || need("original_max_position_embeddings", self.original_max_position_embeddings);
        match self.rope_type.as_deref().or(self.old_type.as_deref()) {
            Some("default") => Ok(RopeScaling::None),
            // A base alone is a whole setting; a factor without a type could mean anything.
            None if self.factor.is_none() => Ok(RopeScaling::None),
            None => Err(settings.wrong(&format!("{key}.rope_type"), KNOWN, "none")),
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
            Some(other) => Err(settings.wrong(&format!("{key}.rope_type"), KNOWN, other)),
        }
    }
}

/// Kinds of rotation.
const KNOWN: &str = "default, linear, llama3 or yarn";
