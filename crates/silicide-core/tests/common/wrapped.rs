//! The CPU with the memory of a discrete GPU: private blocks can't be seen by the host. Nothing here has such a
//! device, and everything that goes through staging memory must work on one. It can also be told to count, and to
//! refuse imports, as devices without host import do.

use silicide_core::hal::cpu::{self, CpuOptions};
use silicide_core::hal::{
    BlockDesc, CommandList, DeviceInfo, HalError, HostRegion, Imported, MemoryKind, Program, RawBlock,
    RawDevice, RawPipeline, Span, Ticket,
};
use silicide_core::{Device, DeviceOptions};
use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Result<T> = std::result::Result<T, HalError>;

/// The backend.
pub(crate) struct Discrete {
    raw: Arc<dyn RawDevice>,
    info: DeviceInfo,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hidden: HashSet<RawBlock>,
    live: HashSet<RawBlock>,
}

/// Opens one.
pub(crate) fn open() -> (Device, Arc<Discrete>) {
    let raw = cpu::open(&CpuOptions::default()).unwrap();
    let mut info = raw.info().clone();
    info.id = "discrete".to_owned();
    info.features.unified_memory = false;
    info.features.host_import = false;
    let raw = Arc::new(Discrete { raw, info, state: Mutex::default() });
    // SAFETY: the backend was just made, and is used by nobody else.
    (unsafe { Device::with_backend(raw.clone(), &DeviceOptions::default()) }, raw)
}

impl Discrete {
    /// Blocks that live, and how many of them are hidden.
    pub(crate) fn blocks(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.live.len(), state.hidden.len())
    }
}

// SAFETY: everything is the CPU's; hiding a mapping breaks no promise.
unsafe impl RawDevice for Discrete {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    unsafe fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock> {
        // SAFETY: the caller's promise, here and below.
        let block = unsafe { self.raw.alloc(desc) }?;
        let mut state = self.state.lock().unwrap();
        state.live.insert(block);
        if desc.kind == MemoryKind::Private {
            state.hidden.insert(block);
        }
        Ok(block)
    }
    unsafe fn import(&self, _: HostRegion) -> Result<Option<Imported>> {
        Ok(None)
    }
    unsafe fn free(&self, block: RawBlock) {
        let mut state = self.state.lock().unwrap();
        assert!(state.live.remove(&block), "freed twice");
        state.hidden.remove(&block);
        // SAFETY: see above.
        unsafe { self.raw.free(block) }
    }
    unsafe fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>> {
        if self.state.lock().unwrap().hidden.contains(&block) {
            return None;
        }
        // SAFETY: see above.
        unsafe { self.raw.map(block) }
    }
    fn translate(&self, program: &Program) -> Result<Option<Vec<u8>>> {
        self.raw.translate(program)
    }
    unsafe fn compile(&self, label: &str, program: &Program, binary: Option<&[u8]>) -> Result<RawPipeline> {
        // SAFETY: see above.
        unsafe { self.raw.compile(label, program, binary) }
    }
    unsafe fn discard(&self, pipeline: RawPipeline) {
        // SAFETY: see above.
        unsafe { self.raw.discard(pipeline) }
    }
    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.raw.submit(list, ticket) }
    }
    fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        self.raw.wait(ticket, timeout)
    }
    fn reached(&self) -> Result<Ticket> {
        self.raw.reached()
    }
    fn spans(&self, ticket: Ticket) -> Vec<Span> {
        self.raw.spans(ticket)
    }
}
