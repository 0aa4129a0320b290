//! Copies of a buffer's bytes that live as long as the handle.
//!
//! `as_slice` returns a slice that borrows the handle only, and a program may pass the same handle to a kernel that writes the
//! memory while the slice lives. So the slice shows a copy. A list of copies grows and never moves them; contents that
//! were copied last are not copied again.

use crate::error::{MlxError, Result};
use std::sync::OnceLock;

/// Bytes at an address that suits every element type.
#[derive(Debug)]
struct Snapshot {
    words: Vec<u128>,
    bytes: usize,
    next: OnceLock<Box<Snapshot>>,
}

impl Snapshot {
    fn new(bytes: &[u8]) -> Result<Snapshot> {
        let count = bytes.len().div_ceil(size_of::<u128>());
        let mut words = Vec::new();
        let failed = |_| MlxError::BufferAllocationError { bytes: bytes.len() };
        words.try_reserve_exact(count).map_err(failed)?;
        words.resize(count, 0u128);
        bytemuck::cast_slice_mut::<u128, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Ok(Snapshot { words, bytes: bytes.len(), next: OnceLock::new() })
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice::<u128, u8>(&self.words)[..self.bytes]
    }
}

/// The copies of a handle, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    first: OnceLock<Box<Snapshot>>,
}

impl Snapshots {
    /// Returns a copy of `bytes`: the last one, if it is equal.
    pub(super) fn keep(&self, bytes: &[u8]) -> Result<&[u8]> {
        let mut place = &self.first;
        let mut new = None;
        loop {
            if let Some(snapshot) = place.get() {
                if snapshot.next.get().is_none() && snapshot.bytes() == bytes {
                    return Ok(snapshot.bytes());
                }
                place = &snapshot.next;
                continue;
            }
            let snapshot = match new.take() {
                Some(snapshot) => snapshot,
                None => Box::new(Snapshot::new(bytes)?),
            };
            // Another thread may have filled the place; then the walk goes on.
            match place.set(snapshot) {
                Ok(()) => {}
                Err(back) => new = Some(back),
            }
        }
    }

    /// Frees all copies.
    pub(super) fn clear(&mut self) {
        let mut next = self.first.take();
        while let Some(mut snapshot) = next {
            next = snapshot.next.take();
        }
    }
}

/// Frees one copy after the other: the list may be longer than the stack is deep.
impl Drop for Snapshots {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Snapshots;

    #[test]
    fn equal_contents_are_copied_once() {
        let snapshots = Snapshots::default();
        let first = snapshots.keep(&[1, 2, 3]).unwrap();
        assert_eq!(first.as_ptr(), snapshots.keep(&[1, 2, 3]).unwrap().as_ptr());
        let second = snapshots.keep(&[4, 5, 6]).unwrap();
        assert_eq!((first, second), (&[1u8, 2, 3][..], &[4u8, 5, 6][..]));
    }

    #[test]
    fn a_long_list_is_freed_without_recursion() {
        let snapshots = Snapshots::default();
        for number in 0..2_000u32 {
            snapshots.keep(&number.to_le_bytes()).unwrap();
        }
        drop(snapshots);
    }
}
