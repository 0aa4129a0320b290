//! Markdown as it streams: characters in, styled characters out to the [`Wrapper`].
//!
//! Text is held only while it may still be a marker: the beginning of a line, or a span that is not closed yet, up to
//! [`LONGEST_SPAN`]. Nothing that was written is changed later.

use super::block::{self, Line};
use super::inline::{self, Span};
use super::style::Style;
use super::wrap::Wrapper;

/// The longest span that is held until it is closed, in bytes. A longer one is shown as text, with its markers.
const LONGEST_SPAN: usize = 240;
/// Columns of a rule, at most.
const RULE: usize = 40;

/// The position in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePosition {
    /// At its beginning, whose kind is not known yet.
    Start,
    /// In flowing text.
    Flow,
    /// In text that is neither wrapped nor parsed.
    Verbatim(Style),
}

/// Renders markdown.
#[derive(Debug)]
pub(super) struct Markdown {
    /// Whether markers become styles. Otherwise they stay as they are, and only steer the wrapping.
    styled: bool,
    place: LinePosition,
    /// The block of code that is open: its marker and the length of that.
    fence: Option<(char, usize)>,
    /// Characters whose meaning is not known yet.
    held: String,
    /// The character before those.
    before: char,
    /// The style of the line.
    style: Style,
}

impl Markdown {
    /// Returns a renderer at the beginning of a text.
    pub(super) fn new(styled: bool) -> Markdown {
        Markdown {
            styled,
            place: LinePosition::Start,
            fence: None,
            held: String::new(),
            before: ' ',
            style: Style::PLAIN,
        }
    }

    /// Adds a character.
    pub(super) fn push(&mut self, character: char, out: &mut Wrapper) {
        if character == '\n' {
            self.end_line(out);
            out.newline();
            (self.place, self.before, self.style) = (LinePosition::Start, ' ', Style::PLAIN);
            return;
        }
        match self.place {
            LinePosition::Start => {
                self.held.push(character);
                self.start(false, out);
            }
            LinePosition::Flow => self.flow(character, out),
            LinePosition::Verbatim(style) => out.put_verbatim(character, style),
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self, out: &mut Wrapper) {
        self.end_line(out);
    }

    fn end_line(&mut self, out: &mut Wrapper) {
        if self.place == LinePosition::Start {
            self.start(true, out);
        }
        // Each round takes at least one character.
        while !self.held.is_empty() {
            self.resolve(true, out);
        }
    }

    /// Acts on the beginning of a line, if its kind is known.
    fn start(&mut self, ended: bool, out: &mut Wrapper) {
        if let Some((marker, length)) = self.fence {
            let Some(closes) = block::closes_fence(&self.held, marker, length, ended) else { return };
            let style = if closes { Style::DIM } else { Style::CODE };
            self.fence = self.fence.filter(|_| !closes);
            return self.verbatim(style, out);
        }
        let line = block::classify(&self.held, ended);
        match line {
            Line::Undecided => {}
            Line::Fence { marker, length } => {
                self.fence = Some((marker, length));
                self.verbatim(Style::DIM, out);
            }
            Line::Table => self.verbatim(Style::PLAIN, out),
            Line::Rule if self.styled => {
                self.held = "─".repeat(out.width().unwrap_or(RULE).min(RULE));
                self.verbatim(Style::DIM, out);
            }
            Line::Rule => self.verbatim(Style::PLAIN, out),
            Line::Heading { prefix } => {
                self.style = Style::HEADING;
                self.begin(prefix, if self.styled { "" } else { self.prefix(prefix) }.to_owned(), out);
            }
            Line::Quote { prefix } => {
                self.style = Style::QUOTE;
                let shown = if self.styled { "│ " } else { self.prefix(prefix) }.to_owned();
                out.set_hanging(if self.styled { shown.clone() } else { blank(&shown) });
                self.begin(prefix, shown, out);
            }
            Line::Item { indent, prefix } => {
                let shown = self.prefix(prefix);
                let shown = match shown.get(indent..indent + 1) {
                    Some("-" | "*" | "+") if self.styled => format!("{}• ", self.prefix(indent)),
                    _ => shown.to_owned(),
                };
                out.set_hanging(blank(&shown));
                self.begin(prefix, shown, out);
            }
            Line::Text => {
                let text = self.held.trim_start_matches([' ', '\t']);
                out.set_hanging(self.prefix(self.held.len() - text.len()).to_owned());
                self.begin(0, String::new(), out);
            }
        }
    }

    /// Returns the first bytes of the held text.
    fn prefix(&self, bytes: usize) -> &str {
        self.held.get(..bytes).unwrap_or_default()
    }

    /// Shows `shown` in place of the first `prefix` bytes, and goes on with the others as flowing text.
    fn begin(&mut self, prefix: usize, shown: String, out: &mut Wrapper) {
        shown.chars().for_each(|character| out.put(character, Style::DIM));
        let held = std::mem::take(&mut self.held);
        self.place = LinePosition::Flow;
        held.get(prefix..).unwrap_or_default().chars().for_each(|character| self.flow(character, out));
    }

    /// Shows the held text and the rest of the line unchanged.
    fn verbatim(&mut self, style: Style, out: &mut Wrapper) {
        std::mem::take(&mut self.held).chars().for_each(|character| out.put_verbatim(character, style));
        self.place = LinePosition::Verbatim(style);
    }

    /// Adds a character of flowing text.
    fn flow(&mut self, character: char, out: &mut Wrapper) {
        if !self.held.is_empty() {
            self.held.push(character);
            self.resolve(self.held.len() > LONGEST_SPAN, out);
        } else if self.styled && inline::may_open(self.before, character) {
            self.held.push(character);
        } else {
            self.before = character;
            out.put(character, self.style);
        }
    }

    /// Shows the span that is held, if it is known. `ended` says that it will not grow.
    fn resolve(&mut self, ended: bool, out: &mut Wrapper) {
        let held = std::mem::take(&mut self.held);
        let span = inline::parse(&held, ended);
        if span == Span::Undecided {
            self.held = held;
            return;
        }
        let bytes = show(&span, &held, self.style, out);
        self.before = held.get(..bytes).and_then(|shown| shown.chars().next_back()).unwrap_or(' ');
        held.get(bytes..).unwrap_or_default().chars().for_each(|character| self.flow(character, out));
    }
}

/// Shows a span that `text` begins with, and returns its bytes.
fn show(span: &Span<'_>, text: &str, style: Style, out: &mut Wrapper) -> usize {
    match *span {
        Span::Undecided => text.len(),
        Span::Text(bytes) => {
            text.get(..bytes).unwrap_or_default().chars().for_each(|character| out.put(character, style));
            bytes
        }
        Span::Escaped { character, bytes } => {
            out.put(character, style);
            bytes
        }
        Span::Code { inner, bytes } => {
            let style = Style { tint: Style::CODE.tint, ..style };
            inner.chars().for_each(|character| out.put(character, style));
            bytes
        }
        Span::Emphasis { stars, inner, bytes } => {
            let style = Style { bold: style.bold || stars >= 2, italic: style.italic || stars != 2, ..style };
            show_all(inner, style, out);
            bytes
        }
    }
}

/// Shows text that has all its spans.
fn show_all(text: &str, style: Style, out: &mut Wrapper) {
    let (mut at, mut before) = (0, ' ');
    while let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        let bytes = match inline::may_open(before, character) {
            true => show(&inline::parse(rest, true), rest, style, out),
            false => {
                out.put(character, style);
                character.len_utf8()
            }
        };
        before = rest.get(..bytes).and_then(|shown| shown.chars().next_back()).unwrap_or(' ');
        at += bytes.max(1);
    }
}

/// Returns blanks as wide as a prefix of narrow characters.
fn blank(prefix: &str) -> String {
    prefix.chars().map(|character| if character == '\t' { '\t' } else { ' ' }).collect()
}
