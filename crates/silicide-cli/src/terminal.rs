//! Safe printing of untrusted text on a terminal.
//!
//! Model files, file names, chat templates and generated text can hold escape sequences, which set the title, the
//! clipboard or the colours of a terminal. Bidirectional controls reorder what the reader sees. Both are escaped where the
//! stream is a terminal. Pipes and files get the bytes unchanged.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

/// Returns `text` with control characters escaped as `\u{1b}`. Line feeds, tabs and `\r\n` stay.
///
/// Escaped are C0, DEL, C1 and the bidirectional embeddings, overrides and isolates.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let mut escaped = String::new();
    let mut copied = 0;
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        let ends_line = character == '\r' && text.get(end..).is_some_and(|rest| rest.starts_with('\n'));
        if is_unsafe(character) && !ends_line {
            escaped.push_str(text.get(copied..at).unwrap_or_default());
            // Writing to a string cannot fail.
            let _ = write!(escaped, "{}", character.escape_unicode());
            copied = end;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    escaped.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(escaped)
}

/// Returns `text` as standard error may show it: escaped if that is a terminal.
pub(crate) fn for_stderr(text: &str) -> Cow<'_, str> {
    if io::stderr().is_terminal() { printable(text) } else { Cow::Borrowed(text) }
}

/// Whether a terminal could take `character` for a command, or for a change of the writing direction.
fn is_unsafe(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

/// A stream of untrusted text. It looks once whether the stream is a terminal.
#[derive(Debug)]
pub(crate) struct Printer<W> {
    stream: W,
    escapes: bool,
}

impl Printer<io::Stdout> {
    /// Returns a printer to standard output.
    pub(crate) fn stdout() -> Printer<io::Stdout> {
        Printer::new(io::stdout(), io::stdout().is_terminal())
    }
}

impl<W: Write> Printer<W> {
    /// Returns a printer to `stream` that escapes control characters if `escapes`.
    pub(crate) fn new(stream: W, escapes: bool) -> Printer<W> {
        Printer { stream, escapes }
    }

    /// Writes untrusted `text` and flushes.
    pub(crate) fn print(&mut self, text: &str) -> io::Result<()> {
        let shown = if self.escapes { printable(text) } else { Cow::Borrowed(text) };
        self.stream.write_all(shown.as_bytes())?;
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_borrowed_unchanged() {
        for text in ["", "a b\n\tc\r\n", "äöü 漢字 👍🏽", "שלום \u{200f}עולם"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
    }

    #[test]
    fn control_sequences_and_bidirectional_controls_are_escaped() {
        for (text, shown) in [
            ("\u{1b}]52;c;eA==\u{7}", r"\u{1b}]52;c;eA==\u{7}"),
            ("a\rb", r"a\u{d}b"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("\0\u{7f}x\u{8}", r"\u{0}\u{7f}x\u{8}"),
            ("\u{202e}fdp\u{2069}", r"\u{202e}fdp\u{2069}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn pipes_get_the_bytes_unchanged_and_terminals_do_not() {
        for (escapes, expected) in [(false, "\u{1b}[2Jx"), (true, r"\u{1b}[2Jx")] {
            let mut bytes = Vec::new();
            Printer::new(&mut bytes, escapes).print("\u{1b}[2Jx").unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }
}
