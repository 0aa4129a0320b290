//! Metadata of GGUF files by key, with errors that state the expected type of a key.

use crate::error::{Error, Result};
use silicide_weights::Source;
use silicide_weights::gguf::Value;

/// The largest extent that is accepted: far above every model, far below what overflows.
const LARGEST: u64 = 1 << 24;

/// The metadata of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings<'a> {
    source: &'a Source,
}

impl<'a> Settings<'a> {
    pub(super) fn new(source: &'a Source) -> Settings<'a> {
        Settings { source }
    }

    /// The number of tensors beside the settings.
    pub(super) fn tensors(&self) -> usize {
        self.source.len()
    }

    /// The value of a key.
    pub(super) fn value(&self, key: &str) -> Option<Value<'a>> {
        self.source.get(key)
    }

    /// An error about a key.
    pub(super) fn wrong(&self, key: &str, expected: &str, got: &str) -> Error {
        Error::Setting {
            path: self.source.path().to_owned(),
            key: key.to_owned(),
            expected: expected.to_owned(),
            got: got.to_owned(),
        }
    }

    fn missing(&self, key: &str, expected: &str) -> Error {
        self.wrong(key, expected, "nothing: the key is missing")
    }

    /// A text that must be there.
    pub(super) fn text(&self, key: &str) -> Result<String> {
        self.optional_text(key)?.ok_or_else(|| self.missing(key, "a text"))
    }

    /// A text.
    pub(super) fn optional_text(&self, key: &str) -> Result<Option<String>> {
        let Some(value) = self.source.get(key) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.wrong(key, "a text", value.kind().name())),
        }
    }

    /// A count above zero that must be there.
    pub(super) fn extent(&self, key: &str) -> Result<usize> {
        self.optional_extent(key)?.ok_or_else(|| self.missing(key, "a count above 0"))
    }

    /// A count above zero. Counts that a file gives layer by layer must all be the same.
    pub(super) fn optional_extent(&self, key: &str) -> Result<Option<usize>> {
        match self.optional_count(key)? {
            Some(0) => Err(self.wrong(key, "a count above 0", "0")),
            count => Ok(count),
        }
    }

    /// A count that may be zero. Counts that a file gives layer by layer must all be the same.
    pub(super) fn optional_count(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.source.get(key) else { return Ok(None) };
        let one = |value: &Value<'_>| match value.as_u64() {
            Some(count @ 0..=LARGEST) => Ok(count as usize),
            Some(count) => Err(self.wrong(key, &format!("a count up to {LARGEST}"), &count.to_string())),
            None => Err(self.wrong(key, "a count", value.kind().name())),
        };
        let Some(array) = value.as_array() else { return one(&value).map(Some) };
        let mut counts = array.iter().map(|value| one(&value));
        let first = counts.next().ok_or_else(|| self.wrong(key, "a count", "an empty list"))??;
        for count in counts {
            if count? != first {
                return Err(self.wrong(key, "the same count for every layer", "different ones"));
            }
        }
        Ok(Some(first))
    }

    /// Refuses logits or scores that are to be bent: no architecture here has them, and computing without would be
    /// silently wrong.
    pub(super) fn refuse_softcap(&self, key: &str, cap: Option<f64>) -> Result<()> {
        match cap {
            None | Some(0.0) => Ok(()),
            Some(cap) => Err(self.wrong(key, "none: this architecture has no softcap", &cap.to_string())),
        }
    }

    /// A number that must be there.
    pub(super) fn number(&self, key: &str) -> Result<f64> {
        self.optional_number(key)?.ok_or_else(|| self.missing(key, "a number"))
    }

    /// A finite number.
    pub(super) fn optional_number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.source.get(key) else { return Ok(None) };
        let number = value.as_f64().or_else(|| value.as_i64().map(|number| number as f64));
        match number.filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(key, "a finite number", value.kind().name())),
        }
    }
}
