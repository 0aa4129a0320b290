//! The bookkeeping of a GPU's timeline: tickets submitted, tickets skipped, and failures. A counter of the device drives
//! the timeline.
//!
//! A ticket whose list could not be submitted is never signalled: it counts as reached together with the last one
//! submitted before it, and waiting for it reports why.

use crate::{HalError, Result, Ticket};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Failures kept for later waits.
const KEPT: usize = 1024;

/// Tickets submitted, skipped and failed.
#[derive(Default)]
pub(crate) struct Ledger {
    /// The last ticket submitted to the device.
    submitted: AtomicU64,
    /// The last ticket that was skipped.
    skipped: AtomicU64,
    failures: Mutex<VecDeque<FailedTicket>>,
}

struct FailedTicket {
    ticket: u64,
    failure: Failure,
}

/// How a ticket failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// The value of the device's counter at which nothing of the ticket's list, or of those before, runs any more.
    pub(crate) over: u64,
    pub(crate) error: HalError,
}

/// The announcement that a ticket will be signalled.
pub(crate) struct Announcement {
    before: u64,
}

impl Ledger {
    /// Records that a ticket's list goes to the device next, before the device can signal it.
    pub(crate) fn announce(&self, ticket: Ticket) -> Announcement {
        Announcement { before: self.submitted.swap(ticket.0, Ordering::AcqRel) }
    }

    /// Undoes an announcement: the device refused the list.
    pub(crate) fn retract(&self, announced: Announcement) {
        self.submitted.store(announced.before, Ordering::Release);
    }

    /// Returns the last ticket submitted to the device.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Records that a ticket's list was not submitted.
    pub(crate) fn skip(&self, ticket: Ticket, error: &HalError) {
        self.skipped.store(ticket.0, Ordering::Release);
        self.note(ticket.0, self.submitted(), error);
    }

    /// Records that the list of a ticket failed while it ran.
    pub(crate) fn fail(&self, ticket: Ticket, error: &HalError) {
        self.note(ticket.0, ticket.0, error);
    }

    /// Returns the failure of a ticket, if it has failed so far.
    pub(crate) fn failure(&self, ticket: Ticket) -> Option<Failure> {
        let failures = self.failures();
        let found = failures.iter().find(|entry| entry.ticket == ticket.0);
        found.map(|entry| entry.failure.clone())
    }

    /// Returns the last ticket reached, from the value of the device's counter.
    pub(crate) fn reached(&self, counter: impl FnOnce() -> Result<u64>) -> Result<Ticket> {
        // In this order: whatever was submitted before the skipped ticket is then known too.
        let skipped = self.skipped.load(Ordering::Acquire);
        let submitted = self.submitted();
        let counter = counter()?;
        Ok(Ticket(if counter >= submitted { counter.max(skipped) } else { counter }))
    }

    fn note(&self, ticket: u64, over: u64, error: &HalError) {
        let mut failures = self.failures();
        if failures.len() == KEPT {
            failures.pop_front();
        }
        failures.push_back(FailedTicket { ticket, failure: Failure { over, error: error.clone() } });
    }

    fn failures(&self) -> MutexGuard<'_, VecDeque<FailedTicket>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(requested: usize) -> HalError {
        HalError::OutOfMemory { requested }
    }

    #[test]
    fn a_skipped_ticket_is_reached_with_the_last_before_it() {
        let ledger = Ledger::default();
        ledger.announce(Ticket(3));
        ledger.skip(Ticket(4), &error(1));
        assert_eq!(ledger.reached(|| Ok(2)), Ok(Ticket(2)));
        assert_eq!(ledger.reached(|| Ok(3)), Ok(Ticket(4)));
        assert_eq!(ledger.failure(Ticket(4)), Some(Failure { over: 3, error: error(1) }));
        assert_eq!(ledger.failure(Ticket(3)), None);
    }

    #[test]
    fn a_refused_ticket_leaves_no_trace() {
        let ledger = Ledger::default();
        ledger.announce(Ticket(1));
        let announced = ledger.announce(Ticket(2));
        ledger.retract(announced);
        assert_eq!(ledger.submitted(), 1);
        assert_eq!(ledger.reached(|| Ok(1)), Ok(Ticket(1)));
    }

    #[test]
    fn failures_are_kept_for_the_last_tickets() {
        let ledger = Ledger::default();
        for ticket in 1..=2 * KEPT as u64 {
            ledger.fail(Ticket(ticket), &error(ticket as usize));
        }
        assert_eq!(ledger.failure(Ticket(1)), None);
        let last = 2 * KEPT as u64;
        assert_eq!(ledger.failure(Ticket(last)), Some(Failure { over: last, error: error(last as usize) }));
    }

    #[test]
    fn a_lost_device_has_reached_nothing() {
        let lost = HalError::DeviceLost { detail: "gone".into() };
        assert_eq!(Ledger::default().reached(|| Err(lost.clone())), Err(lost));
    }
}
