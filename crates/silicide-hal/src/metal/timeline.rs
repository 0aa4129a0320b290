//! The timeline: one shared event that the GPU counts to the ticket of the last list that finished, and how far the
//! host has looked at what finished. The ledger has the failures.

use super::gpu::Gpu;
use super::{Object, text};
use crate::ledger::Ledger;
use crate::{HalError, Result, Ticket};
use objc2::rc::autoreleasepool;
use objc2_metal::{MTLDevice, MTLEvent, MTLSharedEvent};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The points that submissions signal.
pub(super) struct MetalTimeline {
    pub(super) event: Object<dyn MTLSharedEvent>,
    /// Tickets submitted, skipped and failed.
    pub(super) ledger: Ledger,
    /// The last ticket whose command buffers were seen complete.
    landed: AtomicU64,
}

impl MetalTimeline {
    pub(super) fn new(gpu: &Gpu) -> Result<MetalTimeline> {
        autoreleasepool(|_| {
            let event = gpu.device().newSharedEvent().ok_or_else(|| HalError::Driver {
                call: "newSharedEvent",
                detail: "Metal gave nothing and no reason".to_owned(),
            })?;
            event.setLabel(Some(&text("silicide timeline")));
            Ok(MetalTimeline { event, ledger: Ledger::default(), landed: AtomicU64::new(0) })
        })
    }

    /// Sleeps until the GPU signals `ticket`, for `at_most` at most. Returns whether it has.
    pub(super) fn sleep(&self, ticket: u64, at_most: Duration) -> bool {
        let millis = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX).max(1);
        autoreleasepool(|_| self.event.waitUntilSignaledValue_timeoutMS(ticket, millis))
    }

    /// Returns the last ticket whose command buffers were seen complete.
    pub(super) fn landed(&self) -> u64 {
        self.landed.load(Ordering::Acquire)
    }

    /// Notes that a ticket's command buffers were seen complete, and how they went.
    pub(super) fn land(&self, ticket: Ticket) {
        self.landed.fetch_max(ticket.0, Ordering::AcqRel);
    }
}
