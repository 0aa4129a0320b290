//! Chats and completions: text in, an iterator of text out.

mod chat;
mod completion;
mod message;
mod reply;
mod stream;

pub use chat::Chat;
pub use completion::Completion;
pub use message::{Message, Role};
pub use reply::Reply;
pub use stream::TextStream;
