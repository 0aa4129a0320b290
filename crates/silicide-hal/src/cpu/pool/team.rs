//! How many threads take part: a thread that keeps losing its core to another process is worse than none, since every
//! group waits for it.
//!
//! Time lost in waiting fills a bucket that leaks a twentieth of the time that passes. When it overflows, the team
//! shrinks by one thread for a while: 8 ms at first, four times as long each time that growing back has failed, up to half a second, and half
//! as long again for every 100 ms without trouble. A thread that grows back beside a busy process costs a time slice of the scheduler, about 4 ms:
//! short texts begin and end while pauses are still short, so these grow fast. Times are in ticks of the clock.

use super::clock;
use std::time::Duration;

/// The share of passing time that leaks out of the bucket: one part in this many.
const LEAK: u64 = 20;
/// How much longer each pause is than the one before.
const LONGER: u64 = 4;

/// See the module.
pub(super) struct Team {
    full: u32,
    size: u32,
    limits: Limits,
    /// Time lost and not leaked yet.
    bucket: u64,
    /// When the bucket was last looked at.
    looked: u64,
    /// How long the team stays small next time.
    pause: u64,
    /// When the team may grow by one.
    grows_at: u64,
    /// When it last grew, and when it last shrank.
    grew_at: u64,
    shrank_at: u64,
}

struct Limits {
    bucket: u64,
    shortest: u64,
    longest: u64,
    calm: u64,
}

impl Team {
    /// Returns a full team of `threads` at time `now`.
    pub(super) fn new(threads: u32, now: u64) -> Team {
        let ticks = |micros| clock::ticks(Duration::from_micros(micros)).max(1);
        let limits = Limits {
            bucket: ticks(1000),
            shortest: ticks(8000),
            longest: ticks(500_000),
            calm: ticks(100_000),
        };
        Team {
            full: threads,
            size: threads,
            bucket: 0,
            looked: now,
            pause: 0,
            grows_at: now,
            grew_at: now,
            shrank_at: now,
            limits,
        }
    }

    /// Records lost time, and returns how many threads take part from now on. The clock is read only when
    /// there is something to decide.
    #[inline]
    pub(super) fn review(&mut self, now: impl Fn() -> u64, lost: u64) -> u32 {
        if lost > 0 || self.size < self.full {
            self.decide(now(), lost);
        }
        self.size
    }

    #[cold]
    fn decide(&mut self, now: u64, lost: u64) {
        let leaked = now.saturating_sub(self.looked) / LEAK;
        self.bucket = self.bucket.saturating_sub(leaked).saturating_add(lost);
        self.looked = now;
        if self.bucket > self.limits.bucket && self.size > 1 {
            self.shrink(now);
        } else if self.size < self.full && now >= self.grows_at {
            self.size += 1;
            self.grew_at = now;
            self.grows_at = now.saturating_add(self.pause);
        }
    }

    fn shrink(&mut self, now: u64) {
        let calm = now.saturating_sub(self.grew_at) / self.limits.calm;
        let halved = self.pause.checked_shr(calm.min(63) as u32).unwrap_or(0);
        let Limits { shortest, longest, .. } = self.limits;
        // Several threads can be lost at once. That does not count as a failed growth.
        if self.grew_at >= self.shrank_at {
            self.pause = halved.max(shortest / LONGER).saturating_mul(LONGER).min(longest);
        }
        self.bucket = 0;
        self.size -= 1;
        self.shrank_at = now;
        self.grows_at = now.saturating_add(self.pause);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn micros(n: u64) -> u64 {
        clock::ticks(Duration::from_micros(n))
    }

    #[test]
    fn a_calm_team_stays_full() {
        let mut team = Team::new(4, 0);
        for step in 1..1000 {
            // 20 us lost in every millisecond is less than what leaks.
            assert_eq!(team.review(|| micros(1000 * step), micros(20)), 4);
        }
    }

    #[test]
    fn losses_shrink_it_by_one_at_a_time_and_it_grows_back() {
        let mut team = Team::new(4, 0);
        assert_eq!(team.review(|| micros(100), micros(900)), 4);
        assert_eq!(team.review(|| micros(200), micros(900)), 3);
        assert_eq!(team.review(|| micros(300), micros(1100)), 2);
        assert_eq!(team.review(|| micros(400), 0), 2);
        let later = micros(300) + team.pause;
        assert_eq!(team.review(|| later, 0), 3);
        let half = team.pause / 2;
        assert_eq!(team.review(|| later + half, 0), 3);
        assert_eq!(team.review(|| later + 600_000_000_000, 0), 4);
    }

    #[test]
    fn pauses_grow_fourfold_up_to_half_a_second_and_recover() {
        let mut team = Team::new(2, 0);
        let mut now = micros(1);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert_eq!(team.review(|| now, micros(2000)), 1);
            pauses.push(team.pause);
            now += team.pause;
            assert_eq!(team.review(|| now, 0), 2, "never below one, and back after the pause");
        }
        assert!(pauses.windows(2).all(|pair| pair[1] >= pair[0]));
        assert_eq!(pauses.last(), Some(&micros(500_000)));
        assert!(pauses[0] <= micros(8000) && pauses[1] >= pauses[0] * 4 - 4);
        now += micros(1_000_000);
        assert_eq!(team.review(|| now, micros(2000)), 1);
        assert!(team.pause <= micros(8000) + 4, "a second of calm forgets the past");
    }

    #[test]
    fn threads_that_are_lost_at_once_share_a_pause() {
        let mut team = Team::new(4, 0);
        for (step, size) in [(1, 3), (2, 2), (3, 1)] {
            assert_eq!(team.review(|| micros(100 * step), micros(2000)), size);
            assert!(team.pause <= micros(8000));
        }
    }

    #[test]
    fn one_thread_is_a_team() {
        let mut team = Team::new(1, 0);
        assert_eq!(team.review(|| micros(10), micros(100_000)), 1);
    }
}
