//! Plans from safetensors and MLX: names and settings as GGUF has them.

use super::plan::{Plan, Step, Types};
use super::recipe::Recipe;
use super::rules::Facts;
use super::tokenizer;
use crate::error::Error;
use serde::Deserialize;
use serde::de::IgnoredAny;
use silicide_llm::model::config::{Conventions, Layout, Names};
use silicide_quant::DType;
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;
use std::path::Path;

/// Architectures that can be converted: their names in `config.json` and in GGUF, and whether GGUF stores the halves of
/// query and key heads woven.
const ARCHITECTURES: [(&str, &str, bool); 4] = [
    ("llama", "llama", true),
    ("mistral", "llama", true),
    ("qwen2", "qwen2", false),
    ("qwen3", "qwen3", false),
];

/// What `config.json` says about the model.
#[derive(Debug, Deserialize)]
struct CheckpointConfig {
    model_type: String,
    hidden_size: u32,
    intermediate_size: u32,
    num_hidden_layers: u32,
    num_attention_heads: u32,
    num_key_value_heads: Option<u32>,
    head_dim: Option<u32>,
    vocab_size: u32,
    max_position_embeddings: u32,
    rms_norm_eps: f32,
    rope_theta: Option<f32>,
    rope_scaling: Option<IgnoredAny>,
    #[serde(default)]
    use_sliding_window: bool,
    #[serde(default)]
    tie_word_embeddings: bool,
}

/// Plans to translate a checkpoint.
pub(super) fn plan<'a>(source: &'a Source, output: &Path, types: &Types) -> Result<Plan<'a>, Error> {
    let recipe = types.recipe;
    let unsupported = |detail: String| Error::NotConvertible { path: source.path().to_owned(), detail };
    let config = source.config().ok_or_else(|| unsupported("config.json is missing".to_owned()))?;
    let model: CheckpointConfig = config.parse()?;
    let found = ARCHITECTURES.iter().find(|(name, ..)| *name == model.model_type);
    let &(_, architecture, woven) = found.ok_or_else(|| {
        let known = ARCHITECTURES.map(|(name, ..)| name).join(", ");
        unsupported(format!("architecture {:?}; known are {known}", model.model_type))
    })?;
    if model.rope_scaling.is_some() || model.use_sliding_window {
        return Err(unsupported("rope scaling and sliding windows are not translated".to_owned()));
    }
    let mut writer = GgufWriter::new(output);
    model.write(architecture, &mut writer)?;
    if let Some(number) = recipe.unwrap_or(Recipe::Plain(DType::F16)).file_type() {
        writer.meta("general.file_type", &number)?;
    }
    if recipe.is_some_and(|recipe| recipe.base().is_block()) {
        writer.meta("general.quantization_version", &2u32)?;
    }
    tokenizer::write(source, model.vocab_size as usize, &mut writer)?;
    let names = Names::of(Layout::Checkpoint, &Conventions::default());
    // Tables that can be computed, and an output projection that is the embedding again.
    let is_left_out = |name: &str| {
        model.tie_word_embeddings && name == "lm_head.weight" || name.ends_with("rotary_emb.inv_freq")
    };
    let mut named = Vec::new();
    for entry in source.entries().filter(|entry| !is_left_out(entry.name())) {
        let name =
            names.in_gguf(entry.name()).ok_or_else(|| unsupported(format!("tensor {:?}", entry.name())))?;
        named.push((name, entry));
    }
    let facts = model.facts(architecture).with_tensors(named.iter().map(|(name, _)| name.as_str()));
    let mut steps = Vec::new();
    for (name, entry) in named {
        let heads = woven.then(|| model.heads(&name)).flatten();
        let choice = types.choose(&name, &entry, &facts);
        steps.push(Step { name, shape: entry.shape(), choice, entry, heads });
    }
    Ok(Plan { writer, steps })
}

impl CheckpointConfig {
    fn write(&self, architecture: &str, writer: &mut GgufWriter) -> Result<(), Error> {
        let key = |name: &str| format!("{architecture}.{name}");
        let kv_heads = self.num_key_value_heads.unwrap_or(self.num_attention_heads);
        let usual = self.hidden_size.checked_div(self.num_attention_heads).unwrap_or(0);
        let head = self.head_dim.unwrap_or(usual);
        writer.meta("general.architecture", architecture)?;
        writer.meta(&key("context_length"), &self.max_position_embeddings)?;
        writer.meta(&key("embedding_length"), &self.hidden_size)?;
        writer.meta(&key("block_count"), &self.num_hidden_layers)?;
        writer.meta(&key("feed_forward_length"), &self.intermediate_size)?;
        writer.meta(&key("attention.head_count"), &self.num_attention_heads)?;
        writer.meta(&key("attention.head_count_kv"), &kv_heads)?;
        writer.meta(&key("attention.layer_norm_rms_epsilon"), &self.rms_norm_eps)?;
        if head != usual {
            writer.meta(&key("attention.key_length"), &head)?;
            writer.meta(&key("attention.value_length"), &head)?;
        }
        writer.meta(&key("vocab_size"), &self.vocab_size)?;
        writer.meta(&key("rope.freq_base"), &self.rope_theta.unwrap_or(10000.0))?;
        writer.meta(&key("rope.dimension_count"), &head)?;
        Ok(())
    }

    fn facts(&self, architecture: &str) -> Facts {
        let key_heads = self.num_key_value_heads.unwrap_or(self.num_attention_heads);
        Facts {
            architecture: architecture.to_owned(),
            layers: self.num_hidden_layers as usize,
            group: self.num_attention_heads.checked_div(key_heads).unwrap_or(1) as usize,
            ..Facts::default()
        }
    }

    /// The heads of a query or key projection.
    fn heads(&self, name: &str) -> Option<usize> {
        let (query, key) = (self.num_attention_heads, self.num_key_value_heads);
        let of = |module: &str| name.contains(&format!(".{module}."));
        let heads = if of("attn_q") {
            query
        } else if of("attn_k") {
            key.unwrap_or(query)
        } else {
            return None;
        };
        Some(heads as usize)
    }
}
