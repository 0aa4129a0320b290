//! A chat at the terminal.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the traits of a chat: lines come from [`Lines`], answers from [`ChatPartner`] |
//! | `console.rs` | the conversation |
//! | `commands.rs` | the commands, and their completion |
//! | `settings.rs` | `/set` |
//! | `files.rs` | `/save`, `/load`, `/file` |
//! | `input.rs` | lines into messages and commands |
//! | `editor.rs` | typing at a terminal, with history and completion |
//! | `interrupt.rs` | Ctrl-C |
//! | `partner.rs` | answers from a model |
//!
//! The conversation is a list of messages that the console owns. Clearing, saving, loading and regenerating change this
//! list alone; the session compares each prompt with its cache and keeps the common prefix.

mod commands;
mod console;
mod editor;
mod files;
mod input;
mod interrupt;
mod partner;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use console::Console;
pub(crate) use editor::TerminalLines;
pub(crate) use interrupt::Interrupts;
pub(crate) use partner::ModelPartner;

use crate::error::Error;
use serde_json::Value;
use silicide_llm::engine::GenerateOptions;

/// Where lines come from.
pub(crate) trait Lines {
    /// Reads a line.
    fn read(&mut self, prompt: &str) -> Result<Line, Error>;
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end.
    Text(String),
    /// Ctrl-C: whatever was being written is given up.
    Interrupted,
    /// Ctrl-D: the input has ended.
    End,
}

/// A model that answers.
pub(crate) trait ChatPartner {
    /// Answers the last of the messages, handing text to `sink` as it comes.
    fn say(&mut self, messages: &[Value], sink: &mut dyn FnMut(&str)) -> Result<Reply, Error>;

    /// Returns how answers are generated.
    fn options(&mut self) -> &mut GenerateOptions;

    /// Returns the number of tokens of a text.
    fn count_tokens(&self, text: &str) -> usize;

    /// Returns the number of tokens that the context holds.
    fn context(&self) -> usize;
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// All of it.
    pub(crate) text: String,
    /// A note about its end, if there is one.
    pub(crate) note: Option<String>,
    /// Figures, in lines.
    pub(crate) figures: String,
}
