//! The structure of the files. Texts borrow from the file unless they have escapes.

use super::super::vocabulary::Kind;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// `tokenizer.json`.
#[derive(Deserialize)]
pub(super) struct File<'a> {
    #[serde(borrow)]
    pub(super) model: TokenizerModel<'a>,
    #[serde(borrow, default)]
    pub(super) added_tokens: Vec<Added<'a>>,
    pub(super) normalizer: Option<Value>,
    pub(super) pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct TokenizerModel<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) vocab: Entries<'a>,
    #[serde(borrow, default)]
    pub(super) merges: Vec<MergeEntry<'a>>,
    pub(super) byte_fallback: Option<bool>,
    pub(super) ignore_merges: Option<bool>,
    pub(super) unk_token: Option<String>,
}

/// A token of `added_tokens`.
#[derive(Deserialize)]
pub(super) struct Added<'a> {
    pub(super) id: u32,
    #[serde(borrow)]
    pub(super) content: Cow<'a, str>,
    #[serde(default)]
    special: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
}

impl Added<'_> {
    pub(super) fn kind(&self) -> Kind {
        if self.special { Kind::Control } else { Kind::UserDefined }
    }
}

/// Texts and ids, in the order of the file. Vocabularies of other kinds are lists, which are skipped.
#[derive(Default)]
pub(super) struct Entries<'a>(pub(super) Vec<(Cow<'a, str>, u32)>);

/// A text that borrows if it can, also as a key.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries<'a>, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts and numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some((Text(text), id)) = map.next_entry()? {
                    entries.push((text, id));
                }
                Ok(Entries(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries<'de>, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Entries::default())
            }
        }
        deserializer.deserialize_any(EntriesVisitor)
    }
}

/// A merge, written in one of two ways.
pub(super) enum MergeEntry<'a> {
    Joined(Cow<'a, str>),
    Pair(Cow<'a, str>, Cow<'a, str>),
}

impl MergeEntry<'_> {
    pub(super) fn halves(&self) -> Option<(&[u8], &[u8])> {
        let (left, right) = match self {
            MergeEntry::Joined(text) => text.split_once(' ')?,
            MergeEntry::Pair(left, right) => (left.as_ref(), right.as_ref()),
        };
        (!left.is_empty() && !right.is_empty()).then_some((left.as_bytes(), right.as_bytes()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MergeEntry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MergeEntry<'a>, D::Error> {
        struct MergeVisitor;
        impl<'de> Visitor<'de> for MergeVisitor {
            type Value = MergeEntry<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two texts with a space between, or a list of two texts")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<MergeEntry<'de>, E> {
                Ok(MergeEntry::Joined(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<MergeEntry<'de>, E> {
                Ok(MergeEntry::Joined(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MergeEntry<'de>, A::Error> {
                let short = || A::Error::invalid_length(2, &self);
                let Text(left) = list.next_element()?.ok_or_else(short)?;
                let Text(right) = list.next_element()?.ok_or_else(short)?;
                match list.next_element::<IgnoredAny>()? {
                    None => Ok(MergeEntry::Pair(left, right)),
                    Some(_) => Err(short()),
                }
            }
        }
        deserializer.deserialize_any(MergeVisitor)
    }
}

/// An end of a text.
#[derive(Clone, Copy)]
pub(super) enum End {
    Start,
    Finish,
}

impl File<'_> {
    /// Returns the special token that is added at `end` of every text.
    pub(super) fn adds(&self, end: End) -> Option<&str> {
        let processor = self.post_processor.as_ref()?;
        let processors = processor.get("processors").and_then(Value::as_array);
        let processors = processors.map_or(std::slice::from_ref(processor), Vec::as_slice);
        let template = processors.iter().find_map(|processor| processor.get("single")?.as_array())?;
        let item = match end {
            End::Start => template.first(),
            End::Finish => template.last(),
        };
        item?.get("SpecialToken")?.get("id")?.as_str()
    }
}

/// `tokenizer_config.json`.
#[derive(Default, Deserialize)]
pub(super) struct TokenizerConfig {
    bos_token: Option<Value>,
    eos_token: Option<Value>,
    pad_token: Option<Value>,
    pub(super) add_bos_token: Option<bool>,
    pub(super) add_eos_token: Option<bool>,
}

impl TokenizerConfig {
    pub(super) fn bos(&self) -> Option<&str> {
        content(self.bos_token.as_ref())
    }

    pub(super) fn eos(&self) -> Option<&str> {
        content(self.eos_token.as_ref())
    }

    pub(super) fn pad(&self) -> Option<&str> {
        content(self.pad_token.as_ref())
    }
}

/// Returns the text of a token, which is a string or an object with `content`.
fn content(token: Option<&Value>) -> Option<&str> {
    let token = token?;
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// The special tokens of `config.json`.
#[derive(Default, Deserialize)]
pub(super) struct Ids {
    pub(super) bos_token_id: Option<OneOrMany>,
    pub(super) eos_token_id: Option<OneOrMany>,
}

/// The special tokens of `generation_config.json`.
#[derive(Default, Deserialize)]
pub(super) struct GenerationConfig {
    pub(super) eos_token_id: Option<OneOrMany>,
}

/// One id or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

impl OneOrMany {
    pub(super) fn all(&self) -> &[u32] {
        match self {
            OneOrMany::One(id) => std::slice::from_ref(id),
            OneOrMany::Many(ids) => ids,
        }
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.all().first().copied()
    }
}
