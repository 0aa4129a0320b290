//! Settings of rotary position embeddings: once for all layers, or for each kind of layer.

use super::hf;
use super::settings::{Key, Setting, Settings};
use super::{ConfigDefaults, HEAD_DIM, Layout, RopeScaling, wrong};
use crate::error::{Error, Result};
use serde_json::{Map, Value};

const BASE: Key = Key::new("rope.freq_base", "rope_theta");
const LOCAL_BASE: Key = Key::new("rope.freq_base_swa", "rope_local_base_freq");
const ROTATED: Key = Key::gguf("rope.dimension_count");
/// The members of a rotation in `config.json` that are implemented; others are refused.
const MEMBERS: [&str; 10] = [
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "attention_factor",
];
/// Kinds of rotation in `config.json`.
const TYPES: &str = "default, linear, llama3 or yarn";

/// One rotation of queries and keys by their positions.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RopeConfig {
    /// The base of the frequencies.
    pub base: f64,
    /// Elements of each head that are rotated.
    pub rotated: usize,
    /// The scaling of the frequencies.
    pub scaling: RopeScaling,
}

impl RopeConfig {
    /// Returns a rotation without scaling.
    pub fn new(base: f64, rotated: usize) -> RopeConfig {
        RopeConfig { base, rotated, scaling: RopeScaling::None }
    }

    /// Reads the rotation of all layers, or of those with full attention, over heads of `head_dim` elements.
    pub fn read(settings: &Settings<'_>, head_dim: usize, defaults: &ConfigDefaults) -> Result<RopeConfig> {
        let (own_base, scaling) = match settings.layout() {
            Layout::Gguf => (None, gguf_scaling(settings)?),
            Layout::Checkpoint => match Rotation::find(settings)? {
                Some(rotation) => (rotation.number("rope_theta")?, rotation.scaling()?),
                None => (None, RopeScaling::None),
            },
        };
        let base = match own_base {
            Some(base) => base,
            None => settings.optional_number(BASE)?.unwrap_or(defaults.of(settings.layout()).rope_base),
        };
        let rotated = settings.optional_extent(ROTATED)?.unwrap_or(head_dim);
        if rotated > head_dim || !rotated.is_multiple_of(2) {
            let expected = format!("an even number up to the head's {head_dim}");
            let key = if settings.has(ROTATED) { ROTATED } else { HEAD_DIM };
            return Err(settings.wrong(key, &expected, &rotated.to_string()));
        }
        RopeConfig { base, rotated, scaling }.checked(settings, BASE)
    }

    /// Reads the rotation of layers with a sliding window, whose frequencies are never scaled. `self` is that of the others.
    pub fn read_local(&self, settings: &Settings<'_>, default_base: f64) -> Result<RopeConfig> {
        let mut own_base = None;
        if settings.layout() == Layout::Checkpoint
            && let Some(rotation) = Rotation::find_local(settings)?
        {
            if rotation.scaling()? != RopeScaling::None {
                return Err(rotation.wrong("rope_type", "default: local layers are never scaled", "another"));
            }
            own_base = rotation.number("rope_theta")?;
        }
        let base = match own_base {
            Some(base) => base,
            None => settings.optional_number(LOCAL_BASE)?.unwrap_or(default_base),
        };
        RopeConfig { base, scaling: RopeScaling::None, ..*self }.checked(settings, LOCAL_BASE)
    }

    fn checked(self, settings: &Settings<'_>, key: Key) -> Result<RopeConfig> {
        if self.base.is_finite() && self.base > 0.0 {
            return Ok(self);
        }
        Err(settings.wrong(key, "a number above 0", &self.base.to_string()))
    }
}

/// Reads the scaling of frequencies in GGUF. Frequency factors, as Llama 3 has them, are a tensor.
fn gguf_scaling(settings: &Settings<'_>) -> Result<RopeScaling> {
    const TYPE: Key = Key::gguf("rope.scaling.type");
    let number = |name: &'static str| settings.optional_number(Key::gguf(name));
    let factor = match number("rope.scaling.factor")? {
        Some(factor) => factor,
        None => number("rope.scale_linear")?.unwrap_or(1.0),
    };
    match settings.optional_text(TYPE)? {
        Some("none") => Ok(RopeScaling::None),
        // Older files have a factor and no type.
        None | Some("linear") if factor == 1.0 || factor == 0.0 => Ok(RopeScaling::None),
        None | Some("linear") => Ok(RopeScaling::Linear { factor }),
        Some("yarn") => {
            let original = settings.number(Key::gguf("rope.scaling.original_context_length"))?;
            // Both multiply YaRN's own factor, unlike the factor of checkpoints, which replaces it.
            let given = [number("rope.scaling.attn_factor")?, number("rope.scaling.yarn_attn_factor")?];
            let given = given.into_iter().flatten().reduce(|one, other| one * other);
            Ok(RopeScaling::Yarn {
                factor,
                original,
                beta_fast: number("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: number("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                attention_factor: given.map(|given| given * RopeScaling::usual_attention_factor(factor)),
            })
        }
        Some(other) => Err(settings.wrong(TYPE, "none, linear or yarn", other)),
    }
}

/// The members of one rotation in `config.json`, and the key that has them.
struct Rotation<'s> {
    settings: &'s Settings<'s>,
    key: String,
    members: &'s Map<String, Value>,
}

impl<'s> Rotation<'s> {
    /// Returns `rope_parameters`, or `rope_scaling` of older files.
    fn whole(settings: &'s Settings<'_>) -> Result<Option<Rotation<'s>>> {
        for name in ["rope_parameters", "rope_scaling"] {
            let key = Key::hf(name);
            match settings.get(key) {
                Some(Setting::Json(Value::Object(members))) => {
                    return Ok(Some(Rotation { settings, key: name.to_owned(), members }));
                }
                Some(other) => return Err(settings.wrong(key, "an object", &other.kind())),
                None => (),
            }
        }
        Ok(None)
    }

    /// Returns the rotation of all layers, or of those with full attention.
    fn find(settings: &'s Settings<'_>) -> Result<Option<Rotation<'s>>> {
        let Some(whole) = Rotation::whole(settings)? else { return Ok(None) };
        Ok(Some(whole.part("full_attention")?.unwrap_or(whole)))
    }

    /// Returns the rotation of layers with a sliding window, if the file tells them apart.
    fn find_local(settings: &'s Settings<'_>) -> Result<Option<Rotation<'s>>> {
        let Some(whole) = Rotation::whole(settings)? else { return Ok(None) };
        match whole.part("full_attention")? {
            Some(_) => whole.part("sliding_attention"),
            None => Ok(None),
        }
    }

    fn part(&self, name: &str) -> Result<Option<Rotation<'s>>> {
        match self.members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(members)) => {
                Ok(Some(Rotation { settings: self.settings, key: format!("{}.{name}", self.key), members }))
            }
            Some(other) => Err(self.wrong(name, "an object", &hf::kind(other))),
        }
    }

    fn wrong(&self, name: &str, expected: &str, got: &str) -> Error {
        wrong(self.settings.source(), &format!("{}.{name}", self.key), expected, got)
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        match self.members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                value.as_f64().map(Some).ok_or_else(|| self.wrong(name, "a number", &hf::kind(value)))
            }
        }
    }

    /// Returns the member `name`, which must be a number above zero.
    fn positive(&self, name: &str) -> Result<f64> {
        let number = self.number(name)?;
        let got = number.map_or("none".to_owned(), |number| number.to_string());
        number
            .filter(|number| number.is_finite() && *number > 0.0)
            .ok_or_else(|| self.wrong(name, "a number above 0", &got))
    }

    /// Returns the type of the rotation. Some files have both names of it.
    fn kind(&self) -> Result<Option<&'s str>> {
        for name in ["rope_type", "type"] {
            match self.members.get(name) {
                None | Some(Value::Null) => (),
                Some(Value::String(kind)) => return Ok(Some(kind)),
                Some(other) => return Err(self.wrong(name, TYPES, &hf::kind(other))),
            }
        }
        Ok(None)
    }

    /// Returns the scaling of frequencies. Refuses members that are not implemented.
    fn scaling(&self) -> Result<RopeScaling> {
        let unknown =
            |(name, value): &(&String, &Value)| !MEMBERS.contains(&name.as_str()) && !value.is_null();
        if let Some((name, value)) = self.members.iter().find(unknown) {
            let expected = "only settings of default, linear, llama3 and yarn rotation";
            return Err(self.wrong(name, expected, &value.to_string()));
        }
        let kind = self.kind()?;
        // A base alone is complete; a factor without a type is ambiguous.
        if kind.is_none() && self.number("factor")?.is_some() {
            return Err(self.wrong("rope_type", TYPES, "none"));
        }
        match kind {
            None | Some("default") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear { factor: self.positive("factor")? }),
            Some("llama3") => Ok(RopeScaling::Llama3 {
                factor: self.positive("factor")?,
                low: self.positive("low_freq_factor")?,
                high: self.positive("high_freq_factor")?,
                original: self.positive("original_max_position_embeddings")?,
            }),
            Some("yarn") => Ok(RopeScaling::Yarn {
                factor: self.positive("factor")?,
                original: self.positive("original_max_position_embeddings")?,
                beta_fast: self.number("beta_fast")?.unwrap_or(32.0),
                beta_slow: self.number("beta_slow")?.unwrap_or(1.0),
                attention_factor: self.number("attention_factor")?,
            }),
            Some(other) => Err(self.wrong("rope_type", TYPES, other)),
        }
    }
}
