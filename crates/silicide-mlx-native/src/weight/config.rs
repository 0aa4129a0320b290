//! How the tensors of a quantized model are packed.

use crate::error::{MlxError, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// Bits and group size of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorQuantConfig {
    /// Bits of a code.
    pub bits: u8,
    /// Codes under one scale.
    pub group_size: usize,
}

/// Bits and group sizes of a model: a default, and tensors that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantizationConfig {
    /// Bits of a code.
    pub bits: u8,
    /// Codes under one scale.
    pub group_size: usize,
    /// Tensors that differ, by name.
    pub per_tensor: HashMap<String, TensorQuantConfig>,
}

impl Default for QuantizationConfig {
    fn default() -> QuantizationConfig {
        QuantizationConfig { bits: 4, group_size: 64, per_tensor: HashMap::new() }
    }
}

fn malformed(text: impl ToString) -> MlxError {
    MlxError::QuantConfigError(text.to_string())
}

/// Reads `bits` and `group_size` of an object; those that are missing are the default's.
fn settings(value: &Value, default: TensorQuantConfig) -> Result<TensorQuantConfig> {
    let number = |key: &str| match value.get(key) {
        None => Ok(None),
        Some(number) => number
            .as_u64()
            .filter(|number| *number > 0)
            .map(Some)
            .ok_or_else(|| malformed(format!("{key} is not a positive integer: {number}"))),
    };
    let bits = number("bits")?.map_or(Ok(default.bits), u8::try_from).map_err(malformed)?;
    let group_size =
        number("group_size")?.map_or(Ok(default.group_size), usize::try_from).map_err(malformed)?;
    Ok(TensorQuantConfig { bits, group_size })
}

impl QuantizationConfig {
    /// Reads `quantization_config.json`.
    pub fn from_file(path: &Path) -> Result<QuantizationConfig> {
        QuantizationConfig::from_json(&read(path)?)
    }

    /// Reads the text of `quantization_config.json`. Tensors that differ are objects under `per_tensor`, or beside the default.
    pub fn from_json(json: &str) -> Result<QuantizationConfig> {
        QuantizationConfig::from_value(&serde_json::from_str(json).map_err(malformed)?)
    }

    /// Reads the text of a model's `config.json`: its section `quantization`, or the default if there is none.
    pub fn from_model_config_json(json: &str) -> Result<QuantizationConfig> {
        let config: Value = serde_json::from_str(json).map_err(malformed)?;
        let section = config.get("quantization").or_else(|| config.get("quantization_config"));
        section.map_or_else(|| Ok(QuantizationConfig::default()), QuantizationConfig::from_value)
    }

    /// Reads a model's `config.json`.
    pub fn from_model_config_file(path: &Path) -> Result<QuantizationConfig> {
        QuantizationConfig::from_model_config_json(&read(path)?)
    }

    fn from_value(value: &Value) -> Result<QuantizationConfig> {
        let object = value.as_object().ok_or_else(|| malformed("the configuration is not an object"))?;
        let standard = QuantizationConfig::default();
        let default = TensorQuantConfig { bits: standard.bits, group_size: standard.group_size };
        let default = settings(value, default)?;
        let named = object.get("per_tensor").and_then(Value::as_object);
        let beside = object.iter().filter(|(key, _)| key.as_str() != "per_tensor");
        let mut per_tensor = HashMap::new();
        for (name, value) in named.into_iter().flatten().chain(beside).filter(|(_, value)| value.is_object())
        {
            per_tensor.insert(name.clone(), settings(value, default)?);
        }
        Ok(QuantizationConfig { bits: default.bits, group_size: default.group_size, per_tensor })
    }

    /// Returns bits and group size of a tensor. Looks up the name, the name without `.weight`, `.scales` or `.biases`, and both with and
    /// without `language_model.` before them.
    pub fn config_for_tensor(&self, tensor_name: &str) -> (u8, usize) {
        const PREFIX: &str = "language_model.";
        let suffixes = [".weight", ".scales", ".biases"];
        let stem = suffixes.iter().find_map(|suffix| tensor_name.strip_suffix(suffix)).unwrap_or(tensor_name);
        let found = [tensor_name, stem].into_iter().find_map(|name| {
            let other = name.strip_prefix(PREFIX).map_or_else(|| format!("{PREFIX}{name}"), str::to_owned);
            self.per_tensor.get(name).or_else(|| self.per_tensor.get(&other))
        });
        found.map_or((self.bits, self.group_size), |config| (config.bits, config.group_size))
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| MlxError::IoError(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::QuantizationConfig;

    #[test]
    fn a_tensor_is_found_without_its_suffix_and_with_the_prefix() {
        let json = r#"{"bits": 8, "group_size": 32, "language_model.a.b": {"bits": 6}}"#;
        let config = QuantizationConfig::from_json(json).unwrap();
        assert_eq!(config.config_for_tensor("a.b.weight"), (6, 32));
        assert_eq!(config.config_for_tensor("a.c.weight"), (8, 32));
    }

    #[test]
    fn settings_that_are_no_numbers_are_refused() {
        assert!(QuantizationConfig::from_json(r#"{"bits": "four"}"#).is_err());
        assert!(QuantizationConfig::from_json(r#"{"bits": 0}"#).is_err());
        assert!(QuantizationConfig::from_json("[]").is_err());
    }
}
