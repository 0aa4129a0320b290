//! The reply of a chat, piece by piece.

use super::chat::Chat;
use super::message::Message;
use super::stream::{StreamOwner, TextStream};
use crate::engine::{Generation, Session};

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
pub type Reply<'a> = TextStream<&'a mut Chat>;

impl StreamOwner for &mut Chat {
    fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    fn ended(&mut self, generation: &Generation) {
        if generation.tokens.is_empty() {
            self.messages.pop();
        } else {
            self.messages.push(Message::assistant(generation.text.clone()));
        }
        self.last = Some(generation.clone());
    }
}
