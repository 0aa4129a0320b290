//! The continuation of a text, piece by piece.

use crate::engine::load::Model;
use crate::engine::{Finish, GenerateOptions, Generator, Session, Timings};
use crate::error::{Error, Result};
use crate::tokenizer::Special;
use silicide_core::CancelToken;
use std::iter::FusedIterator;

/// The continuation of a text by [`Model::complete`]: an iterator of pieces of text, in whole characters. It owns a
/// KV cache; dropping it ends the generation.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// # let path = "../../testdata/models/llama-tied.gguf";
/// use silicide::llm::engine::{Finish, GenerateOptions};
/// use silicide::Model;
///
/// let model = Model::open(path)?;
/// let options = GenerateOptions::default().max_tokens(8).ignore_end(true);
/// let mut completion = model.complete_with("Once upon a time", options)?;
/// for piece in &mut completion {
///     print!("{}", piece?);
/// }
/// assert_eq!(completion.finish_reason(), Some(Finish::MaxTokens));
/// # Ok::<(), silicide_llm::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "text is generated while it is iterated over"]
pub struct Completion {
    session: Session,
    generator: Generator,
}

impl Completion {
    pub(crate) fn new(model: &Model, text: &str, mut options: GenerateOptions) -> Result<Completion> {
        let prompt = model.tokenizer().encode_prompt(text, Special::Parse);
        if prompt.len() > model.context() {
            return Err(Error::ContextFull { tokens: prompt.len(), context: model.context() });
        }
        options.cancel = options.cancel.child();
        Ok(Completion { generator: Generator::new(prompt, options)?, session: Session::new(model)? })
    }

    /// Generates the rest and returns the whole text.
    pub fn into_text(mut self) -> Result<String> {
        for piece in self.by_ref() {
            piece?;
        }
        Ok(self.generator.into_generation().text)
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.generator.generation().text
    }

    /// Returns why the text ended; `None` if it did not end, or ended with an error.
    pub fn finish_reason(&self) -> Option<Finish> {
        self.generator.finish_reason()
    }

    /// Token counts and times so far.
    pub fn timings(&self) -> Timings {
        self.generator.generation().timings
    }

    /// Returns a token that ends this completion, from any thread.
    pub fn cancel_token(&self) -> CancelToken {
        self.generator.cancel_token().clone()
    }

    /// Ends the completion: the iterator returns no more text.
    pub fn stop(&mut self) {
        self.generator.stop();
    }
}

impl Iterator for Completion {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        self.generator.next_text(&mut self.session)
    }
}

impl FusedIterator for Completion {}
