//! The reply of a chat, piece by piece.

use super::chat::Chat;
use super::message::Message;
use crate::engine::{Finish, Generator, Timings};
use crate::error::Result;
use silicide_core::CancelToken;
use std::iter::FusedIterator;

/// The reply to [`Chat::say`]: an iterator of pieces of text, in whole characters. Each call of `next` runs the model
/// until there is text.
///
/// Dropping a reply ends the generation. The text so far becomes the answer in [`Chat::messages`]. If no token was
/// generated, the message that was sent is removed, so the chat is as before.
///
/// ```
/// # let path = "../../testdata/models/llama-chat.gguf";
/// # let mut chat = silicide_llm::Model::open(path)?.chat()?;
/// let mut reply = chat.say("Count to a thousand.")?;
/// for piece in reply.by_ref().take(5) {
///     print!("{}", piece?);
/// }
/// let said = reply.text().to_owned();
/// drop(reply);
/// assert_eq!(chat.messages()[1].content, said);
/// # Ok::<(), silicide_llm::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a reply is generated while it is iterated over"]
pub struct Reply<'a> {
    chat: &'a mut Chat,
    generator: Generator,
}

impl<'a> Reply<'a> {
    pub(super) fn new(chat: &'a mut Chat, generator: Generator) -> Reply<'a> {
        Reply { chat, generator }
    }

    /// Generates the rest and returns the whole text.
    pub fn into_text(mut self) -> Result<String> {
        for piece in self.by_ref() {
            piece?;
        }
        Ok(self.text().to_owned())
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.generator.generation().text
    }

    /// Returns why the reply ended; `None` if it did not end, or ended with an error.
    pub fn finish_reason(&self) -> Option<Finish> {
        self.generator.finish_reason()
    }

    /// Token counts and times so far.
    pub fn timings(&self) -> Timings {
        self.generator.generation().timings
    }

    /// Returns a token that ends this reply, from any thread. It does not affect later replies.
    pub fn cancel_token(&self) -> CancelToken {
        self.generator.cancel_token().clone()
    }

    /// Ends the reply: the iterator returns no more text.
    pub fn stop(&mut self) {
        self.generator.stop();
    }
}

impl Iterator for Reply<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        self.generator.next_text(&mut self.chat.session)
    }
}

impl FusedIterator for Reply<'_> {}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        let generation = self.generator.generation().clone();
        if generation.tokens.is_empty() {
            self.chat.messages.pop();
        } else {
            self.chat.messages.push(Message::assistant(generation.text.clone()));
        }
        self.chat.last = Some(generation);
    }
}
