//! Language models on silicide: from a file of weights to streamed text.
//!
//! ```
//! # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
//! # let path = "../../testdata/models/llama-chat.gguf";
//! use silicide::Model;
//!
//! let model = Model::open(path)?;
//! let mut chat = model.chat()?;
//! for piece in chat.say("What is the capital of Germany?")? {
//!     print!("{}", piece?);
//! #   break;
//! }
//! # Ok::<(), silicide_llm::Error>(())
//! ```
//!
//! [`Model`], [`Chat`], [`Reply`], [`Completion`] and [`Message`] are enough for most programs. The modules are the
//! parts that they are made of, and each can be used alone:
//!
//! | module | what |
//! |---|---|
//! | [`engine`] | sessions, the token loop, its options and results |
//! | [`tokenizer`] | text to tokens and back |
//! | [`chat`] | chat templates: messages to a prompt |
//! | [`sample`] | logits to a token |
//! | [`model`] | settings, tensors, and a forward pass for each architecture |
//! | [`cache`] | the KV cache |
//! | [`repack`] | repacked weights on disk, which later runs map |
//! | [`store`] | models on this machine: download, list, remove |
#![forbid(unsafe_code)]

pub mod cache;
pub mod chat;
mod conversation;
pub mod engine;
mod error;
pub mod model;
pub mod repack;
pub mod sample;
pub mod store;
pub mod tokenizer;

pub use conversation::{Chat, Completion, Message, Reply, Role, TextStream};
pub use engine::load::Model;
pub use engine::options::ModelOptions;
pub use error::{Error, Result};

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
