//! Generated text as an iterator: the part that replies and completions share.

use crate::engine::{Finish, Generation, Generator, Session, Timings};
use crate::error::Result;
use silicide_core::CancelToken;
use std::iter::FusedIterator;

/// An iterator of generated text, in whole characters. Each call of `next` runs the model until there is text. Dropping it
/// ends the generation.
///
/// [`Reply`](crate::Reply) and [`Completion`](crate::Completion) are its two forms.
#[derive(Debug)]
#[must_use = "text is generated while it is iterated over"]
pub struct TextStream<O: StreamOwner> {
    owner: O,
    generator: Generator,
}

/// The owner of the session that a stream generates with.
pub trait StreamOwner {
    fn session(&mut self) -> &mut Session;

    /// Called when the stream is dropped, with all that was generated.
    fn ended(&mut self, generation: &Generation);
}

impl<O: StreamOwner> TextStream<O> {
    pub(super) fn over(owner: O, generator: Generator) -> TextStream<O> {
        TextStream { owner, generator }
    }

    /// Generates the rest and returns the whole text.
    pub fn into_text(mut self) -> Result<String> {
        for piece in self.by_ref() {
            piece?;
        }
        Ok(self.text().to_owned())
    }

    /// Returns the text so far.
    pub fn text(&self) -> &str {
        &self.generator.generation().text
    }

    /// Returns why the text ended; `None` if it did not end, or ended with an error.
    pub fn finish_reason(&self) -> Option<Finish> {
        self.generator.finish_reason()
    }

    /// Returns token counts and times so far.
    pub fn timings(&self) -> Timings {
        self.generator.generation().timings
    }

    /// Returns a token that ends this text, from any thread. It does not affect later replies of a chat.
    pub fn cancel_token(&self) -> CancelToken {
        self.generator.cancel_token().clone()
    }

    /// Ends the text: the iterator returns no more.
    pub fn stop(&mut self) {
        self.generator.stop();
    }
}

impl<O: StreamOwner> Iterator for TextStream<O> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        self.generator.next_text(self.owner.session())
    }
}

impl<O: StreamOwner> FusedIterator for TextStream<O> {}

impl<O: StreamOwner> Drop for TextStream<O> {
    fn drop(&mut self) {
        self.owner.ended(self.generator.generation());
    }
}
