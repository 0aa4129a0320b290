//! Filters and methods whose results can be much longer than their arguments. The budget counts them before they run.

use super::budget::{self, Budget};
use super::error::exhausted;
use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Widest field of a format.
const WIDTH: usize = 4096;
/// Longest text that lines are indented with, in bytes.
const MARGIN: usize = 1024;

/// Replaces the engine's own filters and methods by these.
pub(super) fn install(environment: &mut Environment<'_>) {
    environment.set_unknown_method_callback(call_method);
    environment.add_filter("string", string);
    environment.add_filter("pprint", string);
    environment.add_filter("indent", indent);
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter(
        "format",
        |state: &mut State<'_, '_>, text: &Value, values: Rest<ValueOrKwargs>| {
            format_counted(state, FormatStyle::Printf, text, &values.into_values())
        },
    );
    environment.add_filter("sum", sum);
    environment.add_filter(
        "batch",
        |state: &mut State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            Budget::of(state).make(if fill.is_some() { count.saturating_mul(32) } else { 0 })?;
            minijinja::filters::batch(state, value, count, fill)
        },
    );
    environment.add_filter(
        "slice",
        |state: &mut State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            Budget::of(state).make(count.saturating_mul(128))?;
            minijinja::filters::slice(state, value, count, fill)
        },
    );
}

fn string(state: &mut State<'_, '_>, value: &Value) -> Result<Value, Error> {
    if value.as_str().is_some() {
        return Ok(value.clone());
    }
    budget::display(state, value).map(Value::from)
}

fn call_method(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    match (value.as_str(), method, arguments) {
        (Some(text), "replace", [old, new, ..]) => {
            if let (Some(old), Some(new)) = (old.as_str(), new.as_str()) {
                count_replacing(state, text, old, new)?;
            }
        }
        (Some(glue), "join", [values]) => return joined(state, values, glue).map(Value::from),
        (Some(_), "format", _) => return format_counted(state, FormatStyle::StrFormat, value, arguments),
        _ => {}
    }
    unknown_method_callback(state, value, method, arguments)
}

fn count_replacing(state: &mut State<'_, '_>, text: &str, old: &str, new: &str) -> Result<(), Error> {
    let found = text.matches(old).count();
    Budget::of(state).make(text.len().saturating_add(found.saturating_mul(new.len())))
}

fn replace(state: &mut State<'_, '_>, text: &Value, old: &Value, new: &Value) -> Result<String, Error> {
    let (text, old, new) =
        (budget::display(state, text)?, budget::display(state, old)?, budget::display(state, new)?);
    count_replacing(state, &text, &old, &new)?;
    Ok(text.replace(&old, &new))
}

fn join(
    state: &mut State<'_, '_>,
    values: &Value,
    glue: Option<&Value>,
    attribute: Option<String>,
    options: Kwargs,
) -> Result<String, Error> {
    let glue = match glue.cloned().or(options.get("d")?) {
        Some(glue) => budget::display(state, &glue)?,
        None => String::new(),
    };
    let attribute = attribute.or(options.get("attribute")?);
    options.assert_all_used()?;
    match attribute {
        Some(attribute) => {
            let attributes: Result<Vec<Value>, Error> =
                values.try_iter()?.map(|value| value.get_attr(&attribute)).collect();
            joined(state, &Value::from(attributes?), &glue)
        }
        None => joined(state, values, &glue),
    }
}

fn joined(state: &mut State<'_, '_>, values: &Value, glue: &str) -> Result<String, Error> {
    let mut text = String::new();
    if values.is_undefined() || values.is_none() {
        return Ok(text);
    }
    for (number, value) in values.try_iter()?.checked().enumerate() {
        if number > 0 {
            Budget::of(state).make(glue.len())?;
            text.push_str(glue);
        }
        text.push_str(&budget::display(state, &value?)?);
    }
    Ok(text)
}

/// Formats by `printf` or `str.format`. Counts every value and the width of every field for each field.
fn format_counted(
    state: &mut State<'_, '_>,
    style: FormatStyle,
    text: &Value,
    values: &[Value],
) -> Result<Value, Error> {
    let not_text = || Error::new(ErrorKind::InvalidOperation, "only a text can be a format");
    let text = text.as_str().ok_or_else(not_text)?;
    let mut shown = 0_usize;
    for value in values {
        shown = shown.saturating_add(budget::display(state, value)?.len());
    }
    let printf = matches!(style, FormatStyle::Printf);
    let sign = if printf { '%' } else { '{' };
    let mut bytes = text.len();
    for field in text.split(sign).skip(1) {
        let letter = |character: char| character.is_ascii_alphabetic() || character == '%';
        let end = if printf { field.find(letter) } else { field.find('}') };
        let specification = field.get(..end.unwrap_or(field.len())).unwrap_or_default();
        // A width that is a value is unbounded.
        if printf && specification.contains('*') || !printf && end.is_none() && field.ends_with(':') {
            return Err(Error::new(ErrorKind::InvalidOperation, "the width of a field has to be a number"));
        }
        let mut width = 0_usize;
        for digits in specification.split(|character: char| !character.is_ascii_digit()) {
            let digits = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(usize::MAX) };
            width = width.max(digits);
        }
        if width > WIDTH {
            return Err(exhausted());
        }
        bytes = bytes.saturating_add(width).saturating_add(shown).saturating_add(32);
    }
    Budget::of(state).make(bytes)?;
    format(style, text, values).map(Value::from)
}

/// Sums numbers. Refuses texts and lists, whose sums grow with every step.
fn sum(
    state: &mut State<'_, '_>,
    values: Value,
    attribute: Option<&str>,
    start: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let attribute = match attribute {
        Some(attribute) => Some(attribute.to_owned()),
        None => options.get::<Option<String>>("attribute")?,
    };
    let start = start.or(options.get("start")?);
    options.assert_all_used()?;
    let is_number = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    let refused = || Error::new(ErrorKind::InvalidOperation, "only numbers can be summed up");
    let mut numbers = Vec::new();
    for value in values.try_iter()? {
        let value = match &attribute {
            Some(attribute) => value.get_attr(attribute)?,
            None => value,
        };
        Budget::of(state).make(32)?;
        numbers.push(Some(value).filter(is_number).ok_or_else(refused)?);
    }
    if start.as_ref().is_some_and(|start| !is_number(start)) {
        return Err(refused());
    }
    minijinja::filters::sum(
        state,
        Value::from(numbers),
        None,
        start,
        Kwargs::from_iter(std::iter::empty::<(String, Value)>()),
    )
}

/// Indents lines, and keeps a line end at the end.
fn indent(state: &mut State<'_, '_>, text: String, arguments: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let arguments = arguments.into_values();
    type Arguments = (Option<Value>, Option<bool>, Option<bool>, Kwargs);
    let (width, first, blank, options): Arguments = from_args(&arguments)?;
    let width = width.or(options.get("width")?);
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let width = match width {
        Some(width) => margin(&width)?,
        None => " ".repeat(4),
    };
    let count = text.matches('\n').count().saturating_add(1);
    Budget::of(state).make(text.len().saturating_add(count.saturating_mul(width.len())))?;
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

/// Returns a margin: a text, or a number of spaces, up to [`MARGIN`].
pub(super) fn margin(width: &Value) -> Result<String, Error> {
    match width.as_str() {
        Some(text) if text.len() > MARGIN => Err(exhausted()),
        Some(text) => Ok(text.to_owned()),
        None => Ok(" ".repeat(width.as_usize().unwrap_or(0).min(64))),
    }
}
