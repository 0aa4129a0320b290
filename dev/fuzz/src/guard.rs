//! Buffers on guard pages: the bytes end at, or begin behind, a page that cannot be accessed.
//!
//! ```text
//! | no access | .......... bytes | no access |    End
//! | no access | bytes .......... | no access |    Start
//! ```
//!
//! A kernel that reads or writes one byte outside of a binding ends the process with SIGSEGV.
#![allow(unsafe_code)]

use silicide_core::{Buffer, Device, Error, ForeignMemory, Result};
use silicide_quant::{DType, Shape};
use std::ptr::NonNull;

/// Where the bytes lie between the two guard pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The first byte follows the lower guard page.
    Start,
    /// The last byte precedes the upper guard page.
    End,
}

/// A mapping with a guard page at each end.
struct Mapping {
    base: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: a mapping is an address and a length; any thread may unmap it.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` gives no access to its bytes.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `bytes` are those that `mmap` returned; the owner is dropped after the last use.
        unsafe { libc::munmap(self.base.as_ptr(), self.bytes) };
    }
}

impl Mapping {
    /// Maps `pages` accessible pages with a guard page before and behind them.
    fn new(pages: usize, page: usize) -> Option<Mapping> {
        let bytes = pages.checked_add(2)?.checked_mul(page)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at an address that the system chooses touches no other memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let mapping = Mapping { base: NonNull::new(base)?, bytes };
        // SAFETY: the pages between the guards lie in the mapping made above.
        let opened = unsafe {
            let first = base.cast::<u8>().add(page).cast();
            libc::mprotect(first, pages * page, libc::PROT_READ | libc::PROT_WRITE)
        };
        (opened == 0).then_some(mapping)
    }
}

/// Copies bytes to an edge of pages of their own.
fn place(contents: &[u8], edge: Edge) -> Option<ForeignMemory> {
    let page = page_size();
    let pages = contents.len().div_ceil(page).max(1);
    let mapping = Mapping::new(pages, page)?;
    let offset = match edge {
        Edge::Start => page,
        Edge::End => (pages + 1) * page - contents.len(),
    };
    // SAFETY: `offset + contents.len()` is at most `(pages + 1) * page`: inside the accessible pages, which
    // nothing else uses yet.
    let start = unsafe {
        let start = mapping.base.cast::<u8>().add(offset);
        std::ptr::copy_nonoverlapping(contents.as_ptr(), start.as_ptr(), contents.len());
        start
    };
    Some(ForeignMemory { start, bytes: contents.len(), writable: true, owner: Box::new(mapping) })
}

/// Returns a buffer with these contents at an edge of its pages.
pub fn buffer(device: &Device, info: (DType, Shape), contents: &[u8], edge: Edge) -> Result<Buffer> {
    let (dtype, shape) = info;
    let no_memory = || Error::NoImport { device: "guard pages".to_owned() };
    let memory = place(contents, edge).ok_or_else(no_memory)?;
    // SAFETY: the bytes are initialised, the mapping lives as long as its owner, and only the buffer has its address.
    unsafe { Buffer::from_raw(device, memory, dtype, shape) }
}

/// Reads one byte outside of guarded bytes. The guard page ends the process with SIGSEGV; the driver's test sees to it.
pub(crate) fn read_outside(edge: Edge) -> Option<u8> {
    let memory = place(&[1, 2, 3], edge)?;
    let outside = match edge {
        Edge::Start => memory.start.as_ptr().wrapping_sub(1),
        Edge::End => memory.start.as_ptr().wrapping_add(memory.bytes),
    };
    // SAFETY: not sound, on purpose: the address is that of a guard page, so the read never returns.
    Some(unsafe { outside.read_volatile() })
}

fn page_size() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
