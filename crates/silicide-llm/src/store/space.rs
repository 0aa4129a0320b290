//! Room on the disk.

use super::error::{Result, StoreError};
use std::path::Path;

/// Bytes that a user may still write below a folder, where the system tells.
pub(super) fn available(directory: &Path) -> Option<u64> {
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

/// Refuses to begin what would not fit.
pub(super) fn require(directory: &Path, needed: u64) -> Result<()> {
    match available(directory) {
        Some(available) if available < needed => {
            Err(StoreError::NoSpace { path: directory.to_owned(), needed, available })
        }
        _ => Ok(()),
    }
}

/// An error of writing: a full disk is told apart.
pub(super) fn write_error(path: &Path, needed: u64, error: &std::io::Error) -> StoreError {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    if matches!(error.kind(), StorageFull | QuotaExceeded) {
        let directory = path.parent().unwrap_or(path).to_owned();
        let available = available(&directory).unwrap_or(0);
        return StoreError::NoSpace { path: directory, needed, available };
    }
    StoreError::io("write", path, error)
}
