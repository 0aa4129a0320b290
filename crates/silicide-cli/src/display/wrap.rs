//! Streaming word wrap.
//!
//! A word is held until its end is known, then written on this line or on the next. Nothing that was written is
//! changed, so that no redrawing is needed. The result depends on the characters and the width alone, not on how the
//! characters were cut into pieces.

use super::style::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns from one tab stop to the next.
const TAB: usize = 8;
/// Characters that must not begin a line in Chinese and Japanese text.
const NOT_FIRST: &str = "、。，．・：；？！ー」』】〉》）］｝〕々ぁぃぅぇぉっゃゅょァィゥェォッャュョ…％";

/// Wraps words at a width.
#[derive(Debug, Default)]
pub(super) struct Wrapper {
    /// Columns of a line; `None`: no wrapping.
    width: Option<usize>,
    /// Whether styles are written.
    colour: bool,
    /// Columns that are written on this line.
    column: usize,
    /// The indent of a continued line.
    hanging: String,
    /// Blanks before the held word.
    blanks: String,
    /// The held word.
    word: Vec<(char, Style)>,
    /// The sum of the widths of its characters: at least its width.
    word_columns: usize,
    /// The style that the terminal has.
    style: Style,
    /// Text that is ready to be written.
    out: String,
}

impl Wrapper {
    /// Returns a wrapper at the beginning of a line.
    pub(super) fn new(colour: bool) -> Wrapper {
        Wrapper { colour, ..Wrapper::default() }
    }

    /// Sets the columns of a line.
    pub(super) fn set_width(&mut self, width: Option<usize>) {
        self.width = width.map(|width| width.max(1));
    }

    /// Returns the columns of a line.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Sets the prefix of continued lines, until the end of the paragraph.
    pub(super) fn set_hanging(&mut self, hanging: String) {
        self.hanging = hanging;
    }

    /// Adds a character of flowing text.
    pub(super) fn put(&mut self, character: char, style: Style) {
        if character == ' ' || character == '\t' {
            self.flush_word();
            self.blanks.push(character);
            return;
        }
        let breaks = |before: char| is_ideographic(before) || is_ideographic(character);
        if !NOT_FIRST.contains(character) && self.word.last().is_some_and(|&(before, _)| breaks(before)) {
            self.flush_word();
        }
        self.word.push((character, style));
        self.word_columns += character.width().unwrap_or(0);
        // A word that no line can hold is written as far as it goes.
        if self.width.is_some_and(|width| self.word_columns >= width) {
            self.flush_word();
        }
    }

    /// Adds a character that stays on this line.
    pub(super) fn put_verbatim(&mut self, character: char, style: Style) {
        self.flush_word();
        self.write_blanks();
        self.write(character, style);
    }

    /// Ends the line.
    pub(super) fn newline(&mut self) {
        self.flush_word();
        self.blanks.clear();
        self.hanging.clear();
        self.out.push('\n');
        self.column = 0;
    }

    /// Writes the held text, and ends styles.
    pub(super) fn finish(&mut self) {
        self.flush_word();
        self.blanks.clear();
        self.hanging.clear();
        self.switch(Style::PLAIN);
    }

    /// Whether the text ends where a line begins.
    pub(super) fn is_at_line_start(&self) -> bool {
        self.column == 0 && self.word.is_empty()
    }

    /// Returns the text that is ready, and forgets it.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Writes the held word, on the next line if it does not fit on this one.
    fn flush_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        self.word_columns = 0;
        if word.is_empty() {
            return;
        }
        let Some(width) = self.width else {
            self.write_blanks();
            word.into_iter().for_each(|(character, style)| self.write(character, style));
            return;
        };
        let text: String = word.iter().map(|&(character, _)| character).collect();
        let columns = text.width();
        let hanging = self.hanging.width().min(width / 2);
        if self.column > hanging && self.blanks_end() + columns > width {
            self.continue_line(width);
        }
        self.write_blanks();
        if self.column + columns <= width {
            word.into_iter().for_each(|(character, style)| self.write(character, style));
            return;
        }
        for (character, style) in word {
            if self.column + character.width().unwrap_or(0) > width && self.column > hanging {
                self.continue_line(width);
            }
            self.write(character, style);
        }
    }

    /// Begins a line that continues this one.
    fn continue_line(&mut self, width: usize) {
        self.blanks.clear();
        self.out.push('\n');
        self.column = 0;
        // A narrow terminal has no columns to spare.
        let hanging: String = self.hanging.chars().take(width / 2).collect();
        for character in hanging.chars() {
            self.write(character, Style::DIM);
        }
    }

    /// Returns the column after the held blanks.
    fn blanks_end(&self) -> usize {
        self.blanks.chars().fold(self.column, after_blank)
    }

    fn write_blanks(&mut self) {
        self.column = self.blanks_end();
        self.out.push_str(&self.blanks);
        self.blanks.clear();
    }

    fn write(&mut self, character: char, style: Style) {
        if character == ' ' || character == '\t' {
            // A blank looks the same in every style.
            self.column = after_blank(self.column, character);
        } else {
            self.switch(style);
            self.column += character.width().unwrap_or(0);
        }
        self.out.push(character);
    }

    fn switch(&mut self, style: Style) {
        if self.colour && self.style != style {
            style.write_sgr(&mut self.out);
            self.style = style;
        }
    }
}

/// Returns the column after a blank that is written at `column`.
fn after_blank(column: usize, blank: char) -> usize {
    if blank == '\t' { (column / TAB + 1) * TAB } else { column + 1 }
}

/// Whether lines may break before and after `character` without a blank.
fn is_ideographic(character: char) -> bool {
    matches!(character, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff01}'..='\u{ff60}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: usize) -> String {
        let mut wrapper = Wrapper::new(false);
        wrapper.set_width(Some(width));
        for character in text.chars() {
            if character == '\n' { wrapper.newline() } else { wrapper.put(character, Style::PLAIN) }
        }
        wrapper.finish();
        wrapper.take()
    }

    #[test]
    fn words_move_to_the_next_line_whole() {
        assert_eq!(wrapped("one two three", 8), "one two\nthree");
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("one two three", 6), "one\ntwo\nthree");
        assert_eq!(wrapped("one two\n\n  three four", 9), "one two\n\n  three\nfour");
        assert_eq!(wrapped("trailing   \nblanks", 20), "trailing\nblanks");
    }

    #[test]
    fn words_longer_than_a_line_are_cut_at_its_end() {
        assert_eq!(wrapped("a 0123456789abcdef b", 8), "a\n01234567\n89abcdef\nb");
        assert_eq!(wrapped("0123456789", 8), "01234567\n89");
        assert_eq!(wrapped("漢字", 1), "漢\n字");
    }

    #[test]
    fn wide_characters_count_two_columns() {
        assert_eq!(wrapped("漢字漢字漢字", 7), "漢字漢\n字漢字");
        assert_eq!(wrapped("漢字漢。字", 6), "漢字\n漢。字");
        assert_eq!(wrapped("ab 한국어 x", 8), "ab\n한국어 x");
        assert_eq!(wrapped("a👍👍 👍", 5), "a👍👍\n👍");
        // Combining marks take no column.
        assert_eq!(wrapped("e\u{301}e\u{301}e\u{301} x", 5), "e\u{301}e\u{301}e\u{301} x");
    }

    #[test]
    fn continued_lines_hang() {
        let mut wrapper = Wrapper::new(false);
        wrapper.set_width(Some(9));
        wrapper.set_hanging("  ".to_owned());
        "- one two three\nfour five".chars().for_each(|character| match character {
            '\n' => wrapper.newline(),
            character => wrapper.put(character, Style::PLAIN),
        });
        wrapper.finish();
        assert_eq!(wrapper.take(), "- one two\n  three\nfour five");
    }
}
