//! Pools: memory kept for reuse in power-of-two buckets.
//!
//! Memory comes back to a pool when the last handle is gone *and* the device has reached the last ticket that
//! used it, so memory in the pool is free. The pool keeps at most a budget of bytes. Beyond that the least recently
//! used memory returns to the device.

use super::allocator::Source;
use super::{Allocation, Allocator, DeviceAllocator, Purpose, Request};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use silicide_hal::MemoryKind;
use silicide_quant::{DType, Shape, ShapeError};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The smallest bucket.
const SMALLEST: usize = 256;

/// Memory kept for reuse. See the module's documentation.
///
/// ```no_run
/// # fn main() -> silicide_core::Result<()> {
/// use silicide_core::{BufferPool, Device};
/// use silicide_quant::DType;
/// let device = Device::cpu()?;
/// let pool = BufferPool::new(&device, 16 << 20);
/// let first = pool.buffer(DType::F32, [1000])?;
/// drop(first);
/// let again = pool.buffer(DType::F32, [900])?; // the same 4096-byte bucket
/// # let _ = again; Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct BufferPool {
    shared: Arc<SharedPool>,
}

/// Dropped with the last handle of the pool. Buffers from the pool may live longer.
#[derive(Debug)]
struct SharedPool {
    device: Device,
    shelf: Arc<Shelf>,
}

/// Memory that a pool holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Bytes kept for reuse.
    pub kept_bytes: usize,
    /// Allocations kept for reuse.
    pub kept: usize,
    /// Requests that kept memory served.
    pub hits: u64,
    /// Requests that went to the device.
    pub misses: u64,
    /// Allocations that were freed to stay within the budget.
    pub evicted: u64,
}

/// The buckets, without a device: the part that a device has one of itself.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// Whose memory is kept here.
    home: Arc<DeviceAllocator>,
    budget: usize,
    state: Mutex<PoolState>,
}

/// A bucket: its size in bytes, and whether the host must see it.
type Bucket = (usize, bool);

#[derive(Debug, Default)]
struct PoolState {
    /// Kept allocations, oldest first, each with the time it came back.
    kept: BTreeMap<Bucket, VecDeque<(u64, Allocation)>>,
    /// Set when the pool is dropped: memory then returns to the device.
    closed: bool,
    clock: u64,
    usage: PoolUsage,
}

impl Shelf {
    pub(crate) fn new(home: &Arc<DeviceAllocator>, budget: usize) -> Shelf {
        Shelf { home: Arc::clone(home), budget, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn usage(&self) -> PoolUsage {
        self.state().usage
    }

    /// Returns the size of the bucket for `bytes` bytes. There is none for requests larger than the budget: they are never
    /// kept, so they are not rounded up.
    fn bucket(&self, bytes: usize) -> Option<usize> {
        bytes.max(SMALLEST).checked_next_power_of_two().filter(|&bytes| bytes <= self.budget)
    }

    /// Frees kept memory, least recently used first, until at most `bytes` are kept. Returns the number of freed allocations.
    pub(crate) fn trim(&self, bytes: usize) -> u64 {
        let mut gone = 0;
        loop {
            let mut state = self.state();
            if state.usage.kept_bytes <= bytes {
                return gone;
            }
            let oldest =
                state.kept.iter().filter_map(|(key, queue)| queue.front().map(|(at, _)| (*at, *key))).min();
            let Some(allocation) = oldest.and_then(|(_, bucket)| state.take(bucket, true)) else {
                return gone;
            };
            // Going back takes locks of the device.
            drop(state);
            drop(allocation);
            gone += 1;
        }
    }

    /// Keeps nothing from now on.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.trim(0);
    }

    fn reuse(&self, bucket: Bucket) -> Option<Allocation> {
        let mut state = self.state();
        let allocation = state.take(bucket, false)?;
        state.usage.hits += 1;
        Some(allocation)
    }
}

impl PoolState {
    fn take(&mut self, bucket: Bucket, oldest: bool) -> Option<Allocation> {
        let queue = self.kept.get_mut(&bucket)?;
        // The newest is the likeliest to be in a cache; the oldest is the one to evict.
        let (_, taken) = if oldest { queue.pop_front() } else { queue.pop_back() }?;
        if queue.is_empty() {
            self.kept.remove(&bucket);
        }
        self.usage.kept_bytes -= taken.bytes;
        self.usage.kept -= 1;
        Some(taken)
    }
}

impl Allocator for Shelf {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        let Some(bytes) = self.bucket(request.bytes) else {
            self.state().usage.misses += 1;
            return self.home.allocate(device, request);
        };
        let bucket = (bytes, request.kind == MemoryKind::Shared);
        let known = Arc::ptr_eq(&self.home, device.memory());
        let kept = known.then(|| {
            self.reuse(bucket).or_else(|| {
                // Work that has finished in the meantime may have left something.
                device.timeline().collect_now(device);
                self.reuse(bucket)
            })
        });
        if let Some(mut allocation) = kept.flatten() {
            allocation.assign(request.purpose);
            return Ok(allocation);
        }
        self.state().usage.misses += 1;
        self.home.allocate(device, &Request { bytes, ..*request })
    }

    fn release(&self, mut allocation: Allocation) {
        // Others may bring what did not come from here.
        let ours =
            Arc::ptr_eq(&allocation.home, &self.home) && !matches!(allocation.source, Source::Import { .. });
        let bytes = allocation.bytes;
        if !ours || !bytes.is_power_of_two() || bytes < SMALLEST || bytes > self.budget {
            return;
        }
        let mut state = self.state();
        if state.closed {
            return;
        }
        allocation.assign(Purpose::Pool);
        state.clock += 1;
        let (now, bucket) = (state.clock, (bytes, allocation.kind == MemoryKind::Shared));
        state.usage.kept += 1;
        state.usage.kept_bytes += bytes;
        state.kept.entry(bucket).or_default().push_back((now, allocation));
        drop(state);
        let evicted = self.trim(self.budget);
        self.state().usage.evicted += evicted;
    }
}

impl BufferPool {
    /// A pool on a device that keeps at most `budget` bytes for reuse.
    pub fn new(device: &Device, budget: usize) -> BufferPool {
        let (device, shelf) = (device.clone(), Arc::new(Shelf::new(device.memory(), budget)));
        device.know_pool(&shelf);
        BufferPool { shared: Arc::new(SharedPool { device, shelf }) }
    }

    /// A buffer from the pool. Its bytes are zero.
    pub fn buffer<S>(&self, dtype: DType, shape: S) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        Buffer::new_in(&self.shared.device, self.allocator(), dtype, shape)
    }

    /// The pool as an allocator, for buffers with other options.
    pub fn allocator(&self) -> Arc<dyn Allocator> {
        Arc::<Shelf>::clone(&self.shared.shelf)
    }

    /// Frees all memory that is kept.
    pub fn trim(&self) {
        self.shared.shelf.trim(0);
    }

    /// Returns the memory that the pool holds.
    pub fn usage(&self) -> PoolUsage {
        self.shared.shelf.usage()
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        self.shelf.close();
    }
}
