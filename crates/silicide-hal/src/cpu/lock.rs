//! Locking host memory, so that the system keeps it resident.

use std::io;
use std::ptr::NonNull;

/// Locks the pages of `bytes` bytes from `start` on: they are read now if they are not there, and are neither swapped nor dropped until
/// [`unlock_memory`]. Locking does not count: one call unlocks a page that was locked twice.
pub fn lock_memory(start: NonNull<u8>, bytes: usize) -> io::Result<()> {
    #[cfg(unix)]
    {
        // SAFETY: `mlock` reads and writes no bytes; of memory that is not mapped it returns an error.
        match unsafe { libc::mlock(start.as_ptr().cast(), bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
    #[cfg(not(unix))]
    {
        let _ = (start, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Unlocks pages that [`lock_memory`] has locked. Errors are ignored: memory that is freed is unlocked anyway.
pub fn unlock_memory(start: NonNull<u8>, bytes: usize) {
    #[cfg(unix)]
    // SAFETY: `munlock` reads and writes no bytes; of memory that is not mapped it returns an error.
    unsafe {
        libc::munlock(start.as_ptr().cast(), bytes);
    }
    #[cfg(not(unix))]
    let _ = (start, bytes);
}

/// Returns the most bytes that this process may lock; `None` without a limit, or where the system has none.
pub fn lock_limit() -> Option<u64> {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is a valid place for the result.
        let status = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
        (status == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
    }
    #[cfg(not(unix))]
    None
}
