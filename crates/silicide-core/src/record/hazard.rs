//! Hazards: two commands conflict when they touch the same bytes and one of them writes.
//!
//! Ranges are half-open, `[start, end)`: touching ranges do not conflict, and ranges of different allocations
//! never do. [`place`] is a pure function from the ranges of commands to positions of barriers, with two laws: every
//! conflicting pair is separated by a barrier, and removing any barrier breaks that. The encoder does the same
//! one command at a time with [`MemRanges`].

use super::ranges::Ranges;
use crate::buffer::{Buffer, StorageId};
use crate::kernel::Access;
use rustc_hash::FxHashMap;

/// Bytes of an allocation, and how they are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferRange {
    /// The allocation.
    pub storage: StorageId,
    /// First byte, from the start of the allocation.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// How.
    pub access: Access,
}

impl BufferRange {
    /// The exact extent of a buffer's view.
    pub fn from_buffer(buffer: &Buffer, access: Access) -> BufferRange {
        let (storage, range) = (buffer.storage_id(), buffer.range());
        BufferRange { storage, start: range.start as u64, end: range.end as u64, access }
    }

    /// Whether the two may not run at once. Symmetric.
    pub fn conflicts_with(&self, other: &BufferRange) -> bool {
        self.storage == other.storage
            && (self.access.writes() || other.access.writes())
            && self.start < other.end
            && other.start < self.end
    }
}

/// A range of a storage that a tracker has numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) storage: u32,
    pub(crate) access: Access,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Ranges that the commands since the last barrier touch.
#[derive(Clone, Debug, Default)]
pub struct MemRanges {
    /// Numbers of storages, in the order in which they were first seen.
    numbers: FxHashMap<StorageId, u32>,
    /// By number. Entries of earlier recordings may follow.
    storages: Vec<Touched>,
    /// Entries of other epochs are stale: a reset is a single addition.
    epoch: u64,
    count: usize,
}

#[derive(Clone, Debug, Default)]
struct Touched {
    epoch: u64,
    reads: Ranges,
    writes: Ranges,
}

impl MemRanges {
    /// Nothing touched.
    pub fn new() -> MemRanges {
        MemRanges::default()
    }

    /// Returns whether a command that touches `ranges` conflicts with no recorded command.
    pub fn allows(&self, ranges: &[BufferRange]) -> bool {
        !ranges.iter().any(|range| {
            let number = self.numbers.get(&range.storage);
            number.is_some_and(|&storage| self.conflicts(&range.touch(storage)))
        })
    }

    /// Records a command that conflicts with no recorded command.
    pub fn record(&mut self, ranges: &[BufferRange]) {
        for range in ranges {
            let storage = self.number(range.storage);
            self.insert(&range.touch(storage));
        }
        self.count += 1;
    }

    /// Records a command; says whether a barrier is needed before it.
    pub fn check_and_record(&mut self, ranges: &[BufferRange]) -> bool {
        let barrier = !self.allows(ranges);
        if barrier {
            self.reset();
        }
        self.record(ranges);
        barrier
    }

    /// The number of a storage: 0 for the first that is looked up, then 1, and so on.
    pub(crate) fn number(&mut self, storage: StorageId) -> u32 {
        let next = self.numbers.len();
        let number = *self.numbers.entry(storage).or_insert(next as u32);
        if self.storages.len() <= number as usize {
            self.storages.push(Touched::default());
        }
        number
    }

    /// Records a command whose storages are numbered; says whether a barrier is needed before it.
    pub(crate) fn check_and_record_touches(&mut self, touches: &[Touch]) -> bool {
        let barrier = touches.iter().any(|touch| self.conflicts(touch));
        if barrier {
            self.reset();
        }
        for touch in touches {
            self.insert(touch);
        }
        self.count += 1;
        barrier
    }

    /// The same for storages that the caller has numbered.
    pub(crate) fn check_numbered(&mut self, touches: &[Touch]) -> bool {
        let storages = touches.iter().map(|touch| touch.storage as usize + 1).max().unwrap_or(0);
        if self.storages.len() < storages {
            self.storages.resize_with(storages, Touched::default);
        }
        self.check_and_record_touches(touches)
    }

    fn conflicts(&self, touch: &Touch) -> bool {
        let touched = self.storages.get(touch.storage as usize).filter(|touched| touched.epoch == self.epoch);
        touched.is_some_and(|touched| {
            touched.writes.overlaps(touch.start, touch.end)
                || (touch.access.writes() && touched.reads.overlaps(touch.start, touch.end))
        })
    }

    fn insert(&mut self, touch: &Touch) {
        let Some(touched) = self.storages.get_mut(touch.storage as usize) else { return };
        if touched.epoch != self.epoch {
            touched.reads.clear();
            touched.writes.clear();
            touched.epoch = self.epoch;
        }
        let kind = if touch.access.writes() { &mut touched.writes } else { &mut touched.reads };
        kind.insert(touch.start, touch.end);
    }

    /// A barrier: nothing is outstanding any more.
    pub fn reset(&mut self) {
        self.epoch += 1;
        self.count = 0;
    }

    /// Forgets all commands. Numbers begin at 0 again.
    pub(crate) fn forget(&mut self) {
        self.reset();
        self.numbers.clear();
    }

    /// Commands recorded since the last barrier.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing was recorded since the last barrier.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl BufferRange {
    fn touch(&self, storage: u32) -> Touch {
        Touch { storage, access: self.access, start: self.start, end: self.end }
    }
}

/// Where barriers must stand: the indices of commands that need one before them.
pub fn place<'a>(commands: impl IntoIterator<Item = &'a [BufferRange]>) -> Vec<usize> {
    let mut ranges = MemRanges::new();
    let needs = |(index, touched)| ranges.check_and_record(touched).then_some(index);
    commands.into_iter().enumerate().filter_map(needs).collect()
}

#[cfg(test)]
mod tests;
