//! The memory of a device: few big blocks, cut in ranges, and the account of it all.
//!
//! Backends limit how many blocks may live and make each one slowly, so small requests share blocks of 64 MiB;
//! large ones get a block of their own. Ranges are aligned to 256 bytes, which every device accepts as the start
//! of a binding.
//!
//! Every allocation holds the `DeviceAllocator` that it came from and goes back there when it is dropped: memory of
//! one device can't end up in another, and the backend lives as long as anything on it does.

use super::allocator::Source;
use super::{Allocation, Allocator, Budget, Purpose, Request};
use crate::buffer::NativeBuffer;
use crate::device::Device;
use crate::error::{Error, Result};
use silicide_hal::{Backend, BlockDesc, HalError, HostRegion, MemoryKind, RawBlock, RawDevice};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ranges start at multiples of this many bytes, from which every device binds.
pub const ALIGNMENT: usize = 256;
/// Blocks that are shared have this size.
const SHARED_BLOCK: usize = 64 << 20;
/// Requests above this size get a block of their own.
const LARGEST_SHARED: usize = SHARED_BLOCK / 4;

/// The allocator that every device has. See the module's documentation.
pub struct DeviceAllocator {
    raw: Arc<dyn RawDevice>,
    budget: Budget,
    /// Blocks that are cut in ranges.
    blocks: Mutex<Vec<SharedBlock>>,
}

/// A block that is cut in ranges.
struct SharedBlock {
    block: RawBlock,
    bytes: usize,
    kind: MemoryKind,
    host: Option<HostAddress>,
    /// Free ranges: start to length. Neighbours are always joined.
    free: BTreeMap<usize, usize>,
}

#[derive(Clone, Copy)]
struct HostAddress(NonNull<u8>);
// SAFETY: it is an address; only the storages of allocations give access to the bytes.
unsafe impl Send for HostAddress {}
// SAFETY: it is `Copy` without interior mutability, so a shared one allows no more than a copy.
unsafe impl Sync for HostAddress {}

impl SharedBlock {
    /// Cuts `bytes` from the first range that is long enough.
    fn cut(&mut self, bytes: usize) -> Option<usize> {
        let (start, length) =
            self.free.iter().find(|&(_, &length)| length >= bytes).map(|(&s, &l)| (s, l))?;
        self.free.remove(&start);
        if length > bytes {
            self.free.insert(start + bytes, length - bytes);
        }
        Some(start)
    }

    /// Puts a range back and joins it with its neighbours.
    fn join(&mut self, mut start: usize, mut bytes: usize) {
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            (start, bytes) = (before, bytes + length);
        }
        if let Some(length) = self.free.remove(&(start + bytes)) {
            bytes += length;
        }
        self.free.insert(start, bytes);
    }

    fn is_empty(&self) -> bool {
        self.free.get(&0) == Some(&self.bytes)
    }
}

impl DeviceAllocator {
    pub(crate) fn new(raw: Arc<dyn RawDevice>, limit: usize) -> DeviceAllocator {
        DeviceAllocator { raw, budget: Budget::new(limit), blocks: Mutex::default() }
    }

    pub(crate) fn raw(&self) -> &Arc<dyn RawDevice> {
        &self.raw
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    fn blocks(&self) -> MutexGuard<'_, Vec<SharedBlock>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a block from the backend. If that fails, frees the memory that caches hold and tries once more.
    fn block(
        &self,
        device: &Device,
        bytes: usize,
        request: &Request,
    ) -> Result<(RawBlock, Option<NonNull<u8>>)> {
        let desc = BlockDesc { bytes, kind: request.kind };
        // SAFETY: `bytes` is at least `ALIGNMENT` and was checked against the largest block.
        let mut result = unsafe { self.raw.alloc(&desc) };
        if matches!(result, Err(HalError::OutOfMemory { .. })) {
            device.reclaim();
            // SAFETY: `desc` is the one of the first call.
            result = unsafe { self.raw.alloc(&desc) };
        }
        let block = result.map_err(|error| match error {
            HalError::OutOfMemory { .. } => device.out_of_memory(request, device.info().memory.total),
            other => Error::device(&device.info().id, other),
        })?;
        self.budget.reserve(bytes);
        // SAFETY: the block was just made and lives until it is freed.
        let host = unsafe { self.raw.map(block) }.map(|slice| slice.cast::<u8>());
        Ok((block, host))
    }

    /// A block for one request.
    fn whole(&self, device: &Device, bytes: usize, request: &Request) -> Result<Allocation> {
        let (block, host) = self.block(device, bytes, request)?;
        Ok(Allocation {
            home: Arc::clone(device.memory()),
            source: Source::Block,
            block,
            offset: 0,
            bytes,
            host,
            writable: true,
            // These take whole blocks zeroed from the system.
            zeroed: matches!(self.raw.info().backend, Backend::Cpu | Backend::Null),
            kind: request.kind,
            purpose: request.purpose,
        })
    }

    /// Cuts a range from a shared block, making one if needed.
    fn range(&self, device: &Device, bytes: usize, request: &Request) -> Result<Allocation> {
        let cut = |shared: &mut SharedBlock| {
            let start = shared.cut(bytes)?;
            Some(Allocation {
                home: Arc::clone(device.memory()),
                source: Source::Range,
                block: shared.block,
                offset: start,
                bytes,
                // SAFETY: `start` lies in the block, which the host sees as one piece.
                host: shared.host.map(|address| unsafe { address.0.add(start) }),
                writable: true,
                zeroed: false,
                kind: request.kind,
                purpose: request.purpose,
            })
        };
        let found = self.blocks().iter_mut().filter(|shared| shared.kind == request.kind).find_map(cut);
        if let Some(allocation) = found {
            return Ok(allocation);
        }
        // Making a block may reclaim memory, which takes the lock.
        let size = SHARED_BLOCK.min(self.raw.info().limits.max_block);
        let (block, host) = match self.block(device, size, request) {
            Ok(made) => made,
            // A block of this request alone may fit.
            Err(Error::OutOfMemory { .. }) if bytes < size => return self.whole(device, bytes, request),
            Err(error) => return Err(error),
        };
        let free = BTreeMap::from([(0, size)]);
        let mut shared =
            SharedBlock { block, bytes: size, kind: request.kind, host: host.map(HostAddress), free };
        let made = cut(&mut shared);
        self.blocks().push(shared);
        made.ok_or_else(|| device.out_of_memory(request, size))
    }

    /// Makes an allocation over host memory, charged to `purpose`.
    ///
    /// # Safety
    ///
    /// As for [`HostRegion`]; `owner` keeps the memory alive.
    pub(crate) unsafe fn import(
        self: &Arc<DeviceAllocator>,
        host: HostRegion,
        purpose: Purpose,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Allocation> {
        let id = &self.raw.info().id;
        // SAFETY: `host` stays valid and unshared until the block is freed (`# Safety`); the allocation keeps `owner` until then.
        let imported = unsafe { self.raw.import(host) }.map_err(|error| Error::device(id, error))?;
        let Some(imported) = imported else {
            return Err(Error::NoImport { device: id.clone() });
        };
        // Imported memory is the host's already: it counts as used, but never against the device's limit.
        self.budget.force(purpose, host.bytes);
        self.budget.reserve(host.bytes);
        Ok(Allocation {
            home: Arc::clone(self),
            source: Source::Import { _owner: owner },
            block: imported.block,
            offset: imported.offset,
            bytes: host.bytes,
            host: Some(host.start),
            writable: host.writable,
            // Its contents are its owner's.
            zeroed: true,
            kind: MemoryKind::Shared,
            purpose,
        })
    }

    /// Makes an allocation over a buffer of the backend's own API.
    ///
    /// # Safety
    ///
    /// As for [`RawDevice::adopt`], and the buffer has the bytes of the request from its offset on.
    pub(crate) unsafe fn adopt(
        self: &Arc<DeviceAllocator>,
        native: &NativeBuffer,
        request: &Request,
    ) -> Result<Allocation> {
        let id = &self.raw.info().id;
        // SAFETY: `native.object` is a live buffer of this device (`# Safety`).
        let adopted = unsafe { self.raw.adopt(native.object) }.map_err(|error| Error::device(id, error))?;
        let Some(block) = adopted else { return Err(Error::NoImport { device: id.clone() }) };
        // SAFETY: the block was just made and lives until it is freed.
        let host = unsafe { self.raw.map(block) }.map(|slice| slice.cast::<u8>());
        // It was allocated outside: it counts as used, but never against the device's limit.
        self.budget.force(request.purpose, request.bytes);
        self.budget.reserve(request.bytes);
        Ok(Allocation {
            home: Arc::clone(self),
            source: Source::Block,
            block,
            offset: native.offset,
            bytes: request.bytes,
            // SAFETY: the buffer has the bytes of the request from this offset on (`# Safety`).
            host: host.map(|start| unsafe { start.add(native.offset) }),
            writable: native.writable,
            // Its contents are its owner's.
            zeroed: true,
            kind: if host.is_some() { MemoryKind::Shared } else { MemoryKind::Private },
            purpose: request.purpose,
        })
    }

    /// Takes an allocation back that is being dropped.
    pub(super) fn take_back(&self, allocation: &Allocation) {
        self.budget.refund(allocation.purpose, allocation.bytes);
        if let Source::Range = allocation.source {
            let mut blocks = self.blocks();
            if let Some(shared) = blocks.iter_mut().find(|shared| shared.block == allocation.block) {
                shared.join(allocation.offset, allocation.bytes);
            }
            drop(blocks);
            // One empty block is kept, or a program that makes and drops a buffer makes and frees a block each time.
            self.trim(1);
        } else {
            self.budget.unreserve(allocation.bytes);
            // SAFETY: the allocation was the whole block, and storages die only when the device is done with them.
            unsafe { self.raw.free(allocation.block) };
        }
    }

    /// Frees empty shared blocks, all but `keep` of them.
    pub(crate) fn trim(&self, keep: usize) {
        let mut kept = 0;
        let mut gone = Vec::new();
        self.blocks().retain(|block| {
            let stays = !block.is_empty() || {
                kept += 1;
                kept <= keep
            };
            if !stays {
                gone.push((block.block, block.bytes));
            }
            stays
        });
        for (block, bytes) in gone {
            self.budget.unreserve(bytes);
            // SAFETY: no range of it is in use, and ranges come back only after the device is done with them.
            unsafe { self.raw.free(block) };
        }
    }
}

impl Allocator for DeviceAllocator {
    fn name(&self) -> &'static str {
        "device"
    }

    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        if !std::ptr::eq(self, Arc::as_ptr(device.memory())) {
            let (expected, got) = (device.info().id.clone(), self.raw.info().id.clone());
            return Err(Error::WrongDevice { what: "allocator", expected, got });
        }
        let limit = self.raw.info().limits.max_block;
        let rounded =
            request.bytes.max(1).checked_next_multiple_of(ALIGNMENT).filter(|&bytes| bytes <= limit);
        let Some(bytes) = rounded else {
            let device = device.info().id.clone();
            return Err(Error::TooLarge { device, what: "allocation", bytes: request.bytes, limit });
        };
        device.charge(request, bytes)?;
        let made = if bytes <= LARGEST_SHARED {
            self.range(device, bytes, request)
        } else {
            self.whole(device, bytes, request)
        };
        made.inspect_err(|_| self.budget.refund(request.purpose, bytes))
    }
}

impl Drop for DeviceAllocator {
    fn drop(&mut self) {
        // Every allocation holds its allocator, so no range is in use.
        self.trim(0);
    }
}

impl fmt::Debug for DeviceAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceAllocator({} shared blocks on {})", self.blocks().len(), self.raw.info().id)
    }
}
