//! JSON from files: names borrowed where they can be, faults with the byte they are at.

use crate::cursor::At;
use crate::error::{Error, Fault, Result};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::marker::PhantomData;
use std::path::Path;

/// A string that borrows from the text unless it had escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Name<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// A `T` that is spelt as an object. A derived `T` alone would take a list of its fields too.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// Parses text. `what` names it in messages; offsets count from the text's start.
pub(crate) fn parse<'a, T: Deserialize<'a>>(what: &'static str, text: &'a str) -> At<T> {
    serde_json::from_str(text).map_err(|error| fault(what, text, &error))
}

/// Returns the fault of a JSON error, and where it is.
pub(crate) fn fault(what: &'static str, text: &str, error: &serde_json::Error) -> (u64, Fault) {
    let before = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    // Columns count from 1.
    (
        before.saturating_add(error.column().saturating_sub(1)) as u64,
        Fault::Json { what, detail: error.to_string() },
    )
}

/// Returns where a name is spelt in text, or 0.
pub(crate) fn locate(text: &str, name: &str) -> u64 {
    let spelt = serde_json::to_string(name).unwrap_or_default();
    text.find(&spelt).unwrap_or(0) as u64
}

/// Reads a side file of at most `limit` bytes. `None` if there is none.
pub(crate) fn read(path: &Path, what: &'static str, limit: u64) -> Result<Option<String>> {
    let io = |error: std::io::Error| Error::io(path, &error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let got = file.metadata().map_err(io)?.len();
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        return Err(Error::malformed(path, 0, Fault::TooMany { what, got, limit }));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        Error::malformed(path, error.utf8_error().valid_up_to() as u64, Fault::Utf8 { what })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_know_their_place() {
        let text = "{\n \"a\": [1,\n x]}";
        let (offset, _) = parse::<serde::de::IgnoredAny>("test", text).map(|_| ()).unwrap_err();
        assert_eq!(&text[offset as usize..offset as usize + 1], "x");
        assert_eq!(locate("{\"a\\\"b\": 1}", "a\"b"), 1);
        assert_eq!(locate("{}", "a"), 0);
    }

    #[test]
    fn objects_are_no_lists() {
        #[derive(Debug, Deserialize)]
        struct One {
            a: u8,
        }
        assert_eq!(parse::<Object<One>>("test", r#"{"a": 1}"#).unwrap().0.a, 1);
        assert!(parse::<One>("test", "[1]").is_ok());
        assert!(parse::<Object<One>>("test", "[1]").map(|object| object.0).is_err());
    }

    #[test]
    fn names_borrow() {
        let names: Vec<Name<'_>> = parse("test", r#"["plain", "esc\"aped"]"#).unwrap();
        assert!(matches!(names[0].0, Cow::Borrowed("plain")));
        assert!(matches!(&names[1].0, Cow::Owned(text) if text == "esc\"aped"));
    }
}
