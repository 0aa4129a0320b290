//! The timeline: one semaphore that counts to the ticket of the last list that finished. The ledger has the
//! failures.

use super::gpu::Gpu;
use crate::ledger::Ledger;
use crate::{HalError, Result, Ticket};
use ash::vk;
use std::sync::Arc;
use std::time::Duration;

/// The points that submissions signal.
pub(super) struct VulkanTimeline {
    gpu: Arc<Gpu>,
    pub(super) semaphore: vk::Semaphore,
    /// Tickets submitted, skipped and failed.
    pub(super) ledger: Ledger,
}

impl VulkanTimeline {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<VulkanTimeline> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let create = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: timeline semaphores are enabled; the chain lives on this stack.
        let semaphore = unsafe { gpu.device.create_semaphore(&create, None) }
            .map_err(|result| gpu.error("vkCreateSemaphore", result))?;
        Ok(VulkanTimeline { gpu: gpu.clone(), semaphore, ledger: Ledger::default() })
    }

    /// See [`RawDevice::wait`](crate::RawDevice::wait).
    pub(super) fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        let failure = self.ledger.failure(ticket);
        let value = failure.as_ref().map_or(ticket.0, |failure| failure.over);
        self.wait_for(value, timeout)?;
        // The list may have failed while it was waited for: look again.
        match failure.or_else(|| self.ledger.failure(ticket)) {
            Some(failure) => Err(failure.error),
            None => self.gpu.check(),
        }
    }

    /// Waits until the semaphore has a value.
    pub(super) fn wait_for(&self, value: u64, timeout: Duration) -> Result<()> {
        self.gpu.check()?;
        let (semaphores, values) = ([self.semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore lives until `drop`; the arrays live on this stack.
        match unsafe { self.gpu.device.wait_semaphores(&info, nanoseconds) } {
            // A lost device ends every wait; the counter shows that.
            Ok(()) => self.counter().map(drop),
            Err(vk::Result::TIMEOUT) => {
                Err(HalError::Timeout { millis: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX) })
            }
            Err(result) => Err(self.gpu.error("vkWaitSemaphores", result)),
        }
    }

    /// Returns the value of the semaphore: the last ticket submitted that has finished.
    pub(super) fn counter(&self) -> Result<u64> {
        self.gpu.check()?;
        // SAFETY: the semaphore lives until `drop`.
        let value = unsafe { self.gpu.device.get_semaphore_counter_value(self.semaphore) }
            .map_err(|result| self.gpu.error("vkGetSemaphoreCounterValue", result))?;
        if value > self.ledger.submitted() {
            // Drivers end waits of a lost device with a value that was never submitted.
            return Err(self.gpu.lose(format!("the timeline jumped to {value}")));
        }
        Ok(value)
    }

    /// Returns the last ticket reached.
    pub(super) fn reached(&self) -> Result<Ticket> {
        self.ledger.reached(|| self.counter())
    }
}

impl Drop for VulkanTimeline {
    fn drop(&mut self) {
        // SAFETY: the device is idle when its parts are dropped, and no thread waits.
        unsafe { self.gpu.device.destroy_semaphore(self.semaphore, None) };
    }
}
