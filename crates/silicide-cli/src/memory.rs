//! The memory of this process.

/// Returns the most memory that the process had resident, in bytes, where the system reports it.
///
/// Linux counts it for the process in `/proc`. `getrusage` there would count that of the program before `exec` too.
#[cfg(target_os = "linux")]
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns the most memory that the process had resident, in bytes, where the system reports it.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn peak_memory() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let resident = u64::try_from(getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss()).ok()?;
    // Apple's systems count bytes, the others kilobytes.
    Some(if cfg!(target_vendor = "apple") { resident } else { resident * 1024 })
}

/// Returns `None`: it is not measured on this system.
#[cfg(not(unix))]
pub(crate) fn peak_memory() -> Option<u64> {
    None
}
