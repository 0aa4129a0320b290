//! Device times by label.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Times under one label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileEntry {
    /// How many.
    pub count: u64,
    /// Their sum, in ns.
    pub total_ns: u64,
    /// The least, in ns.
    pub min_ns: u64,
    /// The most, in ns.
    pub max_ns: u64,
}

/// The time of one dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchEntry {
    /// The label of its command buffer.
    pub cb_label: String,
    /// The kind of op.
    pub op_kind: &'static str,
    /// Its place in the command buffer.
    pub dispatch_index: u32,
    /// Its time, in ns.
    pub gpu_ns: u64,
    /// When it began, in ns.
    pub start_gpu_ns: u64,
    /// When it ended, in ns.
    pub end_gpu_ns: u64,
}

#[derive(Debug, Default)]
struct Profile {
    labels: BTreeMap<String, ProfileEntry>,
    dispatches: BTreeMap<String, Vec<DispatchEntry>>,
    /// Two readings of both clocks: host ns, device ticks.
    clocks: [Option<(u64, u64)>; 2],
}

static PROFILE: Mutex<Option<Profile>> = Mutex::new(None);
static ENABLED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("MLX_PROFILE_CB").is_some());
static DISPATCHES: LazyLock<bool> = LazyLock::new(|| std::env::var_os("MLX_PROFILE_DISPATCH").is_some());

fn with<T>(f: impl FnOnce(&mut Profile) -> T) -> T {
    f(PROFILE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Returns whether commits with a label are timed: `MLX_PROFILE_CB` is set.
pub fn is_enabled() -> bool {
    *ENABLED
}

/// Returns whether `MLX_PROFILE_DISPATCH` is set. Dispatches are not timed one by one here.
pub fn is_dispatch_enabled() -> bool {
    *DISPATCHES
}

/// Adds a time under a label.
pub fn record(label: &str, gpu_ns: u64) {
    with(|profile| {
        let first = ProfileEntry { min_ns: gpu_ns, ..ProfileEntry::default() };
        let entry = profile.labels.entry(label.to_owned()).or_insert(first);
        entry.count += 1;
        entry.total_ns = entry.total_ns.saturating_add(gpu_ns);
        entry.min_ns = entry.min_ns.min(gpu_ns);
        entry.max_ns = entry.max_ns.max(gpu_ns);
    });
}

/// Adds the time of a dispatch under its command buffer's label.
pub fn record_dispatch(entry: DispatchEntry) {
    with(|profile| profile.dispatches.entry(entry.cb_label.clone()).or_default().push(entry));
}

/// Forgets all times.
pub fn reset() {
    *PROFILE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Returns the times by label, the longest sum first.
pub fn dump() -> Vec<(String, ProfileEntry)> {
    let mut rows: Vec<_> =
        with(|profile| profile.labels.iter().map(|(label, entry)| (label.clone(), *entry)).collect());
    rows.sort_by_key(|(_, entry): &(String, ProfileEntry)| std::cmp::Reverse(entry.total_ns));
    rows
}

/// Returns the times of dispatches by label, each in the order of its command buffer.
pub fn dump_dispatches() -> Vec<(String, Vec<DispatchEntry>)> {
    with(|profile| {
        let sorted = |(label, entries): (&String, &Vec<DispatchEntry>)| {
            let mut entries = entries.clone();
            entries.sort_by_key(|entry| entry.dispatch_index);
            (label.clone(), entries)
        };
        profile.dispatches.iter().map(sorted).collect()
    })
}

/// Notes a reading of the host's and the device's clock at one moment.
pub fn record_clock_pair(cpu_ns: u64, gpu_ticks: u64) {
    with(|profile| match profile.clocks {
        [None, _] => profile.clocks[0] = Some((cpu_ns, gpu_ticks)),
        _ => profile.clocks[1] = Some((cpu_ns, gpu_ticks)),
    });
}

/// Converts ticks of the device to ns by the readings of both clocks; without two, a tick is a ns.
pub fn convert_gpu_ticks_to_ns(ticks: u64) -> u64 {
    with(|profile| match profile.clocks {
        [Some((host, device)), Some((later_host, later_device))] if later_device > device => {
            let scale = later_host.saturating_sub(host) as f64 / (later_device - device) as f64;
            (ticks as f64 * scale) as u64
        }
        _ => ticks,
    })
}
