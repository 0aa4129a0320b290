//! Views of matrices in memory: a pointer, rows, columns and the elements from one row to the next.
//!
//! Constructors from slices check that the extents fit; glue that has only addresses uses `from_raw_parts`, which states what it
//! must vouch for. Kernels take views instead of pointers, so each kernel relies on one statement.

use std::marker::PhantomData;
use std::ops::Range;

/// Why a product, or a view for one, is refused. `argument` names what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GemmError {
    /// A slice is too short.
    #[error("{argument}: {needed} elements are needed, there are {got}")]
    Length {
        /// The argument.
        argument: &'static str,
        /// Elements, or bytes, that are needed.
        needed: usize,
        /// Elements, or bytes, that there are.
        got: usize,
    },
    /// An extent is 0.
    #[error("{argument}: {what} must not be 0")]
    Empty {
        /// The argument.
        argument: &'static str,
        /// The extent.
        what: &'static str,
    },
    /// An extent is not the one that follows from the other arguments.
    #[error("{argument}: {what} must be {expected}, got {got}")]
    Extent {
        /// The argument.
        argument: &'static str,
        /// The extent.
        what: &'static str,
        /// What it must be.
        expected: usize,
        /// What it is.
        got: usize,
    },
    /// An extent is too small or too large.
    #[error("{argument}: {what} must be from {least} to {most}, got {got}")]
    Bounds {
        /// The argument.
        argument: &'static str,
        /// The extent.
        what: &'static str,
        /// The least that it may be.
        least: usize,
        /// The most that it may be.
        most: usize,
        /// What it is.
        got: usize,
    },
    /// An extent is not a multiple of the required number.
    #[error("{argument}: {what} must be a multiple of {of}, got {got}")]
    Multiple {
        /// The argument.
        argument: &'static str,
        /// The extent.
        what: &'static str,
        /// What it must be a multiple of.
        of: usize,
        /// What it is.
        got: usize,
    },
    /// Rows overlap: the stride is less than the columns.
    #[error("{argument}: a stride of {stride} is less than {columns} columns")]
    Stride {
        /// The argument.
        argument: &'static str,
        /// Elements from one row to the next.
        stride: usize,
        /// Elements of a row.
        columns: usize,
    },
    /// Memory is not aligned.
    #[error("{argument}: the address must be a multiple of {alignment}")]
    Alignment {
        /// The argument.
        argument: &'static str,
        /// The required alignment, in bytes.
        alignment: usize,
    },
    /// Extents are larger than memory can be.
    #[error("{argument}: the extents overflow")]
    Overflow {
        /// The argument.
        argument: &'static str,
    },
    /// There is no product for the format, or no such layout of it.
    #[error("{argument}: {format} has no {what}")]
    Format {
        /// The argument.
        argument: &'static str,
        /// The format.
        format: String,
        /// What it lacks.
        what: &'static str,
    },
}

/// The most elements that a view spans: with 8 bytes each, as far as an offset reaches.
pub(crate) const MAX_ELEMENTS: usize = isize::MAX as usize / 8;

/// The extents of a view: `rows` rows of `columns` elements, `stride` elements apart.
#[derive(Clone, Copy, Debug)]
struct ViewExtents {
    rows: usize,
    columns: usize,
    stride: usize,
}

impl ViewExtents {
    /// Checks that there are rows, that they do not overlap, and that a slice of `len` elements holds them.
    #[inline]
    fn check(self, argument: &'static str, len: usize) -> Result<ViewExtents, GemmError> {
        let ViewExtents { rows, columns, stride } = self;
        if rows == 0 {
            return Err(GemmError::Empty { argument, what: "rows" });
        }
        if columns == 0 {
            return Err(GemmError::Empty { argument, what: "columns" });
        }
        if stride < columns {
            return Err(GemmError::Stride { argument, stride, columns });
        }
        let last = (rows - 1).checked_mul(stride).and_then(|start| start.checked_add(columns));
        let needed = last.filter(|elements| *elements <= MAX_ELEMENTS);
        let needed = needed.ok_or(GemmError::Overflow { argument })?;
        if len < needed {
            return Err(GemmError::Length { argument, needed, got: len });
        }
        Ok(self)
    }

    /// Returns the offset and the extents of a part, if it is inside.
    #[inline(always)]
    fn tile(self, rows: Range<usize>, columns: Range<usize>) -> Option<(usize, ViewExtents)> {
        let inside = rows.start < rows.end
            && rows.end <= self.rows
            && columns.start < columns.end
            && columns.end <= self.columns;
        let part = ViewExtents { rows: rows.len(), columns: columns.len(), stride: self.stride };
        inside.then(|| (rows.start * self.stride + columns.start, part))
    }
}

/// Declares the methods that return extents.
macro_rules! extents {
    () => {
        /// The rows.
        #[inline(always)]
        pub fn rows(&self) -> usize {
            self.extents.rows
        }

        /// The elements of a row.
        #[inline(always)]
        pub fn columns(&self) -> usize {
            self.extents.columns
        }

        /// The elements from one row to the next.
        #[inline(always)]
        pub fn stride(&self) -> usize {
            self.extents.stride
        }
    };
}

/// A matrix to read: `rows` rows of `columns` elements, `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    start: *const T,
    extents: ViewExtents,
    memory: PhantomData<&'a [T]>,
}

impl<'a, T: Copy> Matrix<'a, T> {
    extents!();

    /// Returns a view of a slice. `argument` names it in errors.
    #[inline]
    pub fn new(
        argument: &'static str,
        data: &'a [T],
        [rows, columns]: [usize; 2],
        stride: usize,
    ) -> Result<Matrix<'a, T>, GemmError> {
        let extents = ViewExtents { rows, columns, stride }.check(argument, data.len())?;
        Ok(Matrix { start: data.as_ptr(), extents, memory: PhantomData })
    }

    /// Returns a view of memory.
    ///
    /// # Safety
    /// `rows` rows of `columns` elements, `stride` elements apart, can be read at `start`, which is aligned; nothing writes them while
    /// the view is used.
    #[inline(always)]
    pub unsafe fn from_raw_parts(
        start: *const T,
        [rows, columns]: [usize; 2],
        stride: usize,
    ) -> Matrix<'a, T> {
        Matrix { start, extents: ViewExtents { rows, columns, stride }, memory: PhantomData }
    }

    /// Returns row `row`, if there is one.
    #[inline(always)]
    pub fn row(&self, row: usize) -> Option<&'a [T]> {
        // SAFETY: row `row` is one of the view's, and its elements can be read, as `new` has checked or the caller of `from_raw_parts`
        // has stated.
        (row < self.rows()).then(|| unsafe {
            std::slice::from_raw_parts(self.start.add(row * self.stride()), self.columns())
        })
    }

    /// Returns a part of the matrix, if it is inside.
    #[inline(always)]
    pub fn tile(&self, rows: Range<usize>, columns: Range<usize>) -> Option<Matrix<'a, T>> {
        let (offset, extents) = self.extents.tile(rows, columns)?;
        Some(Matrix { start: self.start.wrapping_add(offset), extents, memory: PhantomData })
    }

    /// The address of the first element.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const T {
        self.start
    }
}

/// A matrix to write: `rows` rows of `columns` elements, `stride` elements apart.
///
/// The view borrows its memory mutably and cannot be copied. So outputs never overlap what the product reads:
///
/// ```compile_fail,E0502
/// use silicide_gemm::{Matrix, MatrixMut};
///
/// let mut memory = [0f32; 64];
/// let x = Matrix::new("x", &memory, [1, 32], 32)?;
/// let y = MatrixMut::new("y", &mut memory, [1, 32], 32)?;
/// println!("{} {}", x.rows(), y.rows());
/// # Ok::<(), silicide_gemm::GemmError>(())
/// ```
///
/// Nor the outputs of another product; parts of one slice are taken by `split_at_mut`:
///
/// ```compile_fail,E0499
/// use silicide_gemm::MatrixMut;
///
/// let mut memory = [0f32; 64];
/// let first = MatrixMut::new("first", &mut memory, [1, 32], 32)?;
/// let second = MatrixMut::new("second", &mut memory, [1, 32], 32)?;
/// println!("{} {}", first.rows(), second.rows());
/// # Ok::<(), silicide_gemm::GemmError>(())
/// ```
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    start: *mut T,
    extents: ViewExtents,
    memory: PhantomData<&'a mut [T]>,
}

impl<'a, T: Copy> MatrixMut<'a, T> {
    extents!();

    /// Returns a view of a slice. `argument` names it in errors.
    #[inline]
    pub fn new(
        argument: &'static str,
        data: &'a mut [T],
        [rows, columns]: [usize; 2],
        stride: usize,
    ) -> Result<MatrixMut<'a, T>, GemmError> {
        let extents = ViewExtents { rows, columns, stride }.check(argument, data.len())?;
        Ok(MatrixMut { start: data.as_mut_ptr(), extents, memory: PhantomData })
    }

    /// Returns a view of memory.
    ///
    /// # Safety
    /// `rows` rows of `columns` elements, `stride` elements apart, can be written at `start`, which is aligned; rows do not overlap;
    /// nothing else touches the elements while the view is used. Elements between rows may be others'.
    #[inline(always)]
    pub unsafe fn from_raw_parts(
        start: *mut T,
        [rows, columns]: [usize; 2],
        stride: usize,
    ) -> MatrixMut<'a, T> {
        MatrixMut { start, extents: ViewExtents { rows, columns, stride }, memory: PhantomData }
    }

    /// Returns row `row`, if there is one.
    #[inline(always)]
    pub fn row_mut(&mut self, row: usize) -> Option<&mut [T]> {
        // SAFETY: row `row` is one of the view's, and its elements can be written, as `new` has checked or the caller of `from_raw_parts`
        // has stated. The view is borrowed mutably as a whole.
        (row < self.rows()).then(|| unsafe {
            std::slice::from_raw_parts_mut(self.start.add(row * self.stride()), self.columns())
        })
    }

    /// Returns a part of the matrix, if it is inside.
    #[inline(always)]
    pub fn tile_mut(&mut self, rows: Range<usize>, columns: Range<usize>) -> Option<MatrixMut<'_, T>> {
        let (offset, extents) = self.extents.tile(rows, columns)?;
        Some(MatrixMut { start: self.start.wrapping_add(offset), extents, memory: PhantomData })
    }

    /// The address of the first element.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.start
    }
}
