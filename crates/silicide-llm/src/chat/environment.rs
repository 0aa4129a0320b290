//! Jinja as chat templates expect it: what Python and transformers add to the language, and limits.

use super::error::{ChatError, Raised, TooMuch};
use super::python::{self, Layout};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use std::io;

/// What the one template is called.
pub(super) const NAME: &str = "chat";
/// How the time is handed to the template.
pub(super) const CLOCK: &str = "%Y-%m-%dT%H:%M:%S";
/// Instructions that a rendering may take: a second of work, and some thousand messages.
const FUEL: u64 = 20_000_000;
/// Deepest nesting of calls.
const RECURSION: usize = 100;

/// An environment with the template in it.
pub(super) fn compile(source: &str) -> Result<Environment<'static>, ChatError> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(ChatError::from_jinja)?);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(|output, _, value| {
        output
            .write_str(&python::display(value))
            .map_err(|_| Error::new(ErrorKind::WriteFailure, "can't write"))
    });
    environment.add_function("raise_exception", |words: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, "raised by the template").with_source(Raised(words)))
    });
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |value: &Value| python::display(value));
    environment.add_filter("indent", indent);
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    let source = without_generation_marks(source);
    environment.add_template_owned(NAME, source).map_err(ChatError::from_jinja)?;
    Ok(environment)
}

/// Some templates mark what the model generates, for training. Here the marks are conditions that always hold.
fn without_generation_marks(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let Some(end) = from.find("%}").map(|end| end + 2) else {
            rest = from;
            break;
        };
        let (block, after) = from.split_at(end);
        let name = block.trim_matches(|character: char| {
            matches!(character, '{' | '}' | '%' | '-' | '+') || character.is_whitespace()
        });
        text.push_str(&match name {
            "generation" => block.replace("generation", "if true"),
            "endgeneration" => block.replace("endgeneration", "endif"),
            _ => block.to_owned(),
        });
        rest = after;
    }
    text.push_str(rest);
    text
}

fn strftime_now(state: &State<'_, '_>, format: String) -> Result<String, Error> {
    let told = state.lookup("__now").and_then(|now| now.as_str().map(str::to_owned));
    let told = told.and_then(|now| jiff::civil::DateTime::strptime(CLOCK, now).ok());
    let now = told.unwrap_or_else(|| jiff::Zoned::now().datetime());
    jiff::fmt::strtime::format(&format, now)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Indents lines, and keeps an end of line at the end.
fn indent(
    text: String,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width = width.or(options.get("width")?);
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let width = match width {
        Some(width) => margin(&width),
        None => " ".repeat(4),
    };
    let mut lines = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            lines.push('\n');
        }
        if number > 0 && (blank || !line.is_empty()) || number == 0 && first {
            lines.push_str(&width);
        }
        lines.push_str(line);
    }
    Ok(lines)
}

/// Spaces, or a text. More than this is no layout.
fn margin(width: &Value) -> String {
    width.as_str().map_or_else(|| " ".repeat(width.as_usize().unwrap_or(0).min(64)), str::to_owned)
}

/// JSON as transformers writes it, which is not the way HTML needs it.
fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    let indent = indent.filter(|indent| indent.kind() != ValueKind::None).map(|indent| margin(&indent));
    let separators: Option<Vec<String>> = options.get("separators")?;
    let plain = if indent.is_some() { "," } else { ", " };
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        _ => (plain.to_owned(), ": ".to_owned()),
    };
    let layout = Layout {
        indent,
        item,
        key,
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    python::json(value, &layout).map(Value::from)
}

/// Takes text up to a limit.
#[derive(Debug)]
pub(super) struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl Bounded {
    pub(super) fn new(limit: usize) -> Bounded {
        Bounded { bytes: Vec::new(), limit }
    }

    pub(super) fn into_text(self) -> String {
        String::from_utf8(self.bytes).unwrap_or_default()
    }
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len().saturating_add(bytes.len()) > self.limit {
            return Err(io::Error::other(TooMuch));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_marks_are_conditions() {
        let text = "{%- generation -%}x{{ '{% generation %}' }}{% endgeneration %}{% set generation = 1 %}{%";
        let expected = "{%- if true -%}x{{ '{% if true %}' }}{% endif %}{% set generation = 1 %}{%";
        assert_eq!(without_generation_marks(text), expected);
    }
}
