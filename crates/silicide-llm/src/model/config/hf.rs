//! Settings from the `config.json` of safetensors and MLX checkpoints.

use super::settings::{MISSING, wrong};
use crate::error::Result;
use serde_json::{Map, Value};
use silicide_weights::Source;

/// Returns the architecture's name (`model_type`) and the members that describe the language model: all of the file, or
/// `text_config` in files of models with other parts.
pub(super) fn members(source: &Source) -> Result<(String, Map<String, Value>)> {
    let Some(config) = source.config() else {
        return Err(wrong(source, "config.json", "a file beside the weights", "none"));
    };
    let mut outer: Map<String, Value> = config.parse()?;
    let name = match outer.get("model_type") {
        Some(Value::String(name)) => name.clone(),
        Some(other) => return Err(wrong(source, "model_type", "a text", &kind(other))),
        None => return Err(wrong(source, "model_type", "a text", MISSING)),
    };
    match outer.remove("text_config") {
        None | Some(Value::Null) => Ok((name, outer)),
        Some(Value::Object(mut text)) => {
            // Some files have this setting outside of `text_config`.
            let tied = "tie_word_embeddings";
            if let (None | Some(Value::Null), Some(value)) = (text.get(tied), outer.remove(tied)) {
                text.insert(tied.to_owned(), value);
            }
            Ok((name, text))
        }
        Some(other) => Err(wrong(source, "text_config", "an object", &kind(&other))),
    }
}

/// Returns the type of a value, or the value itself if it is short, for errors.
pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
