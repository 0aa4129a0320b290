//! Language models on silicide: from a file of weights to streamed text.
//!
//! | module | what |
//! |---|---|
//! | [`tokenizer`] | text into tokens and back |
//! | [`chat`] | chats as models were trained to read them |
//! | [`model`] | what a file says, its tensors, and a forward pass for each architecture |
//! | [`cache`] | keys and values of what a model has read |
//! | [`sample`] | choosing the next token |
//! | [`engine`] | loading, sessions, generation |
//! | [`store`] | models on this machine: fetching, listing, removing |
//! | [`error`] | the one error type |
#![forbid(unsafe_code)]

pub mod cache;
pub mod chat;
pub mod engine;
pub mod error;
pub mod model;
pub mod sample;
pub mod store;
pub mod tokenizer;

pub use error::{Error, Result};

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
