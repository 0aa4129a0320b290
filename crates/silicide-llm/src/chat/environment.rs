//! The Jinja environment of chat templates: the extensions of Python and transformers, and limits.

use super::budget::{self, Budget};
use super::caught::caught;
use super::error::{ChatError, Raised, exhausted};
use super::filters;
use super::jinja_compat;
use super::python::{self, Layout};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, machinery};
use std::fmt;

/// The name of the template.
const NAME: &str = "chat";
/// The format of the time that templates receive.
pub(super) const CLOCK: &str = "%Y-%m-%dT%H:%M:%S";
/// Instructions that a rendering may take: a second of work, and some thousand messages.
const FUEL: u64 = 20_000_000;
/// Deepest nesting of calls.
const RECURSION: usize = 100;
/// The cost of writing a piece of text, beyond its bytes.
const EMITTED: usize = 16;
/// Longest format of a time, in bytes.
const TIME_FORMAT: usize = 1024;

/// A template, checked, and the language that it is written in.
#[derive(Debug)]
pub(super) struct Program {
    source: String,
    syntax: SyntaxConfig,
    environment: Environment<'static>,
}

impl Program {
    /// Checks a template.
    pub(super) fn new(source: &str) -> Result<Program, ChatError> {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(ChatError::from_jinja)?;
        let source = without_generation_marks(source);
        caught(|| {
            jinja_compat::compile(&source, NAME, syntax.clone()).map(drop).map_err(ChatError::from_jinja)
        })?;
        Ok(Program { source, syntax, environment: environment() })
    }

    /// Compiles and runs the template. Compiled templates borrow from their source, and compiling costs little next to a
    /// forward pass.
    pub(super) fn run(&self, variables: Value) -> Result<String, ChatError> {
        caught(|| self.render(variables))
    }

    fn render(&self, variables: Value) -> Result<String, ChatError> {
        let mut text = String::new();
        let (instructions, blocks) =
            jinja_compat::compile(&self.source, NAME, self.syntax.clone()).map_err(ChatError::from_jinja)?;
        let mut output = machinery::make_string_output(&mut text);
        let done = machinery::eval(
            &self.environment,
            &instructions,
            variables,
            &blocks,
            &mut output,
            AutoEscape::None,
        );
        done.map(drop).map_err(ChatError::from_jinja)?;
        drop(output);
        Ok(text)
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(|output, state, value| {
        let failed = |_: fmt::Error| Error::new(ErrorKind::WriteFailure, "can't write");
        if let Some(text) = value.as_str() {
            Budget::of(state).make(text.len().saturating_add(EMITTED))?;
            return output.write_str(text).map_err(failed);
        }
        output.write_str(&budget::display(state, value)?).map_err(failed)
    });
    environment.add_function("raise_exception", |words: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, "raised by the template").with_source(Raised(words)))
    });
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    budget::install(&mut environment);
    filters::install(&mut environment);
    environment
}

/// Replaces `{% generation %}` tags, which mark generated text for training, by conditions that always hold.
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
    // A field is at most 255 wide, so this many stay short.
    if format.len() > TIME_FORMAT {
        return Err(exhausted());
    }
    let told = state.lookup("__now").and_then(|now| now.as_str().map(str::to_owned));
    let told = told.and_then(|now| jiff::civil::DateTime::strptime(CLOCK, now).ok());
    let now = told.unwrap_or_else(|| jiff::Zoned::now().datetime());
    jiff::fmt::strtime::format(&format, now)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Writes JSON as transformers does, without escapes for HTML.
fn tojson(
    state: &mut State<'_, '_>,
    value: &Value,
    indent: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    let indent =
        indent.filter(|indent| indent.kind() != ValueKind::None).map(|indent| filters::margin(&indent));
    let indent = indent.transpose()?;
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
    let budget = Budget::of(state);
    let text = python::json(value, &layout, budget.left())?;
    budget.make(text.len())?;
    Ok(Value::from(text))
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
