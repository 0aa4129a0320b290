//! Limits the bytes that a rendering creates and reads, so that memory and time stay proportional to its input.
//!
//! An operation whose result can be larger than its operands counts the result before it exists. An operation that
//! reads whole values counts those.

use super::error::exhausted;
use super::jinja_compat::{COPIED, MADE, READ, STEPPED, TEXT, TIMES};
use super::python;
use super::slices::stepped;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

/// The variable with the bytes of text in a rendering's input. No template can name it.
pub(super) const GIVEN: &str = "#given";
/// Bytes that any rendering may create and read.
const MAKING: usize = 32 << 20;
const READING: usize = 1 << 30;
/// Bytes that a rendering may create and read per byte of its input.
const MAKING_TIMES: usize = 64;
const READING_TIMES: usize = 4096;
/// Bytes that are counted for an entry of a list, besides its value.
const ENTRY: usize = 32;
/// Bytes that are counted as read for visiting a value.
const VISIT: usize = 1024;
/// Deepest nesting of lists and maps.
const DEPTH: usize = 128;

/// The bytes that are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    making: usize,
    reading: usize,
}

impl Budget {
    fn new(given: usize) -> Budget {
        Budget {
            making: MAKING.saturating_add(given.saturating_mul(MAKING_TIMES)),
            reading: READING.saturating_add(given.saturating_mul(READING_TIMES)),
        }
    }

    /// Returns the budget of a rendering.
    pub(super) fn of<'s>(state: &'s mut State<'_, '_>) -> &'s mut Budget {
        let given = state.lookup(GIVEN).and_then(|given| given.as_usize()).unwrap_or(0);
        state.get_or_insert_extension_with(|| Budget::new(given))
    }

    /// Counts bytes that are about to be created.
    pub(super) fn make(&mut self, bytes: usize) -> Result<(), Error> {
        self.making = self.making.checked_sub(bytes).ok_or_else(exhausted)?;
        Ok(())
    }

    fn read(&mut self, bytes: usize) -> Result<(), Error> {
        self.reading = self.reading.checked_sub(bytes).ok_or_else(exhausted)?;
        Ok(())
    }

    /// Returns the bytes that may still be created.
    pub(super) fn left(&self) -> usize {
        self.making
    }

    /// Counts all values reachable from `value`, each as often as it is reached.
    pub(super) fn visit(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH {
            return Err(exhausted());
        }
        match value.kind() {
            ValueKind::String => self.read(value.as_str().map_or(0, str::len)),
            ValueKind::Seq => {
                for item in value.try_iter()? {
                    self.read(VISIT)?;
                    self.visit(&item, depth + 1)?;
                }
                Ok(())
            }
            ValueKind::Map => {
                for key in value.try_iter()? {
                    self.read(VISIT)?;
                    self.visit(&key, depth + 1)?;
                    self.visit(&value.get_item(&key)?, depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Counts a value and its entries as created, but not the values inside those.
    fn make_value(&mut self, value: &Value) -> Result<(), Error> {
        let bytes = |value: &Value| value.as_str().map_or(0, str::len).saturating_add(ENTRY);
        match value.kind() {
            ValueKind::Seq => value.try_iter()?.try_for_each(|item| self.make(bytes(&item))),
            ValueKind::Map => value.try_iter()?.try_for_each(|key| {
                let entry = bytes(&key).saturating_add(bytes(&value.get_item(&key)?));
                self.make(entry)
            }),
            ValueKind::String => self.make(bytes(value)),
            _ => Ok(()),
        }
    }
}

/// Returns a value as Python's `str` writes it.
pub(super) fn display(state: &mut State<'_, '_>, value: &Value) -> Result<String, Error> {
    let budget = Budget::of(state);
    let text = python::display(value, budget.left())?;
    budget.make(text.len().saturating_add(ENTRY))?;
    Ok(text)
}

/// Adds the functions that templates are rewritten to call.
pub(super) fn install(environment: &mut Environment<'_>) {
    environment.add_function(TEXT, text);
    environment.add_function(COPIED, copied);
    environment.add_function(TIMES, times);
    environment.add_function(READ, read);
    environment.add_function(MADE, made);
    environment.add_function(STEPPED, stepped);
}

fn text(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        // Both operands stay while they are joined.
        Budget::of(state).make(text.len().saturating_add(ENTRY))?;
        return Ok(value);
    }
    display(state, &value).map(Value::from)
}

fn copied(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    Budget::of(state).make_value(&value)?;
    Ok(value)
}

fn read(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    Budget::of(state).visit(&value, 0)?;
    Ok(value)
}

fn made(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    let budget = Budget::of(state);
    // Lazy values hold others, which hold others; a list holds only its entries.
    let value = if value.kind() == ValueKind::Iterable { list(&value, 1, budget)? } else { value };
    budget.make_value(&value)?;
    if value.kind() != ValueKind::String {
        budget.visit(&value, 0)?;
    }
    Ok(value)
}

/// Returns the elements of `value`, `times` over, as a list.
pub(super) fn list(value: &Value, times: usize, budget: &mut Budget) -> Result<Value, Error> {
    let mut items = Vec::new();
    for _ in 0..times {
        let before = items.len();
        for item in value.try_iter()?.checked() {
            budget.make(ENTRY)?;
            items.push(item?);
        }
        if items.len() == before {
            break;
        }
    }
    Ok(Value::from(items))
}

fn times(state: &mut State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
    let is_many = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    let refused = || {
        let detail = format!("can't multiply {} and {}", left.kind(), right.kind());
        Error::new(ErrorKind::InvalidOperation, detail)
    };
    let budget = Budget::of(state);
    for (value, count) in [(&left, &right), (&right, &left)] {
        if value.as_str().is_none() && !is_many(value) {
            continue;
        }
        // As in Python, the result is empty for a count below 1.
        let count = i64::try_from(count.clone()).map_err(|_| refused())?;
        let count = usize::try_from(count).unwrap_or(0);
        let Some(text) = value.as_str() else { return list(value, count, budget) };
        budget.make(text.len().saturating_mul(count))?;
        return Ok(Value::from(text.repeat(count)));
    }
    let is_whole = |value: &Value| value.is_integer() || value.kind() == ValueKind::Bool;
    if is_whole(&left) && is_whole(&right) {
        let (a, b) = (i128::try_from(left.clone())?, i128::try_from(right.clone())?);
        let product = a.checked_mul(b).ok_or_else(refused)?;
        return Ok(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from));
    }
    let number = |value: &Value| f64::try_from(value.clone()).map_err(|_| refused());
    Ok(Value::from(number(&left)? * number(&right)?))
}
