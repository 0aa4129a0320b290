//! The header of a GGUF file: metadata and tensors, under limits that are checked before memory is taken.

use super::types::{GgmlType, test_only_compute_byte_len};
use crate::error::{MlxError, Result};
use std::collections::HashMap;
use std::io::Read;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum MetadataValue {
    Uint8(u8),
    Int8(i8),
    Uint16(u16),
    Int16(i16),
    Uint32(u32),
    Int32(i32),
    Float32(f32),
    Bool(bool),
    String(String),
    Array(Vec<MetadataValue>),
    Uint64(u64),
    Int64(i64),
    Float64(f64),
}

impl MetadataValue {
    /// Returns the text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            MetadataValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns an unsigned integer of up to 32 bits, or an `i32` that is not negative.
    pub fn as_u32(&self) -> Option<u32> {
        match *self {
            MetadataValue::Uint8(value) => Some(value.into()),
            MetadataValue::Uint16(value) => Some(value.into()),
            MetadataValue::Uint32(value) => Some(value),
            MetadataValue::Int32(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// Returns a float, rounded to an `f32`.
    pub fn as_f32(&self) -> Option<f32> {
        match *self {
            MetadataValue::Float32(value) => Some(value),
            MetadataValue::Float64(value) => Some(value as f32),
            _ => None,
        }
    }
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its extents, outermost first.
    pub shape: Vec<usize>,
    /// Its element type.
    pub ggml_type: GgmlType,
    /// Its first byte, from [`GgufFile::tensor_data_offset`](super::GgufFile::tensor_data_offset) on.
    pub offset: u64,
    /// Its bytes.
    pub byte_len: usize,
}

/// The most that a header may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgufHeaderLimits {
    /// Bytes of the header.
    pub max_read_bytes: u64,
    /// Bytes of memory for its values.
    pub max_declared_allocation_bytes: u64,
    /// Keys.
    pub max_metadata_entries: u64,
    /// Tensors.
    pub max_tensors: u64,
    /// Bytes of a text.
    pub max_string_bytes: u64,
    /// Elements of all arrays.
    pub max_total_array_elements: u64,
    /// Arrays within arrays.
    pub max_nesting_depth: u32,
}

impl Default for GgufHeaderLimits {
    fn default() -> GgufHeaderLimits {
        GgufHeaderLimits {
            max_read_bytes: 1 << 32,
            max_declared_allocation_bytes: 1 << 32,
            max_metadata_entries: 1_000_000,
            max_tensors: 100_000,
            max_string_bytes: 256 << 20,
            max_total_array_elements: 64 << 20,
            max_nesting_depth: 64,
        }
    }
}

/// The most axes of a tensor.
const AXES: u32 = 8;

/// The head of a file.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub(super) metadata: HashMap<String, MetadataValue>,
    pub(super) tensors: HashMap<String, TensorInfo>,
    pub(super) data: u64,
}

fn malformed(text: impl Into<String>) -> MlxError {
    MlxError::GgufParseError(text.into())
}

struct HeaderReader<R> {
    from: R,
    read: u64,
    allocated: u64,
    elements: u64,
    limits: GgufHeaderLimits,
}

/// Declares readers of numbers.
macro_rules! numbers {
    ($($name:ident -> $type:ty;)*) => {$(
        fn $name(&mut self) -> Result<$type> {
            let mut bytes = [0; size_of::<$type>()];
            self.fill(&mut bytes)?;
            Ok(<$type>::from_le_bytes(bytes))
        }
    )*};
}

impl<R: Read> HeaderReader<R> {
    numbers! {
        u8 -> u8; i8 -> i8; u16 -> u16; i16 -> i16; u32 -> u32; i32 -> i32; f32 -> f32; u64 -> u64; i64 -> i64; f64 -> f64;
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.read = self.read.saturating_add(bytes.len() as u64);
        if self.read > self.limits.max_read_bytes {
            return Err(malformed(format!("the header exceeds {} bytes", self.limits.max_read_bytes)));
        }
        self.from.read_exact(bytes).map_err(|error| malformed(format!("the header ends early: {error}")))
    }

    fn charge(&mut self, bytes: u64) -> Result<()> {
        self.allocated = self.allocated.saturating_add(bytes);
        if self.allocated > self.limits.max_declared_allocation_bytes {
            let limit = self.limits.max_declared_allocation_bytes;
            return Err(malformed(format!("the header needs more than {limit} bytes of memory")));
        }
        Ok(())
    }

    fn text(&mut self) -> Result<String> {
        let length = self.u64()?;
        if length > self.limits.max_string_bytes {
            return Err(malformed(format!("a text of {length} bytes")));
        }
        self.charge(length)?;
        // Bytes are read piece by piece: a length that the file does not have takes no memory.
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let piece = (length - bytes.len() as u64).min(64 << 10) as usize;
            let start = bytes.len();
            bytes.resize(start + piece, 0);
            self.fill(&mut bytes[start..])?;
        }
        String::from_utf8(bytes).map_err(|_| malformed("a text is not UTF-8"))
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<MetadataValue> {
        Ok(match kind {
            0 => MetadataValue::Uint8(self.u8()?),
            1 => MetadataValue::Int8(self.i8()?),
            2 => MetadataValue::Uint16(self.u16()?),
            3 => MetadataValue::Int16(self.i16()?),
            4 => MetadataValue::Uint32(self.u32()?),
            5 => MetadataValue::Int32(self.i32()?),
            6 => MetadataValue::Float32(self.f32()?),
            7 => MetadataValue::Bool(self.u8()? != 0),
            8 => MetadataValue::String(self.text()?),
            9 => self.array(depth)?,
            10 => MetadataValue::Uint64(self.u64()?),
            11 => MetadataValue::Int64(self.i64()?),
            12 => MetadataValue::Float64(self.f64()?),
            other => return Err(malformed(format!("unknown metadata type {other}"))),
        })
    }

    fn array(&mut self, depth: u32) -> Result<MetadataValue> {
        if depth >= self.limits.max_nesting_depth.min(64) {
            return Err(malformed("arrays are nested too deeply"));
        }
        let (kind, count) = (self.u32()?, self.u64()?);
        self.elements = self.elements.saturating_add(count);
        if self.elements > self.limits.max_total_array_elements {
            return Err(malformed(format!("an array of {count} elements")));
        }
        self.charge(count.saturating_mul(size_of::<MetadataValue>() as u64))?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(kind, depth + 1)?);
        }
        Ok(MetadataValue::Array(values))
    }

    fn tensor(&mut self) -> Result<TensorInfo> {
        let name = self.text()?;
        let axes = self.u32()?;
        if axes > AXES {
            return Err(malformed(format!("tensor {name:?} has {axes} axes")));
        }
        let mut shape = Vec::new();
        for _ in 0..axes {
            let extent = usize::try_from(self.u64()?);
            shape.push(extent.map_err(|_| malformed(format!("an extent of tensor {name:?} is too large")))?);
        }
        shape.reverse();
        let ggml_type = GgmlType::from_number(self.u32()?)?;
        let offset = self.u64()?;
        let byte_len = test_only_compute_byte_len(&shape, ggml_type).map_err(|_| {
            malformed(format!("tensor {name:?}: {shape:?} has no whole blocks of {ggml_type:?}"))
        })?;
        Ok(TensorInfo { name, shape, ggml_type, offset, byte_len })
    }
}

/// Reads the header of a file.
pub(super) fn read(from: impl Read, limits: GgufHeaderLimits) -> Result<Header> {
    let mut reader = HeaderReader { from, read: 0, allocated: 0, elements: 0, limits };
    let mut magic = [0; 4];
    reader.fill(&mut magic)?;
    if &magic != b"GGUF" {
        return Err(malformed("the file does not begin with GGUF"));
    }
    let version = reader.u32()?;
    if version != 3 {
        return Err(malformed(format!("unsupported version {version}")));
    }
    let (tensors, entries) = (reader.u64()?, reader.u64()?);
    if tensors > limits.max_tensors || entries > limits.max_metadata_entries {
        return Err(malformed(format!("{tensors} tensors and {entries} metadata entries")));
    }
    let mut header = Header::default();
    for _ in 0..entries {
        let key = reader.text()?;
        let kind = reader.u32()?;
        let value = reader.value(kind, 0)?;
        header.metadata.insert(key, value);
    }
    for _ in 0..tensors {
        let tensor = reader.tensor()?;
        if let Some(tensor) = header.tensors.insert(tensor.name.clone(), tensor) {
            return Err(malformed(format!("duplicate tensor name {:?}", tensor.name)));
        }
    }
    let alignment = match header.metadata.get("general.alignment") {
        None => 32,
        Some(value) => value.as_u32().filter(|alignment| alignment.is_power_of_two()).unwrap_or(0),
    };
    if alignment == 0 {
        return Err(malformed("general.alignment is not a power of two"));
    }
    header.data = reader.read.next_multiple_of(alignment.into());
    Ok(header)
}
