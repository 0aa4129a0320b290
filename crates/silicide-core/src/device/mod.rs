//! Devices: opening them, and the one place where memory, pipelines, the timeline and the counters of a device
//! meet. A [`Device`] is a handle; clones share everything.

mod capture;
mod counters;
mod open;
mod timeline;

pub use capture::Capture;
pub(crate) use counters::{CounterSet, Tally};
pub use counters::{Counters, KernelCount};
pub use open::{DeviceOptions, Listing};
pub(crate) use timeline::{StorageUse, Timeline};

use crate::buffer::{Buffer, Storage};
use crate::error::{Error, Result};
use crate::kernel::KernelRegistry;
use crate::memory::{Budget, DeviceAllocator, PoolUsage, Request, Shelf, Usage};
use crate::record::Recycler;
use rustc_hash::FxHashMap;
use silicide_hal::{DeviceInfo, RawDevice};
use silicide_quant::{DType, Shape};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An opened CPU or GPU. Cheap to clone; safe to share between threads.
///
/// ```
/// # extern crate silicide_core as silicide;
/// use silicide::Device;
///
/// let device = Device::cpu()?; // or Device::best(), Device::open("vulkan")
/// println!("{}: {} GiB", device.info().name, device.info().memory.total >> 30);
/// for info in Device::list().devices {
///     println!("{}", info.id);
/// }
/// # Ok::<(), silicide::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    shared: Arc<DeviceState>,
}

struct DeviceState {
    memory: Arc<DeviceAllocator>,
    /// Outputs and scratch of recorded ops.
    shelf: Arc<Shelf>,
    /// Pools of this device. They are trimmed when memory runs out.
    pools: Mutex<Vec<Weak<Shelf>>>,
    timeline: Timeline,
    registry: KernelRegistry,
    counters: CounterSet,
    recycler: Recycler,
    /// Tables of kernels that were used, by address and length.
    tables: Mutex<FxHashMap<(usize, usize), Arc<Storage>>>,
    poison_scratch: bool,
    loose_bindings: bool,
}

impl Device {
    /// A device over a backend. [`Device::open`] is the usual way; this one takes backends of your own.
    ///
    /// # Safety
    ///
    /// The backend belongs to this device: no other is made over it, and nothing else submits to it.
    pub unsafe fn with_backend(raw: Arc<dyn RawDevice>, options: &DeviceOptions) -> Device {
        let total = raw.info().memory.total;
        let limit = options.memory_budget.unwrap_or(if total == 0 { usize::MAX } else { total });
        // Memory kept for reuse is at most a twentieth of the limit.
        let kept = options.pool_budget.unwrap_or(limit / 20);
        let registry = KernelRegistry::new(Arc::clone(&raw), options.kernel_cache.clone());
        let memory = Arc::new(DeviceAllocator::new(raw, limit));
        Device {
            shared: Arc::new(DeviceState {
                shelf: Arc::new(Shelf::new(&memory, kept)),
                memory,
                pools: Mutex::default(),
                timeline: Timeline::default(),
                registry,
                counters: CounterSet::default(),
                recycler: Recycler::default(),
                tables: Mutex::default(),
                poison_scratch: options.poison_scratch,
                loose_bindings: options.loose_bindings,
            }),
        }
    }

    /// Limits, features and memory.
    pub fn info(&self) -> &DeviceInfo {
        self.raw().info()
    }

    /// Bytes in use by purpose, with peaks.
    pub fn usage(&self) -> Usage {
        self.timeline().collect(self);
        Usage { workspaces: self.raw().workspace_bytes(), ..self.budget().usage() }
    }

    /// Returns the memory that the device keeps for reuse by the outputs and scratch of ops.
    pub fn pool_usage(&self) -> PoolUsage {
        self.shared.shelf.usage()
    }

    /// Returns memory that the device and its pools keep for reuse to the backend.
    pub fn trim(&self) {
        self.timeline().collect(self);
        self.shared.shelf.trim(0);
        let pools: Vec<Arc<Shelf>> = self.pools().iter().filter_map(Weak::upgrade).collect();
        for pool in pools {
            pool.trim(0);
        }
        self.memory().trim(0);
    }

    /// Waits until everything submitted so far is done.
    pub fn synchronize(&self) -> Result<()> {
        self.timeline().drain(self)
    }

    /// Returns the counts of work that was recorded and run since the device was opened.
    pub fn counters(&self) -> Counters {
        self.shared.counters.snapshot()
    }

    /// The compiled kernels.
    pub fn kernels(&self) -> &KernelRegistry {
        &self.shared.registry
    }

    /// Messages of a validation layer since the last call; always empty without one.
    pub fn validation_messages(&self) -> Vec<String> {
        self.raw().validation_messages()
    }

    /// Whether two handles are the same device.
    pub fn is_same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn raw(&self) -> &dyn RawDevice {
        &**self.shared.memory.raw()
    }

    pub(crate) fn budget(&self) -> &Budget {
        self.shared.memory.budget()
    }

    pub(crate) fn memory(&self) -> &Arc<DeviceAllocator> {
        &self.shared.memory
    }

    fn pools(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Shelf>>> {
        self.shared.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a pool take part in giving memory back.
    pub(crate) fn know_pool(&self, pool: &Arc<Shelf>) {
        let mut pools = self.pools();
        pools.retain(|known| known.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    pub(crate) fn shelf(&self) -> &Arc<Shelf> {
        &self.shared.shelf
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        &self.shared.timeline
    }

    pub(crate) fn counter_set(&self) -> &CounterSet {
        &self.shared.counters
    }

    pub(crate) fn recycler(&self) -> &Recycler {
        &self.shared.recycler
    }

    /// A table of a kernel in the device's memory.
    pub(crate) fn table(&self, words: &'static [u32]) -> Result<Buffer> {
        let key = (words.as_ptr().addr(), words.len());
        let mut tables = self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(storage) = tables.get(&key) {
            let shape = Shape::new(&[words.len()]).map_err(|error| Error::bad_shape("table", error))?;
            return Ok(Buffer::over(self, storage, DType::U32, shape));
        }
        let buffer = Buffer::from_slice(self, [words.len()], words)?;
        // Not the buffer: that would hold the device, and the device would never go.
        tables.insert(key, Arc::clone(buffer.storage()));
        Ok(buffer)
    }

    pub(crate) fn poisons_scratch(&self) -> bool {
        self.shared.poison_scratch
    }

    pub(crate) fn loosens_bindings(&self) -> bool {
        self.shared.loose_bindings
    }

    /// Charges bytes to the budget. Frees memory that is kept for reuse before it refuses.
    pub(crate) fn charge(&self, request: &Request, bytes: usize) -> Result<()> {
        let budget = self.budget();
        if budget.charge(request.purpose, bytes).is_ok() {
            return Ok(());
        }
        if bytes <= budget.limit() {
            self.reclaim();
        }
        budget.charge(request.purpose, bytes).map_err(|_| self.out_of_memory(request, budget.limit()))
    }

    /// Frees whatever can be freed: finished work, kept memory, empty blocks.
    pub(crate) fn reclaim(&self) {
        // A failure of earlier work is reported where that work is waited for, not by an allocation.
        let _ = self.synchronize();
        self.trim();
    }

    pub(crate) fn out_of_memory(&self, request: &Request, limit: usize) -> Error {
        Error::OutOfMemory {
            device: self.info().id.clone(),
            requested: request.bytes,
            purpose: request.purpose.name(),
            in_use: self.budget().in_use(),
            limit,
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.info().id)
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.is_same(other)
    }
}

impl Drop for DeviceState {
    fn drop(&mut self) {
        // Buffers hold the device, but guards and lists in flight hold only storages: some may still run. What they
        // used goes back now, past the pools.
        self.shelf.close();
        self.timeline.finish(&**self.memory.raw());
    }
}
