//! Messages of a chat.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// One message of a chat. It serializes to `{"role": "user", "content": "Hi!"}`, as chat templates expect it.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// use silicide::llm::Role;
/// use silicide::Message;
///
/// let messages = [Message::system("Be brief."), Message::user("Hi!")];
/// assert_eq!(messages[1].role, Role::User);
/// assert_eq!(messages[1].content, "Hi!");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// The role of the speaker.
    pub role: Role,
    /// The text.
    pub content: String,
}

/// The role of a message. The model's chat template decides which roles are valid, and in which order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// Instructions for the whole chat.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
    /// Any other role of a template, such as `developer`.
    #[serde(untagged)]
    Other(String),
}

impl Message {
    /// Creates a message of any role.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message { role, content: content.into() }
    }

    /// Creates a message with instructions for the whole chat.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new(Role::System, content)
    }

    /// Creates a message of the user.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new(Role::User, content)
    }

    /// Creates an answer of the model.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new(Role::Assistant, content)
    }

    /// Creates the result of a tool call.
    pub fn tool(content: impl Into<String>) -> Message {
        Message::new(Role::Tool, content)
    }
}

impl Role {
    /// Returns the name that templates use.
    pub fn name(&self) -> &str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::Other(name) => name,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<&Message> for Value {
    fn from(message: &Message) -> Value {
        crate::chat::message(message.role.name(), &message.content)
    }
}

impl From<Message> for Value {
    fn from(message: Message) -> Value {
        Value::from(&message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_serializes_to_what_templates_read_and_back() {
        for (role, name) in [
            (Role::System, "system"),
            (Role::User, "user"),
            (Role::Assistant, "assistant"),
            (Role::Tool, "tool"),
            (Role::Other("developer".to_owned()), "developer"),
        ] {
            let message = Message::new(role, "hi \"you\"");
            let value = serde_json::to_value(&message).unwrap();
            assert_eq!(value, serde_json::json!({ "role": name, "content": "hi \"you\"" }));
            assert_eq!(value, Value::from(message.clone()));
            assert_eq!(serde_json::from_value::<Message>(value).unwrap(), message);
        }
    }
}
