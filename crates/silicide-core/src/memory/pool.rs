//! Pools: memory kept for reuse in power-of-two buckets.
//!
//! Memory comes back to a pool when the last handle is gone *and* the device has reached the last ticket that
//! used it, so what the pool holds is free. It keeps at most a budget of bytes; beyond that the least recently
//! used goes back to the device.

use super::{Allocation, Allocator, Purpose, Request};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
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
    inner: Arc<Inner>,
}

/// Gone with the last handle of the pool; buffers from it may live longer.
#[derive(Debug)]
struct Inner {
    device: Device,
    shelf: Arc<Shelf>,
}

/// What a pool holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Bytes kept for reuse.
    pub kept_bytes: usize,
    /// Allocations kept for reuse.
    pub kept: usize,
    /// Requests served from what was kept.
    pub hits: u64,
    /// Requests that went to the device.
    pub misses: u64,
    /// Allocations given back to the device to stay within the budget.
    pub evicted: u64,
}

/// The buckets, without a device: the part that a device has one of itself.
#[derive(Debug)]
pub(crate) struct Shelf {
    budget: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Kept allocations by (bucket, kind), oldest first, each with the time it came back.
    kept: BTreeMap<(usize, bool), VecDeque<(u64, Allocation)>>,
    /// Set when the pool is gone: what comes back goes straight to the device.
    closed: bool,
    clock: u64,
    usage: PoolUsage,
}

impl Shelf {
    pub(crate) fn new(budget: usize) -> Shelf {
        Shelf { budget, state: Mutex::new(State::default()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn usage(&self) -> PoolUsage {
        self.state().usage
    }

    /// Everything that is kept, for a device that goes.
    pub(crate) fn drain(&self) -> Vec<Allocation> {
        let kept = std::mem::take(&mut self.state().kept);
        kept.into_values().flatten().map(|(_, allocation)| allocation).collect()
    }

    /// Gives kept memory back to the device until at most `bytes` are kept, least recently used first.
    pub(crate) fn trim(&self, device: &Device, bytes: usize) {
        loop {
            let mut state = self.state();
            if state.usage.kept_bytes <= bytes {
                return;
            }
            let oldest =
                state.kept.iter().filter_map(|(key, queue)| queue.front().map(|(at, _)| (*at, *key))).min();
            let Some((_, key)) = oldest else { return };
            let Some((_, allocation)) = state.take(key, true) else { return };
            state.usage.evicted += 1;
            drop(state);
            device.allocator().release(device, allocation);
        }
    }
}

impl State {
    fn take(&mut self, key: (usize, bool), oldest: bool) -> Option<(u64, Allocation)> {
        let queue = self.kept.get_mut(&key)?;
        // The newest is the likeliest to be in a cache; the oldest is the one to evict.
        let taken = if oldest { queue.pop_front() } else { queue.pop_back() }?;
        if queue.is_empty() {
            self.kept.remove(&key);
        }
        self.usage.kept_bytes -= taken.1.bytes;
        self.usage.kept -= 1;
        Some(taken)
    }
}

fn key(bytes: usize, kind: MemoryKind) -> Option<(usize, bool)> {
    Some((bytes.max(SMALLEST).checked_next_power_of_two()?, kind == MemoryKind::Shared))
}

impl Allocator for Shelf {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        let Some(key) = key(request.bytes, request.kind) else {
            let limit = device.info().limits.max_block;
            let device = device.info().id.clone();
            return Err(Error::TooLarge { device, what: "allocation", bytes: request.bytes, limit });
        };
        let mut state = self.state();
        if let Some((_, mut allocation)) = state.take(key, false) {
            state.usage.hits += 1;
            drop(state);
            device.budget().refund(Purpose::Pool, allocation.bytes);
            allocation.purpose = request.purpose;
            allocation.zeroed = false;
            if let Err(error) = device.charge(request, allocation.bytes) {
                self.keep(device, key, allocation);
                return Err(error);
            }
            return Ok(allocation);
        }
        state.usage.misses += 1;
        drop(state);
        device.allocator().allocate(device, &Request { bytes: key.0, ..*request })
    }

    fn release(&self, device: &Device, allocation: Allocation) {
        let kind = if allocation.host.is_some() { MemoryKind::Shared } else { MemoryKind::Private };
        let keeps = allocation.bytes <= self.budget && !self.state().closed;
        let Some(key) = key(allocation.bytes, kind).filter(|_| keeps) else {
            return device.allocator().release(device, allocation);
        };
        device.budget().refund(allocation.purpose, allocation.bytes);
        self.keep(device, key, allocation);
        self.trim(device, self.budget);
    }
}

impl Shelf {
    fn keep(&self, device: &Device, key: (usize, bool), mut allocation: Allocation) {
        // It was charged until a moment ago, so counting it again breaks no limit.
        allocation.purpose = Purpose::Pool;
        let bytes = allocation.bytes;
        device.budget().force(Purpose::Pool, bytes);
        let mut state = self.state();
        state.clock += 1;
        let now = state.clock;
        state.usage.kept += 1;
        state.usage.kept_bytes += bytes;
        state.kept.entry(key).or_default().push_back((now, allocation));
    }
}

impl BufferPool {
    /// A pool on a device that keeps at most `budget` bytes for reuse.
    pub fn new(device: &Device, budget: usize) -> BufferPool {
        let (device, shelf) = (device.clone(), Arc::new(Shelf::new(budget)));
        BufferPool { inner: Arc::new(Inner { device, shelf }) }
    }

    /// A buffer from the pool. Its bytes are zero.
    pub fn buffer<S>(&self, dtype: DType, shape: S) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        Buffer::new_in(&self.inner.device, self.allocator(), dtype, shape)
    }

    /// The pool as an allocator, for buffers with other options.
    pub fn allocator(&self) -> Arc<dyn Allocator> {
        Arc::<Shelf>::clone(&self.inner.shelf)
    }

    /// Gives everything that is kept back to the device.
    pub fn trim(&self) {
        self.inner.shelf.trim(&self.inner.device, 0);
    }

    /// What the pool holds.
    pub fn usage(&self) -> PoolUsage {
        self.inner.shelf.usage()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shelf.state().closed = true;
        self.shelf.trim(&self.device, 0);
    }
}
