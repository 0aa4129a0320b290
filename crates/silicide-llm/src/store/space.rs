//! Free space on the disk.

use super::error::{Result, StoreError};
use std::path::Path;

/// Returns the free bytes for the user below a folder, if the system has the number.
pub(crate) fn available(directory: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let stat = rustix::fs::statvfs(directory).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = directory;
        None
    }
}

/// Checks that `needed` bytes are free.
pub(super) fn require(directory: &Path, needed: u64) -> Result<()> {
    match available(directory) {
        Some(available) if available < needed => {
            Err(StoreError::NoSpace { path: directory.to_owned(), needed, available })
        }
        _ => Ok(()),
    }
}

/// Returns the error of a failed write, with a variant of its own for a full disk.
pub(super) fn write_error(path: &Path, needed: u64, error: &std::io::Error) -> StoreError {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    if matches!(error.kind(), StorageFull | QuotaExceeded) {
        let directory = path.parent().unwrap_or(path).to_owned();
        let available = available(&directory).unwrap_or(0);
        return StoreError::NoSpace { path: directory, needed, available };
    }
    StoreError::io("write", path, error)
}
