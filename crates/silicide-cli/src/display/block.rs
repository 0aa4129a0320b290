//! What kind of line a markdown line is, from its first characters.

use super::inline::run;

/// The longest beginning of a line that is held to find its kind, in bytes.
const LIMIT: usize = 120;

/// The kind of a line. Lengths are in bytes, and include the indentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// More characters decide.
    Undecided,
    /// A paragraph.
    Text,
    /// A heading after a prefix such as `## `.
    Heading { prefix: usize },
    /// An item after a prefix such as `  - ` or `10. `.
    Item { indent: usize, prefix: usize },
    /// A quote after `> `.
    Quote { prefix: usize },
    /// The first line of a block of code, with its marker and the length of that.
    Fence { marker: char, length: usize },
    /// A row of a table.
    Table,
    /// A rule.
    Rule,
}

/// Returns the kind of the line that begins with `held`. `ended` says that this is all of it.
pub(super) fn classify(held: &str, ended: bool) -> Line {
    let text = held.trim_start_matches([' ', '\t']);
    let indent = held.len() - text.len();
    let Some(first) = text.chars().next() else {
        return if ended || held.len() > LIMIT { Line::Text } else { Line::Undecided };
    };
    let line = match first {
        '#' => heading(text, indent),
        '-' | '*' | '_' | '+' => item_or_rule(text, first, indent, ended),
        '0'..='9' => numbered(text, indent),
        '>' => match text.chars().nth(1) {
            None => Line::Undecided,
            Some(' ') => Line::Quote { prefix: indent + 2 },
            Some(_) => Line::Quote { prefix: indent + 1 },
        },
        '`' | '~' => fence(text, first, ended),
        '|' => Line::Table,
        _ => Line::Text,
    };
    match line {
        Line::Undecided if ended || held.len() > LIMIT => Line::Text,
        line => line,
    }
}

fn heading(text: &str, indent: usize) -> Line {
    let level = run(text, '#');
    match text.chars().nth(level) {
        _ if level > 6 => Line::Text,
        None => Line::Undecided,
        Some(' ') => Line::Heading { prefix: indent + level + 1 },
        Some(_) => Line::Text,
    }
}

fn item_or_rule(text: &str, first: char, indent: usize, ended: bool) -> Line {
    let is_item = first != '_' && text.get(1..2) == Some(" ");
    let is_rule = first != '+' && text.chars().all(|character| character == first || character == ' ');
    let count = text.chars().filter(|&character| character == first).count();
    match (is_rule, ended) {
        (true, true) if count >= 3 => Line::Rule,
        (true, false) => Line::Undecided,
        _ if is_item => Line::Item { indent, prefix: indent + 2 },
        _ if text.len() == 1 => Line::Undecided,
        _ => Line::Text,
    }
}

fn numbered(text: &str, indent: usize) -> Line {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let mut rest = text.chars().skip(digits);
    match (rest.next(), rest.next()) {
        _ if digits > 4 => Line::Text,
        (None, _) | (Some('.' | ')'), None) => Line::Undecided,
        (Some('.' | ')'), Some(' ')) => Line::Item { indent, prefix: indent + digits + 2 },
        _ => Line::Text,
    }
}

fn fence(text: &str, marker: char, ended: bool) -> Line {
    let length = run(text, marker);
    let info = text.get(length..).unwrap_or_default();
    match length {
        // A line such as ```code``` is text.
        _ if info.contains('`') => Line::Text,
        0..=2 if info.is_empty() => Line::Undecided,
        0..=2 => Line::Text,
        _ if ended => Line::Fence { marker, length },
        _ => Line::Undecided,
    }
}

/// Whether a line of a block of code ends that block. None while more characters decide.
pub(super) fn closes_fence(held: &str, marker: char, length: usize, ended: bool) -> Option<bool> {
    let text = held.trim_start_matches([' ', '\t']);
    let markers = run(text, marker);
    let is_only = text.get(markers..).is_some_and(|rest| rest.trim().is_empty());
    if !is_only || held.len() > LIMIT {
        return Some(false);
    }
    ended.then_some(markers >= length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_known_by_their_beginning() {
        for (held, line) in [
            ("# T", Line::Heading { prefix: 2 }),
            ("###### T", Line::Heading { prefix: 7 }),
            ("#hash", Line::Text),
            ("- a", Line::Item { indent: 0, prefix: 2 }),
            ("    * a", Line::Item { indent: 4, prefix: 6 }),
            ("10. a", Line::Item { indent: 0, prefix: 4 }),
            ("2026 was", Line::Text),
            ("1.5 is", Line::Text),
            ("**b", Line::Text),
            ("-1", Line::Text),
            ("> q", Line::Quote { prefix: 2 }),
            ("| a |", Line::Table),
            ("`code`", Line::Text),
            ("```a```", Line::Text),
            ("word", Line::Text),
        ] {
            assert_eq!(classify(held, false), line, "{held}");
        }
    }

    #[test]
    fn rules_fences_and_beginnings_need_the_end_of_the_line() {
        for (held, line) in [
            ("---", Line::Rule),
            ("* * *", Line::Rule),
            ("- ", Line::Item { indent: 0, prefix: 2 }),
            ("--", Line::Text),
            ("```rust", Line::Fence { marker: '`', length: 3 }),
            ("#", Line::Text),
            ("12", Line::Text),
            ("  ", Line::Text),
        ] {
            assert_eq!(classify(held, false), Line::Undecided, "{held}");
            assert_eq!(classify(held, true), line, "{held}");
        }
    }

    #[test]
    fn a_fence_is_closed_by_one_at_least_as_long() {
        assert_eq!(closes_fence("  ```", '`', 3, true), Some(true));
        assert_eq!(closes_fence("````", '`', 3, true), Some(true));
        assert_eq!(closes_fence("``", '`', 3, true), Some(false));
        assert_eq!(closes_fence("```", '`', 3, false), None);
        assert_eq!(closes_fence("```x", '`', 3, false), Some(false));
    }
}
