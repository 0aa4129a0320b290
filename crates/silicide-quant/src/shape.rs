//! Shapes: the extents of a dense row-major tensor, last axis fastest.
//!
//! A `Shape` is a plain `Copy` value that never allocates, so that recording a command does not either.

use crate::DType;
use std::fmt;

/// The most axes a shape can have.
pub const MAX_RANK: usize = 6;

/// Extents of a dense row-major tensor. The empty shape is a scalar (one element).
///
/// ```
/// # mod silicide { pub use silicide_quant::*; }
/// use silicide::{DType, Shape};
///
/// let shape = Shape::new(&[2, 3, 64])?;
/// assert_eq!((shape.elements(), shape.rows(), shape.last()), (384, 6, 64));
/// assert_eq!(shape.bytes(DType::F16)?, 768);
/// # Ok::<(), silicide_quant::ShapeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Axes past `rank` are 1, so that equality and hashing see only what counts.
    axes: [usize; MAX_RANK],
    rank: u8,
}

/// Why a list of extents is not a shape, or a shape not a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// More axes than [`MAX_RANK`].
    Rank {
        /// The number of axes asked for.
        got: usize,
    },
    /// The number of elements or bytes does not fit in `usize`.
    Overflow,
    /// The last axis is not a whole number of blocks of the type.
    PartialBlock {
        /// The last extent.
        extent: usize,
        /// The type.
        dtype: DType,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::Rank { got } => write!(f, "a shape has at most {MAX_RANK} axes, got {got}"),
            ShapeError::Overflow => f.write_str("the number of elements does not fit in the address space"),
            ShapeError::PartialBlock { extent, dtype } => {
                let block_len = dtype.block_len();
                write!(
                    f,
                    "{extent} elements are not a whole number of {dtype} blocks of {block_len} elements"
                )
            }
        }
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// The shape of a single number.
    pub const SCALAR: Shape = Shape { axes: [1; MAX_RANK], rank: 0 };

    /// Returns a shape from its extents; refuses more than [`MAX_RANK`] axes and element counts that overflow.
    pub fn new(extents: &[usize]) -> Result<Shape, ShapeError> {
        if extents.len() > MAX_RANK {
            return Err(ShapeError::Rank { got: extents.len() });
        }
        let mut axes = [1; MAX_RANK];
        let mut elements = 1usize;
        for (axis, &extent) in axes.iter_mut().zip(extents) {
            *axis = extent;
            // A zero extent must not hide an overflow among the others.
            elements = elements.checked_mul(extent.max(1)).ok_or(ShapeError::Overflow)?;
        }
        Ok(Shape { axes, rank: extents.len() as u8 })
    }

    /// Returns the extents, outermost first.
    pub fn axes(&self) -> &[usize] {
        self.axes.get(..self.rank as usize).unwrap_or(&[])
    }

    /// Returns the number of axes.
    pub const fn rank(&self) -> usize {
        self.rank as usize
    }

    /// Returns the number of elements; cannot overflow, as `new` checked it.
    pub fn elements(&self) -> usize {
        self.axes().iter().product()
    }

    /// Returns the extent of the last axis; 1 for a scalar.
    pub fn last(&self) -> usize {
        self.axes().last().copied().unwrap_or(1)
    }

    /// Returns the number of rows: elements divided by the last extent.
    pub fn rows(&self) -> usize {
        let last = self.last();
        self.elements().checked_div(last).unwrap_or(0)
    }

    /// Returns the bytes of a dense tensor of this shape, whose rows must be whole numbers of blocks.
    pub fn bytes(&self, dtype: DType) -> Result<usize, ShapeError> {
        let (extent, block_len) = (self.last(), dtype.block_len());
        if !extent.is_multiple_of(block_len) {
            return Err(ShapeError::PartialBlock { extent, dtype });
        }
        (self.elements() / block_len).checked_mul(dtype.block_bytes()).ok_or(ShapeError::Overflow)
    }

    /// Returns the same shape with another last extent. A scalar becomes a vector.
    pub fn with_last(&self, extent: usize) -> Result<Shape, ShapeError> {
        let (mut axes, rank) = (self.axes, self.rank().max(1));
        if let Some(last) = axes.get_mut(rank - 1) {
            *last = extent;
        }
        Shape::new(axes.get(..rank).unwrap_or(&[]))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.axes())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.axes())
    }
}

impl TryFrom<&[usize]> for Shape {
    type Error = ShapeError;
    fn try_from(extents: &[usize]) -> Result<Shape, ShapeError> {
        Shape::new(extents)
    }
}

impl<const N: usize> TryFrom<[usize; N]> for Shape {
    type Error = ShapeError;
    fn try_from(extents: [usize; N]) -> Result<Shape, ShapeError> {
        Shape::new(&extents)
    }
}

impl<const N: usize> TryFrom<&[usize; N]> for Shape {
    type Error = ShapeError;
    fn try_from(extents: &[usize; N]) -> Result<Shape, ShapeError> {
        Shape::new(extents)
    }
}

impl TryFrom<usize> for Shape {
    type Error = ShapeError;
    fn try_from(extent: usize) -> Result<Shape, ShapeError> {
        Shape::new(&[extent])
    }
}

// `Shape: TryFrom<Shape>` comes from the blanket conversion with `Infallible`; this lets `?` work there too.
impl From<std::convert::Infallible> for ShapeError {
    fn from(never: std::convert::Infallible) -> ShapeError {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_elements_rows_and_bytes() {
        let shape = Shape::new(&[2, 3, 4]).unwrap();
        assert_eq!((shape.elements(), shape.rows(), shape.last(), shape.rank()), (24, 6, 4, 3));
        assert_eq!(shape.bytes(DType::F16), Ok(48));
        assert_eq!((Shape::SCALAR.elements(), Shape::SCALAR.rows()), (1, 1));
        assert_eq!(Shape::new(&[0, 5]).unwrap().elements(), 0);
    }

    #[test]
    fn rows_are_whole_blocks() {
        let q4_k = DType::Block(crate::Format::Q4K);
        assert_eq!(Shape::new(&[3, 512]).unwrap().bytes(q4_k), Ok(3 * 2 * 144));
        // The number of elements would do, the rows do not.
        let partial = ShapeError::PartialBlock { extent: 128, dtype: q4_k };
        assert_eq!(Shape::new(&[2, 128]).unwrap().bytes(q4_k), Err(partial));
        assert_eq!(partial.to_string(), "128 elements are not a whole number of q4_k blocks of 256 elements");
        assert!(Shape::SCALAR.bytes(q4_k).is_err());
        assert_eq!(Shape::new(&[0, 256]).unwrap().bytes(q4_k), Ok(0));
        let q8_k = DType::Block(crate::Format::Q8K);
        assert_eq!(Shape::new(&[usize::MAX - 255]).unwrap().bytes(q8_k), Err(ShapeError::Overflow));
    }

    #[test]
    fn refuses_what_cannot_be_counted() {
        assert_eq!(Shape::new(&[1; 7]), Err(ShapeError::Rank { got: 7 }));
        assert_eq!(Shape::new(&[usize::MAX, 2]), Err(ShapeError::Overflow));
        assert_eq!(Shape::new(&[usize::MAX, 0, 2]), Err(ShapeError::Overflow));
        assert_eq!(Shape::new(&[usize::MAX / 2]).unwrap().bytes(DType::F32), Err(ShapeError::Overflow));
    }

    #[test]
    fn equality_ignores_unused_axes() {
        assert_eq!(Shape::new(&[3]).unwrap(), Shape::try_from(3).unwrap());
        assert_ne!(Shape::new(&[3]).unwrap(), Shape::new(&[3, 1]).unwrap());
    }

    #[test]
    fn another_last_extent_keeps_the_other_axes() {
        let with_last = |axes: &[usize], extent| Shape::new(axes).unwrap().with_last(extent);
        assert_eq!(with_last(&[3, 4], 7), Shape::new(&[3, 7]));
        assert_eq!(with_last(&[1; MAX_RANK], 7), Shape::new(&[1, 1, 1, 1, 1, 7]));
        assert_eq!(with_last(&[], 7), Shape::new(&[7]));
        assert_eq!(with_last(&[usize::MAX, 1], 2), Err(ShapeError::Overflow));
    }
}
