//! `tokenizer.json` as GGUF metadata: byte-level BPE vocabularies.

use crate::error::Error;
use serde::Deserialize;
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Longest file that is read, in bytes.
const LIMIT: u64 = 256 << 20;

/// Kinds of tokens, as GGUF numbers them.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// Patterns by which text is split before merging, and the names that GGUF has for them.
const PATTERNS: [(&str, &str); 2] = [
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        "llama-bpe",
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        "qwen2",
    ),
];

#[derive(Deserialize)]
struct Tokenizer {
    model: TokenizerModel,
    #[serde(default)]
    added_tokens: Vec<Added>,
    pre_tokenizer: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct TokenizerModel {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: HashMap<String, u32>,
    #[serde(default)]
    merges: Vec<Merge>,
}

/// Merges are written in two ways.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Joined(String),
    Pair(String, String),
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
}

/// What `tokenizer_config.json` adds.
#[derive(Default, Deserialize)]
struct Settings {
    #[serde(default)]
    add_bos_token: bool,
    chat_template: Option<String>,
}

/// What `config.json` says about special tokens.
#[derive(Default, Deserialize)]
struct Special {
    bos_token_id: Option<One>,
    eos_token_id: Option<One>,
    pad_token_id: Option<One>,
}

/// A number, or the first of several.
#[derive(Deserialize)]
#[serde(untagged)]
enum One {
    Only(u32),
    Several(Vec<u32>),
}

impl One {
    fn first(&self) -> Option<u32> {
        match self {
            One::Only(id) => Some(*id),
            One::Several(ids) => ids.first().copied(),
        }
    }
}

/// Writes the tokenizer in the folder of a checkpoint, if there is one.
pub(super) fn write(source: &Source, vocabulary: usize, writer: &mut GgufWriter) -> Result<(), Error> {
    let Some(path) = source.files().first().map(|file| file.path().with_file_name("tokenizer.json")) else {
        return Ok(());
    };
    let Some(tokenizer) = read::<Tokenizer>(&path)? else { return Ok(()) };
    let refused = |detail: String| Error::NotConvertible { path: path.clone(), detail };
    let pre = pre_tokenizer(tokenizer.pre_tokenizer.as_ref());
    let byte_level = tokenizer.model.kind.as_deref().is_none_or(|kind| kind == "BPE");
    let Some(pre) = pre.filter(|_| byte_level) else {
        return Err(refused(
            "only byte-level BPE tokenizers with a known pre-tokenizer are translated".to_owned(),
        ));
    };
    let (mut tokens, mut kinds) = (vec![None; vocabulary], vec![UNUSED; vocabulary]);
    let normal = tokenizer.model.vocab.iter().map(|(text, id)| (*id, text, NORMAL));
    let added = tokenizer
        .added_tokens
        .iter()
        .map(|token| (token.id, &token.content, if token.special { CONTROL } else { USER_DEFINED }));
    for (id, text, kind) in normal.chain(added) {
        let place = tokens.get_mut(id as usize).zip(kinds.get_mut(id as usize));
        let (token, its_kind) =
            place.ok_or_else(|| refused(format!("token {id} of a vocabulary of {vocabulary}")))?;
        (*token, *its_kind) = (Some(text.as_str()), kind);
    }
    let named =
        |(id, token): (usize, Option<&str>)| token.map_or_else(|| format!("[PAD{id}]"), str::to_owned);
    let tokens: Vec<String> = tokens.into_iter().enumerate().map(named).collect();
    let joined = |merge: &Merge| match merge {
        Merge::Joined(text) => text.clone(),
        Merge::Pair(left, right) => format!("{left} {right}"),
    };
    let merges: Vec<String> = tokenizer.model.merges.iter().map(joined).collect();
    writer.meta("tokenizer.ggml.model", "gpt2")?;
    writer.meta("tokenizer.ggml.pre", pre)?;
    writer.meta("tokenizer.ggml.tokens", &tokens)?;
    writer.meta("tokenizer.ggml.token_type", &kinds)?;
    writer.meta("tokenizer.ggml.merges", &merges)?;
    let special: Special = source.config().map(|config| config.parse()).transpose()?.unwrap_or_default();
    let ids =
        [("bos", special.bos_token_id), ("eos", special.eos_token_id), ("padding", special.pad_token_id)];
    for (name, id) in ids {
        if let Some(id) = id.and_then(|id| id.first()) {
            writer.meta(&format!("tokenizer.ggml.{name}_token_id"), &id)?;
        }
    }
    let settings: Settings = read(&path.with_file_name("tokenizer_config.json"))?.unwrap_or_default();
    writer.meta("tokenizer.ggml.add_bos_token", &settings.add_bos_token)?;
    if let Some(template) = settings.chat_template {
        writer.meta("tokenizer.chat_template", &template)?;
    }
    Ok(())
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, Error> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let parsed = serde_json::from_reader(BufReader::new(file.take(LIMIT)));
    parsed
        .map(Some)
        .map_err(|error| Error::NotConvertible { path: path.to_owned(), detail: error.to_string() })
}

/// The name that GGUF has for a way to split text.
fn pre_tokenizer(described: Option<&serde_json::Value>) -> Option<&'static str> {
    let described = described?;
    let parts = match described.get("pretokenizers").and_then(|parts| parts.as_array()) {
        Some(parts) => parts.as_slice(),
        None => std::slice::from_ref(described),
    };
    let kind =
        |part: &serde_json::Value| part.get("type").and_then(|kind| kind.as_str()).unwrap_or("").to_owned();
    let kinds: Vec<String> = parts.iter().map(kind).collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    match kinds.as_slice() {
        ["ByteLevel"] => Some("gpt-2"),
        ["Digits", "ByteLevel"] => Some("smollm"),
        ["Split", "ByteLevel"] => {
            let pattern = parts.first()?.get("pattern")?.get("Regex")?.as_str()?;
            PATTERNS.iter().find(|(known, _)| *known == pattern).map(|(_, name)| *name)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn knows_pre_tokenizers() {
        assert_eq!(pre_tokenizer(Some(&json!({ "type": "ByteLevel" }))), Some("gpt-2"));
        let split = |pattern: &str| {
            json!({ "type": "Sequence", "pretokenizers": [
                { "type": "Split", "pattern": { "Regex": pattern } }, { "type": "ByteLevel" },
            ]})
        };
        for (pattern, name) in PATTERNS {
            assert_eq!(pre_tokenizer(Some(&split(pattern))), Some(name));
        }
        assert_eq!(pre_tokenizer(Some(&split("x"))), None);
        assert_eq!(pre_tokenizer(Some(&json!({ "type": "Metaspace" }))), None);
    }
}
