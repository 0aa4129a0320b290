//! The allocator trait and its allocations.

use super::{DeviceAllocator, Purpose};
use crate::device::Device;
use crate::error::Result;
use silicide_hal::{MemoryKind, RawBlock};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// A request for memory.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Request {
    /// Bytes, at least 1.
    pub bytes: usize,
    /// Its purpose, in reports.
    pub purpose: Purpose,
    /// Whether the host sees it.
    pub kind: MemoryKind,
    /// Whether the bytes must be zero. Otherwise they are whatever was there before.
    pub zeroed: bool,
}

impl Request {
    /// Zeroed memory that the host can see.
    pub fn new(bytes: usize, purpose: Purpose) -> Request {
        Request { bytes, purpose, kind: MemoryKind::Shared, zeroed: true }
    }
}

/// Allocated memory: a range of a block. Dropping it returns the memory to its device, so it is dropped only when no device uses it
/// any more.
pub struct Allocation {
    /// The memory of the device that it came from. Keeps the backend alive.
    pub(super) home: Arc<DeviceAllocator>,
    pub(super) source: Source,
    pub(crate) block: RawBlock,
    /// First byte, from the start of the block.
    pub(crate) offset: usize,
    /// Usable bytes, at least those asked for.
    pub(crate) bytes: usize,
    /// The host's address of the first byte, where the host can see it.
    pub(crate) host: Option<NonNull<u8>>,
    pub(crate) writable: bool,
    /// True when the bytes are known to be zero.
    pub(crate) zeroed: bool,
    pub(super) kind: MemoryKind,
    pub(super) purpose: Purpose,
}

/// How an allocation is given back.
pub(super) enum Source {
    /// A range of a shared block.
    Range,
    /// A block of its own.
    Block,
    /// Host memory; its owner goes after the block.
    Import { _owner: Box<dyn Any + Send + Sync> },
}

// SAFETY: `host` is an address; only the storage that owns the allocation gives access to the bytes.
unsafe impl Send for Allocation {}
// SAFETY: a shared allocation can be read only, and its address gives no access without unsafe code.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Usable bytes, at least those asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the host can see the memory.
    pub fn is_host_visible(&self) -> bool {
        self.host.is_some()
    }

    /// Whether it is memory of this device.
    pub(crate) fn is_of(&self, device: &Device) -> bool {
        Arc::ptr_eq(&self.home, device.memory())
    }

    /// The name of the device whose memory it is.
    pub(crate) fn device_id(&self) -> &str {
        &self.home.raw().info().id
    }

    /// Counts the bytes for another purpose.
    pub(crate) fn assign(&mut self, purpose: Purpose) {
        if self.purpose != purpose {
            self.home.budget().transfer(self.purpose, purpose, self.bytes);
            self.purpose = purpose;
        }
    }

    /// The largest power of two, at most 256, that divides the address of a byte as kernels see it.
    pub(crate) fn alignment(&self, offset: usize) -> u32 {
        let mut address = self.offset + offset;
        // Blocks begin at multiples of 256. Imports begin anywhere, and on the CPU in the middle of a page.
        if let (Source::Import { .. }, Some(host)) = (&self.source, self.host) {
            address |= host.as_ptr() as usize + offset;
        }
        1 << address.trailing_zeros().min(8)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.home.take_back(self);
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("block", &self.block.0)
            .field("offset", &self.offset)
            .field("bytes", &self.bytes)
            .field("host_visible", &self.host.is_some())
            .field("writable", &self.writable)
            .finish()
    }
}

/// A source of device memory. The device is the one that the buffer was made for.
///
/// An allocator may wrap another: a pool keeps memory that was returned, and allocates from the device only if it has none.
pub trait Allocator: fmt::Debug + Send + Sync {
    /// A short name for messages: `device`, `pool`, `mapped`.
    fn name(&self) -> &'static str;
    /// Allocates memory.
    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation>;
    /// Frees memory from [`Allocator::allocate`] that no device uses any more. The default drops it, which returns it to the device.
    fn release(&self, allocation: Allocation) {
        drop(allocation);
    }
}
