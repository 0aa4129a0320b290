//! Prefetches the weights that a thread streams next into its L2 cache, while the thread waits for others.
//!
//! Memory bandwidth limits a group that streams weights, and is idle while threads wait at the end of a group. Addresses are
//! hints: nothing here reads them, and the memory may have been freed.

use crate::PrefetchRange;

/// Cache lines prefetched between two looks at the gate: about 30 ns of memory bandwidth.
const LINES: usize = 8;
/// Bytes of a cache line.
const LINE: usize = 64;

/// The ranges that a thread streams next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NextRanges {
    /// The start of each of the two streams.
    pub ranges: [PrefetchRange; 2],
    /// True if a group has streamed since the last prefetch, and so evicted what was prefetched.
    pub evicted: bool,
}

/// Prefetches the ranges of one thread, a few lines per call.
#[derive(Debug, Default)]
pub(crate) struct Prefetcher {
    ranges: [PrefetchRange; 2],
    /// Bytes of each range that are already prefetched.
    done: usize,
}

impl Prefetcher {
    /// Sets the ranges. Prefetching starts over if they are new or were evicted, and continues otherwise.
    pub(super) fn set(&mut self, NextRanges { ranges, evicted }: NextRanges) {
        if self.ranges != ranges || evicted {
            *self = Prefetcher { ranges, done: 0 };
        }
    }

    /// Prefetches a few lines of each range. Returns false if all lines are prefetched already.
    #[inline]
    pub(super) fn step(&mut self) -> bool {
        let mut any = false;
        for range in &self.ranges {
            let end = (self.done + LINES * LINE).min(range.bytes);
            for at in (self.done..end).step_by(LINE) {
                prefetch(range.start.wrapping_add(at));
                any = true;
            }
        }
        self.done += if any { LINES * LINE } else { 0 };
        any
    }
}

/// Prefetches a cache line into L2.
#[inline(always)]
fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and faults on no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(std::ptr::without_provenance(
            address,
        ));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch reads nothing and faults on no address.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_prefetched_once_until_it_is_evicted() {
        let range = |lines: usize| PrefetchRange { start: 0, bytes: lines * LINE };
        let mut prefetcher = Prefetcher::default();
        assert!(!prefetcher.step());
        let next = NextRanges { ranges: [range(3 * LINES + 1), range(LINES)], evicted: false };
        prefetcher.set(next);
        assert_eq!((0..9).take_while(|_| prefetcher.step()).count(), 4);
        prefetcher.set(next);
        assert!(!prefetcher.step(), "the same ranges are still in the cache");
        prefetcher.set(NextRanges { evicted: true, ..next });
        assert!(prefetcher.step(), "another group has evicted them");
        prefetcher.set(NextRanges { ranges: [range(1), PrefetchRange::default()], evicted: false });
        assert!(prefetcher.step() && !prefetcher.step());
    }
}
