//! The order of commands: each as early as its inputs allow. The number of groups is the length of the longest chain.
//!
//! A schedule is a permutation that keeps every conflicting pair in order, which is all that correctness needs. No
//! other order needs fewer barriers: commands of a chain can't share a group.

use crate::record::Touch;

/// Commands in their new order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Commands, by their place before.
    pub(super) order: Vec<usize>,
    /// The group of each command, by its place before. Groups are counted from 0.
    pub(super) groups: Vec<usize>,
}

impl Schedule {
    /// Groups that there are.
    pub(super) fn group_count(&self) -> usize {
        self.groups.iter().max().map_or(0, |last| last + 1)
    }
}

/// Bytes that a command of some group touched.
struct TouchedRange {
    start: u64,
    end: u64,
    group: usize,
}

/// The ranges of one storage that were touched so far.
#[derive(Default)]
struct History {
    reads: Vec<TouchedRange>,
    writes: Vec<TouchedRange>,
}

impl History {
    /// The first group in which a command may touch these bytes.
    fn earliest(&self, touch: &Touch) -> usize {
        let after = |touched: &[TouchedRange]| {
            let meet = touched.iter().filter(|old| old.start < touch.end && touch.start < old.end);
            meet.map(|old| old.group + 1).max().unwrap_or(0)
        };
        let writes = after(&self.writes);
        if touch.access.writes() { writes.max(after(&self.reads)) } else { writes }
    }

    fn note(&mut self, touch: &Touch, group: usize) {
        let touched = TouchedRange { start: touch.start, end: touch.end, group };
        if touch.access.writes() { self.writes.push(touched) } else { self.reads.push(touched) }
    }
}

/// Puts commands in the order with the fewest groups. `commands` has the ranges that each touches.
pub(super) fn schedule<'a>(commands: impl Iterator<Item = &'a [Touch]>) -> Schedule {
    let mut histories: Vec<History> = Vec::new();
    let mut groups: Vec<usize> = Vec::new();
    for touches in commands {
        let storages = touches.iter().map(|touch| touch.storage as usize + 1).max().unwrap_or(0);
        if histories.len() < storages {
            histories.resize_with(storages, History::default);
        }
        let earliest =
            |touch: &Touch| histories.get(touch.storage as usize).map_or(0, |old| old.earliest(touch));
        let group = touches.iter().map(earliest).max().unwrap_or(0);
        for touch in touches {
            if let Some(history) = histories.get_mut(touch.storage as usize) {
                history.note(touch, group);
            }
        }
        groups.push(group);
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&command| groups.get(command).copied().unwrap_or(0));
    Schedule { order, groups }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::StorageId;
    use crate::kernel::Access;
    use crate::record::{BufferRange, place};
    use proptest::prelude::*;

    fn ranges(touches: &[Touch]) -> Vec<BufferRange> {
        let range = |touch: &Touch| BufferRange {
            storage: StorageId::of(touch.storage.into()),
            start: touch.start,
            end: touch.end,
            access: touch.access,
        };
        touches.iter().map(range).collect()
    }

    fn commands() -> impl Strategy<Value = Vec<Vec<Touch>>> {
        let access = prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::ReadWrite)];
        let touch = (0..6u32, access, 0..40u64, 1..20u64).prop_map(|(storage, access, start, len)| Touch {
            storage,
            access,
            start,
            end: start + len,
        });
        proptest::collection::vec(proptest::collection::vec(touch, 0..4), 0..40)
    }

    proptest! {
        #[test]
        fn conflicting_commands_keep_their_order_and_groups_are_fewest(commands in commands()) {
            let schedule = schedule(commands.iter().map(Vec::as_slice));
            let mut sorted = schedule.order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..commands.len()).collect::<Vec<_>>(), "a permutation");
            let all: Vec<Vec<BufferRange>> = commands.iter().map(|touches| ranges(touches)).collect();
            let conflict = |a: usize, b: usize| {
                all[a].iter().any(|x| all[b].iter().any(|y| x.conflicts_with(y)))
            };
            // The longest chain of conflicts is a bound that no order can be below.
            let mut chain = vec![0usize; commands.len()];
            for b in 0..commands.len() {
                for a in 0..b {
                    if conflict(a, b) {
                        prop_assert!(schedule.groups[a] < schedule.groups[b]);
                        chain[b] = chain[b].max(chain[a] + 1);
                    }
                }
            }
            prop_assert_eq!(&schedule.groups, &chain);
            let reordered: Vec<Vec<BufferRange>> =
                schedule.order.iter().map(|&command| all[command].clone()).collect();
            let barriers = place(reordered.iter().map(Vec::as_slice)).len();
            prop_assert_eq!(barriers, schedule.group_count().saturating_sub(1));
            prop_assert!(barriers <= place(all.iter().map(Vec::as_slice)).len());
        }
    }
}
