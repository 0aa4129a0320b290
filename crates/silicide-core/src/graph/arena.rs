//! The arena: values that live at different times share bytes.
//!
//! A lifetime is a range of groups of commands, both ends included. Between a value that is last used in one group and a value
//! that is first used in the next there is a barrier. So sharing never needs a barrier of its own.

use crate::memory::ALIGNMENT;

/// A value or scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    pub(super) bytes: usize,
    /// The first group that touches it.
    pub(super) first: usize,
    /// The last one.
    pub(super) last: usize,
}

impl Lifetime {
    fn meets(&self, other: &Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Where everything lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arena {
    /// The offset of each value.
    pub(super) offsets: Vec<usize>,
    /// Bytes of the arena.
    pub(super) bytes: usize,
    /// Bytes that live at once at the worst time: no arena is smaller.
    pub(super) live: usize,
}

/// Places values, the largest first, each at the lowest offset that is free while it lives.
pub(super) fn plan(lifetimes: &[Lifetime]) -> Arena {
    let rounded = |bytes: usize| bytes.max(1).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    let key = |index: usize| lifetimes.get(index).map(|life| (usize::MAX - life.bytes, life.first));
    order.sort_by_key(|&index| key(index));
    let mut arena = Arena { offsets: vec![0; lifetimes.len()], ..Arena::default() };
    // Start and end of what was placed, with its lifetime, by start.
    let mut placed: Vec<(usize, usize, Lifetime)> = Vec::new();
    for index in order {
        let Some(life) = lifetimes.get(index) else { continue };
        let bytes = rounded(life.bytes);
        let mut offset = 0usize;
        for (start, end, other) in &placed {
            if !other.meets(life) {
                continue;
            }
            if offset.saturating_add(bytes) <= *start {
                break;
            }
            offset = offset.max(*end);
        }
        let at = placed.partition_point(|(start, ..)| *start <= offset);
        let end = offset.saturating_add(bytes);
        placed.insert(at, (offset, end, *life));
        // A sum that saturates is larger than any allocation: the session is refused.
        arena.bytes = arena.bytes.max(end);
        if let Some(place) = arena.offsets.get_mut(index) {
            *place = offset;
        }
    }
    arena.live = most_living(lifetimes.iter().map(|life| Lifetime { bytes: rounded(life.bytes), ..*life }));
    arena
}

/// Returns the most bytes that live in one group.
fn most_living(lifetimes: impl Iterator<Item = Lifetime>) -> usize {
    // Bytes that begin to live in a group, or ended before it: those come first.
    let mut changes: Vec<(usize, bool, usize)> = Vec::new();
    for life in lifetimes {
        changes.push((life.first, true, life.bytes));
        changes.extend(life.last.checked_add(1).map(|after| (after, false, life.bytes)));
    }
    changes.sort_unstable();
    let (mut now, mut most) = (0u128, 0);
    for (_, begins, bytes) in changes {
        now = if begins { now.saturating_add(bytes as u128) } else { now.saturating_sub(bytes as u128) };
        most = now.max(most);
    }
    usize::try_from(most).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_that_live_at_once_never_share_bytes(
            lives in proptest::collection::vec((1..5000usize, 0..30usize, 0..12usize), 0..60),
        ) {
            let lives: Vec<Lifetime> = lives
                .into_iter()
                .map(|(bytes, first, length)| Lifetime { bytes, first, last: first + length })
                .collect();
            let arena = plan(&lives);
            for (i, (a, &at)) in lives.iter().zip(&arena.offsets).enumerate() {
                prop_assert!(at % ALIGNMENT == 0 && at + a.bytes <= arena.bytes);
                for (b, &other) in lives.iter().zip(&arena.offsets).skip(i + 1) {
                    let apart = at + a.bytes <= other || other + b.bytes <= at;
                    prop_assert!(apart || !a.meets(b), "{a:?} at {at}, {b:?} at {other}");
                }
            }
            let living = |group: usize| -> usize {
                let alive = lives.iter().filter(|life| (life.first..=life.last).contains(&group));
                alive.map(|life| life.bytes.next_multiple_of(ALIGNMENT)).sum()
            };
            prop_assert_eq!(arena.live, (0..50).map(living).max().unwrap_or(0));
            prop_assert!(arena.live <= arena.bytes);
            let all: usize = lives.iter().map(|life| life.bytes.next_multiple_of(ALIGNMENT)).sum();
            prop_assert!(arena.bytes <= all);
        }
    }

    #[test]
    fn a_chain_needs_two_places() {
        let chain: Vec<Lifetime> =
            (0..10).map(|group| Lifetime { bytes: 1000, first: group, last: group + 1 }).collect();
        let arena = plan(&chain);
        assert_eq!((arena.bytes, arena.live), (2 * 1024, 2 * 1024));
        assert_eq!(plan(&[]), Arena::default());
    }
}
