//! The preparation and splitting of text by `tokenizer.json`. Parts that are not supported become warnings.

use super::super::Prefix;
use super::super::alphabet::SPACE_MARK;
use super::super::bpe::Alphabet;
use super::super::error::Warning;
use super::super::split::{self, Rule};
use super::layout::File;
use serde_json::Value;

/// The rules that replace a pattern that can't be used.
pub(super) const COMMON: &str = "gpt-2";
/// The pattern that a byte-level step splits by.
const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Patterns that an automaton can't match, and that mean [`Rule::Thousands`].
const THOUSANDS: [&str; 2] = [r"\d{1,3}(?=(?:\d{3})*\b)", r"(?=(\d{3})+(?!\d))"];
/// Deepest nesting of sequences.
const DEPTH: usize = 8;

/// The preparation and splitting of text.
pub(super) struct TextRules<'a> {
    pub(super) steps: Vec<Rule<'a>>,
    pub(super) alphabet: Alphabet,
    pub(super) prefix: Prefix,
    pub(super) marks_spaces: bool,
}

/// Returns the rules under the name of [`COMMON`].
pub(super) fn common() -> &'static [Rule<'static>] {
    split::recipe(COMMON).map_or(&[], |recipe| recipe.rules)
}

impl<'a> TextRules<'a> {
    pub(super) fn of(file: &'a File<'_>, warnings: &mut Vec<Warning>) -> TextRules<'a> {
        let mut preparation = TextRules {
            steps: Vec::new(),
            alphabet: Alphabet::Text,
            prefix: Prefix::Never,
            marks_spaces: false,
        };
        for step in flatten(file.normalizer.as_ref(), "normalizers") {
            preparation.normalize(step, warnings);
        }
        for step in flatten(file.pre_tokenizer.as_ref(), "pretokenizers") {
            preparation.split(step, warnings);
        }
        preparation
    }

    fn normalize(&mut self, step: &'a Value, warnings: &mut Vec<Warning>) {
        let text = |key: &str| step.get(key).and_then(Value::as_str);
        match text("type") {
            Some("Prepend") if text("prepend") == Some(SPACE_MARK) => self.prefix = Prefix::Segments,
            Some("Replace") if pattern(step) == Some((" ", true)) && text("content") == Some(SPACE_MARK) => {
                self.marks_spaces = true;
            }
            // Typed text is composed already; other text is left as it is.
            Some("NFC") => {}
            kind => warnings.push(ignored("normalizer", kind)),
        }
    }

    fn split(&mut self, step: &'a Value, warnings: &mut Vec<Warning>) {
        let flag = |key: &str, default: bool| step.get(key).and_then(Value::as_bool).unwrap_or(default);
        match step.get("type").and_then(Value::as_str) {
            Some("ByteLevel") => {
                self.alphabet = Alphabet::Bytes;
                if flag("use_regex", true) {
                    self.steps.push(Rule::Match(WORDS));
                }
                if flag("add_prefix_space", false) {
                    self.prefix = Prefix::Start;
                }
            }
            Some("Digits") => {
                self.steps.push(Rule::Match(if flag("individual_digits", false) {
                    r"\p{N}"
                } else {
                    r"\p{N}+"
                }));
            }
            Some("Metaspace") => {
                self.marks_spaces = true;
                let scheme = step.get("prepend_scheme").and_then(Value::as_str);
                self.prefix = match scheme {
                    Some("never") => Prefix::Never,
                    Some("first") => Prefix::Start,
                    _ if flag("add_prefix_space", true) => Prefix::Segments,
                    _ => Prefix::Never,
                };
            }
            Some("Split") => match pattern(step) {
                Some((regex, false)) if isolates(step) => self.steps.push(rule(regex)),
                // Spaces are marks already: there is no space to split at.
                Some((" ", true)) if self.marks_spaces => {}
                _ => warnings.push(ignored("pre-tokenizer", Some("Split"))),
            },
            kind => warnings.push(ignored("pre-tokenizer", kind)),
        }
    }
}

fn rule(regex: &str) -> Rule<'_> {
    if THOUSANDS.contains(&regex) { Rule::Thousands } else { Rule::Match(regex) }
}

/// Returns the pattern of a step, and whether it is a plain text.
fn pattern(step: &Value) -> Option<(&str, bool)> {
    let pattern = step.get("pattern")?;
    let text = |key: &str| pattern.get(key).and_then(Value::as_str);
    text("Regex").map(|regex| (regex, false)).or_else(|| text("String").map(|string| (string, true)))
}

/// Returns whether matches become pieces and no text is removed.
fn isolates(step: &Value) -> bool {
    let behavior = step.get("behavior").and_then(Value::as_str);
    let inverted = step.get("invert").and_then(Value::as_bool).unwrap_or(false);
    match behavior {
        Some("Isolated") => true,
        // Older files keep the matches and remove the text between them, which is empty.
        Some("Removed") => inverted,
        _ => false,
    }
}

fn ignored(what: &str, kind: Option<&str>) -> Warning {
    Warning::Ignored { what: format!("the {what} {:?}", kind.unwrap_or("without a type")) }
}

/// Returns the steps of a sequence, or the one step.
fn flatten<'a>(step: Option<&'a Value>, key: &str) -> Vec<&'a Value> {
    let mut steps: Vec<&Value> = step.filter(|step| !step.is_null()).into_iter().collect();
    for _ in 0..DEPTH {
        let inner = |step: &'a Value| match step.get(key).and_then(Value::as_array) {
            Some(inner) => inner.iter().collect(),
            None => vec![step],
        };
        steps = steps.into_iter().flat_map(inner).collect();
    }
    steps
}
