//! Storages: an allocation, the last tickets that wrote and used it, the host guards held over it.
//!
//! The invariant: bytes under a host guard are never touched by a device, and bytes that a device may still touch
//! are never under a guard. Submitting marks storages with its ticket under their lock; taking a guard registers
//! it under the same lock before waiting for the ticket it finds.
//!
//! A storage does not hold its device, because lists in flight hold storages and the device holds those lists: a
//! device without users would never be dropped. Buffers hold both.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::{Allocation, Allocator, Request};
use silicide_hal::Ticket;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The identity of an allocation: shared by all views of it, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageId(u64);

impl StorageId {
    /// Returns the identity as a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
impl StorageId {
    /// An identity for tests that need no storage.
    pub(crate) fn of(number: u64) -> StorageId {
        StorageId(number)
    }
}

impl fmt::Display for StorageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "storage {}", self.0)
    }
}

/// Numbers for storages and handles. 64 bits do not run out.
pub(crate) fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Memory that views share.
pub(crate) struct Storage {
    id: StorageId,
    allocator: Arc<dyn Allocator>,
    request: Request,
    allocation: OnceLock<Allocation>,
    /// Serialises the first allocation.
    allocating: Mutex<()>,
    state: Mutex<StorageState>,
    /// The name that graphs show.
    label: OnceLock<Box<str>>,
    /// Whether it was frozen: then nothing more is recorded that writes it.
    frozen: AtomicBool,
}

/// The mutable state of a storage.
#[derive(Debug, Default)]
pub(crate) struct StorageState {
    last_write: Ticket,
    last_use: Ticket,
    /// What `claim` replaced, in case the submission does not happen.
    before: (Ticket, Ticket),
    guards: SmallVec<[HeldGuard; 2]>,
    next_guard: u64,
    poison: Option<Arc<Error>>,
}

/// A host guard.
#[derive(Clone, Debug)]
struct HeldGuard {
    id: u64,
    range: Range<usize>,
    writes: bool,
}

impl StorageState {
    /// Marks the storage as used by a submission.
    pub(crate) fn claim(&mut self, ticket: Ticket, writes: bool) {
        self.before = (self.last_write, self.last_use);
        self.last_use = ticket;
        if writes {
            self.last_write = ticket;
        }
    }

    /// Takes a claim back.
    pub(crate) fn unclaim(&mut self, ticket: Ticket) {
        if self.last_use == ticket {
            (self.last_write, self.last_use) = self.before;
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.guards.is_empty()
    }

    pub(crate) fn poison(&self) -> Option<&Arc<Error>> {
        self.poison.as_ref()
    }

    pub(crate) fn set_poison(&mut self, cause: Arc<Error>) {
        self.poison = Some(cause);
    }

    pub(crate) fn heal(&mut self) {
        self.poison = None;
    }

    /// Refuses access to bytes that a guard holds: any for writing, written ones for reading.
    pub(crate) fn check_guards(
        &self,
        what: &'static str,
        id: StorageId,
        range: &Range<usize>,
        writes: bool,
    ) -> Result<()> {
        let overlaps = |held: &HeldGuard| held.range.start < range.end && range.start < held.range.end;
        match self.guards.iter().find(|held| overlaps(held) && (writes || held.writes)) {
            None => Ok(()),
            Some(held) => Err(Error::HostGuard {
                what,
                storage: id.to_string(),
                start: held.range.start,
                end: held.range.end,
                held: if held.writes { "write" } else { "read" },
            }),
        }
    }
}

impl Storage {
    pub(crate) fn new(allocator: Arc<dyn Allocator>, request: Request) -> Storage {
        Storage {
            id: StorageId(fresh_id()),
            allocator,
            request,
            allocation: OnceLock::new(),
            allocating: Mutex::new(()),
            state: Mutex::new(StorageState::default()),
            label: OnceLock::new(),
            frozen: AtomicBool::new(false),
        }
    }

    /// Refuses later writes; fails while the host holds a write guard.
    pub(crate) fn freeze(&self) -> Result<()> {
        let state = self.state();
        if let Some(held) = state.guards.iter().find(|held| held.writes) {
            let (start, end) = (held.range.start, held.range.end);
            return Err(Error::HostGuard {
                what: "freeze",
                storage: self.id.to_string(),
                start,
                end,
                held: "write",
            });
        }
        self.frozen.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }

    pub(crate) fn label(&self) -> &OnceLock<Box<str>> {
        &self.label
    }

    pub(crate) fn id(&self) -> StorageId {
        self.id
    }

    pub(crate) fn allocator(&self) -> &Arc<dyn Allocator> {
        &self.allocator
    }

    /// Bytes requested; the allocation may have more.
    pub(crate) fn bytes(&self) -> usize {
        self.request.bytes
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, StorageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_allocated(&self) -> bool {
        self.allocation.get().is_some()
    }

    /// The memory, allocating it on first need.
    pub(crate) fn allocation(&self, device: &Device) -> Result<&Allocation> {
        if let Some(allocation) = self.allocation.get() {
            return Ok(allocation);
        }
        let _first = self.allocating.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(allocation) = self.allocation.get() {
            return Ok(allocation);
        }
        let mut allocation = self.allocator.allocate(device, &self.request)?;
        self.check(device, &allocation)?;
        allocation.assign(self.request.purpose);
        if self.request.zeroed && !allocation.zeroed {
            allocation = self.zero(device, allocation)?;
        }
        Ok(self.allocation.get_or_init(|| allocation))
    }

    /// Allocators may be code of the application: an allocation must match the request.
    fn check(&self, device: &Device, allocation: &Allocation) -> Result<()> {
        let what = "allocator";
        if !allocation.is_of(device) {
            let (expected, got) = (device.info().id.clone(), allocation.device_id().to_owned());
            return Err(Error::WrongDevice { what, expected, got });
        }
        if allocation.bytes < self.bytes() {
            return Err(Error::SizeMismatch { what, expected: self.bytes(), got: allocation.bytes });
        }
        Ok(())
    }

    fn zero(&self, device: &Device, allocation: Allocation) -> Result<Allocation> {
        if !allocation.writable {
            return Err(Error::ReadOnly { what: "allocator" });
        }
        let Some(host) = allocation.host else {
            return crate::record::fill_block(device, allocation, 0);
        };
        // SAFETY: `check` has compared its length with `self.bytes()`. The allocation is new, so no other code has its
        // address.
        unsafe { host.write_bytes(0, self.bytes()) };
        Ok(allocation)
    }

    /// Registers a guard and waits until the device is done with the bytes.
    pub(crate) fn hold(
        &self,
        device: &Device,
        what: &'static str,
        range: Range<usize>,
        writes: bool,
    ) -> Result<u64> {
        let id = {
            let mut state = self.state();
            if writes && self.is_frozen() {
                return Err(Error::ReadOnly { what });
            }
            state.check_guards(what, self.id, &range, writes)?;
            state.next_guard += 1;
            let id = state.next_guard;
            state.guards.push(HeldGuard { id, range: range.clone(), writes });
            id
        };
        let waited = device.timeline().wait_until_done(device, || {
            let state = self.state();
            if writes { state.last_use } else { state.last_write }
        });
        let mut state = self.state();
        // A failed submission shows as poison of what it wrote. For a host write it does not matter: the device is
        // done with the bytes, and new contents replace what was lost.
        let outcome = match (waited, &state.poison) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(cause)) if !writes => Err(Error::Poisoned { what, cause: Arc::clone(cause) }),
            (Ok(_), _) => Ok(id),
        };
        if outcome.is_err() {
            state.guards.retain(|held| held.id != id);
        } else if writes && range == (0..self.bytes()) {
            state.heal();
        }
        outcome
    }

    /// Ends a guard.
    pub(crate) fn let_go(&self, guard: u64) {
        self.state().guards.retain(|held| held.id != guard);
    }

    /// Waits until the device is done with the storage; says how the last list that used it went.
    pub(crate) fn synchronize(&self, device: &Device) -> Result<()> {
        let timeline = device.timeline();
        timeline.wait_until_done(device, || self.state().last_use).and_then(|ticket| timeline.outcome(ticket))
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(mut allocation) = self.allocation.take() {
            allocation.zeroed = false;
            self.allocator.release(allocation);
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({}, {} bytes)", self.id.0, self.bytes())
    }
}
