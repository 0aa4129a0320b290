//! Vocabularies in GGUF metadata, under `tokenizer.ggml`.

use super::bpe::{Alphabet, Bpe};
use super::error::{TokenizerError, Warning};
use super::partition::{Partition, Strip};
use super::special::{self, SpecialTokens};
use super::split::{self, FALLBACK, Splitter};
use super::spm::Spm;
use super::vocabulary::{Kind, Vocabulary};
use super::{Algorithm, Prefix, Rules, Tokenizer};
use silicide_weights::Source;
use silicide_weights::gguf::{Array, Value};

/// The kinds that can be read.
const SUPPORTED: &str = "\"gpt2\" (byte-level BPE), \"llama\" (SentencePiece), \"gemma4\"";
/// Most tokens of a vocabulary. The largest ones have some 300,000.
pub(super) const TOKENS: usize = 1 << 22;

/// Reads `tokenizer.ggml.*`.
struct Reader<'a> {
    source: &'a Source,
}

impl<'a> Reader<'a> {
    fn get(&self, key: &str) -> Option<Value<'a>> {
        self.source.get(&format!("tokenizer.ggml.{key}"))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(|value| value.as_str())
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(|value| value.as_bool())
    }

    fn array(&self, key: &str) -> Result<Option<Array<'a>>, TokenizerError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wrong = || self.malformed(key, "a list", format!("{:?}", value.kind()));
        value.as_array().map(Some).ok_or_else(wrong)
    }

    /// Returns the list `key`, which must have `count` elements.
    fn numbers(&self, key: &str, count: usize) -> Result<Option<Array<'a>>, TokenizerError> {
        let Some(array) = self.array(key)? else { return Ok(None) };
        if array.len() < count {
            let expected = format!("one for each of {count} tokens");
            return Err(self.malformed(key, &expected, format!("{}", array.len())));
        }
        Ok(Some(array))
    }

    fn missing(&self, what: &str) -> TokenizerError {
        TokenizerError::Missing {
            path: self.source.path().to_owned(),
            what: format!("tokenizer.ggml.{what}"),
        }
    }

    fn malformed(&self, what: &str, expected: &str, got: String) -> TokenizerError {
        let (path, what) = (self.source.path().to_owned(), format!("tokenizer.ggml.{what}"));
        TokenizerError::Malformed { path, what, expected: expected.to_owned(), got }
    }

    fn vocabulary(&self) -> Result<Vocabulary, TokenizerError> {
        let tokens = self.array("tokens")?.ok_or_else(|| self.missing("tokens"))?;
        if tokens.len() > TOKENS {
            return Err(self.malformed("tokens", &format!("at most {TOKENS}"), format!("{}", tokens.len())));
        }
        let kinds = self.numbers("token_type", tokens.len())?;
        let mut kinds = kinds.map(|kinds| kinds.iter());
        let mut vocabulary = Vocabulary::with_capacity(tokens.len());
        for token in tokens.iter() {
            let Some(text) = token.as_bytes() else {
                return Err(self.malformed("tokens", "texts", format!("{:?}", token.kind())));
            };
            let kind = match &mut kinds {
                Some(kinds) => {
                    kinds.next().and_then(|kind| kind.as_i64()).map_or(Kind::Undefined, Kind::from_gguf)
                }
                None => Kind::Normal,
            };
            vocabulary.push(text, kind);
        }
        if let Some(scores) = self.numbers("scores", tokens.len())? {
            let scores = scores.iter().take(tokens.len());
            vocabulary.set_scores(scores.map(|score| score.as_f64().unwrap_or(0.0) as f32).collect());
        }
        Ok(vocabulary)
    }
}

/// Reads the tokenizer of a GGUF file.
pub(super) fn load(source: &Source) -> Result<Tokenizer, TokenizerError> {
    let reader = Reader { source };
    let kind = reader.text("model").ok_or_else(|| reader.missing("model"))?;
    match kind {
        "gpt2" => load_bpe(&reader, reader.text("pre").unwrap_or_default()),
        "gemma4" => load_bpe(&reader, "gemma4"),
        "llama" => load_spm(&reader),
        _ => Err(TokenizerError::Unsupported {
            path: source.path().to_owned(),
            kind: kind.to_owned(),
            supported: SUPPORTED,
        }),
    }
}

fn load_bpe(reader: &Reader<'_>, pre: &str) -> Result<Tokenizer, TokenizerError> {
    let mut vocabulary = reader.vocabulary()?;
    let mut warnings = Vec::new();
    let unknown = || Warning::UnknownSplit { name: pre.to_owned(), used: FALLBACK };
    let recipe = split::recipe(pre).or_else(|| {
        warnings.push(unknown());
        split::recipe(FALLBACK)
    });
    let recipe = recipe.ok_or_else(|| reader.missing("pre"))?;
    let splitter = Splitter::new(recipe.rules)
        .map_err(|pattern| reader.malformed("pre", "rules that can be used", pattern.to_owned()))?;
    let merges = reader.array("merges")?;
    let merges: Vec<&[u8]> = match merges {
        Some(merges) => merges.iter().map(|merge| merge.as_bytes().unwrap_or_default()).collect(),
        None => return Err(reader.missing("merges")),
    };
    let pairs = merges.iter().map(|merge| halves(merge));
    let bpe = Bpe::new(&mut vocabulary, pairs, recipe.alphabet, recipe.whole_words);
    let marks_spaces = recipe.alphabet == Alphabet::Text;
    // The default of llama.cpp for files that name no special tokens.
    let fallback = Some(11).filter(|_| !marks_spaces);
    let defaults = SpecialTokens { bos: fallback, eos: fallback, ..SpecialTokens::default() };
    let rules = Rules {
        // These files have `false`, but the models need a BOS token.
        add_bos: pre == "gemma4" || reader.flag("add_bos_token").unwrap_or(recipe.add_bos),
        add_eos: reader.flag("add_eos_token").unwrap_or(false),
        prefix: Prefix::Never,
        marks_spaces,
    };
    finish(reader, vocabulary, Parts { defaults, rules, warnings }, |_, _| Algorithm::Bpe(bpe, splitter))
}

fn load_spm(reader: &Reader<'_>) -> Result<Tokenizer, TokenizerError> {
    let vocabulary = reader.vocabulary()?;
    let defaults = SpecialTokens { bos: Some(1), eos: Some(2), unknown: Some(0), ..SpecialTokens::default() };
    let prefixed = reader.flag("add_space_prefix").unwrap_or(true);
    let rules = Rules {
        add_bos: reader.flag("add_bos_token").unwrap_or(true),
        add_eos: reader.flag("add_eos_token").unwrap_or(false),
        prefix: if prefixed { Prefix::Segments } else { Prefix::Never },
        marks_spaces: true,
    };
    let model = |vocabulary: &Vocabulary, special: &SpecialTokens| {
        Algorithm::Spm(Spm::new(vocabulary, special.unknown))
    };
    finish(reader, vocabulary, Parts { defaults, rules, warnings: Vec::new() }, model)
}

struct Parts {
    defaults: SpecialTokens,
    rules: Rules,
    warnings: Vec<Warning>,
}

fn finish(
    reader: &Reader<'_>,
    mut vocabulary: Vocabulary,
    parts: Parts,
    model: impl FnOnce(&Vocabulary, &SpecialTokens) -> Algorithm,
) -> Result<Tokenizer, TokenizerError> {
    let Parts { defaults, rules, mut warnings } = parts;
    let named = |key: &str| reader.get(key).and_then(|value| value.as_u64());
    let found = special::find(&mut vocabulary, defaults, named);
    warnings.extend(found.warnings);
    if vocabulary.shadowed() > 0 {
        warnings.push(Warning::SameText { count: vocabulary.shadowed() });
    }
    // GGUF does not mark tokens that absorb the white space after them; for these models they are known.
    let name = reader.source.get("general.name").and_then(|value| value.as_str()).unwrap_or_default();
    let name = name.to_lowercase();
    let strips = name.contains("phi-3") || name.contains("phi3");
    let strip = |id: u32| {
        let kept = [&b"<unk>"[..], b"<s>", b"<|endoftext|>"].contains(&vocabulary.text(id));
        Strip { left: false, right: strips && !kept }
    };
    let partition = Partition::new(&vocabulary, strip, reader.source.path())?;
    Ok(Tokenizer {
        model: model(&vocabulary, &found.tokens),
        special: found.tokens,
        ends: found.ends,
        vocabulary,
        partition,
        rules,
        warnings,
    })
}

/// Splits a merge at its space. The first half has at least one byte, which may be a space.
fn halves(merge: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = merge.get(1..)?.iter().position(|&byte| byte == b' ')?.saturating_add(1);
    Some((merge.get(..space)?, merge.get(space.saturating_add(1)..)?)).filter(|(_, right)| !right.is_empty())
}
