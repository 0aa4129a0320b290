//! Writes values as Python does: templates were tested there, and models were trained on the result.
//!
//! A value can contain the same list many times, so the output has a limit.

use super::error::exhausted;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// The layout of JSON.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) indent: Option<String>,
    pub(super) item: String,
    pub(super) key: String,
    pub(super) ascii: bool,
    pub(super) sorted: bool,
}

/// Deepest nesting that is written.
const DEPTH: usize = 128;

/// A text with a limit. Text beyond it is dropped, and the result is an error.
#[derive(Debug)]
struct Bounded {
    text: String,
    limit: usize,
    full: bool,
}

impl Bounded {
    fn new(limit: usize) -> Bounded {
        Bounded { text: String::new(), limit, full: false }
    }

    fn push_str(&mut self, text: &str) {
        self.full |= self.text.len().saturating_add(text.len()) > self.limit;
        if !self.full {
            self.text.push_str(text);
        }
    }

    fn push(&mut self, character: char) {
        self.push_str(character.encode_utf8(&mut [0; 4]));
    }

    fn check(&self) -> Result<(), Error> {
        if self.full { Err(exhausted()) } else { Ok(()) }
    }

    fn into_text(self) -> Result<String, Error> {
        self.check()?;
        Ok(self.text)
    }
}

/// Returns a value as JSON, as Python's `json.dumps` writes it.
pub(super) fn json(value: &Value, layout: &Layout, limit: usize) -> Result<String, Error> {
    let mut text = Bounded::new(limit);
    write_json(value, layout, 0, &mut text)?;
    text.into_text()
}

fn write_json(value: &Value, layout: &Layout, depth: usize, text: &mut Bounded) -> Result<(), Error> {
    if depth > DEPTH {
        return Err(Error::new(ErrorKind::BadSerialization, "nested too deeply"));
    }
    text.check()?;
    match value.kind() {
        ValueKind::None => text.push_str("null"),
        ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => text.push_str(&number(value)),
        ValueKind::String => quote(value.as_str().unwrap_or_default(), layout.ascii, text),
        ValueKind::Seq => {
            let items: Vec<Value> = value.try_iter()?.collect();
            text.push('[');
            write_items(&items, layout, depth, text, |item, text| write_json(item, layout, depth + 1, text))?;
            text.push(']');
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if layout.sorted {
                keys.sort();
            }
            text.push('{');
            write_items(&keys, layout, depth, text, |key, text| {
                let name = match key.as_str() {
                    Some(name) => name.to_owned(),
                    None => display(key, text.limit)?,
                };
                quote(&name, layout.ascii, text);
                text.push_str(&layout.key);
                write_json(&value.get_item(key)?, layout, depth + 1, text)
            })?;
            text.push('}');
        }
        kind => {
            let detail = format!("{kind} is not JSON serializable");
            return Err(Error::new(ErrorKind::BadSerialization, detail));
        }
    }
    Ok(())
}

/// Writes the entries between the brackets of a list or map at `depth`.
fn write_items(
    items: &[Value],
    layout: &Layout,
    depth: usize,
    text: &mut Bounded,
    mut write: impl FnMut(&Value, &mut Bounded) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |depth: usize, text: &mut Bounded| {
        if let Some(indent) = &layout.indent {
            text.push('\n');
            (0..depth).for_each(|_| text.push_str(indent));
        }
    };
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            text.push_str(&layout.item);
        }
        line(depth + 1, text);
        write(item, text)?;
    }
    if !items.is_empty() {
        line(depth, text);
    }
    Ok(())
}

fn quote(string: &str, ascii: bool, text: &mut Bounded) {
    text.push('"');
    let mut units = [0; 2];
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            _ if character < ' ' || ascii && !character.is_ascii() => {
                for unit in character.encode_utf16(&mut units) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

/// Returns a value as Python's `str` writes it.
pub(super) fn display(value: &Value, limit: usize) -> Result<String, Error> {
    let mut text = Bounded::new(limit);
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::String => text.push_str(value.as_str().unwrap_or_default()),
        _ => repr(value, 0, &mut text)?,
    }
    text.into_text()
}

/// Writes a value as Python's `repr` does.
fn repr(value: &Value, depth: usize, text: &mut Bounded) -> Result<(), Error> {
    text.check()?;
    match value.kind() {
        _ if depth > DEPTH => text.push_str("..."),
        ValueKind::None => text.push_str("None"),
        ValueKind::Bool => text.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => text.push_str(&number(value)),
        ValueKind::String => quote_repr(value.as_str().unwrap_or_default(), text),
        ValueKind::Seq => {
            text.push('[');
            for (number, item) in value.try_iter()?.enumerate() {
                text.push_str(if number > 0 { ", " } else { "" });
                repr(&item, depth + 1, text)?;
            }
            text.push(']');
        }
        ValueKind::Map => {
            text.push('{');
            for (number, key) in value.try_iter()?.enumerate() {
                text.push_str(if number > 0 { ", " } else { "" });
                repr(&key, depth + 1, text)?;
                text.push_str(": ");
                repr(&value.get_item(&key).unwrap_or_default(), depth + 1, text)?;
            }
            text.push('}');
        }
        _ => text.push_str(&value.to_string()),
    }
    Ok(())
}

fn quote_repr(string: &str, text: &mut Bounded) {
    let quote = if string.contains('\'') && !string.contains('"') { '"' } else { '\'' };
    text.push(quote);
    for character in string.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if character == quote => {
                text.push('\\');
                text.push(character);
            }
            _ => text.push(character),
        }
    }
    text.push(quote);
}

/// Returns a number in Python's shortest form: with a point or an exponent of two digits.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else { return value.to_string() };
    let size = float.abs();
    if !float.is_finite() || size == 0.0 || (1e-4..1e16).contains(&size) {
        return format!("{float:?}").replace("inf", "Infinity");
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = exponent.strip_prefix('-').map_or(('+', exponent), |power| ('-', power));
    format!("{digits}e{sign}{power:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_like_python() {
        let value = Value::from(minijinja::value::Serde(serde_json::json!({
            "a": [1, 1.0, 1e20, 5e-5, true, null], "b": "it's \"q\"\n\u{e9}", "c": {}, "d": [],
        })));
        let flat = Layout { indent: None, item: ", ".into(), key: ": ".into(), ascii: false, sorted: false };
        let expected = r#"{"a": [1, 1.0, 1e+20, 5e-05, true, null], "b": "it's \"q\"\né", "c": {}, "d": []}"#;
        assert_eq!(json(&value, &flat, 1000).unwrap(), expected);
        let deep = Layout { indent: Some("  ".into()), item: ",".into(), ascii: true, ..flat };
        let short = Value::from(minijinja::value::Serde(serde_json::json!({ "x": ["\u{1f600}"] })));
        assert_eq!(json(&short, &deep, 1000).unwrap(), "{\n  \"x\": [\n    \"\\ud83d\\ude00\"\n  ]\n}");
        let shown = r#"{'a': [1, 1.0, 1e+20, 5e-05, True, None], 'b': 'it\'s "q"\né', 'c': {}, 'd': []}"#;
        assert_eq!(display(&value, shown.len()).unwrap(), shown);
        assert!(display(&value, shown.len() - 1).is_err());
    }

    #[test]
    fn output_of_deeply_shared_values_is_limited() {
        let mut value = Value::from("x");
        for _ in 0..40 {
            value = Value::from(vec![value.clone(), value]);
        }
        let flat = Layout { indent: None, item: ", ".into(), key: ": ".into(), ascii: false, sorted: false };
        assert!(display(&value, 1 << 16).is_err());
        assert!(json(&value, &flat, 1 << 16).is_err());
    }
}
