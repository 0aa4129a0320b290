//! Limits of this process.
#![allow(unsafe_code)]

use std::io;

/// Limits the address space of this process to `bytes`, and forbids core dumps. An allocation beyond it fails.
pub(super) fn limit_memory(bytes: u64) -> io::Result<()> {
    set(libc::RLIMIT_CORE, 0)?;
    if bytes > 0 { set(libc::RLIMIT_AS, bytes) } else { Ok(()) }
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

fn set(resource: Resource, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most as libc::rlim_t, rlim_max: most as libc::rlim_t };
    // SAFETY: `setrlimit` reads a `rlimit`, which `limit` is.
    match unsafe { libc::setrlimit(resource, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
