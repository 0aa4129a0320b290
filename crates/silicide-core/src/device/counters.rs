//! Counters of a device: recorded commands, commands that could overlap, waits of the host.

use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A snapshot of a device's counters. The difference of two counts the time between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Kernel launches submitted.
    pub dispatches: u64,
    /// Copies and fills submitted.
    pub transfers: u64,
    /// Barriers submitted.
    pub barriers: u64,
    /// Lists submitted (command buffers on a GPU).
    pub submissions: u64,
    /// Times the host waited for the device: calls that found the work unfinished.
    pub waits: u64,
    /// Calls that wait for work, finished or not: of submissions, of guards and of copies to the host.
    pub wait_calls: u64,
    /// Launches and transfers that needed no barrier and could run beside the one before them.
    pub concurrent: u64,
    /// Launches by kernel, most frequent first.
    pub kernels: Vec<KernelCount>,
}

/// How often a kernel was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCount {
    /// The kernel.
    pub kernel: &'static str,
    /// Launches.
    pub count: u64,
}

impl Counters {
    /// Returns the counts since an earlier snapshot.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let before = |kernel| {
            earlier.kernels.iter().find(|entry| entry.kernel == kernel).map_or(0, |entry| entry.count)
        };
        let mut kernels: Vec<KernelCount> = self
            .kernels
            .iter()
            .map(|entry| KernelCount {
                kernel: entry.kernel,
                count: entry.count.saturating_sub(before(entry.kernel)),
            })
            .filter(|entry| entry.count > 0)
            .collect();
        kernels.sort_by(|a, b| b.count.cmp(&a.count).then(a.kernel.cmp(b.kernel)));
        Counters {
            dispatches: self.dispatches.saturating_sub(earlier.dispatches),
            transfers: self.transfers.saturating_sub(earlier.transfers),
            barriers: self.barriers.saturating_sub(earlier.barriers),
            submissions: self.submissions.saturating_sub(earlier.submissions),
            waits: self.waits.saturating_sub(earlier.waits),
            wait_calls: self.wait_calls.saturating_sub(earlier.wait_calls),
            concurrent: self.concurrent.saturating_sub(earlier.concurrent),
            kernels,
        }
    }
}

/// The counts of one recording.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) dispatches: u64,
    pub(crate) transfers: u64,
    pub(crate) barriers: u64,
    pub(crate) concurrent: u64,
    /// Launches by kernel name, in order of first use; lists use few kernels, the last one most often.
    pub(crate) kernels: Vec<(&'static str, u64)>,
}

impl Tally {
    pub(crate) fn launch(&mut self, kernel: &'static str) {
        self.dispatches += 1;
        // Names are static: comparing addresses is enough to find the entry, and a double does no harm.
        match self.kernels.iter_mut().rev().find(|(name, _)| std::ptr::eq(*name, kernel)) {
            Some((_, count)) => *count += 1,
            None => self.kernels.push((kernel, 1)),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.kernels.clear();
        (self.dispatches, self.transfers, self.barriers, self.concurrent) = (0, 0, 0, 0);
    }
}

/// The live counters of a device.
#[derive(Debug, Default)]
pub(crate) struct CounterSet {
    totals: Mutex<Totals>,
    /// Beside the lock: most calls find the work finished, and take no lock.
    wait_calls: AtomicU64,
}

#[derive(Debug, Default)]
struct Totals {
    counters: Counters,
    kernels: FxHashMap<&'static str, u64>,
}

impl CounterSet {
    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn submitted(&self, tally: &Tally) {
        let mut totals = self.totals();
        totals.counters.submissions += 1;
        totals.counters.dispatches += tally.dispatches;
        totals.counters.transfers += tally.transfers;
        totals.counters.barriers += tally.barriers;
        totals.counters.concurrent += tally.concurrent;
        for &(kernel, count) in &tally.kernels {
            *totals.kernels.entry(kernel).or_default() += count;
        }
    }

    pub(crate) fn wait_called(&self) {
        self.wait_calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn waited(&self) {
        self.totals().counters.waits += 1;
    }

    pub(crate) fn snapshot(&self) -> Counters {
        let totals = self.totals();
        let mut counters = totals.counters.clone();
        counters.kernels =
            totals.kernels.iter().map(|(&kernel, &count)| KernelCount { kernel, count }).collect();
        drop(totals);
        counters.wait_calls = self.wait_calls.load(Ordering::Relaxed);
        counters.kernels.sort_by(|a, b| b.count.cmp(&a.count).then(a.kernel.cmp(b.kernel)));
        counters
    }
}
