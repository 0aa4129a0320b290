//! Blocks of host memory. A [`RawBlock`] is the address of a boxed [`HostBlock`], so that resolving a binding is one
//! load; allocating and freeing touch no shared table. The null backend keeps its memory here too.
//!
//! Invariant: the bytes of a block are always initialised (zeroed by the allocator or the importer's own), so a
//! host view of them is sound. They come from `alloc_zeroed` with the allocator's natural alignment and are aligned
//! by hand: so large blocks are fresh pages of the system, and need no clearing.

use crate::{HalError, HostRegion, RawBlock, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment of every block in bytes, as `RawDevice::alloc` states it.
const ALIGNMENT: usize = 256;
/// The size of a huge page, and the alignment of blocks that are given some.
const HUGE_PAGE: usize = 2 << 20;
/// Blocks from this size on use huge pages.
const HUGE_FROM: usize = 2 * HUGE_PAGE;
/// The alignment that allocators have without extra work.
const NATURAL: usize = 16;

/// The largest block: its size, alignment included, must stay in `isize`.
pub(crate) const MAX_BLOCK: usize = (isize::MAX as usize) & !(2 * HUGE_PAGE - 1);

/// A live block.
pub(crate) struct HostBlock {
    /// First byte.
    pub start: NonNull<u8>,
    /// Length in bytes.
    pub bytes: usize,
    /// The allocation to free; `None` for imported memory.
    owned: Option<(NonNull<u8>, Layout)>,
}

/// Allocates a block of `bytes` bytes.
pub(crate) fn allocate(bytes: usize) -> Result<RawBlock> {
    let refused = HalError::OutOfMemory { requested: bytes };
    let alignment = if bytes >= HUGE_FROM { HUGE_PAGE } else { ALIGNMENT };
    let size = bytes.max(1).checked_add(alignment).ok_or_else(|| refused.clone())?;
    let layout = Layout::from_size_align(size, NATURAL).map_err(|_| refused.clone())?;
    // SAFETY: the size is not zero.
    let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
    // SAFETY: the way to the next multiple of `alignment` is shorter than `alignment`, which was added to the size.
    let start = unsafe { base.add(base.as_ptr().align_offset(alignment)) };
    if alignment == HUGE_PAGE {
        advise_huge_pages(start, bytes);
    }
    Ok(seal(HostBlock { start, bytes, owned: Some((base, layout)) }))
}

/// Makes a block of host memory that the caller owns.
pub(crate) fn import(host: HostRegion) -> RawBlock {
    seal(HostBlock { start: host.start, bytes: host.bytes, owned: None })
}

fn seal(block: HostBlock) -> RawBlock {
    RawBlock(Box::into_raw(Box::new(block)).expose_provenance() as u64)
}

/// Returns the record of a block.
///
/// # Safety
/// The block is live and stays so while the reference is used.
pub(crate) unsafe fn resolve<'a>(block: RawBlock) -> &'a HostBlock {
    // SAFETY: a live handle is the exposed address of a leaked box.
    unsafe { &*std::ptr::with_exposed_provenance::<HostBlock>(block.0 as usize) }
}

/// Frees a block.
///
/// # Safety
/// `block` is live, and neither a list in flight nor a reference from [`resolve`] uses it.
pub(crate) unsafe fn release(block: RawBlock) {
    // SAFETY: a live handle is the exposed address of a leaked box; taking it back ends its life.
    let block =
        unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<HostBlock>(block.0 as usize)) };
    if let Some((base, layout)) = block.owned {
        // SAFETY: allocated with this layout in `allocate`.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}

/// Advises the system to use huge pages, which save a fifth of the time of streaming weights. A refusal is ignored.
#[cfg(target_os = "linux")]
fn advise_huge_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: whole huge pages inside memory just allocated; the advice changes no bytes.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes & !(HUGE_PAGE - 1), libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_start: NonNull<u8>, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_zeroed_and_given_back() {
        for bytes in [1, 63, 64, 4096, HUGE_FROM - 1, HUGE_FROM, 3 * HUGE_FROM + 5] {
            let block = allocate(bytes).unwrap();
            // SAFETY: live until released below.
            unsafe {
                let record = resolve(block);
                let address = record.start.as_ptr() as usize;
                assert_eq!(record.bytes, bytes);
                assert_eq!(address % if bytes >= HUGE_FROM { HUGE_PAGE } else { ALIGNMENT }, 0);
                let slice = std::slice::from_raw_parts_mut(record.start.as_ptr(), bytes);
                assert!(slice.iter().all(|byte| *byte == 0));
                slice.fill(7);
                release(block);
            }
        }
    }

    #[test]
    fn impossible_sizes_are_out_of_memory() {
        for bytes in [usize::MAX, isize::MAX as usize, MAX_BLOCK] {
            assert_eq!(allocate(bytes), Err(HalError::OutOfMemory { requested: bytes }));
        }
    }

    #[test]
    fn imports_keep_the_address_and_leave_the_memory() {
        let mut bytes = vec![1u8, 2, 3];
        let start = NonNull::new(bytes.as_mut_ptr()).unwrap();
        let block = import(HostRegion { start, bytes: 3, writable: true });
        // SAFETY: live until released.
        unsafe {
            assert_eq!(resolve(block).start, start);
            release(block);
        }
        assert_eq!(bytes, [1, 2, 3]);
    }
}
