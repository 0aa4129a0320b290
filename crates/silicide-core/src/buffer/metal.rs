//! Metal's own types, on Apple's systems: its buffers in and out, and the objects behind a device.

use super::{Buffer, NativeBuffer};
use crate::device::Device;
use crate::error::{Error, Result};
use silicide_hal::metal::bindings::objc2::rc::Retained;
use silicide_hal::metal::bindings::objc2::runtime::ProtocolObject;
use silicide_hal::metal::bindings::objc2_metal::{MTLBuffer, MTLCommandQueue, MTLDevice, MTLSharedEvent};
use silicide_hal::{Backend, NativeObject};
use silicide_quant::{DType, Shape, ShapeError};
use std::ptr::NonNull;

/// A Metal buffer, kept alive.
pub type MetalBuffer = Retained<ProtocolObject<dyn MTLBuffer>>;

impl Buffer {
    /// A buffer over a Metal buffer, from a byte of it on; nothing is copied, and the Metal buffer is kept alive. Its
    /// storage is shared or private.
    ///
    /// # Safety
    ///
    /// Nothing else writes these bytes, or reads bytes that are written here, while the buffer lives. They are initialised.
    pub unsafe fn from_metal<S>(
        device: &Device,
        buffer: &ProtocolObject<dyn MTLBuffer>,
        offset: usize,
        dtype: DType,
        shape: S,
    ) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        let what = "from_metal";
        if device.info().backend != Backend::Metal {
            return Err(Error::NoImport { device: device.info().id.clone() });
        }
        let shape = shape.try_into().map_err(|error| Error::bad_shape(what, error))?;
        let expected = shape.bytes(dtype).map_err(|error| Error::bad_shape(what, error))?;
        let got = buffer.length().saturating_sub(offset);
        if expected > got {
            return Err(Error::SizeMismatch { what, expected, got });
        }
        let native = NativeBuffer { object: NonNull::from(buffer).cast(), offset, writable: true };
        // SAFETY: `buffer` is a live `MTLBuffer` with enough bytes from `offset` on (checked above), and the backend is Metal, whose
        // `adopt` compares its device. The bytes are initialised and unchanged by others (`# Safety`).
        unsafe { Buffer::from_native(device, native, dtype, shape) }
    }

    /// The Metal buffer under this one, and where in it the first byte lies. `None` on other backends.
    ///
    /// # Safety
    ///
    /// As for [`Buffer::as_native`]: the memory behind it is used again when the last handle is gone.
    pub unsafe fn as_metal(&self) -> Result<Option<(MetalBuffer, usize)>> {
        if self.device().info().backend != Backend::Metal {
            return Ok(None);
        }
        // SAFETY: the object is used while a handle lives, and without conflicts (`# Safety`, the same as that of `as_native`).
        let Some(native) = (unsafe { self.as_native() })? else { return Ok(None) };
        // SAFETY: `RawDevice::native` returns an `MTLBuffer` for a block on Metal, and the allocation keeps it alive.
        let buffer = unsafe { Retained::retain(native.object.as_ptr().cast()) };
        Ok(buffer.map(|buffer| (buffer, native.offset)))
    }
}

impl Device {
    /// The Metal device; `None` on other backends.
    pub fn metal_device(&self) -> Option<Retained<ProtocolObject<dyn MTLDevice>>> {
        // SAFETY: `RawDevice::native` returns a live `MTLDevice` here; `metal_object` has compared the backend.
        unsafe { Retained::retain(self.metal_object(NativeObject::Device)?.cast().as_ptr()) }
    }

    /// The queue that lists run on; `None` on other backends. What others commit to it runs between submissions, without
    /// being ordered against them: wait for [`Device::metal_event`].
    pub fn metal_queue(&self) -> Option<Retained<ProtocolObject<dyn MTLCommandQueue>>> {
        // SAFETY: `RawDevice::native` returns a live `MTLCommandQueue` here; `metal_object` has compared the backend.
        unsafe { Retained::retain(self.metal_object(NativeObject::Queue)?.cast().as_ptr()) }
    }

    /// The event that counts submissions: its value is the ticket of the last one that the GPU has finished. `None` on
    /// other backends. To be waited for, never to be signalled.
    pub fn metal_event(&self) -> Option<Retained<ProtocolObject<dyn MTLSharedEvent>>> {
        // SAFETY: `RawDevice::native` returns a live `MTLSharedEvent` here; `metal_object` has compared the backend.
        unsafe { Retained::retain(self.metal_object(NativeObject::Timeline)?.cast().as_ptr()) }
    }

    fn metal_object(&self, of: NativeObject) -> Option<NonNull<std::ffi::c_void>> {
        if self.info().backend != Backend::Metal {
            return None;
        }
        // SAFETY: `of` names no block in any of the three calls above, which only retain the object.
        unsafe { self.raw().native(of) }
    }
}
