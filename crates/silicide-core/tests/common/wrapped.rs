//! Backends that do what no device here does: one whose private memory the host can't see, as that of a discrete GPU,
//! and one that stops in the middle of a submission. Everything else is done by the backend inside.

use super::Released;
use silicide_core::hal::cpu::{self, CpuOptions};
use silicide_core::hal::null::{self, NullDevice, NullOptions};
use silicide_core::hal::{
    BlockDesc, CommandList, DeviceInfo, Forward, HalError, HostRegion, Imported, MemoryKind, RawBaked,
    RawBlock, RawDevice, Ticket,
};
use silicide_core::{Device, DeviceOptions};
use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

type Result<T> = std::result::Result<T, HalError>;
/// Done instead of a submission.
type Instead = Box<dyn FnOnce() -> HalError + Send>;

/// The backend.
pub(crate) struct Wrapped {
    raw: Arc<dyn RawDevice>,
    info: DeviceInfo,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hidden: HashSet<RawBlock>,
    live: HashSet<RawBlock>,
    instead: Option<Instead>,
}

/// The CPU with the memory of a discrete GPU: private blocks are hidden, and host memory can't be imported.
pub(crate) fn discrete() -> (Device, Arc<Wrapped>) {
    let raw = cpu::open(&CpuOptions::default()).unwrap();
    let mut info = raw.info().clone();
    info.id = "discrete".to_owned();
    info.features.unified_memory = false;
    info.features.host_import = false;
    wrap(raw, info)
}

/// A null device that keeps work in flight, and can be told to do something else instead of a submission.
pub(crate) fn interruptible() -> (Device, Arc<Wrapped>, Arc<NullDevice>, Released) {
    let raw = null::open(&NullOptions::default().hold()).unwrap();
    let info = raw.info().clone();
    let (device, wrapped) = wrap(raw.clone(), info);
    let released = Released(raw.clone());
    (device, wrapped, raw, released)
}

fn wrap(raw: Arc<dyn RawDevice>, info: DeviceInfo) -> (Device, Arc<Wrapped>) {
    let raw = Arc::new(Wrapped { raw, info, state: Mutex::default() });
    // SAFETY: the backend was just made, and nothing else uses it.
    (unsafe { Device::with_backend(raw.clone(), &DeviceOptions::default()) }, raw)
}

impl Wrapped {
    /// Blocks that live, and how many of them are hidden.
    pub(crate) fn blocks(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.live.len(), state.hidden.len())
    }

    /// Does this instead of the next submission, which fails with what it returns.
    pub(crate) fn instead_of_submit(&self, instead: impl FnOnce() -> HalError + Send + 'static) {
        self.state.lock().unwrap().instead = Some(Box::new(instead));
    }

    /// Fails with what was to be done instead of this submission, if anything.
    fn interrupt(&self) -> Result<()> {
        let instead = self.state.lock().unwrap().instead.take();
        instead.map_or(Ok(()), |instead| Err(instead()))
    }
}

// SAFETY: verbs are those of the inner backend; hiding a mapping or refusing a list breaks no promise.
unsafe impl Forward for Wrapped {
    fn inner(&self) -> &dyn RawDevice {
        &*self.raw
    }

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    unsafe fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock> {
        // SAFETY: the same call, with the same conditions.
        let block = unsafe { self.raw.alloc(desc) }?;
        let mut state = self.state.lock().unwrap();
        state.live.insert(block);
        if desc.kind == MemoryKind::Private {
            state.hidden.insert(block);
        }
        Ok(block)
    }

    unsafe fn import(&self, host: HostRegion) -> Result<Option<Imported>> {
        if !self.info.features.host_import {
            return Ok(None);
        }
        // SAFETY: the same call, with the same conditions.
        unsafe { self.raw.import(host) }
    }

    unsafe fn free(&self, block: RawBlock) {
        let mut state = self.state.lock().unwrap();
        assert!(state.live.remove(&block), "freed twice");
        state.hidden.remove(&block);
        // SAFETY: the same call, with the same conditions.
        unsafe { self.raw.free(block) }
    }

    unsafe fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>> {
        if self.state.lock().unwrap().hidden.contains(&block) {
            return None;
        }
        // SAFETY: the same call, with the same conditions.
        unsafe { self.raw.map(block) }
    }

    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
        self.interrupt()?;
        // SAFETY: the same call, with the same conditions.
        unsafe { self.raw.submit(list, ticket) }
    }

    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()> {
        self.interrupt()?;
        // SAFETY: the same call, with the same conditions.
        unsafe { self.raw.replay(baked, ticket) }
    }
}
