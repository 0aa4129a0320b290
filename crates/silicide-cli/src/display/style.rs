//! Text styles and their SGR sequences.

/// The colour of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tint {
    /// The terminal's own colour.
    #[default]
    Plain,
    /// A heading.
    Heading,
    /// Code, in a span or a block.
    Code,
    /// Bullets, fences, rules and notes.
    Dim,
}

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// The colour.
    pub(crate) tint: Tint,
    /// Whether it is bold.
    pub(crate) bold: bool,
    /// Whether it is italic.
    pub(crate) italic: bool,
}

impl Style {
    /// Plain text.
    pub(crate) const PLAIN: Style = Style { tint: Tint::Plain, bold: false, italic: false };
    /// Markers and notes.
    pub(crate) const DIM: Style = Style { tint: Tint::Dim, ..Style::PLAIN };
    /// Code.
    pub(crate) const CODE: Style = Style { tint: Tint::Code, ..Style::PLAIN };
    /// Headings.
    pub(crate) const HEADING: Style = Style { tint: Tint::Heading, bold: true, italic: false };
    /// Quotes.
    pub(crate) const QUOTE: Style = Style { tint: Tint::Plain, bold: false, italic: true };

    /// Appends the SGR sequence that switches from any style to this one.
    pub(crate) fn write_sgr(self, out: &mut String) {
        out.push_str("\u{1b}[0");
        if self.bold {
            out.push_str(";1");
        }
        if self.italic {
            out.push_str(";3");
        }
        out.push_str(match self.tint {
            Tint::Plain => "",
            Tint::Heading => ";36",
            Tint::Code => ";33",
            Tint::Dim => ";2",
        });
        out.push('m');
    }
}

/// Returns `text` in `style`, or unchanged if `colour` is false.
pub(crate) fn styled(text: &str, style: Style, colour: bool) -> String {
    let mut out = String::new();
    if colour {
        style.write_sgr(&mut out);
    }
    out.push_str(text);
    if colour {
        Style::PLAIN.write_sgr(&mut out);
    }
    out
}
