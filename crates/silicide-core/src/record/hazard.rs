//! Hazards: two commands conflict when they touch the same bytes and one of them writes.
//!
//! Ranges are half-open, `[start, end)`: touching ranges do not conflict, and ranges of different allocations
//! never do. [`place`] is a pure function from what commands touch to where barriers stand, with two laws: every
//! conflicting pair is separated by a barrier, and removing any barrier breaks that. The encoder does the same
//! one command at a time with [`MemRanges`].

use crate::buffer::Buffer;
use crate::error::Result;
use crate::kernel::Access;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Bytes of an allocation, and how they are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferRange {
    /// The block of device memory. Storages are cut from blocks, so positions count from the block's start.
    pub block: u64,
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// How.
    pub access: Access,
}

impl BufferRange {
    /// The exact extent of a buffer's view. Allocates its memory.
    pub fn from_buffer(buffer: &Buffer, access: Access) -> Result<BufferRange> {
        let allocation = buffer.allocation()?;
        let start = (allocation.offset + buffer.offset()) as u64;
        Ok(BufferRange { block: allocation.block.0, start, end: start + buffer.size() as u64, access })
    }

    /// Whether the two may not run at once. Symmetric.
    pub fn conflicts_with(&self, other: &BufferRange) -> bool {
        self.block == other.block
            && (self.access.writes() || other.access.writes())
            && self.start < other.end
            && other.start < self.end
    }
}

/// Blocks whose (empty) sets of ranges are kept between recordings.
const BLOCKS_KEPT: usize = 1024;

/// What the commands since the last barrier touch.
#[derive(Clone, Debug, Default)]
pub struct MemRanges {
    blocks: FxHashMap<u64, Touched>,
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

/// Disjoint ranges: start to end. Overlapping and touching ones are joined.
#[derive(Clone, Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn overlaps(&self, start: u64, end: u64) -> bool {
        // Ranges are disjoint, so only the last one that begins before `end` can reach past `start`.
        self.0.range(..end).next_back().is_some_and(|(_, &last)| last > start)
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        while let Some((&first, &last)) = self.0.range(..=end).next_back() {
            if last < start {
                break;
            }
            if first <= start && end <= last {
                return;
            }
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
    }
}

impl MemRanges {
    /// Nothing touched.
    pub fn new() -> MemRanges {
        MemRanges::default()
    }

    /// Whether a command that touches `ranges` may run beside everything recorded.
    pub fn allows(&self, ranges: &[BufferRange]) -> bool {
        !ranges.iter().any(|range| self.conflicts(range))
    }

    fn conflicts(&self, range: &BufferRange) -> bool {
        let Some(touched) = self.blocks.get(&range.block).filter(|touched| touched.epoch == self.epoch)
        else {
            return false;
        };
        touched.writes.overlaps(range.start, range.end)
            || (range.access.writes() && touched.reads.overlaps(range.start, range.end))
    }

    /// Records a command that may run beside the others.
    pub fn record(&mut self, ranges: &[BufferRange]) {
        for range in ranges.iter().filter(|range| range.start < range.end) {
            let touched = self.blocks.entry(range.block).or_default();
            if touched.epoch != self.epoch {
                touched.reads.0.clear();
                touched.writes.0.clear();
                touched.epoch = self.epoch;
            }
            let kind = if range.access.writes() { &mut touched.writes } else { &mut touched.reads };
            kind.insert(range.start, range.end);
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

    /// A barrier: nothing is outstanding any more.
    pub fn reset(&mut self) {
        self.epoch += 1;
        self.count = 0;
    }

    /// Starts anew. Blocks come and go: what is known of many old ones is not worth keeping.
    pub(crate) fn forget(&mut self) {
        self.reset();
        if self.blocks.len() > BLOCKS_KEPT {
            self.blocks.clear();
        }
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

/// Where barriers must stand: the indices of commands that need one before them.
pub fn place<'a>(commands: impl IntoIterator<Item = &'a [BufferRange]>) -> Vec<usize> {
    let mut ranges = MemRanges::new();
    let needs = |(index, touched)| ranges.check_and_record(touched).then_some(index);
    commands.into_iter().enumerate().filter_map(needs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(block: u64, start: u64, end: u64, access: Access) -> BufferRange {
        BufferRange { block, start, end, access }
    }

    #[test]
    fn touching_ranges_and_other_blocks_do_not_conflict() {
        let write = range(1, 0, 10, Access::Write);
        assert!(!write.conflicts_with(&range(1, 10, 20, Access::Write)));
        assert!(!range(1, 10, 20, Access::Write).conflicts_with(&write));
        assert!(!write.conflicts_with(&range(2, 0, 10, Access::Write)));
        assert!(write.conflicts_with(&range(1, 9, 10, Access::Read)));
        let read = range(1, 0, 10, Access::Read);
        assert!(!read.conflicts_with(&read));
    }

    fn access() -> impl Strategy<Value = Access> {
        prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::ReadWrite)]
    }

    fn commands() -> impl Strategy<Value = Vec<Vec<BufferRange>>> {
        let one = (0..3u64, 0..40u64, 1..12u64, access())
            .prop_map(|(block, start, len, access)| range(block, start, start + len, access));
        proptest::collection::vec(proptest::collection::vec(one, 1..4), 1..40)
    }

    fn conflict(a: &[BufferRange], b: &[BufferRange]) -> bool {
        a.iter().any(|x| b.iter().any(|y| x.conflicts_with(y)))
    }

    /// Whether every conflicting pair has a barrier between its members.
    fn separated(commands: &[Vec<BufferRange>], barriers: &[usize]) -> bool {
        (0..commands.len()).all(|later| {
            (0..later).all(|earlier| {
                !conflict(&commands[earlier], &commands[later])
                    || barriers.iter().any(|&barrier| earlier < barrier && barrier <= later)
            })
        })
    }

    proptest! {
        #[test]
        fn every_conflicting_pair_is_separated_and_no_barrier_is_idle(commands in commands()) {
            let barriers = place(commands.iter().map(Vec::as_slice));
            prop_assert!(separated(&commands, &barriers));
            for idle in 0..barriers.len() {
                let mut fewer = barriers.clone();
                fewer.remove(idle);
                prop_assert!(!separated(&commands, &fewer), "barrier before {} is not needed", barriers[idle]);
            }
        }

        #[test]
        fn conflicts_are_symmetric(a in commands(), b in commands()) {
            for (x, y) in a.iter().flatten().zip(b.iter().flatten()) {
                prop_assert_eq!(x.conflicts_with(y), y.conflicts_with(x));
            }
        }

        #[test]
        fn the_tracker_agrees_with_the_definition(commands in commands()) {
            let mut tracker = MemRanges::new();
            let mut seen: Vec<Vec<BufferRange>> = Vec::new();
            for command in commands {
                let allowed = !seen.iter().any(|earlier| conflict(earlier, &command));
                prop_assert_eq!(tracker.allows(&command), allowed);
                tracker.record(&command);
                seen.push(command);
            }
        }
    }
}
