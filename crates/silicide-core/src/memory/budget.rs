//! Bytes by purpose. Every storage is charged when it is allocated and refunded when it is given back, so the
//! figures are exact and cost an atomic each.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The use of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Model weights.
    Weights,
    /// Key and value caches.
    Cache,
    /// Inputs, outputs and scratch of ops.
    Activations,
    /// On the way between host and device.
    Staging,
    /// Kept by a pool for reuse.
    Pool,
    /// Anything else.
    Other,
}

impl Purpose {
    /// Every purpose, in the order of reports.
    pub const ALL: [Purpose; 6] = [
        Purpose::Weights,
        Purpose::Cache,
        Purpose::Activations,
        Purpose::Staging,
        Purpose::Pool,
        Purpose::Other,
    ];

    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Weights => "weights",
            Purpose::Cache => "cache",
            Purpose::Activations => "activations",
            Purpose::Staging => "staging",
            Purpose::Pool => "pool",
            Purpose::Other => "other",
        }
    }
}

/// Bytes and allocations of one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurposeUsage {
    /// What for.
    pub purpose: Purpose,
    /// Bytes now.
    pub bytes: usize,
    /// The most bytes there ever were.
    pub peak: usize,
    /// Allocations now.
    pub count: usize,
}

/// A snapshot of a device's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// By purpose, in the order of [`Purpose::ALL`].
    pub purposes: Vec<PurposeUsage>,
    /// Bytes taken from the backend: at least the sum of the purposes, as blocks are cut from larger ones.
    pub reserved: usize,
    /// The most bytes that were ever reserved.
    pub reserved_peak: usize,
    /// Blocks taken from the backend.
    pub blocks: usize,
    /// Bytes of the workspaces of the CPU backend's threads. The backend takes them; they belong to no purpose.
    pub workspaces: usize,
    /// The most bytes that purposes may add up to.
    pub limit: usize,
}

impl Usage {
    /// The figures of one purpose.
    pub fn of(&self, purpose: Purpose) -> PurposeUsage {
        let none = PurposeUsage { purpose, bytes: 0, peak: 0, count: 0 };
        self.purposes.iter().find(|usage| usage.purpose == purpose).copied().unwrap_or(none)
    }

    /// Bytes of all purposes.
    pub fn total(&self) -> usize {
        self.purposes.iter().map(|usage| usage.bytes).sum()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for usage in self.purposes.iter().filter(|usage| usage.peak > 0) {
            let (bytes, peak) = (mib(usage.bytes), mib(usage.peak));
            writeln!(
                f,
                "{:<12} {bytes:>10.2} MiB in {:>5}, peak {peak:.2}",
                usage.purpose.name(),
                usage.count
            )?;
        }
        if self.workspaces > 0 {
            writeln!(f, "{:<12} {:>10.2} MiB", "workspaces", mib(self.workspaces))?;
        }
        write!(f, "{:<12} {:>10.2} MiB in {:>5} blocks", "reserved", mib(self.reserved), self.blocks)
    }
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[derive(Debug, Default)]
struct Counter {
    bytes: AtomicUsize,
    peak: AtomicUsize,
    count: AtomicUsize,
}

impl Counter {
    fn add(&self, bytes: usize) {
        let now = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
        self.count.fetch_add(1, Relaxed);
    }
    fn sub(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.count.fetch_sub(1, Relaxed);
    }
}

/// The account of one device.
#[derive(Debug)]
pub(crate) struct Budget {
    purposes: [Counter; Purpose::ALL.len()],
    total: AtomicUsize,
    reserved: Counter,
    limit: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Budget {
        let purposes = Default::default();
        Budget { purposes, total: AtomicUsize::new(0), reserved: Counter::default(), limit }
    }

    fn counter(&self, purpose: Purpose) -> &Counter {
        // `Purpose` has as many variants as there are counters.
        &self.purposes[purpose as usize]
    }

    /// Takes `bytes` from the budget; on refusal says how many are in use.
    pub(crate) fn charge(&self, purpose: Purpose, bytes: usize) -> Result<(), usize> {
        let within = |total: usize| total.checked_add(bytes).filter(|&sum| sum <= self.limit);
        self.total.fetch_update(Relaxed, Relaxed, within)?;
        self.counter(purpose).add(bytes);
        Ok(())
    }

    /// Counts `bytes` whether or not the limit allows them: memory that is there already.
    pub(crate) fn force(&self, purpose: Purpose, bytes: usize) {
        self.total.fetch_add(bytes, Relaxed);
        self.counter(purpose).add(bytes);
    }

    /// Counts `bytes` for another purpose; the total stays as it is.
    pub(crate) fn transfer(&self, from: Purpose, to: Purpose, bytes: usize) {
        self.counter(from).sub(bytes);
        self.counter(to).add(bytes);
    }

    /// Returns `bytes` to the budget.
    pub(crate) fn refund(&self, purpose: Purpose, bytes: usize) {
        self.total.fetch_sub(bytes, Relaxed);
        self.counter(purpose).sub(bytes);
    }

    /// A block was taken from the backend.
    pub(crate) fn reserve(&self, bytes: usize) {
        self.reserved.add(bytes);
    }

    /// A block was given back to the backend.
    pub(crate) fn unreserve(&self, bytes: usize) {
        self.reserved.sub(bytes);
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn in_use(&self) -> usize {
        self.total.load(Relaxed)
    }

    pub(crate) fn usage(&self) -> Usage {
        let usage = |purpose: Purpose| {
            let counter = self.counter(purpose);
            PurposeUsage {
                purpose,
                bytes: counter.bytes.load(Relaxed),
                peak: counter.peak.load(Relaxed),
                count: counter.count.load(Relaxed),
            }
        };
        Usage {
            purposes: Purpose::ALL.into_iter().map(usage).collect(),
            reserved: self.reserved.bytes.load(Relaxed),
            reserved_peak: self.reserved.peak.load(Relaxed),
            blocks: self.reserved.count.load(Relaxed),
            workspaces: 0,
            limit: self.limit,
        }
    }
}
