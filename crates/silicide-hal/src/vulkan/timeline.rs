//! The timeline: one semaphore that counts to the ticket of the last list that finished, and what went wrong.
//!
//! A ticket whose list could not be submitted is never signalled: it counts as reached together with the last one
//! submitted before it, and waiting for it reports why.

use super::gpu::Gpu;
use crate::{HalError, Result, Ticket};
use ash::vk;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Failures kept for those who still wait.
const KEPT: usize = 1024;

/// The points that submissions signal.
pub(super) struct Timeline {
    gpu: Arc<Gpu>,
    pub(super) semaphore: vk::Semaphore,
    /// The last ticket given to the device.
    submitted: AtomicU64,
    /// The last ticket that was not.
    skipped: AtomicU64,
    failures: Mutex<VecDeque<Failure>>,
}

struct Failure {
    ticket: u64,
    /// The value of the semaphore at which nothing of the ticket's list, or of those before, runs any more.
    over: u64,
    error: HalError,
}

/// That a ticket is expected to be signalled.
pub(super) struct Announced {
    before: u64,
}

impl Timeline {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Timeline> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let create = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: timeline semaphores are enabled; the chain lives on this stack.
        let semaphore = unsafe { gpu.device.create_semaphore(&create, None) }
            .map_err(|result| gpu.error("vkCreateSemaphore", result))?;
        Ok(Timeline {
            gpu: gpu.clone(),
            semaphore,
            submitted: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            failures: Mutex::default(),
        })
    }

    /// Notes that a ticket's list is about to be given to the device, before the device can signal it.
    pub(super) fn announce(&self, ticket: Ticket) -> Announced {
        Announced { before: self.submitted.swap(ticket.0, Ordering::AcqRel) }
    }

    /// Takes an announcement back: the device refused the list.
    pub(super) fn retract(&self, announced: Announced) {
        self.submitted.store(announced.before, Ordering::Release);
    }

    /// Notes that a ticket's list was not submitted.
    pub(super) fn skip(&self, ticket: Ticket, error: &HalError) {
        self.skipped.store(ticket.0, Ordering::Release);
        self.note(ticket.0, self.submitted.load(Ordering::Acquire), error);
    }

    /// Notes that a ticket's list runs, but not as it should.
    pub(super) fn fail(&self, ticket: Ticket, error: &HalError) {
        self.note(ticket.0, ticket.0, error);
    }

    fn note(&self, ticket: u64, over: u64, error: &HalError) {
        let mut failures = self.failures();
        if failures.len() == KEPT {
            failures.pop_front();
        }
        failures.push_back(Failure { ticket, over, error: error.clone() });
    }

    /// See [`RawDevice::wait`](crate::RawDevice::wait).
    pub(super) fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        let failure = self.failure(ticket);
        let value = failure.as_ref().map_or(ticket.0, |(over, _)| *over);
        self.wait_for(value, timeout)?;
        // The list may have failed while it was waited for: look again.
        match failure.or_else(|| self.failure(ticket)) {
            Some((_, error)) => Err(error),
            None => self.gpu.check(),
        }
    }

    /// Waits until the semaphore has a value.
    pub(super) fn wait_for(&self, value: u64, timeout: Duration) -> Result<()> {
        self.gpu.check()?;
        let (semaphores, values) = ([self.semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore is live; the arrays live on this stack.
        match unsafe { self.gpu.device.wait_semaphores(&info, nanoseconds) } {
            // A lost device lets everyone go: the counter tells.
            Ok(()) => self.counter().map(drop),
            Err(vk::Result::TIMEOUT) => {
                Err(HalError::Timeout { millis: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX) })
            }
            Err(result) => Err(self.gpu.error("vkWaitSemaphores", result)),
        }
    }

    /// The value of the semaphore: the last ticket submitted that has finished.
    pub(super) fn counter(&self) -> Result<u64> {
        self.gpu.check()?;
        // SAFETY: the semaphore is live.
        let value = unsafe { self.gpu.device.get_semaphore_counter_value(self.semaphore) }
            .map_err(|result| self.gpu.error("vkGetSemaphoreCounterValue", result))?;
        if value > self.submitted.load(Ordering::Acquire) {
            // Drivers free waiters of a lost device by a value that no one gave.
            return Err(self.gpu.lose(format!("the timeline jumped to {value}")));
        }
        Ok(value)
    }

    /// The last ticket reached.
    pub(super) fn reached(&self) -> Result<Ticket> {
        // In this order: whatever was submitted before the skipped ticket is then known too.
        let skipped = self.skipped.load(Ordering::Acquire);
        let submitted = self.submitted.load(Ordering::Acquire);
        let counter = self.counter()?;
        Ok(Ticket(if counter >= submitted { counter.max(skipped) } else { counter }))
    }

    fn failure(&self, ticket: Ticket) -> Option<(u64, HalError)> {
        let failures = self.failures();
        let found = failures.iter().find(|failure| failure.ticket == ticket.0);
        found.map(|failure| (failure.over, failure.error.clone()))
    }

    fn failures(&self) -> MutexGuard<'_, VecDeque<Failure>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // SAFETY: the device is idle when its parts are dropped, and no one waits.
        unsafe { self.gpu.device.destroy_semaphore(self.semaphore, None) };
    }
}
