//! Typed access to the settings of a file, with errors that name file, key, expected and got.
//!
//! A setting has two names: one in the metadata of GGUF, behind the architecture's prefix, and one in `config.json`.
//! A [`Key`] has both, so an architecture reads its settings once for both kinds of files.

use super::Layout;
use super::hf;
use crate::error::{Error, Result};
use serde_json::{Map, Value as Json};
use silicide_weights::gguf::Value as Metadata;
use silicide_weights::{Container, Source};

/// The largest count that is accepted: far above every model, far below an overflow.
const LARGEST: u64 = 1 << 24;

/// The `got` of errors about keys that the file does not have.
pub(super) const MISSING: &str = "nothing: the key is missing";

/// The names of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    gguf: Option<&'static str>,
    hf: Option<&'static str>,
}

impl Key {
    /// Returns a setting that GGUF calls `{architecture}.{gguf}` and `config.json` calls `hf`.
    pub const fn new(gguf: &'static str, hf: &'static str) -> Key {
        Key { gguf: Some(gguf), hf: Some(hf) }
    }

    /// Returns a setting of GGUF alone.
    pub const fn gguf(name: &'static str) -> Key {
        Key { gguf: Some(name), hf: None }
    }

    /// Returns a setting of `config.json` alone.
    pub const fn hf(name: &'static str) -> Key {
        Key { gguf: None, hf: Some(name) }
    }
}

/// The settings of a file, by key.
#[derive(Debug)]
pub struct Settings<'a> {
    source: &'a Source,
    /// The architecture's name in this file.
    architecture: String,
    values: Values,
}

#[derive(Debug)]
enum Values {
    /// Metadata of GGUF, which the source has.
    Metadata,
    /// The members of `config.json` that describe the language model.
    Members(Map<String, Json>),
}

/// A value of either kind of file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setting<'s> {
    Metadata(Metadata<'s>),
    Json(&'s Json),
}

impl<'a> Settings<'a> {
    /// Opens the settings of `source`. Reads the name of the architecture.
    pub fn open(source: &'a Source) -> Result<Settings<'a>> {
        let (architecture, values) = match source.container() {
            Container::Gguf => (gguf_architecture(source)?, Values::Metadata),
            _ => {
                let (architecture, members) = hf::members(source)?;
                (architecture, Values::Members(members))
            }
        };
        Ok(Settings { source, architecture, values })
    }

    /// Returns the architecture's name in this file: `general.architecture` of GGUF, `model_type` of `config.json`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Returns the kind of file.
    pub fn layout(&self) -> Layout {
        match self.values {
            Values::Metadata => Layout::Gguf,
            Values::Members(_) => Layout::Checkpoint,
        }
    }

    /// Returns the source.
    pub fn source(&self) -> &'a Source {
        self.source
    }

    /// Returns the name of `key` in this file.
    pub fn name(&self, key: Key) -> String {
        match (&self.values, key.gguf, key.hf) {
            (Values::Metadata, Some(name), _) => format!("{}.{name}", self.architecture),
            (_, _, Some(name)) | (_, Some(name), None) => name.to_owned(),
            (_, None, None) => String::new(),
        }
    }

    /// Returns an error about `key`.
    pub fn wrong(&self, key: Key, expected: &str, got: &str) -> Error {
        wrong(self.source, &self.name(key), expected, got)
    }

    /// Returns whether the file has `key`, even if its value is `null`.
    pub fn has(&self, key: Key) -> bool {
        match &self.values {
            Values::Metadata => self.get(key).is_some(),
            Values::Members(members) => key.hf.is_some_and(|name| members.contains_key(name)),
        }
    }

    /// Returns the value of `key`; `None` if the file does not have it, or has `null`.
    pub(super) fn get(&self, key: Key) -> Option<Setting<'_>> {
        match &self.values {
            Values::Metadata => {
                self.source.get(&self.name(Key { gguf: Some(key.gguf?), hf: None })).map(Setting::Metadata)
            }
            Values::Members(members) => {
                members.get(key.hf?).filter(|value| !value.is_null()).map(Setting::Json)
            }
        }
    }

    fn missing(&self, key: Key, expected: &str) -> Error {
        self.wrong(key, expected, MISSING)
    }

    /// Returns the text of `key`, if the file has it.
    pub fn optional_text(&self, key: Key) -> Result<Option<&str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, "a text", &value.kind()))
    }

    /// Returns the boolean of `key`, if the file has it.
    pub fn optional_flag(&self, key: Key) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, "true or false", &value.kind()))
    }

    /// Returns the count of `key`, which must be above zero.
    pub fn extent(&self, key: Key) -> Result<usize> {
        self.optional_extent(key)?.ok_or_else(|| self.missing(key, "a count above 0"))
    }

    /// Returns the count of `key`, which must be above zero, if the file has it. Counts that a file has layer by layer must all
    /// be the same.
    pub fn optional_extent(&self, key: Key) -> Result<Option<usize>> {
        match self.optional_count(key)? {
            Some(0) => Err(self.wrong(key, "a count above 0", "0")),
            count => Ok(count),
        }
    }

    /// Returns the count of `key`, which may be zero, if the file has it. Counts that a file has layer by layer must all be
    /// the same.
    pub fn optional_count(&self, key: Key) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let one = |value: &Setting<'_>| match value.as_u64() {
            Some(count @ 0..=LARGEST) => Ok(count as usize),
            Some(count) => Err(self.wrong(key, &format!("a count up to {LARGEST}"), &count.to_string())),
            None => Err(self.wrong(key, "a count", &value.kind())),
        };
        let Some(items) = value.items() else { return one(&value).map(Some) };
        let mut counts = items.iter().map(one);
        let first = counts.next().ok_or_else(|| self.wrong(key, "a count", "an empty list"))??;
        for count in counts {
            if count? != first {
                return Err(self.wrong(key, "the same count for every layer", "different ones"));
            }
        }
        Ok(Some(first))
    }

    /// Returns the finite number of `key`.
    pub fn number(&self, key: Key) -> Result<f64> {
        self.optional_number(key)?.ok_or_else(|| self.missing(key, "a number"))
    }

    /// Returns the finite number of `key`, if the file has it.
    pub fn optional_number(&self, key: Key) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| self.wrong(key, "a finite number", &value.kind()))
    }

    /// Refuses softcaps of scores and logits: results without them would be silently wrong.
    pub fn refuse_softcaps(&self) -> Result<()> {
        for name in ["attn_logit_softcapping", "final_logit_softcapping"] {
            let key = Key::new(name, name);
            match self.optional_number(key)? {
                None | Some(0.0) => (),
                Some(cap) => {
                    return Err(self.wrong(key, "none: this architecture has no softcap", &cap.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Refuses a `config.json` with another activation of the feed-forward than `activation`.
    pub fn require_activation(&self, activation: &str) -> Result<()> {
        for key in [Key::hf("hidden_act"), Key::hf("hidden_activation")] {
            match self.optional_text(key)? {
                Some(other) if other != activation => return Err(self.wrong(key, activation, other)),
                _ => (),
            }
        }
        Ok(())
    }
}

/// Returns `general.architecture` of GGUF, the one key without a prefix.
fn gguf_architecture(source: &Source) -> Result<String> {
    let (key, expected) = ("general.architecture", "a text");
    let value = source.get(key).ok_or_else(|| wrong(source, key, expected, MISSING))?;
    let name = value.as_str().ok_or_else(|| wrong(source, key, expected, value.kind().name()))?;
    Ok(name.to_owned())
}

/// Returns an error about the setting `key` of `source`.
pub(in crate::model) fn wrong(source: &Source, key: &str, expected: &str, got: &str) -> Error {
    Error::Setting {
        path: source.path().to_owned(),
        key: key.to_owned(),
        expected: expected.to_owned(),
        got: got.to_owned(),
    }
}

impl<'s> Setting<'s> {
    pub(super) fn as_u64(&self) -> Option<u64> {
        match self {
            Setting::Metadata(value) => value.as_u64(),
            Setting::Json(value) => value.as_u64(),
        }
    }

    pub(super) fn as_f64(&self) -> Option<f64> {
        match self {
            Setting::Metadata(value) => value.as_f64().or_else(|| value.as_i64().map(|number| number as f64)),
            Setting::Json(value) => value.as_f64(),
        }
    }

    pub(super) fn as_bool(&self) -> Option<bool> {
        match self {
            Setting::Metadata(value) => value.as_bool(),
            Setting::Json(value) => value.as_bool(),
        }
    }

    pub(super) fn as_str(&self) -> Option<&'s str> {
        match self {
            Setting::Metadata(value) => value.as_str(),
            Setting::Json(value) => value.as_str(),
        }
    }

    /// Returns the items of a list.
    pub(super) fn items(&self) -> Option<Vec<Setting<'s>>> {
        match self {
            Setting::Metadata(value) => Some(value.as_array()?.iter().map(Setting::Metadata).collect()),
            Setting::Json(value) => Some(value.as_array()?.iter().map(Setting::Json).collect()),
        }
    }

    /// Returns the type of the value, or the value itself if it is short, for errors.
    pub(super) fn kind(&self) -> String {
        match self {
            Setting::Metadata(value) => value.kind().name().to_owned(),
            Setting::Json(value) => hf::kind(value),
        }
    }
}
