//! A backend that notes how long its verbs take: what is left of a token's time is the host's.

use silicide_hal::{
    BlockDesc, CommandList, DeviceInfo, HostRegion, Imported, Program, RawBaked, RawBlock, RawDevice,
    RawPipeline, Result, Span, Ticket,
};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A backend inside, and the nanoseconds spent in it.
pub(crate) struct Watched {
    raw: Arc<dyn RawDevice>,
    /// In `submit` and `replay`.
    submitting: AtomicU64,
    /// In `wait`.
    waiting: AtomicU64,
}

impl Watched {
    pub(crate) fn new(raw: Arc<dyn RawDevice>) -> Arc<Watched> {
        Arc::new(Watched { raw, submitting: AtomicU64::new(0), waiting: AtomicU64::new(0) })
    }

    /// Seconds spent in submitting and in waiting since the last call.
    pub(crate) fn take(&self) -> (f64, f64) {
        let seconds = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed) as f64 * 1e-9;
        (seconds(&self.submitting), seconds(&self.waiting))
    }
}

fn timed<T>(counter: &AtomicU64, run: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = run();
    counter.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
    result
}

// SAFETY: everything is done by the backend inside.
unsafe impl RawDevice for Watched {
    fn info(&self) -> &DeviceInfo {
        self.raw.info()
    }
    unsafe fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock> {
        // SAFETY: the caller's promise, here and below.
        unsafe { self.raw.alloc(desc) }
    }
    unsafe fn import(&self, host: HostRegion) -> Result<Option<Imported>> {
        // SAFETY: see above.
        unsafe { self.raw.import(host) }
    }
    unsafe fn free(&self, block: RawBlock) {
        // SAFETY: see above.
        unsafe { self.raw.free(block) }
    }
    unsafe fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>> {
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
        timed(&self.submitting, || unsafe { self.raw.submit(list, ticket) })
    }
    unsafe fn bake(&self, list: &CommandList) -> Result<RawBaked> {
        // SAFETY: see above.
        unsafe { self.raw.bake(list) }
    }
    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()> {
        // SAFETY: see above.
        timed(&self.submitting, || unsafe { self.raw.replay(baked, ticket) })
    }
    unsafe fn unbake(&self, baked: RawBaked) {
        // SAFETY: see above.
        unsafe { self.raw.unbake(baked) }
    }
    fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        timed(&self.waiting, || self.raw.wait(ticket, timeout))
    }
    fn reached(&self) -> Result<Ticket> {
        self.raw.reached()
    }
    fn spans(&self, ticket: Ticket) -> Vec<Span> {
        self.raw.spans(ticket)
    }
}
