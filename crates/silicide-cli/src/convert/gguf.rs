//! Plans from GGUF: names and metadata stay.

use super::plan::{Plan, Recipe, Step, Wanted, choose};
use crate::error::Error;
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;
use std::path::Path;

/// Plans to copy a GGUF model, in one file or several, into one.
pub(super) fn plan<'a>(source: &'a Source, output: &Path, recipe: Option<Recipe>) -> Result<Plan<'a>, Error> {
    let mut writer = GgufWriter::new(output);
    let changed = |key: &str| key.starts_with("split.") || recipe.is_some() && key == "general.file_type";
    for (key, value) in source.gguf().first().into_iter().flat_map(|file| file.metadata()) {
        if !changed(key) {
            writer.copy_meta(key, &value)?;
        }
    }
    if let Some(number) = recipe.and_then(Recipe::file_type) {
        writer.meta("general.file_type", &number)?;
    }
    let quantised = recipe.is_some_and(|recipe| recipe.base().is_block());
    if quantised && source.get("general.quantization_version").is_none() {
        writer.meta("general.quantization_version", &2u32)?;
    }
    let architecture =
        source.get("general.architecture").and_then(|value| value.as_str()).unwrap_or_default();
    let layers =
        source.get(&format!("{architecture}.block_count")).and_then(|value| value.as_u64()).unwrap_or(0);
    let tied = source.entry("output.weight").is_err();
    let wanted = recipe.map(|recipe| Wanted { recipe, layers: layers as usize, tied });
    let mut steps = Vec::new();
    for entry in source.entries() {
        // A type that nobody can decode can't be copied either: nobody knows how long it is.
        entry.dtype()?;
        let dtype = choose(entry.name(), &entry, wanted);
        writer.tensor(entry.name(), entry.shape(), dtype)?;
        steps.push(Step { name: entry.name().to_owned(), shape: entry.shape(), dtype, entry, heads: None });
    }
    Ok(Plan { writer, steps })
}
