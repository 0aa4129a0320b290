//! Metadata values as they are shown: long texts and lists shortened.

use serde::Serialize;
use silicide_weights::gguf::{Array, Text, Value};
use std::fmt;

/// Elements of a list that are shown.
const ELEMENTS: usize = 6;
/// Characters of a text that are shown.
const CHARACTERS: usize = 120;

/// A value as it is shown.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Shown {
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(Shortened),
    List { kind: String, length: usize, first: Vec<Shown> },
    Json(serde_json::Value),
}

/// A text, or its beginning.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Shortened {
    Whole(String),
    Beginning { length: usize, beginning: String },
}

impl Shown {
    pub(super) fn of(value: &Value<'_>) -> Shown {
        match value {
            Value::Bool(value) => Shown::Bool(*value),
            // As short as f32 can be written, not as long as the same number in f64.
            Value::F32(value) => {
                Shown::Float(value.to_string().parse().unwrap_or_else(|_| f64::from(*value)))
            }
            Value::F64(value) => Shown::Float(*value),
            Value::String(Text(bytes)) => Shown::text(&String::from_utf8_lossy(bytes)),
            Value::Array(array) => Shown::array(array),
            other => match (other.as_u64(), other.as_i64()) {
                (Some(value), _) => Shown::Unsigned(value),
                (None, value) => Shown::Signed(value.unwrap_or_default()),
            },
        }
    }

    pub(super) fn text(text: &str) -> Shown {
        let length = text.chars().count();
        Shown::Text(if length <= CHARACTERS {
            Shortened::Whole(text.to_owned())
        } else {
            Shortened::Beginning { length, beginning: text.chars().take(CHARACTERS).collect() }
        })
    }

    pub(super) fn json(value: &serde_json::Value) -> Shown {
        match value {
            serde_json::Value::String(text) => Shown::text(text),
            serde_json::Value::Array(list) if list.len() > ELEMENTS => {
                let first = list.iter().take(ELEMENTS).map(Shown::json).collect();
                Shown::List { kind: "json".to_owned(), length: list.len(), first }
            }
            other => Shown::Json(other.clone()),
        }
    }

    fn array(array: &Array<'_>) -> Shown {
        let first = array.iter().take(ELEMENTS).map(|element| Shown::of(&element)).collect();
        Shown::List { kind: array.kind().name().to_owned(), length: array.len(), first }
    }
}

/// For a terminal: nothing that a file holds is sent as a control sequence.
impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Bool(value) => value.fmt(f),
            Shown::Unsigned(value) => value.fmt(f),
            Shown::Signed(value) => value.fmt(f),
            Shown::Float(value) => value.fmt(f),
            Shown::Text(Shortened::Whole(text)) => write!(f, "{text:?}"),
            Shown::Text(Shortened::Beginning { length, beginning }) => {
                write!(f, "{beginning:?}... ({length} characters)")
            }
            Shown::List { kind, length, first } => {
                let shown: Vec<String> = first.iter().map(Shown::to_string).collect();
                let more = if *length > shown.len() { ", ..." } else { "" };
                write!(f, "[{}{more}] ({length} of {kind})", shown.join(", "))
            }
            Shown::Json(value) => {
                let text = value.to_string();
                let beginning: String = text.chars().take(CHARACTERS).collect();
                let more = if beginning.len() < text.len() { "..." } else { "" };
                write!(f, "{}{more}", beginning.escape_debug().to_string().replace("\\\"", "\""))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(Shown::text("short").to_string(), "\"short\"");
        let long = Shown::text(&"x".repeat(1000)).to_string();
        assert!(long.ends_with("... (1000 characters)") && long.len() < 160, "{long}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(Shown::text("a\u{1b}[31m\n").to_string(), "\"a\\u{1b}[31m\\n\"");
        let json = serde_json::json!({ "a": "\u{1b}" });
        assert!(!Shown::json(&json).to_string().contains('\u{1b}'));
    }

    #[test]
    fn singles_look_like_singles() {
        assert_eq!(Shown::of(&Value::F32(1e-5)).to_string(), "0.00001");
        assert_eq!(Shown::of(&Value::F32(0.1)).to_string(), "0.1");
    }
}
