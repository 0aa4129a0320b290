//! Counts of work in this process, and the histogram of kernels.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, PoisonError};

/// One count.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    const fn new() -> Count {
        Count(AtomicU64::new(0))
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }
}

pub(crate) static SYNCS: Count = Count::new();
pub(crate) static DISPATCHES: Count = Count::new();
pub(crate) static COMMAND_BUFFERS: Count = Count::new();
pub(crate) static COMMITS: Count = Count::new();
pub(crate) static BARRIERS: Count = Count::new();
pub(crate) static BARRIER_NS: Count = Count::new();
pub(crate) static AUTO_BARRIERS: Count = Count::new();
pub(crate) static AUTO_CONCURRENT: Count = Count::new();
pub(crate) static GPU_BUSY: Count = Count::new();

static TRACE: AtomicBool = AtomicBool::new(false);
static BUCKETS: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);

/// Whether an environment variable was `1` when it was first looked up.
pub(crate) fn is_one(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

static PROFILE_BARRIERS: LazyLock<bool> = LazyLock::new(|| is_one("MLX_PROFILE_BARRIERS"));
static BUCKETS_ON: LazyLock<bool> = LazyLock::new(|| is_one("MLX_DISP_BUCKET"));
static AUTO_BARRIER: LazyLock<bool> = LazyLock::new(|| is_one("HF2Q_AUTO_BARRIER"));
static UNRETAINED: LazyLock<bool> = LazyLock::new(|| is_one("MLX_UNRETAINED_REFS"));

/// Whether barriers are timed: `MLX_PROFILE_BARRIERS=1`.
pub(crate) fn times_barriers() -> bool {
    *PROFILE_BARRIERS
}

/// Whether tracked dispatches count the barriers that they need: `HF2Q_AUTO_BARRIER=1`.
pub(crate) fn auto_barriers() -> bool {
    *AUTO_BARRIER
}

/// Counts a dispatch of a kernel.
pub(crate) fn dispatched(name: &str) {
    DISPATCHES.add(1);
    if *BUCKETS_ON {
        let mut buckets = BUCKETS.lock().unwrap_or_else(PoisonError::into_inner);
        *buckets.get_or_insert_default().entry(name.to_owned()).or_default() += 1;
    }
    if TRACE.load(Relaxed) {
        eprintln!("[mlx_native] dispatch {name}");
    }
}

/// Declares functions that return counts.
macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident = $count:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> u64 {
            $count.0.load(Relaxed)
        }
    )*};
}

counts! {
    /// Returns the number of waits for the device.
    sync_count = SYNCS;
    /// Returns the number of kernels that were encoded, captured ones aside.
    dispatch_count = DISPATCHES;
    /// Returns the number of command buffers that were made.
    cmd_buf_count = COMMAND_BUFFERS;
    /// Returns the number of submissions.
    commit_count = COMMITS;
    /// Returns the number of barriers that callers set after a dispatch.
    barrier_count = BARRIERS;
    /// Returns the time spent in [`memory_barrier`](crate::CommandEncoder::memory_barrier), in ns, if `MLX_PROFILE_BARRIERS=1`.
    barrier_total_ns = BARRIER_NS;
    /// Returns the number of tracked dispatches that needed a barrier, if `HF2Q_AUTO_BARRIER=1`.
    auto_barrier_count = AUTO_BARRIERS;
    /// Returns the number of tracked dispatches that needed none, if `HF2Q_AUTO_BARRIER=1`.
    auto_barrier_concurrent_count = AUTO_CONCURRENT;
    /// Returns the time that the device worked, in ns, as far as it was asked for.
    gpu_busy_ns = GPU_BUSY;
}

/// Sets all counts to zero.
pub fn reset_counters() {
    let all = [
        &SYNCS,
        &DISPATCHES,
        &COMMAND_BUFFERS,
        &COMMITS,
        &BARRIERS,
        &BARRIER_NS,
        &AUTO_BARRIERS,
        &AUTO_CONCURRENT,
        &GPU_BUSY,
    ];
    for count in all {
        count.0.store(0, Relaxed);
    }
}

/// Returns the dispatches of each kernel, the most frequent first. Empty unless `MLX_DISP_BUCKET=1`.
pub fn pipeline_dispatch_buckets() -> Vec<(String, u64)> {
    let buckets = BUCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut rows: Vec<_> = buckets.iter().flatten().map(|(name, count)| (name.clone(), *count)).collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    rows
}

/// Empties the histogram of kernels.
pub fn reset_pipeline_dispatch_buckets() {
    *BUCKETS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Sets whether each dispatch is written to standard error.
pub fn set_encode_trace(on: bool) {
    TRACE.store(on, Relaxed);
}

/// Returns whether `MLX_UNRETAINED_REFS=1`. It has no effect: lists always keep their buffers.
pub fn command_buffer_uses_unretained_references() -> bool {
    *UNRETAINED
}
