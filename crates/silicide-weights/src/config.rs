//! The `config.json` of a checkpoint: read once; each reader parses the settings that it needs.

use crate::error::{Error, Result};
use crate::mlx::Quantization;
use crate::{json, limits};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The `config.json` of a checkpoint.
#[derive(Clone, Debug)]
pub struct Config {
    path: PathBuf,
    text: String,
}

impl Config {
    /// Text that came from `path`.
    pub fn new(path: impl AsRef<Path>, text: String) -> Config {
        let path = path.as_ref();
        Config { path: path.to_owned(), text }
    }

    /// Reads the file at `path`, if there is one. `what` names it in messages.
    pub(crate) fn read(path: &Path, what: &'static str) -> Result<Option<Config>> {
        let text = json::read(path, what, limits::CONFIG_BYTES)?;
        Ok(text.map(|text| Config::new(path, text)))
    }

    /// Returns the text, which is UTF-8 but perhaps not JSON.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses the settings that `T` has fields for.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        json::parse("config", &self.text)
            .map_err(|(offset, fault)| Error::malformed(&self.path, offset, fault))
    }

    /// Reads this text as a `quantization_config.json`, whose object is the settings themselves; `None` if it is another library's.
    pub fn as_quantization(&self) -> Result<Option<Quantization>> {
        Quantization::parse_file(&self.text)
            .map_err(|(offset, fault)| Error::malformed(&self.path, offset, fault))
    }

    /// Returns its MLX quantization settings, if there are any.
    pub fn quantization(&self) -> Result<Option<Quantization>> {
        Quantization::parse(&self.text).map_err(|(offset, fault)| Error::malformed(&self.path, offset, fault))
    }
}
