//! Typing at a terminal. History lasts as long as the chat: what people say to a model is nobody else's business.

use super::{Line, Lines};
use crate::error::Error;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};

/// Lines from the terminal.
#[derive(Debug)]
pub(crate) struct TerminalLines {
    editor: Editor<(), MemHistory>,
}

impl TerminalLines {
    pub(crate) fn new() -> Result<TerminalLines, Error> {
        let config = Config::builder().auto_add_history(true).build();
        let editor = Editor::with_history(config, MemHistory::new()).map_err(failed)?;
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
