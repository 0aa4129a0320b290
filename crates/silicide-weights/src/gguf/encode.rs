//! Metadata values to write: Rust's own, and values read from another file. Always little-endian.

use super::kind::Kind;
use super::value::{Text, Value};

/// What can be a metadata value.
pub trait Encode {
    /// Its type.
    const KIND: Kind;

    /// Appends its bytes.
    fn encode(&self, to: &mut Vec<u8>);
}

macro_rules! encode_numbers {
    ($($type:ty => $kind:ident),*) => {
        $(impl Encode for $type {
            const KIND: Kind = Kind::$kind;

            fn encode(&self, to: &mut Vec<u8>) {
                to.extend(self.to_le_bytes());
            }
        })*
    };
}

encode_numbers!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, f32 => F32);
encode_numbers!(u64 => U64, i64 => I64, f64 => F64);

impl Encode for bool {
    const KIND: Kind = Kind::Bool;

    fn encode(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }
}

impl Encode for Text<'_> {
    const KIND: Kind = Kind::String;

    fn encode(&self, to: &mut Vec<u8>) {
        (self.0.len() as u64).encode(to);
        to.extend(self.0);
    }
}

impl Encode for str {
    const KIND: Kind = Kind::String;

    fn encode(&self, to: &mut Vec<u8>) {
        Text(self.as_bytes()).encode(to);
    }
}

impl Encode for String {
    const KIND: Kind = Kind::String;

    fn encode(&self, to: &mut Vec<u8>) {
        self.as_str().encode(to);
    }
}

impl<T: Encode> Encode for [T] {
    const KIND: Kind = Kind::Array;

    fn encode(&self, to: &mut Vec<u8>) {
        array_head(T::KIND, self.len(), to);
        self.iter().for_each(|element| element.encode(to));
    }
}

impl<T: Encode> Encode for Vec<T> {
    const KIND: Kind = Kind::Array;

    fn encode(&self, to: &mut Vec<u8>) {
        self.as_slice().encode(to);
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    const KIND: Kind = T::KIND;

    fn encode(&self, to: &mut Vec<u8>) {
        T::encode(self, to);
    }
}

/// Appends the bytes of a value that was read.
pub(super) fn encode_value(value: &Value<'_>, to: &mut Vec<u8>) {
    match value {
        Value::U8(x) => x.encode(to),
        Value::I8(x) => x.encode(to),
        Value::U16(x) => x.encode(to),
        Value::I16(x) => x.encode(to),
        Value::U32(x) => x.encode(to),
        Value::I32(x) => x.encode(to),
        Value::F32(x) => x.encode(to),
        Value::Bool(x) => x.encode(to),
        Value::String(x) => x.encode(to),
        Value::Array(array) => {
            array_head(array.kind(), array.len(), to);
            array.iter().for_each(|element| encode_value(&element, to));
        }
        Value::U64(x) => x.encode(to),
        Value::I64(x) => x.encode(to),
        Value::F64(x) => x.encode(to),
    }
}

fn array_head(kind: Kind, length: usize, to: &mut Vec<u8>) {
    (kind as u32).encode(to);
    (length as u64).encode(to);
}
