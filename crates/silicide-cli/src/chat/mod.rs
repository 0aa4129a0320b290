//! A chat at the terminal.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | what a chat needs: someone who types, someone who answers |
//! | `console.rs` | the conversation and its /commands |
//! | `input.rs` | lines into messages and commands |
//! | `editor.rs` | typing at a terminal, with history |
//! | `partner.rs` | answers from a model |
//!
//! The conversation is a list of messages that the console owns: clearing, saving, loading and trying again are done
//! with it alone, and the partner finds out by itself what it remembers of it.

mod console;
mod editor;
mod input;
mod partner;

pub(crate) use console::Console;
pub(crate) use editor::TerminalLines;
pub(crate) use partner::{Interrupts, ModelPartner};

use crate::error::Error;
use serde_json::Value;

/// Where lines come from.
pub(crate) trait Lines {
    /// Asks for a line.
    fn read(&mut self, prompt: &str) -> Result<Line, Error>;
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end.
    Text(String),
    /// Ctrl-C: whatever was being written is given up.
    Interrupted,
    /// Ctrl-D: there is no more.
    End,
}

/// Someone who answers.
pub(crate) trait Talk {
    /// Answers the last of the messages, handing text to `sink` as it comes.
    fn say(&mut self, messages: &[Value], sink: &mut dyn FnMut(&str)) -> Result<Reply, Error>;
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// All of it.
    pub(crate) text: String,
    /// What to know about its end, if anything.
    pub(crate) note: Option<String>,
    /// Figures, in lines.
    pub(crate) figures: String,
}
