//! Ranges of buffers that dispatches touch. Two conflict when they share bytes and one is written.
//!
//! mlx-native lets ranges that only touch conflict in one direction. Here they never do.

use crate::MlxBuffer;
use silicide::Buffer;
use std::collections::HashMap;

/// Whether a range is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemRangeRole {
    /// Read.
    Src,
    /// Written.
    Dst,
}

/// Bytes of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferRange {
    /// A number of the allocation.
    pub buf_id: usize,
    /// First byte.
    pub p0: u64,
    /// One past the last byte.
    pub p1: u64,
    /// Whether it is read or written.
    pub role: MemRangeRole,
}

/// Returns the number of the allocation.
fn number(buffer: &Buffer) -> usize {
    buffer.storage_id().number() as usize
}

/// The distance of the addresses of two allocations: 2^40 of 64 bits, 2^20 of 32.
const SPACING: usize = 1 << (usize::BITS / 8 * 5);

/// Returns an address that stands for the allocation. Longer allocations reach those after them, and after 2^24 allocations (2^12 of 32 bits)
/// addresses repeat: then two may seem to conflict, and have a barrier more. Identities are [`OperandStart`].
pub(crate) fn base(buffer: &Buffer) -> usize {
    number(buffer).wrapping_mul(SPACING)
}

/// Where an operand begins: the allocation, and a byte in it. No two allocations of a process are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperandStart {
    allocation: u64,
    offset: u64,
}

impl OperandStart {
    /// The start of a view.
    pub(crate) fn of(buffer: &MlxBuffer) -> OperandStart {
        OperandStart::at(&buffer.metal_buffer().0, buffer.byte_offset())
    }

    /// Byte `offset` of the allocation of `buffer`.
    pub(crate) fn at(buffer: &Buffer, offset: u64) -> OperandStart {
        OperandStart { allocation: buffer.storage_id().number(), offset }
    }
}

impl BufferRange {
    /// The bytes of a view.
    pub fn from_buffer(buffer: &MlxBuffer, role: MemRangeRole) -> BufferRange {
        let start = buffer.byte_offset();
        let end = start + buffer.data_byte_len() as u64;
        BufferRange { buf_id: number(&buffer.metal_buffer().0), p0: start, p1: end, role }
    }

    /// Returns whether the two may not run at once.
    pub fn conflicts_with(&self, other: &BufferRange) -> bool {
        self.buf_id == other.buf_id
            && (self.role == MemRangeRole::Dst || other.role == MemRangeRole::Dst)
            && self.p0 < other.p1
            && other.p0 < self.p1
    }
}

/// Ranges that dispatches since the last barrier touch.
#[derive(Clone, Debug, Default)]
pub struct MemRanges {
    ranges: HashMap<usize, Vec<BufferRange>>,
    count: usize,
    checks: u64,
    forced: u64,
}

fn ranges<'a>(
    reads: &'a [&MlxBuffer],
    writes: &'a [&MlxBuffer],
) -> impl Iterator<Item = BufferRange> + use<'a> {
    let reads = reads.iter().map(|buffer| BufferRange::from_buffer(buffer, MemRangeRole::Src));
    reads.chain(writes.iter().map(|buffer| BufferRange::from_buffer(buffer, MemRangeRole::Dst)))
}

impl MemRanges {
    /// Returns an empty set.
    pub fn new() -> MemRanges {
        MemRanges::default()
    }

    /// Forgets all ranges.
    pub fn reset(&mut self) {
        self.ranges.clear();
        self.count = 0;
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of dispatches that were compared.
    pub fn checks(&self) -> u64 {
        self.checks
    }

    /// Returns the number of comparisons that found a conflict.
    pub fn barriers_forced(&self) -> u64 {
        self.forced
    }

    /// Adds a range. Equal ranges are kept once.
    pub fn push(&mut self, range: BufferRange) {
        let of_buffer = self.ranges.entry(range.buf_id).or_default();
        if !of_buffer.contains(&range) {
            of_buffer.push(range);
            self.count += 1;
        }
    }

    /// Adds the ranges of a dispatch.
    pub fn add_dispatch(&mut self, reads: &[&MlxBuffer], writes: &[&MlxBuffer]) {
        for range in ranges(reads, writes) {
            self.push(range);
        }
    }

    /// Returns whether a dispatch may run beside those that were added.
    pub fn check_dispatch(&mut self, reads: &[&MlxBuffer], writes: &[&MlxBuffer]) -> bool {
        self.checks += 1;
        let free = !ranges(reads, writes).any(|range| self.conflicts(&range));
        self.forced += u64::from(!free);
        free
    }

    /// Adds a dispatch that may run beside the others and returns true. Otherwise returns false and adds nothing: the caller sets a
    /// barrier, resets the set and adds the dispatch.
    pub fn check_and_record(&mut self, reads: &[&MlxBuffer], writes: &[&MlxBuffer]) -> bool {
        let free = self.check_dispatch(reads, writes);
        if free {
            self.add_dispatch(reads, writes);
        }
        free
    }

    fn conflicts(&self, range: &BufferRange) -> bool {
        self.ranges.get(&range.buf_id).is_some_and(|all| all.iter().any(|other| other.conflicts_with(range)))
    }
}
