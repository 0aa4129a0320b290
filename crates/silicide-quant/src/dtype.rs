//! Element types: plain ones, whose elements are numbers of their own, and block formats, whose elements are stored
//! many at a time. A type's block is the unit in which shapes become bytes; that of a plain type is one element.

use crate::Format;
use crate::turbo::TurboFormat;
use std::fmt;

/// How the elements of a buffer are stored: plain numbers, or blocks of quantized ones.
///
/// ```
/// # mod silicide { pub use silicide_quant::DType; pub use silicide_quant as quant; }
/// use silicide::DType;
/// use silicide::quant::Format;
///
/// assert_eq!(DType::from_name("q8_0"), Some(DType::Block(Format::Q8_0)));
/// assert_eq!(DType::Block(Format::Q8_0).block_len(), 32);
/// assert_eq!(DType::BF16.to_string(), "bf16");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an `F32`.
    BF16,
    /// IEEE double precision.
    F64,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Blocks of a format.
    Block(Format),
    /// Blocks of rotated heads of KV caches. Weights are never of this type.
    Turbo(TurboFormat),
}

impl DType {
    /// Every plain type, in declaration order; [`Format::ALL`] and [`TurboFormat::ALL`] have the others.
    pub const ALL: [DType; 12] = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
    ];

    /// Returns the bytes of the smallest piece that can be addressed: an element, or a block of a block format.
    pub const fn size(self) -> usize {
        match self {
            DType::I8 | DType::U8 => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::Block(format) => format.block_bytes(),
            DType::Turbo(format) => format.block_bytes(),
        }
    }

    /// Returns the elements of a block: 1 for plain types. The last axis of a tensor is a whole number of blocks.
    pub const fn block_len(self) -> usize {
        match self {
            DType::Block(format) => format.block_len(),
            DType::Turbo(format) => format.block_len(),
            _ => 1,
        }
    }

    /// Returns the bytes of a block, which for plain types are those of an element; the same as [`DType::size`].
    pub const fn block_bytes(self) -> usize {
        self.size()
    }

    /// Returns true for block formats: types of weights that are not plain.
    pub const fn is_block(self) -> bool {
        matches!(self, DType::Block(_))
    }

    /// Returns true for types whose elements are stored many at a time: block formats, and those of compressed KV caches.
    pub const fn is_compressed(self) -> bool {
        matches!(self, DType::Block(_) | DType::Turbo(_))
    }

    /// Returns the block format, if it is one.
    pub const fn format(self) -> Option<Format> {
        match self {
            DType::Block(format) => Some(format),
            _ => None,
        }
    }

    /// Returns the alignment, in bytes, that a view of this type must keep.
    pub const fn alignment(self) -> usize {
        match self {
            DType::Block(format) => format.info().alignment,
            DType::Turbo(format) => format.alignment(),
            plain => plain.size(),
        }
    }

    /// Returns a small number that identifies the type: its index in [`DType::ALL`], then the block formats, then
    /// those of KV caches.
    pub const fn code(self) -> u32 {
        match self {
            DType::F32 => 0,
            DType::F16 => 1,
            DType::BF16 => 2,
            DType::F64 => 3,
            DType::I8 => 4,
            DType::I16 => 5,
            DType::I32 => 6,
            DType::I64 => 7,
            DType::U8 => 8,
            DType::U16 => 9,
            DType::U32 => 10,
            DType::U64 => 11,
            DType::Block(format) => DType::ALL.len() as u32 + format as u32,
            DType::Turbo(format) => (DType::ALL.len() + Format::ALL.len() + format.number()) as u32,
        }
    }

    /// Returns the type with this [`DType::code`].
    #[inline]
    pub fn from_code(code: u32) -> Option<DType> {
        let code = code as usize;
        let block = || Format::ALL.get(code.checked_sub(DType::ALL.len())?).copied().map(DType::Block);
        let turbo = || TurboFormat::ALL.get(code.checked_sub(DType::ALL.len() + Format::ALL.len())?).copied();
        DType::ALL.get(code).copied().or_else(block).or_else(|| turbo().map(DType::Turbo))
    }

    /// Returns the type of a lower-case name.
    pub fn from_name(name: &str) -> Option<DType> {
        let plain = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
        let turbo = || TurboFormat::ALL.into_iter().find(|format| format.name() == name);
        plain.or_else(|| Format::from_name(name).map(DType::Block)).or_else(|| turbo().map(DType::Turbo))
    }

    /// Returns the short lower-case name used in messages, tables and files: `f32`, `bf16`, `u8`, `q4_k`...
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::Block(format) => format.name(),
            DType::Turbo(format) => format.name(),
        }
    }

    /// Returns true for the plain floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Format> for DType {
    fn from(format: Format) -> DType {
        DType::Block(format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_all_different() {
        let blocks = Format::ALL.into_iter().map(DType::Block).chain(TurboFormat::ALL.map(DType::Turbo));
        let all: Vec<DType> = DType::ALL.into_iter().chain(blocks).collect();
        for (i, dtype) in all.iter().enumerate() {
            assert_eq!(dtype.code() as usize, i, "{dtype}");
            assert_eq!(DType::from_name(dtype.name()), Some(*dtype));
            assert_eq!(DType::from_code(dtype.code()), Some(*dtype));
            assert_eq!(dtype.is_compressed(), dtype.block_len() > 1, "{dtype}");
            assert!(dtype.size().is_multiple_of(dtype.alignment()), "{dtype}");
        }
        assert_eq!(DType::from_name("f8"), None);
        assert_eq!(DType::from_code(all.len() as u32), None);
    }
}
