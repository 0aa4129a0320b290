//! The allocator trait and what it hands out.

use super::Purpose;
use crate::device::Device;
use crate::error::Result;
use silicide_hal::{MemoryKind, RawBlock};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

/// What to allocate.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Request {
    /// Bytes, at least 1.
    pub bytes: usize,
    /// What for.
    pub purpose: Purpose,
    /// Who must see it.
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

/// Memory that an allocator handed out: a range of a block.
pub struct Allocation {
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
    pub(crate) purpose: Purpose,
    /// Whatever must outlive the block: the owner of foreign memory, a file mapping.
    pub(crate) owner: Option<Box<dyn Any + Send + Sync>>,
}

// SAFETY: `host` is an address; who may touch the bytes is decided by the storage that owns the allocation.
unsafe impl Send for Allocation {}
// SAFETY: as above.
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
/// An allocator may wrap another: a pool keeps what it is given back and asks the device only for what it lacks.
pub trait Allocator: fmt::Debug + Send + Sync {
    /// A short name for messages: `device`, `pool`, `mapped`.
    fn name(&self) -> &'static str;
    /// Hands out memory.
    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation>;
    /// Takes back what [`Allocator::allocate`] handed out, once no device uses it any more.
    fn release(&self, device: &Device, allocation: Allocation);
}
