//! Host access: guards that wait for the device, and that the device waits for in the sense that submitting a
//! command which conflicts with a live guard is an error.

use super::Buffer;
use super::storage::Storage;
use crate::error::{Error, Result};
use silicide_quant::{DType, Element};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Elements to read. Nothing, on the host or a device, writes them while the guard lives.
#[derive(Debug)]
pub struct ReadGuard<T> {
    held: HeldSlice<T>,
}

/// Elements to read and write. Nothing else touches them while the guard lives.
#[derive(Debug)]
pub struct WriteGuard<T> {
    held: HeldSlice<T>,
}

#[derive(Debug)]
struct HeldSlice<T> {
    /// Keeps the memory, and by it the backend, alive.
    storage: Arc<Storage>,
    guard: u64,
    start: NonNull<T>,
    elements: usize,
    marker: PhantomData<T>,
}

// SAFETY: a guard owns the right to its bytes, as a `&[T]` or `&mut [T]` of `Send + Sync` elements would.
unsafe impl<T: Element> Send for HeldSlice<T> {}
// SAFETY: a shared guard gives `&[T]` only, as a `&&mut [T]` of `Sync` elements would.
unsafe impl<T: Element> Sync for HeldSlice<T> {}

impl<T> Drop for HeldSlice<T> {
    fn drop(&mut self) {
        self.storage.let_go(self.guard);
    }
}

impl Buffer {
    /// Elements to read, once the device has written them.
    pub fn read<T: Element>(&self) -> Result<ReadGuard<T>> {
        Ok(ReadGuard { held: self.hold("read", false)? })
    }

    /// Elements to read and write, once the device is done with them. Overwriting a whole buffer heals it after a
    /// failed submission.
    pub fn write<T: Element>(&self) -> Result<WriteGuard<T>> {
        Ok(WriteGuard { held: self.hold("write", true)? })
    }

    fn hold<T: Element>(&self, what: &'static str, writes: bool) -> Result<HeldSlice<T>> {
        self.check_type(what, T::DTYPE)?;
        let allocation = self.allocation()?;
        let Some(host) = allocation.host else { return Err(Error::NotHostVisible { what }) };
        if writes && !allocation.writable {
            return Err(Error::ReadOnly { what });
        }
        // SAFETY: `Buffer::view` has compared the view with the size of the storage; `host` is the address of its first byte.
        let start = unsafe { host.add(self.offset()) }.cast::<T>();
        if !start.is_aligned() {
            let (alignment, bytes) = (align_of::<T>(), start.as_ptr() as usize);
            return Err(Error::Misaligned { what, bytes, alignment, dtype: self.dtype() });
        }
        let storage = Arc::clone(self.storage());
        let guard = storage.hold(self.device(), what, self.range(), writes)?;
        Ok(HeldSlice { storage, guard, start, elements: self.elements(), marker: PhantomData })
    }

    pub(super) fn check_type(&self, op: &'static str, expected: DType) -> Result<()> {
        if self.dtype() == expected {
            return Ok(());
        }
        let got = self.dtype();
        Err(Error::DTypeMismatch { op, slot: "buffer", expected: expected.to_string(), got })
    }
}

impl<T: Element> Deref for ReadGuard<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `Storage::hold` has registered the guard, so no guard and no command writes these bytes while it lives. `hold`
        // has compared type and alignment. Every bit pattern is a `T`: `Element` is `Pod`.
        unsafe { std::slice::from_raw_parts(self.held.start.as_ptr(), self.held.elements) }
    }
}

impl<T: Element> Deref for WriteGuard<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: as for `ReadGuard`: `hold` made both kinds of guard.
        unsafe { std::slice::from_raw_parts(self.held.start.as_ptr(), self.held.elements) }
    }
}

impl<T: Element> DerefMut for WriteGuard<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `Storage::hold` with `writes` excludes every other guard and every command on these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.held.start.as_ptr(), self.held.elements) }
    }
}
