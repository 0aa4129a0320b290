//! Generated text on a terminal: safe, wrapped, with markdown in colour.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | [`TextDisplay`], which joins the parts |
//! | `markdown.rs` | markdown as it streams |
//! | `block.rs`, `inline.rs` | the kinds of lines and spans |
//! | `wrap.rs` | word wrap as it streams |
//! | `style.rs` | styles and colours |
//!
//! The text goes through four stages, each a state machine over characters: control characters are escaped, markdown
//! is parsed, words are wrapped, styles are written. Pipes and files get the text unchanged.

mod block;
mod inline;
mod markdown;
mod style;
#[cfg(test)]
mod tests;
mod wrap;

pub(crate) use style::{Style, styled};

use crate::terminal::printable;
use markdown::Markdown;
use std::io::{self, IsTerminal, Write};
use wrap::Wrapper;

/// When to write colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On terminals, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// Whether a stream, which may be a terminal, gets colours.
    pub(crate) fn applies(self, is_terminal: bool) -> bool {
        match self {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
                let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                is_terminal && !is_set("NO_COLOR") && !is_dumb
            }
        }
    }
}

/// How text is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DisplayOptions {
    /// Whether the stream is a terminal, whose control characters must be escaped.
    pub(crate) terminal: bool,
    /// Whether words are wrapped.
    pub(crate) wrap: bool,
    /// Whether markdown becomes styles; needs `colour`.
    pub(crate) markdown: bool,
    /// Whether colours are written.
    pub(crate) colour: bool,
    /// Returns the columns of the stream, which may change at any time.
    pub(crate) columns: fn() -> Option<usize>,
}

impl DisplayOptions {
    /// Returns the options for standard output. `plain` text is neither wrapped nor styled.
    pub(crate) fn stdout(color: ColorChoice, plain: bool) -> DisplayOptions {
        let terminal = io::stdout().is_terminal();
        let colour = color.applies(terminal);
        DisplayOptions { terminal, wrap: terminal && !plain, markdown: colour && !plain, colour, columns }
    }
}

/// Returns the columns of the terminal at standard output.
fn columns() -> Option<usize> {
    console::Term::stdout()
        .size_checked()
        .map(|(_, columns)| usize::from(columns))
        .filter(|&columns| columns > 0)
}

/// Returns lines of the program's own, wrapped. A line of columns, which two blanks separate, hangs at its last column.
pub(crate) fn wrapped(text: &str, options: &DisplayOptions) -> String {
    let mut wrapper = Wrapper::new(false);
    wrapper.set_width(if options.wrap { (options.columns)() } else { None });
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            wrapper.newline();
        }
        let column = line.rfind("  ").map_or(0, |at| at + 2);
        wrapper.set_hanging(" ".repeat(column));
        line.chars().for_each(|character| wrapper.put(character, Style::PLAIN));
    }
    wrapper.finish();
    wrapper.take()
}

/// Shows one text as it is generated.
#[derive(Debug)]
pub(crate) struct TextDisplay<W> {
    stream: W,
    options: DisplayOptions,
    markdown: Markdown,
    wrapper: Wrapper,
    /// A carriage return came; it is dropped before a line feed.
    returned: bool,
}

impl<W: Write> TextDisplay<W> {
    /// Returns a display at the beginning of a line of `stream`.
    pub(crate) fn new(stream: W, options: DisplayOptions) -> TextDisplay<W> {
        let styled = options.markdown && options.colour;
        TextDisplay {
            stream,
            options,
            markdown: Markdown::new(styled),
            wrapper: Wrapper::new(styled),
            returned: false,
        }
    }

    /// Shows more text. A word is shown when its end is known.
    pub(crate) fn print(&mut self, text: &str) -> io::Result<()> {
        if !self.options.wrap && !self.options.markdown && !self.options.terminal {
            self.stream.write_all(text.as_bytes())?;
            return self.stream.flush();
        }
        self.wrapper.set_width(if self.options.wrap { (self.options.columns)() } else { None });
        text.chars().for_each(|character| self.push(character));
        self.write()
    }

    /// Shows the held text. Returns whether the text ended its line.
    pub(crate) fn finish(&mut self) -> io::Result<bool> {
        if std::mem::take(&mut self.returned) {
            self.push_escaped('\r');
        }
        self.markdown.finish(&mut self.wrapper);
        self.wrapper.finish();
        self.write()?;
        Ok(self.wrapper.is_at_line_start())
    }

    fn write(&mut self) -> io::Result<()> {
        let ready = self.wrapper.take();
        if ready.is_empty() {
            return Ok(());
        }
        self.stream.write_all(ready.as_bytes())?;
        self.stream.flush()
    }

    fn push(&mut self, character: char) {
        if std::mem::take(&mut self.returned) && character != '\n' {
            self.push_escaped('\r');
        }
        if character == '\r' {
            self.returned = true;
        } else {
            self.push_escaped(character);
        }
    }

    fn push_escaped(&mut self, character: char) {
        if !self.options.terminal {
            return self.advance(character);
        }
        let mut bytes = [0; 4];
        printable(character.encode_utf8(&mut bytes)).chars().for_each(|shown| self.advance(shown));
    }

    fn advance(&mut self, character: char) {
        if self.options.wrap || self.options.markdown {
            self.markdown.push(character, &mut self.wrapper);
        } else if character == '\n' {
            self.wrapper.newline();
        } else {
            self.wrapper.put_verbatim(character, Style::PLAIN);
        }
    }
}
