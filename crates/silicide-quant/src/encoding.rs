//! Encodings of weights: how the elements of a matrix lie in memory, and which planes it has.

use crate::{DType, Format, MlxFormat, Shape, ShapeError};
use std::fmt;

/// The most planes that an encoding has.
pub const MAX_PLANES: usize = 3;

/// How the elements of a weight lie in memory. The type and the shape of each plane follow from it and the weight's shape.
///
/// ```
/// # mod silicide { pub use silicide_quant::*; pub use silicide_quant as quant; }
/// use silicide::quant::{Encoding, Format};
/// use silicide::{DType, Shape};
///
/// let encoding = Encoding::from(DType::Block(Format::Q8_0));
/// assert_eq!(encoding.bytes(&Shape::new(&[4, 64])?)?, 4 * 2 * 34);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Single elements of a plain type.
    Element(DType),
    /// Blocks of a format, each with its scales.
    Block(Format),
    /// Codes, scales and, in the affine mode, biases in planes of their own.
    Planes(MlxFormat),
    /// Another encoding, with the rows of a matrix interleaved for vectors of a CPU: `rows` of them at a time. A matrix is whole sets of them; one
    /// of single elements may have fewer rows after the last set, which lie in place, one after the other.
    Interleaved {
        /// The encoding of one row.
        of: RowEncoding,
        /// Rows side by side.
        rows: usize,
    },
}

/// An encoding whose rows lie one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RowEncoding {
    /// Single elements of a plain type.
    Element(DType),
    /// Blocks of a format.
    Block(Format),
    /// Codes, scales and perhaps biases in planes of their own.
    Planes(MlxFormat),
}

/// The type and the shape of a plane, as a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plane {
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
}

/// Why planes are not those of a weight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// Another number of planes than the encoding has.
    #[error("{encoding} has {expected} planes, got {got}")]
    Count {
        /// The encoding.
        encoding: Encoding,
        /// Its planes.
        expected: usize,
        /// Planes given.
        got: usize,
    },
    /// A plane of another type.
    #[error("{plane} of {encoding}: expected {expected}, got {got}")]
    Type {
        /// The encoding.
        encoding: Encoding,
        /// The plane.
        plane: &'static str,
        /// Its type.
        expected: DType,
        /// The type given.
        got: DType,
    },
    /// A plane, or a whole weight, of another shape.
    #[error("{plane} of {encoding}: expected {expected}, got {got}")]
    Shape {
        /// The encoding.
        encoding: Encoding,
        /// The plane, or "weight".
        plane: &'static str,
        /// What would do.
        expected: String,
        /// The shape given.
        got: Shape,
    },
    /// A shape that no tensor has.
    #[error(transparent)]
    Extent(#[from] ShapeError),
}

impl From<DType> for RowEncoding {
    #[inline]
    fn from(dtype: DType) -> RowEncoding {
        dtype.format().map_or(RowEncoding::Element(dtype), RowEncoding::Block)
    }
}

impl From<Format> for RowEncoding {
    fn from(format: Format) -> RowEncoding {
        RowEncoding::Block(format)
    }
}

impl From<DType> for Encoding {
    fn from(dtype: DType) -> Encoding {
        RowEncoding::from(dtype).into()
    }
}

impl From<RowEncoding> for Encoding {
    fn from(rows: RowEncoding) -> Encoding {
        match rows {
            RowEncoding::Element(dtype) => Encoding::Element(dtype),
            RowEncoding::Block(format) => Encoding::Block(format),
            RowEncoding::Planes(format) => Encoding::Planes(format),
        }
    }
}

impl RowEncoding {
    /// Elements of a group, which share a scale or an address; a row is whole groups.
    pub const fn group_len(self) -> usize {
        match self {
            RowEncoding::Element(_) => 1,
            RowEncoding::Block(format) => format.block_len(),
            RowEncoding::Planes(format) => format.group(),
        }
    }

    /// The names of the planes, in order.
    const fn plane_names(self) -> &'static [&'static str] {
        match self {
            RowEncoding::Planes(format) if format.has_biases() => &["packed", "scales", "biases"],
            RowEncoding::Planes(_) => &["packed", "scales"],
            _ => &["weight"],
        }
    }

    /// The type of a plane.
    const fn plane_dtype(self, index: usize) -> DType {
        match self {
            RowEncoding::Element(dtype) => dtype,
            RowEncoding::Block(format) => DType::Block(format),
            RowEncoding::Planes(_) if index == 0 => DType::U32,
            RowEncoding::Planes(format) => format.scale_dtype(),
        }
    }

    /// Elements that a row of `k` has in a plane; `k` is whole groups.
    const fn plane_last(self, index: usize, k: usize) -> usize {
        match self {
            RowEncoding::Planes(format) if index == 0 => k / 32 * format.bits() + k % 32 * format.bits() / 32,
            RowEncoding::Planes(format) => k / format.group(),
            _ => k,
        }
    }
}

impl Encoding {
    /// The encoding of the rows, interleaved or not.
    pub const fn of(self) -> RowEncoding {
        match self {
            Encoding::Element(dtype) => RowEncoding::Element(dtype),
            Encoding::Block(format) => RowEncoding::Block(format),
            Encoding::Planes(format) => RowEncoding::Planes(format),
            Encoding::Interleaved { of, .. } => of,
        }
    }

    /// Rows that are interleaved: 1 where none are.
    pub const fn interleaved_rows(self) -> usize {
        if let Encoding::Interleaved { rows, .. } = self { rows } else { 1 }
    }

    /// Whether a matrix can have `n` rows: any number of single elements, whole sets of rows that are interleaved of all others.
    pub const fn takes_rows(self, n: usize) -> bool {
        matches!(self.of(), RowEncoding::Element(_)) || n.is_multiple_of(self.interleaved_rows())
    }

    /// The names of the planes, in the order in which ops take them.
    pub const fn plane_names(self) -> &'static [&'static str] {
        self.of().plane_names()
    }

    /// The number of planes.
    pub const fn planes(self) -> usize {
        self.plane_names().len()
    }

    /// Elements of a group, which share a scale or an address; a row is whole groups.
    pub const fn group_len(self) -> usize {
        self.of().group_len()
    }

    /// The type of a tensor that is the whole weight: elements or blocks, not interleaved.
    pub const fn dtype(self) -> Option<DType> {
        match self {
            Encoding::Element(dtype) => Some(dtype),
            Encoding::Block(format) => Some(DType::Block(format)),
            _ => None,
        }
    }

    /// Returns plane `index` of a weight of `shape`, `[..., n, k]`.
    pub fn plane(self, index: usize, shape: &Shape) -> Result<Plane, EncodingError> {
        let count = self.planes();
        if index >= count {
            return Err(EncodingError::Count { encoding: self, expected: count, got: index + 1 });
        }
        self.check(shape)?;
        let (of, k) = (self.of(), shape.last());
        let (dtype, last) = (of.plane_dtype(index), of.plane_last(index, k));
        if self.interleaved_rows() == 1 {
            return Ok(Plane { dtype, shape: shape.with_last(last)? });
        }
        let bytes = Shape::new(&[last])?.bytes(dtype)?;
        Ok(Plane { dtype: DType::U8, shape: shape.with_last(bytes)? })
    }

    /// Bytes of a weight of `shape`, all planes together.
    pub fn bytes(self, shape: &Shape) -> Result<usize, EncodingError> {
        let mut all = 0usize;
        for index in 0..self.planes() {
            let plane = self.plane(index, shape)?;
            all = all.checked_add(plane.shape.bytes(plane.dtype)?).ok_or(ShapeError::Overflow)?;
        }
        Ok(all)
    }

    /// Returns the shape of the weight whose planes these are, or the first plane that is not one of it.
    pub fn shape(self, planes: &[Plane]) -> Result<Shape, EncodingError> {
        let Some(first) = planes.first().filter(|_| planes.len() == self.planes()) else {
            return Err(EncodingError::Count { encoding: self, expected: self.planes(), got: planes.len() });
        };
        let (of, last) = (self.of(), first.shape.last());
        // The depth that the first plane's rows have; that they are whole groups is checked with all planes below.
        let k = match (of, self.interleaved_rows()) {
            (RowEncoding::Planes(format), 1) => last.saturating_mul(32) / format.bits(),
            (RowEncoding::Planes(format), _) => last.saturating_mul(8) / format.bits(),
            (_, 1) => last,
            (_, _) => last / of.plane_dtype(0).block_bytes() * of.group_len(),
        };
        let shape = first.shape.with_last(k)?;
        for (index, (plane, name)) in planes.iter().zip(self.plane_names()).enumerate() {
            let expected = self.plane(index, &shape)?;
            if plane.dtype != expected.dtype {
                return Err(EncodingError::Type {
                    encoding: self,
                    plane: name,
                    expected: expected.dtype,
                    got: plane.dtype,
                });
            }
            if plane.shape != expected.shape {
                let expected = format!("{} for a weight {shape}", expected.shape);
                return Err(EncodingError::Shape { encoding: self, plane: name, expected, got: plane.shape });
            }
        }
        Ok(shape)
    }

    /// Checks that a weight can have this shape: `[..., n, k]`, no axis of length zero, whole groups, whole sets of rows.
    pub fn check(self, shape: &Shape) -> Result<(), EncodingError> {
        let (group, rows) = (self.group_len(), self.interleaved_rows());
        let n = shape.axes().iter().rev().nth(1).copied().unwrap_or(1);
        let is_matrix = shape.rank() >= 2 || (rows == 1 && shape.rank() == 1);
        if is_matrix && shape.elements() > 0 && shape.last().is_multiple_of(group) && self.takes_rows(n) {
            return Ok(());
        }
        let mut expected = "[..., n, k], no axis of length zero".to_owned();
        if group > 1 {
            expected += &format!(", k a multiple of {group}");
        }
        if rows > 1 && !self.takes_rows(1) {
            expected += &format!(", n a multiple of {rows}");
        }
        Err(EncodingError::Shape { encoding: self, plane: "weight", expected, got: *shape })
    }
}

impl fmt::Display for RowEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowEncoding::Element(dtype) => dtype.fmt(f),
            RowEncoding::Block(format) => format.fmt(f),
            RowEncoding::Planes(format) => format.fmt(f),
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Encoding::Interleaved { of, rows } => write!(f, "{of} interleaved x{rows}"),
            other => other.of().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
