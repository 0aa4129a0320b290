//! Line editing at a terminal. History is not stored, because chats are private.

use super::{Line, Lines, commands};
use crate::display::{Style, styled};
use crate::error::Error;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::borrow::Cow;

/// Lines from the terminal.
#[derive(Debug)]
pub(crate) struct TerminalLines {
    editor: Editor<ChatHelper, MemHistory>,
}

impl TerminalLines {
    /// Returns an editor, whose prompt has a colour if `colour`.
    pub(crate) fn new(colour: bool) -> Result<TerminalLines, Error> {
        let config = Config::builder().auto_add_history(true).completion_type(CompletionType::List).build();
        let mut editor = Editor::with_history(config, MemHistory::new()).map_err(failed)?;
        editor.set_helper(Some(ChatHelper { colour }));
        Ok(TerminalLines { editor })
    }
}

impl Lines for TerminalLines {
    fn read(&mut self, prompt: &str) -> Result<Line, Error> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Line::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(failed(error)),
        }
    }
}

fn failed(error: ReadlineError) -> Error {
    Error::input("the terminal", std::io::Error::other(error))
}

/// Completion and colour of the line.
#[derive(Debug)]
struct ChatHelper {
    colour: bool,
}

impl Completer for ChatHelper {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(commands::complete(line.get(..at).unwrap_or_default()))
    }
}

impl Highlighter for ChatHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(styled(prompt, Style::HEADING, self.colour))
    }
}

impl Hinter for ChatHelper {
    type Hint = String;
}

impl Validator for ChatHelper {}

impl Helper for ChatHelper {}
