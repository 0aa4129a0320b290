//! The continuation of a text, piece by piece.

use super::stream::{StreamOwner, TextStream};
use crate::engine::load::Model;
use crate::engine::{GenerateOptions, Generation, Generator, Session};
use crate::error::{Error, Result};
use crate::tokenizer::Special;

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
pub type Completion = TextStream<Session>;

impl Completion {
    pub(crate) fn new(model: &Model, text: &str, mut options: GenerateOptions) -> Result<Completion> {
        let prompt = model.tokenizer().encode_prompt(text, Special::Parse);
        if prompt.len() > model.context() {
            return Err(Error::ContextFull { tokens: prompt.len(), context: model.context() });
        }
        options.cancel = options.cancel.child();
        let generator = Generator::new(prompt, options)?;
        Ok(TextStream::over(Session::new(model)?, generator))
    }
}

impl StreamOwner for Session {
    fn session(&mut self) -> &mut Session {
        self
    }

    fn ended(&mut self, _: &Generation) {}
}
