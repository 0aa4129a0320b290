//! Vocabularies in the `tokenizer.json` beside a checkpoint, with `tokenizer_config.json`, `config.json` and
//! `generation_config.json`.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | builds a tokenizer |
//! | `layout.rs` | the structure of the files |
//! | `rules.rs` | the preparation and splitting of text |

mod layout;
mod rules;

use super::alphabet;
use super::bpe::Bpe;
use super::error::{TokenizerError, Warning};
use super::partition::{Partition, Strip};
use super::special::{self, SpecialTokens};
use super::split::Splitter;
use super::vocabulary::{Kind, Vocabulary};
use super::{Algorithm, Rules, Tokenizer, gguf};
use layout::{Added, File, GenerationConfig, Ids, TokenizerConfig};
use rules::TextRules;
use serde::de::DeserializeOwned;
use silicide_weights::Source;
use std::borrow::Cow;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Longest file that is read, in bytes.
const LIMIT: u64 = 256 << 20;
const SUPPORTED: &str = "\"BPE\"";

/// Reads the tokenizer beside a checkpoint.
pub(super) fn load(source: &Source) -> Result<Tokenizer, TokenizerError> {
    let beside = source.files().first().map(|file| file.path().with_file_name("tokenizer.json"));
    let path = beside.unwrap_or_else(|| source.path().join("tokenizer.json"));
    let missing = || TokenizerError::Missing { path: path.clone(), what: "tokenizer.json".to_owned() };
    let text = read(&path)?.ok_or_else(missing)?;
    let file: File<'_> = serde_json::from_str(&text).map_err(|error| not_json(&path, &error))?;
    if file.model.kind.as_deref().is_some_and(|kind| kind != "BPE") {
        let kind = file.model.kind.unwrap_or_default().into_owned();
        return Err(TokenizerError::Unsupported { path, kind, supported: SUPPORTED });
    }
    let settings: TokenizerConfig = side(&path, "tokenizer_config.json")?;
    let generation: GenerationConfig = side(&path, "generation_config.json")?;
    let ids: Ids = source.config().and_then(|config| config.parse().ok()).unwrap_or_default();

    let mut warnings = Vec::new();
    let preparation = TextRules::of(&file, &mut warnings);
    let mut vocabulary = vocabulary(&file, &path)?;
    let merges = file.model.merges.iter().map(layout::MergeEntry::halves);
    let whole_words = file.model.ignore_merges.unwrap_or(false);
    let bpe = Bpe::new(&mut vocabulary, merges, preparation.alphabet, whole_words);
    let splitter = splitter(&preparation, &mut warnings, &path)?;

    let named = |text: Option<&str>| text.and_then(|text| vocabulary.find(text.as_bytes()));
    let (bos, eos) = (named(settings.bos()), named(settings.eos()));
    let defaults = SpecialTokens {
        bos: bos.or_else(|| ids.bos_token_id.as_ref()?.first()),
        eos: eos.or_else(|| ids.eos_token_id.as_ref()?.first()),
        padding: named(settings.pad()),
        unknown: named(file.model.unk_token.as_deref()),
        ..SpecialTokens::default()
    };
    let mut found = special::find(&mut vocabulary, defaults, |_| None);
    let more = [ids.eos_token_id, generation.eos_token_id];
    found.ends.extend(
        more.iter().flatten().flat_map(layout::OneOrMany::all).copied().filter(|&id| vocabulary.is_token(id)),
    );
    found.ends.sort_unstable();
    found.ends.dedup();
    warnings.extend(found.warnings);
    if vocabulary.shadowed() > 0 {
        warnings.push(Warning::SameText { count: vocabulary.shadowed() });
    }
    let around = |token: Option<u32>, end: layout::End| {
        token.is_some_and(|token| {
            file.adds(end).is_some_and(|text| vocabulary.find(text.as_bytes()) == Some(token))
        })
    };
    let rules = Rules {
        add_bos: settings.add_bos_token.unwrap_or_else(|| around(found.tokens.bos, layout::End::Start)),
        add_eos: settings.add_eos_token.unwrap_or_else(|| around(found.tokens.eos, layout::End::Finish)),
        prefix: preparation.prefix,
        marks_spaces: preparation.marks_spaces,
    };
    let strip = |id: u32| {
        let added = file.added_tokens.iter().find(|added| added.id == id);
        added.map_or(Strip::default(), |added| Strip { left: added.lstrip, right: added.rstrip })
    };
    let partition = Partition::new(&vocabulary, strip, &path)?;
    Ok(Tokenizer {
        model: Algorithm::Bpe(bpe, splitter),
        special: found.tokens,
        ends: found.ends,
        vocabulary,
        partition,
        rules,
        warnings,
    })
}

/// Returns the splitter of the file, or [`COMMON`] if its pattern can't be used.
fn splitter(
    preparation: &TextRules<'_>,
    warnings: &mut Vec<Warning>,
    path: &Path,
) -> Result<Splitter, TokenizerError> {
    let refused = |pattern: &str| TokenizerError::Malformed {
        path: path.to_owned(),
        what: "pre_tokenizer".to_owned(),
        expected: "a pattern that can be used".to_owned(),
        got: pattern.to_owned(),
    };
    Splitter::new(&preparation.steps).or_else(|pattern| {
        warnings.push(Warning::UnknownSplit { name: pattern.to_owned(), used: rules::COMMON });
        Splitter::new(rules::common()).map_err(refused)
    })
}

/// Returns the tokens in the order of their ids. Unused ids get a token that no text produces.
fn vocabulary(file: &File<'_>, path: &Path) -> Result<Vocabulary, TokenizerError> {
    let largest =
        file.model.vocab.0.iter().map(|(_, id)| *id).chain(file.added_tokens.iter().map(|token| token.id));
    let count = largest.max().map_or(0, |id| id as usize + 1);
    // Limits the unused ids: one large id must not cause billions of them.
    let most = gguf::TOKENS.min((file.model.vocab.0.len() + file.added_tokens.len()) * 4 + 4096);
    if count > most {
        return Err(TokenizerError::Malformed {
            path: path.to_owned(),
            what: "vocab".to_owned(),
            expected: format!("token numbers below {most}"),
            got: format!("{}", count - 1),
        });
    }
    let mut tokens: Vec<Option<(Cow<'_, str>, Kind)>> = vec![None; count];
    let fallback = file.model.byte_fallback.unwrap_or(false);
    let kind = |text: &str| match alphabet::named_byte(text.as_bytes()) {
        Some(_) if fallback => Kind::Byte,
        _ => Kind::Normal,
    };
    let normal = file.model.vocab.0.iter().map(|(text, id)| (*id, text, kind(text)));
    let added = file.added_tokens.iter().map(|added: &Added<'_>| (added.id, &added.content, added.kind()));
    for (id, text, kind) in normal.chain(added) {
        if let Some(place) = tokens.get_mut(id as usize) {
            *place = Some((Cow::Borrowed(text.as_ref()), kind));
        }
    }
    let mut vocabulary = Vocabulary::with_capacity(count);
    for (number, token) in tokens.into_iter().enumerate() {
        let (text, kind) = token.unwrap_or_else(|| (Cow::Owned(format!("[PAD{number}]")), Kind::Unused));
        vocabulary.push(text.as_bytes(), kind);
    }
    Ok(vocabulary)
}

fn read(path: &Path) -> Result<Option<String>, TokenizerError> {
    let failed = |error: &dyn std::fmt::Display| TokenizerError::Io {
        path: path.to_owned(),
        detail: error.to_string(),
    };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    let mut text = String::new();
    file.take(LIMIT + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > LIMIT {
        return Err(failed(&format!("longer than {LIMIT} bytes")));
    }
    Ok(Some(text))
}

/// Reads a file in the same directory; the default if it does not exist.
fn side<T: DeserializeOwned + Default>(path: &Path, name: &str) -> Result<T, TokenizerError> {
    let path = path.with_file_name(name);
    let Some(text) = read(&path)? else { return Ok(T::default()) };
    serde_json::from_str(&text).map_err(|error| not_json(&path, &error))
}

fn not_json(path: &Path, error: &serde_json::Error) -> TokenizerError {
    TokenizerError::Malformed {
        path: path.to_owned(),
        what: "file".to_owned(),
        expected: "JSON of the usual layout".to_owned(),
        got: error.to_string(),
    }
}
