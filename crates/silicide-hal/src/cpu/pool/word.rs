//! The packed words that the threads meet at. Both carry the number of the group they speak of, so that a word left
//! over from an older group is recognised, and nothing has to be reset between groups.
//!
//! Numbers have 40 bits and wrap; what is compared is less than half that apart (the protocol sees to it).

const BITS: u32 = 12;
const FIELD: u64 = (1 << BITS) - 1;
const NUMBER: u64 = u64::MAX >> (2 * BITS);

/// The most shares a group may have.
pub(crate) const MAX_SHARES: u32 = FIELD as u32;

/// The number of a group: they are counted through all jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u64);

impl Number {
    pub(super) fn new(number: u64) -> Number {
        Number(number & NUMBER)
    }

    /// Returns the number `groups` further on.
    pub(super) fn plus(self, groups: usize) -> Number {
        Number::new(self.0.wrapping_add(groups as u64))
    }

    /// How far this number is past `other`.
    pub(super) fn since(self, other: Number) -> u64 {
        self.0.wrapping_sub(other.0) & NUMBER
    }

    fn is_before(self, other: Number) -> bool {
        self != other && other.since(self) <= NUMBER / 2
    }
}

/// The published group: its number, how many threads share it, how many shares it has (0: there is no work).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gate(u64);

impl Gate {
    pub(super) fn new(number: Number, team: u32, shares: u32) -> Gate {
        Gate(number.0 << (2 * BITS) | u64::from(team) << BITS | u64::from(shares))
    }

    pub(super) fn from_bits(bits: u64) -> Gate {
        Gate(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn number(self) -> Number {
        Number(self.0 >> (2 * BITS))
    }

    pub(super) fn team(self) -> usize {
        (self.0 >> BITS & FIELD) as usize
    }

    pub(super) fn shares(self) -> u32 {
        (self.0 & FIELD) as u32
    }

    /// Returns the threads that the group is for, one bit each. The caller, thread 0, is always one: the group may be the end.
    pub(super) fn wanted(self) -> u64 {
        match self.team() {
            _ if self.shares() == 0 => 1,
            64.. => u64::MAX,
            team => (1 << team) - 1,
        }
    }

    /// Returns whether `thread` is wanted.
    pub(super) fn wants(self, thread: usize) -> bool {
        thread < 64 && self.wanted() >> thread & 1 == 1
    }
}

/// The unclaimed shares of one thread: a group's number, the first of them, and the one after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range(u64);

/// Which end to claim from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// For the owner.
    Front,
    /// For the others.
    Back,
}

impl Range {
    pub(super) fn new(number: Number, next: u32, end: u32) -> Range {
        Range(number.0 << (2 * BITS) | u64::from(next) << BITS | u64::from(end))
    }

    pub(super) fn from_bits(bits: u64) -> Range {
        Range(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// Returns the range of `thread` while `gate` is published. A word of an older group stands for the thread's
    /// whole part of this one. `None`: the word is of a newer group, so `gate` is over.
    #[inline(always)]
    pub(super) fn during(self, gate: Gate, thread: usize) -> Option<Range> {
        let number = Number(self.0 >> (2 * BITS));
        if number == gate.number() {
            Some(self)
        } else if number.is_before(gate.number()) {
            let (team, thread) = (gate.team() as u32, thread as u32);
            let part = |n: u32| (gate.shares() * n).checked_div(team).unwrap_or(0);
            Some(Range::new(gate.number(), part(thread.min(team)), part((thread + 1).min(team))))
        } else {
            None
        }
    }

    /// Returns a share from one end, and what remains.
    #[inline(always)]
    pub(super) fn take(self, end: End) -> Option<(u32, Range)> {
        let (next, last) = ((self.0 >> BITS & FIELD) as u32, (self.0 & FIELD) as u32);
        let number = Number(self.0 >> (2 * BITS));
        match end {
            _ if next >= last => None,
            End::Front => Some((next, Range::new(number, next + 1, last))),
            End::Back => Some((last - 1, Range::new(number, next, last - 1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_shares_once() {
        for shares in [0, 1, 2, 7, 63, 64, MAX_SHARES] {
            for team in [1, 2, 3, 63, 64] {
                let gate = Gate::new(Number::new(5), team, shares);
                assert_eq!((gate.team(), gate.shares()), (team as usize, shares));
                let mut claimed = Vec::new();
                for thread in 0..64 {
                    let old = Range::new(Number::new(4), 3, 9);
                    let mut range = old.during(gate, thread).unwrap();
                    let mut end = End::Front;
                    while let Some((share, rest)) = range.take(end) {
                        claimed.push(share);
                        range = rest;
                        end = if end == End::Front { End::Back } else { End::Front };
                    }
                }
                claimed.sort_unstable();
                assert_eq!(claimed, (0..shares).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn numbers_wrap() {
        let last = Number::new(NUMBER);
        let first = last.plus(1);
        assert_eq!(first, Number::new(0));
        assert!(last.is_before(first) && !first.is_before(last) && !last.is_before(last));
        assert_eq!(first.plus(6).since(last), 7);
        let gate = Gate::new(first, 2, 8);
        assert_eq!(Range::new(last, 1, 1).during(gate, 1), Some(Range::new(first, 4, 8)));
        assert_eq!(Range::new(first, 1, 3).during(Gate::new(last, 2, 8), 0), None);
    }

    #[test]
    fn a_gate_wants_its_team_and_always_the_caller() {
        let wanted = |team, shares| Gate::new(Number::new(1), team, shares).wanted();
        assert_eq!((wanted(3, 5), wanted(3, 0), wanted(64, 5)), (0b111, 1, u64::MAX));
        assert!(!Gate::new(Number::new(1), 64, 9).wants(64));
    }
}
