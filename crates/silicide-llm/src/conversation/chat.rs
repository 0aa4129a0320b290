//! A chat: a history of messages and a session.

use super::message::{Message, Role};
use super::reply::Reply;
use super::stream::TextStream;
use crate::engine::load::Model;
use crate::engine::{GenerateOptions, Generation, Generator, Session};
use crate::error::{Error, Result};

/// A chat with a [`Model`]. It keeps the messages and the KV cache, so each turn feeds only new tokens.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// # let path = "../../testdata/models/llama-chat.gguf";
/// use silicide::llm::Role;
/// use silicide::llm::engine::GenerateOptions;
/// use silicide::Model;
///
/// let model = Model::open(path)?;
/// let options = GenerateOptions::default().max_tokens(8).temperature(0.0);
/// let mut chat = model.chat()?.with_system("You are a poet.").with_options(options);
/// for piece in chat.say("Write a line about the sea.")? {
///     print!("{}", piece?);
/// }
/// let roles: Vec<&Role> = chat.messages().iter().map(|message| &message.role).collect();
/// assert_eq!(roles, [&Role::System, &Role::User, &Role::Assistant]);
/// # Ok::<(), silicide_llm::Error>(())
/// ```
#[derive(Debug)]
pub struct Chat {
    pub(super) session: Session,
    pub(super) messages: Vec<Message>,
    pub(super) last: Option<Generation>,
    options: GenerateOptions,
    /// Replies so far. Each has its own seed, so that the same question can get another answer.
    turns: u64,
}

impl Chat {
    /// Creates a chat with an empty history.
    pub(crate) fn new(model: &Model) -> Result<Chat> {
        model.template()?;
        let session = Session::new(model)?;
        Ok(Chat { session, messages: Vec::new(), last: None, options: GenerateOptions::default(), turns: 0 })
    }

    /// Sets the system message.
    pub fn with_system(mut self, content: impl Into<String>) -> Chat {
        self.messages.retain(|message| message.role != Role::System);
        self.messages.insert(0, Message::system(content));
        self
    }

    /// Replaces the history, for example by one that was saved.
    pub fn with_messages(mut self, messages: impl IntoIterator<Item = Message>) -> Chat {
        self.messages = messages.into_iter().collect();
        self
    }

    /// Sets how replies are generated.
    pub fn with_options(mut self, options: GenerateOptions) -> Chat {
        self.options = options;
        self
    }

    /// Says something to the model and returns its reply, an iterator of pieces of text. See [`Reply`].
    pub fn say(&mut self, content: impl Into<String>) -> Result<Reply<'_>> {
        self.send(Message::user(content))
    }

    /// Sends a message of any role, for example the result of a tool call, and returns the reply. After an error the
    /// chat is unchanged.
    pub fn send(&mut self, message: Message) -> Result<Reply<'_>> {
        self.messages.push(message);
        match self.generator() {
            Ok(generator) => {
                self.turns = self.turns.wrapping_add(1);
                Ok(TextStream::over(self, generator))
            }
            Err(error) => {
                self.messages.pop();
                Err(error)
            }
        }
    }

    /// Returns a generation of the answer to the history.
    fn generator(&self) -> Result<Generator> {
        let prompt = self.model().chat_tokens(&self.messages)?;
        let context = self.session.context();
        if prompt.len() > context {
            return Err(Error::ContextFull { tokens: prompt.len(), context });
        }
        let mut options = self.options.clone();
        options.cancel = options.cancel.child();
        options.sampler.seed = options.sampler.seed.wrapping_add(self.turns);
        Generator::new(prompt, options)
    }

    /// Returns the history: messages and replies.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the history, to be edited. The next turn feeds all tokens from the first changed message on.
    pub fn messages_mut(&mut self) -> &mut Vec<Message> {
        &mut self.messages
    }

    /// Returns how replies are generated.
    pub fn options(&self) -> &GenerateOptions {
        &self.options
    }

    /// Returns how replies are generated, to be changed for the next reply.
    pub fn options_mut(&mut self) -> &mut GenerateOptions {
        &mut self.options
    }

    /// Returns the last reply: its text, finish reason and timings.
    pub fn last(&self) -> Option<&Generation> {
        self.last.as_ref()
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        self.session.model()
    }

    /// Returns the number of tokens in the KV cache, of at most [`Model::context`].
    pub fn tokens(&self) -> usize {
        self.session.tokens().len()
    }
}
