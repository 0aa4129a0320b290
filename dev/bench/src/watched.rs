//! A backend that measures the time spent in it. The rest of a token's time is the host's.

use silicide_hal::{CommandList, Forward, RawBaked, RawDevice, Result, Ticket};
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

// SAFETY: every verb is that of the inner backend; only its time is added up.
unsafe impl Forward for Watched {
    fn inner(&self) -> &dyn RawDevice {
        &*self.raw
    }

    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
        // SAFETY: the same call, with the same conditions.
        timed(&self.submitting, || unsafe { self.raw.submit(list, ticket) })
    }

    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()> {
        // SAFETY: the same call, with the same conditions.
        timed(&self.submitting, || unsafe { self.raw.replay(baked, ticket) })
    }

    fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        timed(&self.waiting, || self.raw.wait(ticket, timeout))
    }
}
