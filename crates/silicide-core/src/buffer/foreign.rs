//! Memory that came from elsewhere: raw pointers, mapped files, and pointers back out.

use super::{Buffer, BufferOptions};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::{Allocation, Allocator, Purpose, Request, mapped_range};
use silicide_hal::HostRegion;
use silicide_quant::{DType, Shape, ShapeError};
use silicide_weights::{Bytes, MappedFile};
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Host memory that was allocated outside of this library.
pub struct ForeignMemory {
    /// First byte.
    pub start: NonNull<u8>,
    /// Length in bytes.
    pub bytes: usize,
    /// Whether it may be written.
    pub writable: bool,
    /// Kept alive as long as the memory is in use, then dropped.
    pub owner: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignMemory({} bytes at {:p}, writable: {})", self.bytes, self.start, self.writable)
    }
}

/// Hands out one piece of foreign memory, once.
#[derive(Debug)]
struct Foreign(Mutex<Option<ForeignMemory>>);

// SAFETY: it is an address with its owner, which is `Send`; `Buffer::from_raw`, which is unsafe, is the only user of the address.
unsafe impl Send for ForeignMemory {}
// SAFETY: a shared `ForeignMemory` gives no access to the bytes, and its owner is `Sync`.
unsafe impl Sync for ForeignMemory {}

impl Allocator for Foreign {
    fn name(&self) -> &'static str {
        "foreign"
    }

    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        let Some(memory) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Err(Error::NoImport { device: device.info().id.clone() });
        };
        let host = HostRegion { start: memory.start, bytes: memory.bytes, writable: memory.writable };
        // SAFETY: `Buffer::from_raw` is the only creator of a `Foreign`; its `# Safety` has these conditions. The allocation keeps
        // `owner`.
        unsafe { device.memory().import(host, request.purpose, memory.owner) }
    }
}

/// Returns an error unless byte `start` may be the first of an element of `dtype`.
pub(super) fn check_alignment(what: &'static str, start: usize, dtype: DType) -> Result<()> {
    let alignment = dtype.alignment();
    if start.is_multiple_of(alignment) {
        Ok(())
    } else {
        Err(Error::Misaligned { what, bytes: start, alignment, dtype })
    }
}

impl Buffer {
    /// A buffer over memory that was allocated outside; nothing is copied. Its owner is dropped when the last
    /// view is gone and the device is done.
    ///
    /// # Safety
    ///
    /// `memory` is valid for reads (and writes, if it says so) of `memory.bytes` initialised bytes for as long as
    /// its owner lives. Meanwhile nothing else writes it, or reads bytes that are written here.
    pub unsafe fn from_raw<S>(
        device: &Device,
        memory: ForeignMemory,
        dtype: DType,
        shape: S,
    ) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        let what = "from_raw";
        let shape = shape.try_into().map_err(|error| Error::bad_shape(what, error))?;
        let bytes = shape.bytes(dtype).map_err(|error| Error::bad_shape(what, error))?;
        if bytes != memory.bytes {
            return Err(Error::SizeMismatch { what, expected: bytes, got: memory.bytes });
        }
        check_alignment(what, memory.start.as_ptr() as usize, dtype)?;
        let options = BufferOptions::default().allocator(Arc::new(Foreign(Mutex::new(Some(memory)))));
        Buffer::allocated_with(device, dtype, shape, &options)
    }

    /// A read-only buffer over bytes of a mapped file; nothing is copied.
    pub fn from_mapped<S>(
        device: &Device,
        file: &MappedFile,
        bytes: Range<usize>,
        dtype: DType,
        shape: S,
    ) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        let what = "from_mapped";
        let shape = shape.try_into().map_err(|error| Error::bad_shape(what, error))?;
        let expected = shape.bytes(dtype).map_err(|error| Error::bad_shape(what, error))?;
        let allocator = mapped_range(&Bytes::Mapped(file.clone()), &bytes)?;
        if bytes.len() != expected {
            return Err(Error::SizeMismatch { what, expected, got: bytes.len() });
        }
        check_alignment(what, bytes.start, dtype)?;
        let options = BufferOptions::default().purpose(Purpose::Weights).allocator(allocator);
        Buffer::allocated_with(device, dtype, shape, &options)
    }

    /// A read-only buffer over bytes of a file, mapped or in memory; nothing is copied.
    pub(crate) fn over_file(
        device: &Device,
        file: &Bytes,
        bytes: Range<usize>,
        purpose: Purpose,
    ) -> Result<Buffer> {
        let shape = Shape::new(&[bytes.len()]).map_err(|error| Error::bad_shape("buffer", error))?;
        let options = BufferOptions::default().purpose(purpose).allocator(mapped_range(file, &bytes)?);
        Buffer::allocated_with(device, DType::U8, shape, &options)
    }

    /// A buffer with options, whose memory is allocated at once.
    pub(super) fn allocated_with(
        device: &Device,
        dtype: DType,
        shape: Shape,
        options: &BufferOptions,
    ) -> Result<Buffer> {
        let buffer = Buffer::with(device, dtype, shape, options)?;
        buffer.ensure_allocated()?;
        Ok(buffer)
    }

    /// The host's address of the first byte. Waits for nothing and tracks nothing: prefer guards.
    ///
    /// # Safety
    ///
    /// The pointer is used only while a handle lives, and not for bytes that a device or a guard conflicts with.
    pub unsafe fn as_raw_ptr(&self) -> Result<NonNull<u8>> {
        let allocation = self.allocation()?;
        let Some(host) = allocation.host else { return Err(Error::NotHostVisible { what: "as_raw_ptr" }) };
        // SAFETY: `Buffer::view` has compared the view with the size of the storage, whose allocation this is.
        Ok(unsafe { host.add(self.offset()) })
    }

    /// The same bytes as a vector of `u8`.
    pub fn as_bytes(&self) -> Result<Buffer> {
        self.reinterpret(DType::U8)
    }
}
