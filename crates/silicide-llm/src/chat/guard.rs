//! Keeps the text of users from becoming control tokens. Characters that could begin one pass through the template as
//! stand-ins.

use super::Piece;
use super::error::ChatError;
use crate::tokenizer::{Kind, Tokenizer};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Characters that commonly begin control tokens.
pub(super) const COMMON: &str = "<[]|\u{ff5c}\u{2581}";
/// Characters without a meaning in text: the private-use planes.
const STANDINS: std::ops::RangeInclusive<char> = '\u{f0000}'..='\u{10fffd}';

/// The characters of messages that are replaced.
#[derive(Debug)]
pub(super) struct Guard {
    characters: BTreeSet<char>,
    /// Tags that the template contains and that are not control tokens.
    tags: BTreeSet<String>,
    /// Private-use characters in the template.
    taken: BTreeSet<char>,
}

/// The stand-ins of one rendering.
#[derive(Debug, Default)]
pub(super) struct Standins {
    by_character: BTreeMap<char, char>,
    by_standin: BTreeMap<char, char>,
    given: usize,
}

impl Guard {
    /// Returns a guard against `characters`.
    pub(super) fn new(template: &str, characters: impl Iterator<Item = char>) -> Guard {
        let taken = template.chars().filter(|character| STANDINS.contains(character)).collect();
        let tags =
            template.match_indices('<').filter_map(|(at, _)| tag(template.get(at..)?)).map(str::to_owned);
        Guard { characters: characters.collect(), tags: tags.collect(), taken }
    }

    /// Returns a guard against the characters that begin control tokens of the vocabulary.
    pub(super) fn for_tokenizer(template: &str, tokenizer: &Tokenizer) -> Guard {
        let hidden = tokenizer.of_kind(|kind| matches!(kind, Kind::Control | Kind::Unknown));
        let texts: Vec<String> = hidden.map(|id| tokenizer.text(id).into_owned()).collect();
        // Templates compare words and spaces, so another character of the token is replaced if it has one.
        let first = |text: &String| {
            let odd = |character: &char| !is_wordly(*character) && !character.is_whitespace();
            text.chars().find(odd).or_else(|| text.chars().next())
        };
        let mut guard = Guard::new(template, texts.iter().filter_map(first));
        guard.tags.retain(|tag| tokenizer.token(tag).is_none_or(|id| !tokenizer.kind(id).is_hidden()));
        guard
    }

    /// Replaces guarded characters in all texts.
    pub(super) fn mask(
        &self,
        context: Map<String, Value>,
    ) -> Result<(Map<String, Value>, Standins), ChatError> {
        let (mut used, mut given) = (self.taken.clone(), 0);
        let mut characters = self.characters.clone();
        visit(&context, &mut |text: &str| {
            given += text.len();
            used.extend(text.chars().filter(|character| STANDINS.contains(character)));
        });
        // Private-use characters in messages are not stand-ins, and stay as they are.
        characters.retain(|character| !STANDINS.contains(character));
        let mut free = STANDINS.filter(|character| !used.contains(character));
        let mut standins = Standins { given, ..Standins::default() };
        for character in characters {
            let standin = free.next().ok_or(ChatError::NoStandins)?;
            standins.by_character.insert(character, standin);
            standins.by_standin.insert(standin, character);
        }
        let masked =
            context.into_iter().map(|(key, value)| (key, self.mask_value(value, &standins))).collect();
        Ok((masked, standins))
    }

    fn mask_value(&self, value: Value, standins: &Standins) -> Value {
        match value {
            Value::String(text) => Value::String(self.mask_text(&text, standins)),
            Value::Array(values) => {
                Value::Array(values.into_iter().map(|value| self.mask_value(value, standins)).collect())
            }
            Value::Object(map) => {
                let entry = |(key, value): (String, Value)| {
                    // Templates write roles into control tokens, so a role that is a word stays as it is.
                    let role = key == "role" && value.as_str().is_some_and(is_word);
                    let value = if role { value } else { self.mask_value(value, standins) };
                    let key = if is_word(&key) { key } else { self.mask_text(&key, standins) };
                    (key, value)
                };
                Value::Object(map.into_iter().map(entry).collect())
            }
            plain => plain,
        }
    }

    fn mask_text(&self, text: &str, standins: &Standins) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            if let Some(tag) = tag(rest).filter(|tag| self.tags.contains(*tag)) {
                masked.push_str(tag);
                rest = rest.get(tag.len()..).unwrap_or_default();
                continue;
            }
            masked.push(standins.by_character.get(&character).copied().unwrap_or(character));
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
        }
        masked
    }
}

impl Standins {
    /// Returns the bytes of all texts in the input.
    pub(super) fn given(&self) -> usize {
        self.given
    }

    /// Restores the characters of stand-ins, and marks them as untrusted.
    pub(super) fn unmask(&self, text: &str) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for character in text.chars() {
            let original = self.by_standin.get(&character);
            let trusted = original.is_none();
            let character = original.copied().unwrap_or(character);
            match pieces.last_mut() {
                Some(last) if last.trusted == trusted => last.text.push(character),
                _ => pieces.push(Piece { text: character.to_string(), trusted }),
            }
        }
        pieces
    }
}

/// Returns the plain tag that a text begins with, such as `</think>`.
fn tag(text: &str) -> Option<&str> {
    let name = text.strip_prefix('<')?;
    let name = name.strip_prefix('/').unwrap_or(name);
    let letters = name.find(|character: char| !character.is_ascii_alphanumeric() && character != '_')?;
    let end = text.len() - name.len() + letters;
    (letters > 0 && text.get(end..)?.starts_with('>')).then(|| text.get(..=end)).flatten()
}

/// Returns whether a character may be part of a name.
fn is_wordly(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-')
}

fn is_word(text: &str) -> bool {
    text.len() <= 64 && text.chars().all(is_wordly)
}

fn visit(context: &Map<String, Value>, look: &mut impl FnMut(&str)) {
    let mut open: Vec<&Value> = Vec::new();
    for (key, value) in context {
        look(key);
        open.push(value);
    }
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => look(text),
            Value::Array(values) => open.extend(values),
            Value::Object(map) => {
                for (key, value) in map {
                    look(key);
                    open.push(value);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_tags() {
        assert_eq!(tag("</think>x"), Some("</think>"));
        assert_eq!(tag("<tool_call>"), Some("<tool_call>"));
        for odd in ["<|im_end|>", "< a>", "<>", "</>", "<a", "a>", "<a b>"] {
            assert_eq!(tag(odd), None, "{odd}");
        }
    }

    #[test]
    fn standins_come_back() {
        let guard = Guard::new("a</think>\u{f0000}", "<".chars());
        let context = serde_json::json!({ "x": "a<b></think>\u{f0001}", "y": ["<", { "role": "<" }, { "role": "tool" }] });
        let Value::Object(context) = context else { panic!("an object") };
        let (masked, standins) = guard.mask(context.clone()).unwrap();
        assert_eq!(masked["x"], "a\u{f0002}b></think>\u{f0001}");
        assert_eq!(
            masked["y"],
            serde_json::json!(["\u{f0002}", { "role": "\u{f0002}" }, { "role": "tool" }])
        );
        let pieces = standins.unmask("<\u{f0002}\u{f0002}\u{f0001}");
        let piece = |text: &str, trusted| Piece { text: text.to_owned(), trusted };
        assert_eq!(pieces, [piece("<", true), piece("<<", false), piece("\u{f0001}", true)]);
    }
}
