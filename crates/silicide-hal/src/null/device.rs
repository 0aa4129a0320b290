//! The null device, with counters and injected failures for tests. All state lies behind one lock: nothing here has to be
//! fast.
//!
//! Once the device is lost, every verb that can fail returns `DeviceLost`, and nothing is in flight. Blocks and pipelines
//! can still be freed, so that tests see whether the layers above free them.

use super::options::NullOptions;
use crate::baked::BakedLists;
use crate::cpu::memory;
use crate::{
    Backend, BlockDesc, CommandList, DeviceInfo, HalError, HostRegion, Imported, Memory, Program, RawBaked,
    RawBlock, RawDevice, RawPipeline, Result, Span, Ticket,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Blocks above this size have no bytes behind them, so that tests can allocate more than the machine has.
const BACKED: usize = 1 << 30;

/// Opens a null device.
pub fn open(options: &NullOptions) -> Result<Arc<NullDevice>> {
    let state = NullState { hold: options.hold, ..NullState::default() };
    Ok(Arc::new(NullDevice {
        info: describe(options),
        options: options.clone(),
        state: Mutex::new(state),
        moved: Condvar::new(),
        baked: BakedLists::default(),
    }))
}

/// A device that records lists and never runs them.
pub struct NullDevice {
    info: DeviceInfo,
    options: NullOptions,
    state: Mutex<NullState>,
    moved: Condvar,
    baked: BakedLists,
}

/// Live objects of a null device, and calls counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live blocks, imported ones included.
    pub blocks: usize,
    /// Bytes of live blocks that were allocated, not imported.
    pub bytes: usize,
    /// Live pipelines.
    pub pipelines: usize,
    /// Calls of `alloc`, failed ones included.
    pub allocs: u64,
    /// Calls of `compile`, failed ones included.
    pub compiles: u64,
    /// Calls of `submit` and `replay`, failed ones included.
    pub submissions: u64,
    /// Live baked lists.
    pub baked: usize,
}

#[derive(Default)]
struct NullState {
    blocks: HashMap<RawBlock, NullBlock>,
    pipelines: HashMap<RawPipeline, String>,
    counts: Counts,
    last_handle: u64,
    lists: VecDeque<(Ticket, CommandList)>,
    hold: bool,
    submitted: Ticket,
    reached: Ticket,
    failures: BTreeMap<Ticket, HalError>,
    lost: bool,
}

enum NullBlock {
    /// Host memory, allocated or imported: its handle, and the bytes that were allocated.
    Backed(RawBlock, usize),
    /// Only a number of bytes.
    Unbacked(usize),
}

impl NullDevice {
    /// Returns the live objects and the calls so far.
    pub fn counts(&self) -> Counts {
        Counts { baked: self.baked.len(), ..self.lock().counts }
    }

    /// Returns the last lists that were submitted, oldest first.
    pub fn lists(&self) -> Vec<(Ticket, CommandList)> {
        self.lock().lists.iter().cloned().collect()
    }

    /// Whether tickets submitted from now on wait to be released.
    pub fn set_hold(&self, hold: bool) {
        self.lock().hold = hold;
    }

    /// Lets the timeline reach `ticket`, or the last submitted one before it.
    pub fn release(&self, ticket: Ticket) {
        let mut state = self.lock();
        state.reached = state.reached.max(ticket.min(state.submitted));
        self.moved.notify_all();
    }

    /// Lets the timeline reach everything that was submitted.
    pub fn release_all(&self) {
        self.release(Ticket(u64::MAX));
    }

    /// Makes every wait for `ticket` fail with `failure`, once the ticket is reached. It may be submitted later.
    pub fn fail_ticket(&self, ticket: Ticket, failure: HalError) {
        self.lock().failures.insert(ticket, failure);
    }

    /// Locks the state; a test that panicked elsewhere does not hide what the device counted.
    fn lock(&self) -> MutexGuard<'_, NullState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_live(&self) -> Result<MutexGuard<'_, NullState>> {
        let state = self.lock();
        if state.lost { Err(lost()) } else { Ok(state) }
    }
}

impl NullState {
    fn handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }

    fn insert(&mut self, block: NullBlock) -> RawBlock {
        let handle = RawBlock(self.handle());
        self.counts.blocks += 1;
        self.counts.bytes += block.allocated();
        self.blocks.insert(handle, block);
        handle
    }
}

impl NullBlock {
    fn allocate(bytes: usize) -> Result<NullBlock> {
        if bytes > BACKED {
            Ok(NullBlock::Unbacked(bytes))
        } else {
            Ok(NullBlock::Backed(memory::allocate(bytes)?, bytes))
        }
    }

    fn allocated(&self) -> usize {
        match self {
            NullBlock::Backed(_, bytes) | NullBlock::Unbacked(bytes) => *bytes,
        }
    }
}

impl Drop for NullBlock {
    fn drop(&mut self) {
        if let NullBlock::Backed(block, _) = *self {
            // SAFETY: made by `allocate` or `import` and owned by this value alone.
            unsafe { memory::release(block) }
        }
    }
}

// SAFETY: backed blocks stay where they are until freed; nothing ever runs, so nothing is out of order; `wait` looks
// at the failures after the ticket was reached.
unsafe impl RawDevice for NullDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    unsafe fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock> {
        let mut state = self.lock_live()?;
        state.counts.allocs += 1;
        let fails = |first: u64| {
            (first..first.saturating_add(self.options.failing_allocs)).contains(&state.counts.allocs)
        };
        if self.options.fail_alloc.is_some_and(fails) {
            return Err(HalError::OutOfMemory { requested: desc.bytes });
        }
        Ok(state.insert(NullBlock::allocate(desc.bytes)?))
    }

    unsafe fn import(&self, host: HostRegion) -> Result<Option<Imported>> {
        let mut state = self.lock_live()?;
        Ok(Some(Imported { block: state.insert(NullBlock::Backed(memory::import(host), 0)), offset: 0 }))
    }

    unsafe fn free(&self, block: RawBlock) {
        let mut state = self.lock();
        if let Some(block) = state.blocks.remove(&block) {
            state.counts.blocks -= 1;
            state.counts.bytes -= block.allocated();
        }
    }

    unsafe fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>> {
        let state = self.lock();
        let NullBlock::Backed(backing, _) = state.blocks.get(&block)? else { return None };
        // SAFETY: the record is in `blocks`, so `free` has not released its memory.
        let memory = unsafe { memory::resolve(*backing) };
        Some(NonNull::slice_from_raw_parts(memory.start, memory.bytes))
    }

    fn translate(&self, _program: &Program) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    unsafe fn compile(&self, label: &str, _program: &Program, _binary: Option<&[u8]>) -> Result<RawPipeline> {
        let mut state = self.lock_live()?;
        state.counts.compiles += 1;
        if self.options.fail_compile == Some(state.counts.compiles) {
            return Err(HalError::Compile { label: label.to_owned(), detail: "injected failure".to_owned() });
        }
        let handle = RawPipeline(state.handle());
        state.counts.pipelines += 1;
        state.pipelines.insert(handle, label.to_owned());
        Ok(handle)
    }

    unsafe fn discard(&self, pipeline: RawPipeline) {
        let mut state = self.lock();
        if state.pipelines.remove(&pipeline).is_some() {
            state.counts.pipelines -= 1;
        }
    }

    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
        let mut state = self.lock_live()?;
        state.counts.submissions += 1;
        if self.options.lose_at_submit == Some(state.counts.submissions) {
            state.lost = true;
            self.moved.notify_all();
            return Err(lost());
        }
        state.submitted = ticket;
        if !state.hold {
            state.reached = ticket;
        }
        state.lists.push_back((ticket, list.clone()));
        while state.lists.len() > self.options.keep_lists {
            state.lists.pop_front();
        }
        self.moved.notify_all();
        Ok(())
    }

    unsafe fn bake(&self, list: &CommandList) -> Result<RawBaked> {
        drop(self.lock_live()?);
        Ok(self.baked.bake(list))
    }

    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()> {
        // SAFETY: `RawDevice::bake` demands of its list what `submit` does, until it is unbaked.
        self.baked.with(baked, |list| unsafe { self.submit(list, ticket) })
    }

    unsafe fn unbake(&self, baked: RawBaked) {
        self.baked.unbake(baked);
    }

    fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        let started = Instant::now();
        let mut state = self.lock_live()?;
        while state.reached < ticket {
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(HalError::Timeout { millis: timeout.as_millis().try_into().unwrap_or(u64::MAX) });
            }
            state = self.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            if state.lost {
                return Err(lost());
            }
        }
        state.failures.get(&ticket).map_or(Ok(()), |failure| Err(failure.clone()))
    }

    fn reached(&self) -> Result<Ticket> {
        Ok(self.lock_live()?.reached)
    }

    fn spans(&self, _ticket: Ticket) -> Vec<Span> {
        Vec::new()
    }
}

fn lost() -> HalError {
    HalError::DeviceLost { detail: "injected loss".to_owned() }
}

fn describe(options: &NullOptions) -> DeviceInfo {
    let mut info =
        DeviceInfo::new(Backend::Null, Backend::Null.name(), "records and never runs").with_host_kernels();
    info.driver = format!("silicide-hal {}", env!("CARGO_PKG_VERSION"));
    info.fingerprint = format!("null-{}", env!("CARGO_PKG_VERSION"));
    info.memory = Memory { total: options.memory, available: options.memory };
    info.limits.max_block = options.max_block;
    info.limits.max_binding = options.max_binding;
    info.limits.binding_alignment = options.binding_alignment;
    info
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
