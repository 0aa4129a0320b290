//! Chats as models were trained to read them.

/// A part of a rendered chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Whether the template wrote it. What people wrote is just text, whatever it looks like.
    pub trusted: bool,
}
