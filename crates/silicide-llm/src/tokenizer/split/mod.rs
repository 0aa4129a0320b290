//! Splits text into words before merging, by the rules that a model was trained with.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | applies rules |
//! | `pattern.rs` | a rule that is a regular expression, in linear time |
//! | `table.rs` | the rules that GGUF files name |

mod pattern;
mod table;

pub(crate) use table::{FALLBACK, recipe};

use pattern::Pattern;
use std::ops::Range;

/// A step of splitting. Each step splits the pieces of the step before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule<'a> {
    /// Matches of a regular expression become pieces, and so does the text between them.
    Match(&'a str),
    /// Runs of digits become groups of three, counted from the right.
    Thousands,
}

/// Splits text by a sequence of rules.
#[derive(Debug)]
pub(crate) struct Splitter {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Match(Pattern),
    Thousands,
}

impl Splitter {
    /// Compiles rules. The error is the first pattern that can't be used.
    pub(crate) fn new<'a>(rules: &[Rule<'a>]) -> Result<Splitter, &'a str> {
        let prepare = |rule: &Rule<'a>| match *rule {
            Rule::Match(pattern) => Pattern::new(pattern).map(Step::Match).ok_or(pattern),
            Rule::Thousands => Ok(Step::Thousands),
        };
        Ok(Splitter { steps: rules.iter().map(prepare).collect::<Result<_, _>>()? })
    }

    /// Returns the words of a text, as ranges of its bytes, in order and without gaps.
    pub(crate) fn split(&self, text: &str) -> Vec<Range<usize>> {
        let mut words = Vec::new();
        if !text.is_empty() {
            words.push(0..text.len());
        }
        for step in &self.steps {
            let mut finer = Vec::with_capacity(words.len().saturating_mul(2));
            for word in words {
                let piece = text.get(word.clone()).unwrap_or_default();
                let mut end = 0;
                let mut add = |range: Range<usize>| {
                    for cut in [end..range.start, range.clone()] {
                        if !cut.is_empty() {
                            finer.push(word.start + cut.start..word.start + cut.end);
                        }
                    }
                    end = range.end;
                };
                match step {
                    Step::Match(pattern) => pattern.matches(piece, &mut add),
                    Step::Thousands => thousands(piece, &mut add),
                }
                add(piece.len()..piece.len());
            }
            words = finer;
        }
        words
    }
}

/// Splits runs of digits into groups of three, counted from the right.
fn thousands(text: &str, add: &mut impl FnMut(Range<usize>)) {
    let mut starts = Vec::new();
    let mut flush = |starts: &mut Vec<usize>, end: usize| {
        let first = starts.len() % 3;
        let bounds: Vec<usize> = (0..starts.len()).filter(|at| at % 3 == first || *at == 0).collect();
        for (number, &bound) in bounds.iter().enumerate() {
            let from = starts.get(bound).copied();
            let to = bounds.get(number + 1).and_then(|&next| starts.get(next)).copied();
            if let Some(from) = from {
                add(from..to.unwrap_or(end));
            }
        }
        starts.clear();
    };
    for (at, character) in text.char_indices() {
        if character.is_numeric() {
            starts.push(at);
        } else if !starts.is_empty() {
            flush(&mut starts, at);
        }
    }
    flush(&mut starts, text.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'a>(rules: &[Rule<'_>], text: &'a str) -> Vec<&'a str> {
        let words = Splitter::new(rules).unwrap().split(text);
        words.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn counts_thousands_from_the_right() {
        let rules = [Rule::Thousands];
        assert_eq!(words(&rules, "a1234567b"), ["a", "1", "234", "567", "b"]);
        assert_eq!(words(&rules, "123456"), ["123", "456"]);
        assert_eq!(words(&rules, "12 3456"), ["12", " ", "3", "456"]);
        assert_eq!(words(&rules, ""), [""; 0]);
    }

    #[test]
    fn trailing_space_belongs_to_the_next_word() {
        let rules = recipe("gpt-2").unwrap().rules;
        assert_eq!(words(rules, "a  b\n\nc  "), ["a", " ", " b", "\n", "\n", "c", "  "]);
        assert_eq!(words(rules, "I'll don't 12 x12"), ["I", "'ll", " don", "'t", " 12", " x", "12"]);
    }

    #[test]
    fn every_name_works() {
        let text = "Hello,  World's 12345 caf\u{e9}\u{301} \u{4f60}\u{597d}\u{3002} \t\n\r\n <a> _x HTTPServer\u{a0}!\n  ";
        for name in table::names() {
            let rules = recipe(name).unwrap().rules;
            assert_eq!(words(rules, text).concat(), text, "{name}");
        }
    }

    #[test]
    fn rules_differ_where_models_do() {
        let split = |name: &str, text| words(recipe(name).unwrap().rules, text);
        assert_eq!(split("llama-bpe", "in 12345"), ["in", " ", "123", "45"]);
        assert_eq!(split("qwen2", "in 12"), ["in", " ", "1", "2"]);
        assert_eq!(split("smollm", "in 12"), ["in", " ", "1", "2"]);
        assert_eq!(split("gpt-4o", "HelloWorld's"), ["Hello", "World's"]);
        assert_eq!(split("afmoe", "12345"), ["12", "345"]);
        assert_eq!(split("qwen2", "DON'T (x)\n\ny"), ["DON", "'T", " (", "x", ")\n\n", "y"]);
        assert_eq!(split("kimi-k2", "a\u{4f60}\u{597d}B"), ["a", "\u{4f60}\u{597d}", "B"]);
    }
}
