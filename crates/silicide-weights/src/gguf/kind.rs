//! The types of metadata values.

use crate::cursor::{At, Cursor};
use crate::error::Fault;

/// The type of a metadata value, with the numbers that files use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Unsigned 8-bit integer.
    U8 = 0,
    /// Signed 8-bit integer.
    I8 = 1,
    /// Unsigned 16-bit integer.
    U16 = 2,
    /// Signed 16-bit integer.
    I16 = 3,
    /// Unsigned 32-bit integer.
    U32 = 4,
    /// Signed 32-bit integer.
    I32 = 5,
    /// Single precision.
    F32 = 6,
    /// Boolean.
    Bool = 7,
    /// Text.
    String = 8,
    /// A list of values of one type.
    Array = 9,
    /// Unsigned 64-bit integer.
    U64 = 10,
    /// Signed 64-bit integer.
    I64 = 11,
    /// Double precision.
    F64 = 12,
}

impl Kind {
    /// Every type, in the order of their numbers.
    pub const ALL: [Kind; 13] = [
        Kind::U8,
        Kind::I8,
        Kind::U16,
        Kind::I16,
        Kind::U32,
        Kind::I32,
        Kind::F32,
        Kind::Bool,
        Kind::String,
        Kind::Array,
        Kind::U64,
        Kind::I64,
        Kind::F64,
    ];

    /// Returns the lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::U8 => "u8",
            Kind::I8 => "i8",
            Kind::U16 => "u16",
            Kind::I16 => "i16",
            Kind::U32 => "u32",
            Kind::I32 => "i32",
            Kind::F32 => "f32",
            Kind::Bool => "bool",
            Kind::String => "string",
            Kind::Array => "array",
            Kind::U64 => "u64",
            Kind::I64 => "i64",
            Kind::F64 => "f64",
        }
    }

    pub(super) fn read(cursor: &mut Cursor<'_>) -> At<Kind> {
        let start = *cursor;
        let got = cursor.u32("a metadata type")?;
        match Kind::ALL.get(got as usize) {
            Some(kind) => Ok(*kind),
            None => start.fault(Fault::MetadataType { got }),
        }
    }

    /// Returns the bytes of a value, for types of one size; otherwise the fewest that a value can take.
    pub(super) fn least_bytes(self) -> u64 {
        match self {
            Kind::U8 | Kind::I8 | Kind::Bool => 1,
            Kind::U16 | Kind::I16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 | Kind::String => 8,
            // Its type and its length.
            Kind::Array => 12,
        }
    }
}
