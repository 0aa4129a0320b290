//! Host views as `ndarray` arrays, under the same guards as slices.

use super::{Buffer, ReadGuard, WriteGuard};
use crate::error::{Error, Result};
use ndarray::{ArrayViewD, ArrayViewMutD, IxDyn};
use silicide_quant::{Element, Shape};

/// A buffer's elements as an array to read; the guard is held as long as this lives.
#[derive(Debug)]
pub struct ArrayGuard<T> {
    guard: ReadGuard<T>,
    shape: Shape,
}

/// A buffer's elements as an array to write.
#[derive(Debug)]
pub struct ArrayGuardMut<T> {
    guard: WriteGuard<T>,
    shape: Shape,
}

impl Buffer {
    /// The elements as an array of the buffer's shape.
    pub fn as_array<T: Element>(&self) -> Result<ArrayGuard<T>> {
        Ok(ArrayGuard { guard: self.read()?, shape: self.shape() })
    }

    /// The elements as an array of the buffer's shape, to write.
    pub fn as_array_mut<T: Element>(&self) -> Result<ArrayGuardMut<T>> {
        Ok(ArrayGuardMut { guard: self.write()?, shape: self.shape() })
    }
}

fn mismatch(got: Shape) -> Error {
    Error::Shape { op: "as_array", slot: "buffer", expected: "a dense shape".to_owned(), got }
}

impl<T: Element> ArrayGuard<T> {
    /// The array.
    pub fn view(&self) -> Result<ArrayViewD<'_, T>> {
        ArrayViewD::from_shape(IxDyn(self.shape.axes()), &self.guard).map_err(|_| mismatch(self.shape))
    }
}

impl<T: Element> ArrayGuardMut<T> {
    /// The array.
    pub fn view_mut(&mut self) -> Result<ArrayViewMutD<'_, T>> {
        ArrayViewMutD::from_shape(IxDyn(self.shape.axes()), &mut self.guard).map_err(|_| mismatch(self.shape))
    }
}
