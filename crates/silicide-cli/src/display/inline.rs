//! Inline markdown: `**bold**`, `*italic*` and `` `code` ``.
//!
//! Only a span that is closed on its line is styled, and only then do its markers disappear. Everything else is text.
//! Underscores mark nothing, as names of programs have them.

/// The first piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Span<'a> {
    /// More characters decide.
    Undecided,
    /// This number of bytes of plain text.
    Text(usize),
    /// One character of text behind a backslash; both take `bytes`.
    Escaped { character: char, bytes: usize },
    /// Code.
    Code { inner: &'a str, bytes: usize },
    /// Emphasis, by the number of asterisks.
    Emphasis { stars: usize, inner: &'a str, bytes: usize },
}

/// Whether a span may begin with `character` after `before`.
pub(super) fn may_open(before: char, character: char) -> bool {
    match character {
        '*' => !before.is_alphanumeric(),
        '`' | '\\' => true,
        _ => false,
    }
}

/// Parses the span that `text` begins with, the first character of which may open one. `ended` says that the line has no
/// more characters.
pub(super) fn parse(text: &str, ended: bool) -> Span<'_> {
    match text.chars().next() {
        Some('\\') => parse_escape(text, ended),
        Some('`') => parse_code(text, ended),
        Some('*') => parse_emphasis(text, ended),
        first => Span::Text(first.map_or(0, char::len_utf8)),
    }
}

fn parse_escape(text: &str, ended: bool) -> Span<'_> {
    match text.chars().nth(1) {
        None if !ended => Span::Undecided,
        Some(character @ ('*' | '`' | '_' | '#')) => Span::Escaped { character, bytes: 2 },
        // Backslashes of formulas stay.
        _ => Span::Text(1),
    }
}

fn parse_code(text: &str, ended: bool) -> Span<'_> {
    let ticks = run(text, '`');
    let mut at = ticks;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('`')) {
        let close = at + found;
        let length = run(text.get(close..).unwrap_or_default(), '`');
        at = close + length;
        if at == text.len() && !ended {
            return Span::Undecided;
        }
        if length == ticks {
            let inner = text.get(ticks..close).unwrap_or_default();
            let padded = inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' '));
            let inner = padded.filter(|inner| !inner.trim().is_empty()).unwrap_or(inner);
            return Span::Code { inner, bytes: at };
        }
    }
    if ended { Span::Text(ticks) } else { Span::Undecided }
}

fn parse_emphasis(text: &str, ended: bool) -> Span<'_> {
    let stars = run(text, '*');
    let Some(next) = text.get(stars..).and_then(|rest| rest.chars().next()) else {
        return if ended { Span::Text(stars) } else { Span::Undecided };
    };
    if stars > 3 || next.is_whitespace() {
        return Span::Text(stars);
    }
    let (mut at, mut before) = (stars, '*');
    while let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        if character == '`' || character == '\\' {
            // Asterisks of code and escaped ones close nothing.
            at += match parse(rest, ended) {
                Span::Undecided => return Span::Undecided,
                Span::Text(bytes) | Span::Escaped { bytes, .. } | Span::Code { bytes, .. } => bytes,
                Span::Emphasis { bytes, .. } => bytes,
            };
            before = character;
            continue;
        }
        let length = run(rest, '*').max(character.len_utf8());
        if character == '*' {
            let after = text.get(at + length..).and_then(|rest| rest.chars().next());
            if after.is_none() && !ended {
                return Span::Undecided;
            }
            let closes = !before.is_whitespace() && after.is_none_or(|after| !after.is_alphanumeric());
            if length == stars && closes {
                let inner = text.get(stars..at).unwrap_or_default();
                return Span::Emphasis { stars, inner, bytes: at + length };
            }
        }
        at += length;
        before = character;
    }
    if ended { Span::Text(stars) } else { Span::Undecided }
}

/// Returns how often `text` repeats the ASCII `character` at its beginning.
pub(super) fn run(text: &str, character: char) -> usize {
    text.chars().take_while(|&other| other == character).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_found_when_they_are_closed() {
        let emphasis = |stars, inner, bytes| Span::Emphasis { stars, inner, bytes };
        for (text, span) in [
            ("*a* ", emphasis(1, "a", 3)),
            ("**a b**.", emphasis(2, "a b", 7)),
            ("***a***)", emphasis(3, "a", 7)),
            ("**a *b* c** ", emphasis(2, "a *b* c", 11)),
            ("*a `*` b* ", emphasis(1, "a `*` b", 9)),
            ("`x*y` ", Span::Code { inner: "x*y", bytes: 5 }),
            ("``a`b`` ", Span::Code { inner: "a`b", bytes: 7 }),
            ("`` ` `` ", Span::Code { inner: "`", bytes: 7 }),
            ("\\*", Span::Escaped { character: '*', bytes: 2 }),
            ("\\(", Span::Text(1)),
            ("* a", Span::Text(1)),
            ("****a****", Span::Text(4)),
        ] {
            assert_eq!(parse(text, false), span, "{text}");
        }
    }

    #[test]
    fn an_open_marker_is_undecided_until_the_line_ends() {
        for text in ["*", "**a", "**a*", "*args, **kwargs", "`a", "``a`", "*a `b*", "*a*", "\\"] {
            assert_eq!(parse(text, false), Span::Undecided, "{text}");
        }
        for (text, bytes) in
            [("*", 1), ("**a", 2), ("**a*", 2), ("*args, **kwargs", 1), ("``a`", 2), ("\\", 1)]
        {
            assert_eq!(parse(text, true), Span::Text(bytes), "{text}");
        }
    }
}
