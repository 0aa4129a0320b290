//! Buffers of a backend's own API: adopting one that was made outside, and exposing ours.
//!
//! What backends have differs, so objects are plain pointers here; on Apple's systems the calls named after Metal wrap
//! them in its types.

use super::foreign::check_alignment;
use super::{Buffer, BufferOptions};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::{Allocation, Allocator, Request};
use silicide_hal::NativeObject;
use silicide_quant::{DType, Shape, ShapeError};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// A buffer of the backend's own API, or a part of it.
#[derive(Clone, Copy, Debug)]
pub struct NativeBuffer {
    /// The object: an `MTLBuffer` on Metal.
    pub object: NonNull<c_void>,
    /// The first byte that is meant.
    pub offset: usize,
    /// Whether it may be written.
    pub writable: bool,
}

// SAFETY: it is an address and two numbers; `Buffer::from_native`, which is unsafe, is the only user of the address.
unsafe impl Send for NativeBuffer {}
// SAFETY: it is `Copy` without interior mutability, so a shared one allows no more than a copy.
unsafe impl Sync for NativeBuffer {}

/// Hands out memory over a native buffer, once.
#[derive(Debug)]
struct Adopted(Mutex<Option<NativeBuffer>>);

impl Allocator for Adopted {
    fn name(&self) -> &'static str {
        "native"
    }

    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        let Some(native) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Err(Error::NoImport { device: device.info().id.clone() });
        };
        // SAFETY: `Buffer::from_native` is the only creator of an `Adopted`; its `# Safety` has these conditions, and it takes the
        // buffer out before it returns.
        unsafe { device.memory().adopt(&native, request) }
    }
}

impl Buffer {
    /// A buffer over one that was made outside with the backend's own API; nothing is copied. The object is kept alive
    /// until the last view is gone and the device is done.
    ///
    /// # Safety
    ///
    /// `native.object` is a live buffer of the backend's own API, of this device, with enough initialised bytes from
    /// `native.offset` on; nothing else writes them, or reads bytes that are written here, while the buffer lives.
    pub unsafe fn from_native<S>(
        device: &Device,
        native: NativeBuffer,
        dtype: DType,
        shape: S,
    ) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        let what = "from_native";
        let shape = shape.try_into().map_err(|error| Error::bad_shape(what, error))?;
        check_alignment(what, native.offset, dtype)?;
        let options = BufferOptions::default().allocator(Arc::new(Adopted(Mutex::new(Some(native)))));
        Buffer::allocated_with(device, dtype, shape, &options)
    }

    /// The backend's own buffer under this one, and where in it the first byte lies. Waits for nothing and tracks
    /// nothing. `None` where the backend has no such objects.
    ///
    /// # Safety
    ///
    /// The object is used only while a handle lives, and not for bytes that a command or a guard conflicts with.
    pub unsafe fn as_native(&self) -> Result<Option<NativeBuffer>> {
        let allocation = self.allocation()?;
        // SAFETY: the allocation keeps the block alive; the object is used without conflicts (`# Safety`).
        let object = unsafe { self.device().raw().native(NativeObject::Block(allocation.block)) };
        let (offset, writable) =
            (allocation.offset + self.offset(), allocation.writable && !self.storage().is_frozen());
        Ok(object.map(|object| NativeBuffer { object, offset, writable }))
    }
}
