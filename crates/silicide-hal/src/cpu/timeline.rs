//! The device's timeline: which tickets were reached, which failed, and the times of the last lists that had marks.
//!
//! Invariant: `reached` is raised only after the outcome of its list is recorded, so a thread that sees a ticket
//! reached sees its failure too. A wait for a reached ticket takes no lock while nothing has ever failed.

use crate::{HalError, Result, Span, ThreadTimes, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failed tickets that are kept. The oldest is dropped first, and then counts as reached without error.
const FAILURES_KEPT: usize = 4096;
/// Lists whose times are kept.
const TIMES_KEPT: usize = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct CpuTimeline {
    reached: AtomicU64,
    failed: AtomicBool,
    record: Mutex<Record>,
    moved: Condvar,
}

#[derive(Default)]
struct Record {
    failures: BTreeMap<Ticket, HalError>,
    times: VecDeque<(Ticket, Times)>,
}

/// Measured times of a list.
#[derive(Default)]
pub(crate) struct Times {
    pub spans: Vec<Span>,
    pub threads: ThreadTimes,
}

impl CpuTimeline {
    /// Records the outcome of the list of `ticket` and wakes the threads that wait for it.
    pub(crate) fn finish(&self, ticket: Ticket, failure: Option<HalError>, times: Times) {
        let mut record = self.lock();
        if let Some(failure) = failure {
            if record.failures.len() == FAILURES_KEPT {
                record.failures.pop_first();
            }
            record.failures.insert(ticket, failure);
            self.failed.store(true, Ordering::Relaxed);
        }
        if !times.spans.is_empty() {
            if record.times.len() == TIMES_KEPT {
                record.times.pop_front();
            }
            record.times.push_back((ticket, times));
        }
        self.reached.fetch_max(ticket.0, Ordering::Release);
        drop(record);
        self.moved.notify_all();
    }

    /// Returns the last ticket reached.
    pub(crate) fn reached(&self) -> Ticket {
        Ticket(self.reached.load(Ordering::Acquire))
    }

    /// Waits until `ticket` is reached and returns the failure of its list, if any.
    pub(crate) fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        if self.reached() >= ticket && !self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let started = Instant::now();
        let mut record = self.lock();
        while self.reached() < ticket {
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(HalError::Timeout { millis: timeout.as_millis().try_into().unwrap_or(u64::MAX) });
            }
            record = self.moved.wait_timeout(record, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        record.failures.get(&ticket).map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// Returns the spans of a list, if it had marks and is among the last ones.
    pub(crate) fn spans(&self, ticket: Ticket) -> Vec<Span> {
        self.times(ticket, |times| times.spans.clone())
    }

    /// Returns the times of threads in a list, if it had marks and is among the last ones.
    pub(crate) fn thread_times(&self, ticket: Ticket) -> ThreadTimes {
        self.times(ticket, |times| times.threads.clone())
    }

    fn times<T: Default>(&self, ticket: Ticket, pick: impl FnOnce(&Times) -> T) -> T {
        let record = self.lock();
        let found = record.times.iter().find(|(of, _)| *of == ticket);
        found.map(|(_, times)| pick(times)).unwrap_or_default()
    }

    /// Nothing under the lock can panic half-way, so a poisoned lock is used like any other.
    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(n: u64) -> HalError {
        HalError::KernelPanicked { label: "k".into(), detail: n.to_string() }
    }

    #[test]
    fn failures_are_reported_every_time_and_bounded() {
        let timeline = CpuTimeline::default();
        for n in 1..=FAILURES_KEPT as u64 + 1 {
            timeline.finish(Ticket(n), Some(failure(n)), Times::default());
        }
        assert_eq!(timeline.wait(Ticket(1), Duration::ZERO), Ok(()), "the oldest is forgotten");
        for _ in 0..2 {
            assert_eq!(timeline.wait(Ticket(2), Duration::ZERO), Err(failure(2)));
        }
        timeline.finish(Ticket(9000), None, Times::default());
        assert_eq!(timeline.wait(Ticket(9000), Duration::ZERO), Ok(()));
        assert_eq!(timeline.reached(), Ticket(9000));
    }

    #[test]
    fn waiting_ends_by_time_or_by_another_thread() {
        let timeline = CpuTimeline::default();
        assert_eq!(timeline.wait(Ticket(0), Duration::ZERO), Ok(()));
        let timeout = Duration::from_millis(3);
        assert_eq!(timeline.wait(Ticket(1), timeout), Err(HalError::Timeout { millis: 3 }));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| timeline.wait(Ticket(1), Duration::from_secs(60)));
            std::thread::sleep(Duration::from_millis(5));
            timeline.finish(Ticket(1), Some(failure(1)), Times::default());
            assert_eq!(waiter.join().unwrap(), Err(failure(1)));
        });
    }

    #[test]
    fn times_are_kept_for_the_last_lists() {
        let timeline = CpuTimeline::default();
        let span = Span { label: "a", start_ns: 0, duration_ns: 5 };
        for n in 1..=TIMES_KEPT as u64 + 1 {
            let threads = ThreadTimes { dropped: n, ..ThreadTimes::default() };
            timeline.finish(Ticket(n), None, Times { spans: vec![span.clone()], threads });
        }
        assert_eq!(timeline.spans(Ticket(1)), []);
        assert_eq!(timeline.spans(Ticket(2)), [span]);
        assert_eq!([1, 2].map(|n| timeline.thread_times(Ticket(n)).dropped), [0, 2]);
    }
}
