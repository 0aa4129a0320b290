//! Plans from GGUF: names and metadata stay.

use super::plan::{Plan, Step, Types};
use super::rules::Facts;
use crate::error::Error;
use silicide_weights::Source;
use silicide_weights::gguf::{GgufWriter, Value};
use std::path::Path;

/// Plans to copy a GGUF model, in one file or several.
pub(super) fn plan<'a>(source: &'a Source, output: &Path, types: &Types) -> Result<Plan<'a>, Error> {
    let mut writer = GgufWriter::new(output);
    let recipe = types.recipe;
    let changed = |key: &str| key.starts_with("split.") || recipe.is_some() && key == "general.file_type";
    for (key, value) in source.gguf().first().into_iter().flat_map(|file| file.metadata()) {
        if !changed(key) {
            writer.copy_meta(key, &value)?;
        }
    }
    if let Some(number) = recipe.and_then(super::recipe::Recipe::file_type) {
        writer.meta("general.file_type", &number)?;
    }
    let quantized = recipe.is_some_and(|recipe| recipe.base().is_block());
    if quantized && source.get("general.quantization_version").is_none() {
        writer.meta("general.quantization_version", &2u32)?;
    }
    let names: Vec<&str> = source.entries().map(|entry| entry.name()).collect();
    let facts = facts(source).with_tensors(names.into_iter());
    let mut steps = Vec::new();
    for entry in source.entries() {
        // The length of a type that cannot be decoded is not known, so it cannot be copied either.
        entry.dtype()?;
        let choice = types.choose(entry.name(), &entry, &facts);
        steps.push(Step { name: entry.name().to_owned(), shape: entry.shape(), choice, entry, heads: None });
    }
    Ok(Plan { writer, steps })
}

fn facts(source: &Source) -> Facts {
    let architecture = source.get("general.architecture");
    let architecture = architecture.as_ref().and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| {
        let value = source.get(&format!("{architecture}.{key}"))?;
        // Some models have a number for each layer.
        let first =
            value.as_array().and_then(|array| array.iter().find_map(|item| item.as_u64().filter(|&n| n > 0)));
        value.as_u64().or(first)
    };
    let number = |key: &str| number(key).map_or(0, |number| number as usize);
    let heads = number("attention.head_count");
    let key_heads = number("attention.head_count_kv").max(1);
    Facts {
        architecture: architecture.to_owned(),
        layers: number("block_count"),
        group: heads / key_heads,
        experts: number("expert_count"),
        ..Facts::default()
    }
}
