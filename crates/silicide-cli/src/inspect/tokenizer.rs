//! Facts about the tokenizer: from GGUF metadata, or from the `tokenizer.json` of a checkpoint.

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use silicide_weights::Source;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};

/// Longest `tokenizer.json` that is looked at, in bytes.
const LIMIT: u64 = 256 << 20;

/// Facts about a tokenizer.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tokenizer {
    pub(super) model: Option<String>,
    pub(super) pre: Option<String>,
    pub(super) tokens: usize,
    pub(super) merges: usize,
    pub(super) bos: Option<u64>,
    pub(super) eos: Option<u64>,
    pub(super) chat_template: bool,
}

impl Tokenizer {
    /// Returns the tokenizer of a model, if the files have one.
    pub(super) fn of(source: &Source) -> Option<Tokenizer> {
        if source.gguf().is_empty() { Tokenizer::beside(source) } else { Tokenizer::inside(source) }
    }

    fn inside(source: &Source) -> Option<Tokenizer> {
        let text = |key: &str| source.get(key).and_then(|value| value.as_str()).map(str::to_owned);
        let number = |key: &str| source.get(key).and_then(|value| value.as_u64());
        let length = |key: &str| source.get(key).and_then(|value| value.as_array()).map(|array| array.len());
        Some(Tokenizer {
            tokens: length("tokenizer.ggml.tokens")?,
            merges: length("tokenizer.ggml.merges").unwrap_or(0),
            model: text("tokenizer.ggml.model"),
            pre: text("tokenizer.ggml.pre"),
            bos: number("tokenizer.ggml.bos_token_id"),
            eos: number("tokenizer.ggml.eos_token_id"),
            chat_template: source.get("tokenizer.chat_template").is_some(),
        })
    }

    fn beside(source: &Source) -> Option<Tokenizer> {
        let path = source.files().first()?.path().with_file_name("tokenizer.json");
        let file = BufReader::new(File::open(&path).ok()?.take(LIMIT));
        let Outline { model } = serde_json::from_reader(file).ok()?;
        let template = path.with_file_name("chat_template.jinja").exists();
        let ids: Ids = source.config().and_then(|config| config.parse().ok()).unwrap_or_default();
        Some(Tokenizer {
            model: model.kind,
            tokens: model.vocab.0,
            merges: model.merges.0,
            bos: ids.bos_token_id,
            eos: ids.eos_token_id,
            chat_template: template || in_config(&path),
            ..Tokenizer::default()
        })
    }
}

/// Whether the `tokenizer_config.json` in the same directory has a chat template.
fn in_config(tokenizer: &std::path::Path) -> bool {
    #[derive(Deserialize)]
    struct Config {
        chat_template: Option<IgnoredAny>,
    }
    let file = File::open(tokenizer.with_file_name("tokenizer_config.json")).ok();
    let config =
        file.and_then(|file| serde_json::from_reader::<_, Config>(BufReader::new(file.take(LIMIT))).ok());
    config.is_some_and(|config| config.chat_template.is_some())
}

/// The special tokens of `config.json`. A list of end tokens is not one number, and is left out.
#[derive(Default, Deserialize)]
struct Ids {
    bos_token_id: Option<u64>,
    eos_token_id: Option<u64>,
}

#[derive(Deserialize)]
struct Outline {
    model: TokenizerOutline,
}

#[derive(Deserialize)]
struct TokenizerOutline {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    vocab: Count,
    #[serde(default)]
    merges: Count,
}

/// The number of members of an object or a list, none of which is kept.
#[derive(Default)]
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        struct Counting;
        impl<'de> Visitor<'de> for Counting {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or a list")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }
        deserializer.deserialize_any(Counting)
    }
}
