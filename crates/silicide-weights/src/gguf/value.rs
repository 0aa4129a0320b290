//! Metadata values: read in place, on access. Opening a file has checked that they are there.

use super::Kind;
use crate::cursor::{At, Cursor};
use crate::error::Fault;
use crate::limits;
use std::fmt::{self, Write};

/// A metadata value with its exact type. Texts and arrays borrow from the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Unsigned 8-bit integer.
    U8(u8),
    /// Signed 8-bit integer.
    I8(i8),
    /// Unsigned 16-bit integer.
    U16(u16),
    /// Signed 16-bit integer.
    I16(i16),
    /// Unsigned 32-bit integer.
    U32(u32),
    /// Signed 32-bit integer.
    I32(i32),
    /// Single precision.
    F32(f32),
    /// Boolean.
    Bool(bool),
    /// Text.
    String(Text<'a>),
    /// A list of values of one type.
    Array(Array<'a>),
    /// Unsigned 64-bit integer.
    U64(u64),
    /// Signed 64-bit integer.
    I64(i64),
    /// Double precision.
    F64(f64),
}

/// Text as it is in the file: meant to be UTF-8, not checked. Tokens of a vocabulary need not be UTF-8.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(pub &'a [u8]);

/// A list of values of one type, read element by element.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    kind: Kind,
    length: u64,
    /// At the first element.
    cursor: Cursor<'a>,
}

impl<'a> Value<'a> {
    /// Returns the value's exact type.
    pub fn kind(&self) -> Kind {
        match self {
            Value::U8(_) => Kind::U8,
            Value::I8(_) => Kind::I8,
            Value::U16(_) => Kind::U16,
            Value::I16(_) => Kind::I16,
            Value::U32(_) => Kind::U32,
            Value::I32(_) => Kind::I32,
            Value::F32(_) => Kind::F32,
            Value::Bool(_) => Kind::Bool,
            Value::String(_) => Kind::String,
            Value::Array(_) => Kind::Array,
            Value::U64(_) => Kind::U64,
            Value::I64(_) => Kind::I64,
            Value::F64(_) => Kind::F64,
        }
    }

    /// Returns the value as an integer, whatever its width.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::I8(x) => Some(x.into()),
            Value::I16(x) => Some(x.into()),
            Value::I32(x) => Some(x.into()),
            Value::I64(x) => Some(x),
            _ => self.as_u64().and_then(|x| i64::try_from(x).ok()),
        }
    }

    /// Returns the value as a non-negative integer, whatever its width.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(x) => Some(x.into()),
            Value::U16(x) => Some(x.into()),
            Value::U32(x) => Some(x.into()),
            Value::U64(x) => Some(x),
            Value::I8(x) => u64::try_from(x).ok(),
            Value::I16(x) => u64::try_from(x).ok(),
            Value::I32(x) => u64::try_from(x).ok(),
            Value::I64(x) => u64::try_from(x).ok(),
            _ => None,
        }
    }

    /// Returns the value as a number; 64-bit integers are rounded.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(x) => Some(x.into()),
            Value::F64(x) => Some(x),
            Value::U64(x) => Some(x as f64),
            _ => self.as_i64().map(|x| x as f64),
        }
    }

    /// Returns the value as a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = *self { Some(value) } else { None }
    }

    /// Returns the value as text that is UTF-8.
    pub fn as_str(&self) -> Option<&'a str> {
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Returns the value as text, whatever its bytes.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        if let Value::String(Text(bytes)) = *self { Some(bytes) } else { None }
    }

    /// Returns the value as a list.
    pub fn as_array(&self) -> Option<Array<'a>> {
        if let Value::Array(array) = *self { Some(array) } else { None }
    }

    /// Reads a value. Of an array only the head is read.
    pub(crate) fn read(cursor: &mut Cursor<'a>, kind: Kind) -> At<Value<'a>> {
        let what = "a metadata value";
        Ok(match kind {
            Kind::U8 => Value::U8(cursor.u8(what)?),
            Kind::I8 => Value::I8(cursor.u8(what)? as i8),
            Kind::U16 => Value::U16(cursor.u16(what)?),
            Kind::I16 => Value::I16(cursor.u16(what)? as i16),
            Kind::U32 => Value::U32(cursor.u32(what)?),
            Kind::I32 => Value::I32(cursor.u32(what)? as i32),
            Kind::U64 => Value::U64(cursor.u64(what)?),
            Kind::I64 => Value::I64(cursor.u64(what)? as i64),
            Kind::F32 => Value::F32(f32::from_bits(cursor.u32(what)?)),
            Kind::F64 => Value::F64(f64::from_bits(cursor.u64(what)?)),
            Kind::Bool => Value::Bool(boolean(cursor)?),
            Kind::String => Value::String(Text(cursor.text("a string", limits::STRING_BYTES)?)),
            Kind::Array => Value::Array(Array::read(cursor)?),
        })
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl<'a> Array<'a> {
    /// Returns the type of the elements.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        // No more than the bytes of the file.
        self.length as usize
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let Array { kind, length, mut cursor } = *self;
        (0..length).map_while(move |_| {
            let mut head = cursor;
            step(&mut cursor, kind, 2).ok()?;
            Value::read(&mut head, kind).ok()
        })
    }

    fn read(cursor: &mut Cursor<'a>) -> At<Array<'a>> {
        let kind = Kind::read(cursor)?;
        let length = cursor.count("an array's length", u64::MAX, kind.least_bytes())?;
        Ok(Array { kind, length, cursor: *cursor })
    }
}

impl PartialEq for Array<'_> {
    fn eq(&self, other: &Array<'_>) -> bool {
        self.kind == other.kind && self.length == other.length && self.iter().eq(other.iter())
    }
}

fn boolean(cursor: &mut Cursor<'_>) -> At<bool> {
    let start = *cursor;
    match cursor.u8("a boolean")? {
        0 => Ok(false),
        1 => Ok(true),
        got => start.fault(Fault::Boolean { got }),
    }
}

/// Steps over a value, checking everything but the characters of texts. `depth` counts the arrays around and
/// including it.
pub(super) fn step(cursor: &mut Cursor<'_>, kind: Kind, depth: u32) -> At<()> {
    match kind {
        Kind::String => cursor.text("a string", limits::STRING_BYTES).map(|_| ()),
        Kind::Bool => boolean(cursor).map(|_| ()),
        Kind::Array => {
            if depth > limits::NESTING {
                return cursor.fault(Fault::Nesting { limit: limits::NESTING });
            }
            let Array { kind, length, .. } = Array::read(cursor)?;
            if matches!(kind, Kind::String | Kind::Bool | Kind::Array) {
                return (0..length).try_for_each(|_| step(cursor, kind, depth.saturating_add(1)));
            }
            cursor.take(length.saturating_mul(kind.least_bytes()), "an array").map(|_| ())
        }
        plain => cursor.take(plain.least_bytes(), "a metadata value").map(|_| ()),
    }
}
