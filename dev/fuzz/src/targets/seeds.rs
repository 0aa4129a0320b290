//! Valid inputs of the targets, from `testdata`.

use crate::corpus::testdata;
use crate::gallery;
use crate::target::Seed;
use silicide_weights::{Bytes, Source};
use std::fs;
use std::path::Path;

/// Folders with a small checkpoint: `config.json`, `model.safetensors`, `tokenizer.json`.
pub(super) const CHECKPOINTS: [&str; 2] = ["models/mlx/llama-4bit", "models/mlx/llama-bf16"];

/// Returns the file at `path` below `testdata`; nothing where it cannot be read.
pub(super) fn read(path: &str) -> Vec<u8> {
    fs::read(testdata().join(path)).unwrap_or_default()
}

fn seed(path: &str) -> Seed {
    Seed { name: path.to_owned(), bytes: read(path) }
}

/// Returns the files in a folder of `testdata` that `accept` takes, sorted by name.
fn folder(path: &str, accept: impl Fn(&Path) -> bool) -> Vec<Seed> {
    let entries = fs::read_dir(testdata().join(path)).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file() && accept(path));
    let name = |file: &Path| Some(format!("{path}/{}", file.file_name()?.to_str()?));
    let mut names: Vec<String> = files.filter_map(|file| name(&file)).collect();
    names.sort();
    names.iter().map(|name| seed(name)).collect()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn gallery_files() -> impl Iterator<Item = Seed> {
    let files = gallery::cases().into_iter().flat_map(|case| case.files);
    files.map(|(name, bytes)| Seed { name: format!("malformed/{name}"), bytes })
}

/// Small models of every architecture. The largest are left out: they cost most and parse the same.
pub(super) fn gguf_models() -> Vec<Seed> {
    let small =
        |path: &Path| has_extension(path, "gguf") && path.metadata().is_ok_and(|file| file.len() < 800_000);
    folder("models", small)
}

/// `config.json`, a zero byte, `model.safetensors`.
pub(super) fn checkpoints() -> Vec<Seed> {
    let joined = |folder: &str| {
        let mut bytes = read(&format!("{folder}/config.json"));
        bytes.push(0);
        bytes.extend(read(&format!("{folder}/model.safetensors")));
        Seed { name: folder.to_owned(), bytes }
    };
    CHECKPOINTS.iter().map(|folder| joined(folder)).collect()
}

pub(super) fn configs() -> Vec<Seed> {
    CHECKPOINTS.iter().map(|folder| seed(&format!("{folder}/config.json"))).collect()
}

pub(super) fn tokenizers() -> Vec<Seed> {
    CHECKPOINTS.iter().take(1).map(|folder| seed(&format!("{folder}/tokenizer.json"))).collect()
}

pub(super) fn templates() -> Vec<Seed> {
    folder("chat/templates", |path| has_extension(path, "jinja"))
}

pub(super) fn gguf_files() -> Vec<Seed> {
    let mut seeds = folder("gguf", |path| has_extension(path, "gguf"));
    seeds.extend(gallery_files().filter(|seed| seed.name.ends_with(".gguf")));
    seeds
}

pub(super) fn safetensors_files() -> Vec<Seed> {
    // The header and a little more; the rest of the data adds nothing but time.
    let mut model = seed("models/mlx/llama-4bit/model.safetensors");
    model.bytes.truncate(8192);
    let mut seeds = vec![model];
    seeds.extend(gallery_files().filter(|seed| seed.name.ends_with(".safetensors")));
    seeds
}

pub(super) fn mlx_configs() -> Vec<Seed> {
    let mut seeds = configs();
    seeds.extend(checkpoints());
    seeds.extend(gallery_files().filter(|seed| seed.name.ends_with("config.json")));
    seeds
}

/// Blocks of every format. The first byte selects the format.
pub(super) fn blocks() -> Vec<Seed> {
    let mut seeds = folder("formats/ggml", |path| has_extension(path, "safetensors"));
    for seed in &mut seeds {
        let blocks = golden_blocks(&seed.name, std::mem::take(&mut seed.bytes)).unwrap_or_default();
        seed.bytes = std::iter::once(0).chain(blocks.into_iter().take(8192)).collect();
    }
    seeds
}

/// Returns the blocks in a golden file.
fn golden_blocks(name: &str, file: Vec<u8>) -> silicide_weights::Result<Vec<u8>> {
    let source = Source::from_safetensors(vec![Bytes::from_memory(name, file)], None)?;
    let blocks = source.data(&source.entry("enc")?)?;
    Ok(blocks.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Format;

    #[test]
    fn every_format_has_a_seed_of_sixteen_blocks() {
        let seeds = blocks();
        for format in Format::ALL {
            let name = format!("formats/ggml/{}.safetensors", format.name().to_uppercase());
            let seed = seeds.iter().find(|seed| seed.name == name).unwrap();
            assert_eq!(seed.bytes.len(), 1 + 16 * format.block_bytes(), "{name}");
        }
    }
}
