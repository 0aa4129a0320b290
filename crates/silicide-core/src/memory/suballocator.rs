//! The device allocator: few big blocks, cut in ranges.
//!
//! Backends limit how many blocks may live and make each one slowly, so small requests share blocks of 64 MiB;
//! large ones get a block of their own. Ranges are aligned to 256 bytes, which every device accepts as the start
//! of a binding.

use super::{Allocation, Allocator, Budget, Request};
use crate::device::Device;
use crate::error::{Error, Result};
use silicide_hal::{Backend, BlockDesc, HalError, MemoryKind, RawBlock, RawDevice};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ranges start at multiples of this many bytes.
const ALIGNMENT: usize = 256;
/// Blocks that are shared have this size.
const SHARED_BLOCK: usize = 64 << 20;
/// Requests above this size get a block of their own.
const LARGEST_SHARED: usize = SHARED_BLOCK / 4;

/// The allocator that every device has. See the module's documentation.
#[derive(Debug, Default)]
pub struct DeviceAllocator {
    /// Blocks that are cut in ranges.
    blocks: Mutex<Vec<Shared>>,
}

/// A block that is cut in ranges.
#[derive(Debug)]
struct Shared {
    block: RawBlock,
    bytes: usize,
    kind: MemoryKind,
    host: Option<HostAddress>,
    /// Free ranges: start to length. Neighbours are always joined.
    free: BTreeMap<usize, usize>,
}

#[derive(Clone, Copy, Debug)]
struct HostAddress(NonNull<u8>);
// SAFETY: an address; the bytes are reached only through allocations.
unsafe impl Send for HostAddress {}
// SAFETY: as above.
unsafe impl Sync for HostAddress {}

impl Shared {
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
    fn blocks(&self) -> MutexGuard<'_, Vec<Shared>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the backend for a block; when it has no memory left, gives back what caches hold and asks once more.
    fn block(
        &self,
        device: &Device,
        bytes: usize,
        request: &Request,
    ) -> Result<(RawBlock, Option<NonNull<u8>>)> {
        let desc = BlockDesc { bytes, kind: request.kind };
        // SAFETY: `bytes` is at least `ALIGNMENT` and was checked against the largest block.
        let mut result = unsafe { device.raw().alloc(&desc) };
        if matches!(result, Err(HalError::OutOfMemory { .. })) {
            device.reclaim();
            // SAFETY: as above.
            result = unsafe { device.raw().alloc(&desc) };
        }
        let block = result.map_err(|error| match error {
            HalError::OutOfMemory { .. } => device.out_of_memory(request, device.info().memory.total),
            other => Error::device(&device.info().id, other),
        })?;
        device.budget().reserve(bytes);
        // SAFETY: the block was just made and lives until it is freed.
        let host = unsafe { device.raw().map(block) }.map(|slice| slice.cast::<u8>());
        Ok((block, host))
    }

    /// Cuts a range from a shared block, making one if needed.
    fn shared(&self, device: &Device, bytes: usize, request: &Request) -> Result<Allocation> {
        let mut blocks = self.blocks();
        let fitting = blocks.iter_mut().filter(|block| block.kind == request.kind);
        for block in fitting {
            if let Some(start) = block.cut(bytes) {
                return Ok(allocation(block, start, bytes, request));
            }
        }
        // Making a block may reclaim memory, which takes this lock.
        drop(blocks);
        let size = SHARED_BLOCK.min(device.info().limits.max_block);
        let (block, host) = self.block(device, size, request)?;
        let free = BTreeMap::from([(0, size)]);
        let host = host.map(HostAddress);
        let mut shared = Shared { block, bytes: size, kind: request.kind, host, free };
        let start = shared.cut(bytes).unwrap_or(0);
        let made = allocation(&shared, start, bytes, request);
        self.blocks().push(shared);
        Ok(made)
    }

    /// All shared blocks, for a device that goes.
    pub(crate) fn drain(&self) -> Vec<RawBlock> {
        self.blocks().drain(..).map(|shared| shared.block).collect()
    }

    /// Gives empty shared blocks back to the backend, all but `keep` of them.
    pub(crate) fn trim(&self, raw: &dyn RawDevice, budget: &Budget, keep: usize) {
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
            budget.unreserve(bytes);
            // SAFETY: no range of it is in use, and ranges come back only after the device is done with them.
            unsafe { raw.free(block) };
        }
    }
}

/// Whether an allocation is a block of its own.
pub(crate) fn is_dedicated(allocation: &Allocation) -> bool {
    allocation.bytes > LARGEST_SHARED
}

fn allocation(block: &Shared, start: usize, bytes: usize, request: &Request) -> Allocation {
    // SAFETY: `start` lies in the block, which the host sees as one piece.
    let host = block.host.map(|address| unsafe { address.0.add(start) });
    Allocation {
        block: block.block,
        offset: start,
        bytes,
        host,
        writable: true,
        zeroed: false,
        purpose: request.purpose,
        owner: None,
    }
}

impl Allocator for DeviceAllocator {
    fn name(&self) -> &'static str {
        "device"
    }

    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        let limit = device.info().limits.max_block;
        let rounded = request.bytes.checked_next_multiple_of(ALIGNMENT).filter(|&bytes| bytes <= limit);
        let Some(bytes) = rounded else {
            let device = device.info().id.clone();
            return Err(Error::TooLarge { device, what: "allocation", bytes: request.bytes, limit });
        };
        device.charge(request, bytes)?;
        let made = if bytes <= LARGEST_SHARED {
            self.shared(device, bytes, request)
        } else {
            self.block(device, bytes, request).map(|(block, host)| Allocation {
                block,
                offset: 0,
                bytes,
                host,
                writable: true,
                // The CPU backend takes whole blocks zeroed from the system.
                zeroed: device.info().backend == Backend::Cpu,
                purpose: request.purpose,
                owner: None,
            })
        };
        made.inspect_err(|_| device.budget().refund(request.purpose, bytes))
    }

    fn release(&self, device: &Device, allocation: Allocation) {
        device.budget().refund(allocation.purpose, allocation.bytes);
        if is_dedicated(&allocation) {
            device.budget().unreserve(allocation.bytes);
            // SAFETY: the allocation was the whole block, and the device is done with it.
            unsafe { device.raw().free(allocation.block) };
            return;
        }
        let mut blocks = self.blocks();
        if let Some(block) = blocks.iter_mut().find(|block| block.block == allocation.block) {
            block.join(allocation.offset, allocation.bytes);
        }
        drop(blocks);
        self.trim(device.raw(), device.budget(), 1);
    }
}
