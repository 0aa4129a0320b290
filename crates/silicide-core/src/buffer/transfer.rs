//! Copies: host to buffer, buffer to host, buffer to buffer on one device or across two.

use super::Buffer;
use crate::error::{Error, Result};
use crate::memory::{Purpose, Request};
use crate::record::CommandEncoder;
use silicide_hal::MemoryKind;
use silicide_quant::{DType, Element, Shape};
use std::sync::Arc;

impl Buffer {
    /// Copies values in. There must be as many as the buffer has elements.
    pub fn copy_in<T: Element>(&self, values: &[T]) -> Result<()> {
        self.check_count("copy_in", size_of_val(values))?;
        self.check_type("copy_in", T::DTYPE)?;
        if !self.is_writable()? {
            return Err(Error::ReadOnly { what: "copy_in" });
        }
        if self.is_host_visible()? {
            self.write::<T>()?.copy_from_slice(values);
            return Ok(());
        }
        let staging = self.staging()?;
        staging.write::<T>()?.copy_from_slice(values);
        self.copy_on_device(&staging)
    }

    /// Copies the elements out.
    pub fn copy_out<T: Element>(&self, values: &mut [T]) -> Result<()> {
        self.check_count("copy_out", size_of_val(values))?;
        self.check_type("copy_out", T::DTYPE)?;
        if self.is_host_visible()? {
            values.copy_from_slice(&self.read::<T>()?);
            return Ok(());
        }
        let staging = self.staging()?;
        staging.copy_on_device(self)?;
        values.copy_from_slice(&staging.read::<T>()?);
        Ok(())
    }

    /// The elements as a vector.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check_type("to_vec", T::DTYPE)?;
        let mut values = Vec::new();
        if values.try_reserve_exact(self.elements()).is_err() {
            let (device, purpose) = ("the host".to_owned(), Purpose::Staging.name());
            let (requested, limit) = (self.size(), isize::MAX as usize);
            return Err(Error::OutOfMemory { device, requested, purpose, in_use: 0, limit });
        }
        values.resize(self.elements(), T::zeroed());
        self.copy_out(&mut values)?;
        Ok(values)
    }

    /// The only element of a buffer that has one.
    pub fn item<T: Element>(&self) -> Result<T> {
        if self.elements() != 1 {
            let expected = "one element".to_owned();
            return Err(Error::Shape { op: "item", slot: "buffer", expected, got: self.shape() });
        }
        let mut value = [T::zeroed()];
        self.copy_out(&mut value)?;
        Ok(value[0])
    }

    /// Copies another buffer of the same type and size into this one: on the device where both share it,
    /// otherwise through the host.
    pub fn copy_from(&self, source: &Buffer) -> Result<()> {
        let what = "copy_from";
        self.check_count(what, source.size())?;
        source.check_type(what, self.dtype())?;
        if !self.is_writable()? {
            return Err(Error::ReadOnly { what });
        }
        if self.device().is_same(source.device()) {
            return self.copy_on_device(source);
        }
        // A staging buffer on each side that the host can't see; at most one copy more than needed.
        let visible = |buffer: &Buffer| -> Result<Option<Buffer>> {
            Ok(if buffer.is_host_visible()? { None } else { Some(buffer.staging()?) })
        };
        let (from, to) = (visible(source)?, visible(self)?);
        if let Some(staging) = &from {
            staging.copy_on_device(source)?;
        }
        let (from, staged) =
            (from.as_ref().unwrap_or(source).as_bytes()?, to.as_ref().unwrap_or(self).as_bytes()?);
        staged.write::<u8>()?.copy_from_slice(&from.read::<u8>()?);
        match &to {
            Some(staging) => self.copy_on_device(staging),
            None => Ok(()),
        }
    }

    /// Copies the storage of this buffer into one of its own, and returns the given views over the copy: same range, type and shape.
    /// They are views of this storage.
    pub fn fork(&self, views: &[&Buffer]) -> Result<Vec<Buffer>> {
        let what = "fork";
        if let Some(view) = views.iter().find(|view| view.storage_id() != self.storage_id()) {
            let (expected, got) = (self.storage_id().to_string(), view.storage_id().to_string());
            return Err(Error::OtherStorage { what, expected, got });
        }
        let bytes = self.total_size();
        let shape = Shape::new(&[bytes]).map_err(|error| Error::bad_shape(what, error))?;
        let all = Buffer::over(self.device(), self.storage(), DType::U8, shape);
        let copy = Buffer::allocate(self.device(), DType::U8, shape)?;
        copy.copy_from(&all)?;
        views.iter().map(|view| copy.within(view.offset(), view.dtype(), view.shape())).collect()
    }

    /// Waits until the device is done with this buffer's memory.
    pub fn synchronize(&self) -> Result<()> {
        self.storage().synchronize(self.device())
    }

    fn copy_on_device(&self, source: &Buffer) -> Result<()> {
        let mut encoder = CommandEncoder::new(self.device());
        encoder.copy(source, self)?;
        encoder.submit()?.wait()
    }

    /// A host-visible buffer like this one, of any contents.
    fn staging(&self) -> Result<Buffer> {
        let (purpose, kind) = (Purpose::Staging, MemoryKind::Shared);
        let request = Request { bytes: self.size(), purpose, kind, zeroed: false };
        let shelf = Arc::<_>::clone(self.device().shelf()) as _;
        Buffer::from_request(self.device(), shelf, self.dtype(), self.shape(), request)
    }

    fn check_count(&self, what: &'static str, got: usize) -> Result<()> {
        if got == self.size() {
            Ok(())
        } else {
            Err(Error::SizeMismatch { what, expected: self.size(), got })
        }
    }
}
