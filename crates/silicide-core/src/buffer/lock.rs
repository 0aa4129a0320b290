//! Buffers that the system keeps in memory.

use super::Buffer;
use crate::error::{Error, Result};
use silicide_hal::cpu::{lock_limit, lock_memory, unlock_memory};
use std::ptr::NonNull;

/// The pages of a buffer's bytes, locked in memory until this is dropped.
#[derive(Debug)]
pub struct MemoryLock {
    /// Keeps the pages allocated.
    buffer: Buffer,
    start: NonNull<u8>,
}

// SAFETY: the address is only a name of pages for the system; no bytes are read or written through it.
unsafe impl Send for MemoryLock {}
// SAFETY: as for `Send`.
unsafe impl Sync for MemoryLock {}

impl Buffer {
    /// Locks the bytes of this buffer in memory: the system neither swaps them nor, where they are mapped from a file, drops them. Reads
    /// those that are not in memory yet. Buffers that share a page share the lock, and the first one that is dropped ends it for that
    /// page. For memory that the host sees, on Unix.
    pub fn lock(&self) -> Result<MemoryLock> {
        let allocation = self.allocation()?;
        let Some(host) = allocation.host else { return Err(Error::NotHostVisible { what: "lock" }) };
        let start = NonNull::new(host.as_ptr().wrapping_add(self.offset())).unwrap_or(host);
        lock_memory(start, self.size()).map_err(|error| {
            if error.kind() == std::io::ErrorKind::Unsupported {
                return Error::NoMemoryLock;
            }
            let limit =
                lock_limit().map_or_else(String::new, |limit| format!("; the limit is {limit} bytes"));
            Error::NotLocked { bytes: self.size(), detail: format!("{error}{limit}") }
        })?;
        Ok(MemoryLock { buffer: self.clone(), start })
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        unlock_memory(self.start, self.buffer.size());
    }
}
