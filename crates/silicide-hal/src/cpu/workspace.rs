//! Workspaces: memory that each thread of the pool owns, for the panels and staging of kernels.
//!
//! ```text
//! | thread 0: stride bytes | thread 1: stride bytes | ...     one block, stride a multiple of a page
//! ```
//!
//! They grow when a list is planned or baked, never while one runs, and never shrink. The same thread gets the same bytes
//! for every tile, so a panel stays in its L2 as a stack frame would.
//!
//! Invariant: thread `i` of the pool is the only one that runs tiles as `i`, and a thread runs one tile at a time; so a
//! tile has its workspace to itself.

use super::memory;
use crate::info::WORKSPACE_PAGE;
use crate::program::Workspace;
use crate::{HalError, RawBlock, Result};

/// The workspaces of a pool's threads.
#[derive(Default)]
pub(super) struct Workspaces {
    block: Option<RawBlock>,
    /// Bytes of one thread's.
    stride: usize,
    threads: usize,
}

impl Workspaces {
    /// Empty workspaces of `threads` threads.
    pub(super) fn new(threads: usize) -> Workspaces {
        Workspaces { threads, ..Workspaces::default() }
    }

    /// Grows the workspace of every thread to at least `bytes` bytes. On failure the workspaces stay unchanged.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<()> {
        if bytes <= self.stride {
            return Ok(());
        }
        let refused = HalError::OutOfMemory { requested: bytes };
        let stride = bytes.checked_next_multiple_of(WORKSPACE_PAGE).ok_or_else(|| refused.clone())?;
        let block = memory::allocate(stride.checked_mul(self.threads).ok_or(refused)?)?;
        self.free();
        self.block = Some(block);
        self.stride = stride;
        Ok(())
    }

    /// Returns the bytes of all threads' workspaces.
    pub(super) fn bytes(&self) -> usize {
        self.stride * self.threads
    }

    /// Returns the workspace of a thread; empty if there is no such thread or nothing has grown.
    #[inline]
    pub(super) fn of(&self, thread: usize) -> Workspace {
        match self.block {
            Some(block) if thread < self.threads => {
                // SAFETY: the block is live until `free`, and has `stride` bytes for each thread.
                let start = unsafe { memory::resolve(block).start.add(thread * self.stride) };
                Workspace { start: start.as_ptr(), bytes: self.stride }
            }
            _ => Workspace::EMPTY,
        }
    }

    fn free(&mut self) {
        if let Some(block) = self.block.take() {
            // SAFETY: live until now; `&mut self` says that no list runs, and a tile keeps nothing of its workspace.
            unsafe { memory::release(block) };
        }
    }
}

impl Drop for Workspaces {
    fn drop(&mut self) {
        self.free();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WORKSPACE_ALIGNMENT;

    #[test]
    fn workspaces_grow_and_lie_apart() {
        let mut workspaces = Workspaces::new(3);
        assert_eq!((workspaces.bytes(), workspaces.of(0).bytes), (0, 0));
        workspaces.grow(5000).unwrap();
        let [one, two, three] = [0, 1, 2].map(|thread| workspaces.of(thread));
        assert_eq!((one.bytes, workspaces.bytes()), (8192, 3 * 8192));
        assert_eq!(
            (two.start.addr() - one.start.addr(), three.start.addr() - two.start.addr()),
            (8192, 8192)
        );
        assert_eq!(one.start.addr() % WORKSPACE_ALIGNMENT, 0);
        assert_eq!(workspaces.of(3).bytes, 0, "there is no fourth thread");
        workspaces.grow(100).unwrap();
        assert_eq!(workspaces.of(2).start, three.start, "they never shrink");
    }

    #[test]
    fn a_workspace_that_cannot_be_allocated_is_an_error_and_keeps_the_old_workspace() {
        let mut workspaces = Workspaces::new(2);
        workspaces.grow(64).unwrap();
        let before = workspaces.of(1).start;
        for bytes in [usize::MAX, usize::MAX / 2, isize::MAX as usize - 4096] {
            assert!(matches!(workspaces.grow(bytes), Err(HalError::OutOfMemory { .. })), "{bytes}");
        }
        assert_eq!((workspaces.of(1).start, workspaces.bytes()), (before, 2 * WORKSPACE_PAGE));
    }
}
