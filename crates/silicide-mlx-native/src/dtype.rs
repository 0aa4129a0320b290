//! Element types of buffers.

use std::fmt;

/// The element type of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an `F32`.
    BF16,
    /// Bytes; also the blocks of quantized weights.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
}

impl DType {
    /// Returns the bytes of an element.
    pub fn size_of(self) -> usize {
        match self {
            DType::U8 => 1,
            DType::F16 | DType::BF16 | DType::U16 => 2,
            DType::F32 | DType::U32 | DType::I32 => 4,
        }
    }

    /// Returns the name in lower case: `f32`.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::I32 => "i32",
        }
    }

    /// The same type of silicide.
    pub(crate) fn silicide(self) -> silicide::DType {
        match self {
            DType::F32 => silicide::DType::F32,
            DType::F16 => silicide::DType::F16,
            DType::BF16 => silicide::DType::BF16,
            DType::U8 => silicide::DType::U8,
            DType::U16 => silicide::DType::U16,
            DType::U32 => silicide::DType::U32,
            DType::I32 => silicide::DType::I32,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
