//! Language models on silicide: from a file of weights to streamed text.
//!
//! | module | what |
//! |---|---|
//! | [`tokenizer`] | text into tokens and back |
//! | [`chat`] | chats as models were trained to read them |
#![forbid(unsafe_code)]

pub mod chat;
pub mod tokenizer;
