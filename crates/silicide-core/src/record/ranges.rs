//! Sets of byte ranges, for the hazard tracker.
//!
//! Almost every storage is touched as a whole, or in a handful of views: those lie in a short sorted vector. Beyond
//! that a tree takes over, so that a list of many views of one storage is tracked in near-linear time too.

use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Ranges up to which a vector is faster than a tree.
const FEW: usize = 24;

/// Disjoint half-open ranges. Overlapping and touching ones are joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    /// Start and end, sorted; empty when there are many.
    few: SmallVec<[(u64, u64); 2]>,
    /// Start to end; empty when there are few.
    many: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(super) fn clear(&mut self) {
        self.few.clear();
        self.many.clear();
    }

    /// Whether any byte of `start..end` is in the set.
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        if self.many.is_empty() {
            return self.few.iter().any(|&(first, last)| first < end && last > start);
        }
        // Ranges are disjoint, so only the last one that begins before `end` can reach past `start`.
        self.many.range(..end).next_back().is_some_and(|(_, &last)| last > start)
    }

    /// Adds a range; an empty one adds nothing.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if !self.many.is_empty() {
            return self.insert_into_many(start, end);
        }
        self.insert_into_few(start, end);
        if self.few.len() > FEW {
            self.many.extend(self.few.drain(..));
        }
    }

    fn insert_into_few(&mut self, start: u64, end: u64) {
        // Those that touch the new one stand together: after the ones that end before it.
        let first = self.few.partition_point(|&(_, last)| last < start);
        let touching = self.few.iter().skip(first).take_while(|&&(begin, _)| begin <= end).count();
        let Some(&(begin, _)) = self.few.get(first).filter(|_| touching > 0) else {
            return self.few.insert(first, (start, end));
        };
        let last = self.few.get(first + touching - 1).map_or(end, |&(_, last)| last);
        if let Some(joined) = self.few.get_mut(first) {
            *joined = (start.min(begin), end.max(last));
        }
        self.few.drain(first + 1..first + touching);
    }

    fn insert_into_many(&mut self, mut start: u64, mut end: u64) {
        while let Some((&first, &last)) = self.many.range(..=end).next_back() {
            if last < start {
                break;
            }
            if first <= start && end <= last {
                return;
            }
            self.many.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.many.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_has_the_bytes_that_were_put_in(
            puts in proptest::collection::vec((0..400u64, 0..6u64), 0..120),
            asks in proptest::collection::vec((0..400u64, 1..20u64), 20),
        ) {
            let mut set = Ranges::default();
            let mut bytes = vec![false; 500];
            for (start, len) in puts {
                set.insert(start, start + len);
                bytes[start as usize..(start + len) as usize].fill(true);
                let ranges: Vec<(u64, u64)> =
                    set.few.iter().copied().chain(set.many.iter().map(|(s, e)| (*s, *e))).collect();
                prop_assert!(set.few.is_empty() || set.many.is_empty());
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ranges:?}");
            }
            for (start, len) in asks {
                let expected = bytes[start as usize..(start + len) as usize].contains(&true);
                prop_assert_eq!(set.overlaps(start, start + len), expected);
            }
            set.clear();
            prop_assert!(!set.overlaps(0, 500));
        }
    }
}
