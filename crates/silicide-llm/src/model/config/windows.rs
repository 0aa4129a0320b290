//! Which layers of a model have a sliding window, and how long it is.

use super::Layout;
use super::settings::{Key, Setting, Settings};
use crate::error::Result;

const WINDOW: Key = Key::new("attention.sliding_window", "sliding_window");
const USE_WINDOW: Key = Key::hf("use_sliding_window");
const PATTERN: Key = Key::new("attention.sliding_window_pattern", "sliding_window_pattern");
/// Its name in newer files.
const KEPT_PATTERN: Key = Key::hf("_sliding_window_pattern");
const TYPES: Key = Key::hf("layer_types");

/// The layers with a sliding window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalLayers {
    /// All layers but the last of each period of this length; 0: all layers.
    AllButLastOf(usize),
    /// Each layer by itself.
    Listed(Vec<bool>),
}

impl LocalLayers {
    /// Returns whether layer `layer` has a sliding window.
    pub fn contains(&self, layer: usize) -> bool {
        match self {
            LocalLayers::AllButLastOf(0) => true,
            LocalLayers::AllButLastOf(period) => layer % period != period - 1,
            LocalLayers::Listed(layers) => layers.get(layer).copied().unwrap_or(false),
        }
    }

    /// Reads the layers that a file names; `None` if it names none. A list must have an entry for each of `layers`.
    pub fn read(settings: &Settings<'_>, layers: usize) -> Result<Option<LocalLayers>> {
        let period = match (settings.layout(), listed(settings)?) {
            (_, Some((key, local))) if local.len() != layers => {
                let expected = format!("one entry for each of the {layers} layers");
                return Err(settings.wrong(key, &expected, &local.len().to_string()));
            }
            (_, Some((_, local))) => return Ok(Some(LocalLayers::Listed(local))),
            (Layout::Gguf, None) => settings.optional_count(PATTERN)?,
            (Layout::Checkpoint, None) => {
                settings.optional_extent(PATTERN)?.or(settings.optional_extent(KEPT_PATTERN)?)
            }
        };
        Ok(period.map(LocalLayers::AllButLastOf))
    }
}

/// Returns the key and the entries of a list with an entry for each layer.
fn listed(settings: &Settings<'_>) -> Result<Option<(Key, Vec<bool>)>> {
    let key = match settings.layout() {
        Layout::Gguf => PATTERN,
        Layout::Checkpoint => TYPES,
    };
    let Some(items) = settings.get(key).and_then(|value| value.items()) else { return Ok(None) };
    let is_local = |item: &Setting<'_>| {
        let number = || item.as_u64().filter(|&number| number < 2).map(|number| number == 1);
        match (settings.layout(), item.as_str()) {
            (Layout::Gguf, _) => item
                .as_bool()
                .or_else(number)
                .ok_or_else(|| settings.wrong(key, "a period, or yes or no for each layer", &item.kind())),
            (Layout::Checkpoint, Some("sliding_attention")) => Ok(true),
            (Layout::Checkpoint, Some("full_attention")) => Ok(false),
            (Layout::Checkpoint, other) => {
                let got = other.map_or_else(|| item.kind(), str::to_owned);
                Err(settings.wrong(key, "sliding_attention or full_attention", &got))
            }
        }
    };
    Ok(Some((key, items.iter().map(is_local).collect::<Result<_>>()?)))
}

/// Reads the length of sliding windows, the query's own position included. `default` is that of a `config.json` without the
/// key; 0 and `null` mean no window.
pub fn sliding_window(settings: &Settings<'_>, default: Option<u32>) -> Result<Option<u32>> {
    if settings.optional_flag(USE_WINDOW)? == Some(false) {
        return Ok(None);
    }
    if settings.layout() == Layout::Checkpoint && !settings.has(WINDOW) {
        return Ok(default);
    }
    let window = settings.optional_count(WINDOW)?.and_then(|window| u32::try_from(window).ok());
    Ok(window.filter(|&window| window > 0))
}
