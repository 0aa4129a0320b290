//! A regular expression, matched in linear time.
//!
//! Many patterns contain `\s+(?!\S)`: spaces that no other character follows. An automaton can't look ahead. But such
//! spaces end the text, or are followed by one more space, so two alternatives express it: `\s+$`, and `\s+\s`, whose
//! match is shortened by the last space.

use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use std::ops::Range;

/// The look-ahead after an alternative of white space.
const NO_WORD: &str = r"(?!\S)";
/// Memory that a compiled pattern may take. The largest one that models have takes a tenth.
const SIZE: usize = 32 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// For each alternative, whether its match is shortened by the last character.
    gives_back: Vec<bool>,
}

impl Pattern {
    /// Compiles a pattern; `None` if it is invalid, or can't be matched in linear time.
    pub(super) fn new(pattern: &str) -> Option<Pattern> {
        let (mut expressions, mut gives_back) = (Vec::new(), Vec::new());
        let mut add = |expression: String, back: bool| {
            expressions.push(expression);
            gives_back.push(back);
        };
        if pattern.contains(NO_WORD) {
            for alternative in alternatives(pattern) {
                match alternative.strip_suffix(NO_WORD) {
                    Some(spaces) if spaces.starts_with(r"\s") => {
                        add(format!("{spaces}$"), false);
                        add(format!(r"{spaces}\s"), true);
                    }
                    _ => add(alternative.to_owned(), false),
                }
            }
        } else {
            add(pattern.to_owned(), false);
        }
        // Captures are not used, and without them the automata are smaller.
        let config = Config::new()
            .nfa_size_limit(Some(SIZE))
            .which_captures(regex_automata::nfa::thompson::WhichCaptures::Implicit);
        let syntax = syntax::Config::new().nest_limit(64);
        let regex = Regex::builder().configure(config).syntax(syntax).build_many(&expressions).ok()?;
        Some(Pattern { regex, gives_back })
    }

    /// Calls `add` with each match in turn.
    pub(super) fn matches(&self, text: &str, add: &mut impl FnMut(Range<usize>)) {
        let mut at = 0;
        while let Some(found) = text.get(at..).and_then(|rest| self.find(text, rest, at)) {
            // An empty match would not advance.
            at = if found.is_empty() { after(text, found.end) } else { found.end };
            add(found);
        }
    }

    fn find(&self, text: &str, rest: &str, at: usize) -> Option<Range<usize>> {
        let found = self.regex.find(rest)?;
        let (start, mut end) = (at + found.start(), at + found.end());
        if self.gives_back.get(found.pattern().as_usize()).copied().unwrap_or(false) {
            let last = text.get(start..end).and_then(|matched| matched.chars().next_back());
            end -= last.map_or(0, char::len_utf8);
        }
        Some(start..end)
    }
}

/// Returns the start of the character after the one at `at`.
fn after(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

/// Returns the alternatives of a pattern that are not inside a group.
fn alternatives(pattern: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut groups, mut class, mut escaped) = (0, 0u32, 0u32, false);
    for (at, byte) in pattern.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'[' => class += 1,
            b']' => class = class.saturating_sub(1),
            _ if class > 0 => {}
            b'(' => groups += 1,
            b')' => groups = groups.saturating_sub(1),
            b'|' if groups == 0 => {
                parts.extend(pattern.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(pattern.get(start..));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_alternatives() {
        assert_eq!(alternatives(r"a|(b|c)|[|]|\||"), ["a", "(b|c)", "[|]", r"\|", ""]);
    }

    #[test]
    fn refuses_what_is_not_linear() {
        for pattern in [r"a(?=b)", r"(a)\1", "(", r"\p{L}{1000000}", r"x(?!\S)"] {
            assert!(Pattern::new(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn gives_the_last_space_back() {
        let pattern = Pattern::new(r"\w+|\s+(?!\S)").unwrap();
        let matches = |text| {
            let mut found = Vec::new();
            pattern.matches(text, &mut |range| found.push(range));
            found
        };
        assert_eq!(matches("a \u{3000}\u{3000}b "), [0..1, 1..5, 8..9, 9..10]);
        assert_eq!(matches(" b c"), [1..2, 3..4]);
    }
}
