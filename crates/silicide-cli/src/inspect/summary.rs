//! The facts about a model, as data, for `--json`.

use super::tokenizer::Tokenizer;
use super::value::Shown;
use serde::Serialize;
use silicide_weights::{Config, Container, Source};
use std::collections::BTreeMap;

/// A summary of a model file.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) container: String,
    pub(super) files: Vec<File>,
    pub(super) name: Option<String>,
    pub(super) architecture: Option<String>,
    /// Elements of all tensors.
    pub(super) parameters: u64,
    /// Bytes of all tensors.
    pub(super) tensor_bytes: u64,
    pub(super) tensor_count: usize,
    /// Bits per element, over tensors whose size is known.
    pub(super) bits_per_weight: Option<f64>,
    /// Largest first.
    pub(super) formats: Vec<Share>,
    pub(super) tokenizer: Option<Tokenizer>,
    pub(super) metadata: Vec<(String, Shown)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tensors: Option<Vec<Tensor>>,
}

#[derive(Debug, Serialize)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) bytes: u64,
}

/// What one format makes up.
#[derive(Debug, Default, Serialize)]
pub(super) struct Share {
    pub(super) format: String,
    pub(super) tensors: usize,
    pub(super) elements: u64,
    /// Unknown for a format that is.
    pub(super) bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) format: String,
    pub(super) bytes: Option<u64>,
}

impl Summary {
    pub(super) fn of(source: &Source, list: bool) -> Summary {
        let shares = shares(source);
        let known = shares.iter().filter_map(|share| Some((share.bytes?, share.elements)));
        let (tensor_bytes, elements) =
            known.fold((0, 0), |(a, b), (bytes, elements)| (a + bytes, b + elements));
        let text = |key: &str| source.get(key).and_then(|value| value.as_str()).map(str::to_owned);
        let model =
            source.config().and_then(|config| config.parse::<ConfigSummary>().ok()).unwrap_or_default();
        let files = source.files().into_iter().map(|file| {
            let (path, bytes) = (file.path().display().to_string(), file.as_slice().len() as u64);
            File { path, bytes }
        });
        Summary {
            container: container(source),
            files: files.collect(),
            name: text("general.name").or(model.name),
            architecture: text("general.architecture").or(model.model_type),
            parameters: shares.iter().map(|share| share.elements).sum(),
            tensor_bytes,
            tensor_count: source.len(),
            bits_per_weight: (elements > 0).then(|| tensor_bytes as f64 * 8.0 / elements as f64),
            formats: shares,
            tokenizer: Tokenizer::of(source),
            metadata: metadata(source),
            tensors: list.then(|| tensors(source)),
        }
    }
}

/// The settings of `config.json` that are shown.
#[derive(Default, serde::Deserialize)]
struct ConfigSummary {
    model_type: Option<String>,
    #[serde(rename = "_name_or_path")]
    name: Option<String>,
}

fn container(source: &Source) -> String {
    match (source.container(), source.gguf().first()) {
        (Container::Gguf, Some(file)) => {
            let order = if file.is_big_endian() { ", big-endian" } else { "" };
            format!("GGUF version {}{order}", file.version())
        }
        (Container::Mlx, _) => "safetensors, MLX quantisation".to_owned(),
        _ => "safetensors".to_owned(),
    }
}

fn shares(source: &Source) -> Vec<Share> {
    let mut shares: BTreeMap<String, Share> = BTreeMap::new();
    for entry in source.entries() {
        let format = entry.stored().to_string();
        let share = shares.entry(format.clone()).or_insert_with(|| Share {
            format,
            bytes: Some(0),
            ..Share::default()
        });
        share.tensors += 1;
        share.elements = share.elements.saturating_add(entry.shape().elements() as u64);
        share.bytes = share.bytes.zip(entry.bytes()).map(|(sum, bytes)| sum.saturating_add(bytes));
    }
    let mut shares: Vec<Share> = shares.into_values().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}

fn metadata(source: &Source) -> Vec<(String, Shown)> {
    let gguf = source.gguf().first().into_iter().flat_map(|file| file.metadata());
    let mut all: Vec<(String, Shown)> =
        gguf.map(|(key, value)| (key.to_owned(), Shown::of(&value))).collect();
    for file in source.safetensors() {
        all.extend(file.metadata().into_iter().map(|(key, text)| (key, Shown::text(&text))));
    }
    all.extend(source.config().map(config).unwrap_or_default());
    all
}

fn config(config: &Config) -> Vec<(String, Shown)> {
    let members: BTreeMap<String, serde_json::Value> = config.parse().unwrap_or_default();
    members.into_iter().map(|(key, value)| (format!("config.{key}"), Shown::json(&value))).collect()
}

fn tensors(source: &Source) -> Vec<Tensor> {
    let tensor = |entry: silicide_weights::Entry<'_>| Tensor {
        name: entry.name().to_owned(),
        shape: entry.shape().axes().to_vec(),
        format: entry.stored().to_string(),
        bytes: entry.bytes(),
    };
    source.entries().map(tensor).collect()
}
