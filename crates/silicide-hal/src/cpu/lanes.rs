//! Times of each thread in a traced list: one entry for consecutive tiles of one command.
//!
//! A lane is written by one thread while its list runs and read when the list is over; the pool orders the two. Lanes are
//! made with the plan and never grow: entries that do not fit are counted.

use crate::{ThreadSpan, ThreadTimes};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The step of a thread that runs none.
const NONE: u32 = u32::MAX;
/// Entries beyond two for each step. One is what a thread needs for a step that it does not come back to.
const SPARE: usize = 16;

/// A lane for each thread.
pub(super) struct Lanes(Box<[Lane]>);

/// The entries of one thread. Aligned so that two lanes share no cache line.
#[repr(align(128))]
struct Lane {
    /// The step whose tiles run.
    running: AtomicU32,
    /// Entries so far, with those that found no place.
    count: AtomicUsize,
    entries: Box<[LaneEntry]>,
}

/// Tiles of a step; times as the plan counts them.
#[derive(Default)]
struct LaneEntry {
    step: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
}

impl Lanes {
    /// Makes a lane for each of `threads` threads, with room for a list of `steps` steps.
    pub(super) fn new(threads: usize, steps: usize) -> Lanes {
        let lane = |_| Lane {
            running: AtomicU32::new(NONE),
            count: AtomicUsize::new(0),
            entries: (0..2 * steps + SPARE).map(|_| LaneEntry::default()).collect(),
        };
        Lanes((0..threads).map(lane).collect())
    }

    /// Removes all entries, before a list runs.
    pub(super) fn clear(&self) {
        for lane in &self.0 {
            lane.running.store(NONE, Relaxed);
            lane.count.store(0, Relaxed);
        }
    }

    /// Records that a thread runs tiles of a step next. Reads the clock only if the step is new.
    pub(super) fn enter(&self, thread: usize, step: u32, now: impl FnOnce() -> u64) {
        let Some(lane) = self.0.get(thread) else { return };
        let before = lane.running.load(Relaxed);
        if before == step {
            return;
        }
        let now = now();
        if before != NONE {
            lane.close(now);
        }
        let place = lane.count.load(Relaxed);
        lane.count.store(place + 1, Relaxed);
        lane.running.store(step, Relaxed);
        if let Some(entry) = lane.entries.get(place) {
            entry.step.store(step, Relaxed);
            entry.start.store(now, Relaxed);
        }
    }

    /// Records that a thread has finished a group.
    pub(super) fn leave(&self, thread: usize, now: impl FnOnce() -> u64) {
        let Some(lane) = self.0.get(thread) else { return };
        if lane.running.swap(NONE, Relaxed) != NONE {
            lane.close(now());
        }
    }

    /// Returns the entries that began at `from` or later, thread by thread. `label` names steps.
    pub(super) fn times(&self, from: u64, label: impl Fn(u32) -> &'static str) -> ThreadTimes {
        let mut times = ThreadTimes::default();
        for (thread, lane) in (0u32..).zip(&self.0) {
            let count = lane.count.load(Relaxed);
            times.dropped += count.saturating_sub(lane.entries.len()) as u64;
            let entries = lane.entries.iter().take(count).filter(|entry| entry.start.load(Relaxed) >= from);
            times.spans.extend(entries.map(|entry| {
                let (start, end) = (entry.start.load(Relaxed), entry.end.load(Relaxed));
                let (start_ns, duration_ns) = (start - from, end.saturating_sub(start));
                ThreadSpan { thread, label: label(entry.step.load(Relaxed)), start_ns, duration_ns }
            }));
        }
        times
    }
}

impl Lane {
    /// Records the end of the last entry.
    fn close(&self, now: u64) {
        let last = self.count.load(Relaxed).checked_sub(1);
        if let Some(entry) = last.and_then(|last| self.entries.get(last)) {
            entry.end.store(now, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_one_step_is_one_entry_and_what_does_not_fit_is_counted() {
        let lanes = Lanes::new(2, 1);
        let label = |step: u32| if step == 0 { "zero" } else { "other" };
        lanes.enter(1, 0, || 10);
        lanes.enter(1, 0, || unreachable!("the same step: the clock is not read"));
        lanes.enter(1, 7, || 15);
        lanes.leave(1, || 19);
        lanes.leave(1, || unreachable!("nothing runs"));
        lanes.enter(9, 0, || unreachable!("there is no such thread"));
        let span = |label, start_ns, duration_ns| ThreadSpan { thread: 1, label, start_ns, duration_ns };
        let expected = ThreadTimes { spans: vec![span("zero", 8, 5), span("other", 13, 4)], dropped: 0 };
        assert_eq!(lanes.times(2, label), expected);
        assert_eq!(lanes.times(12, label).spans, [span("other", 3, 4)], "what began before is left out");

        lanes.clear();
        assert_eq!(lanes.times(0, label), ThreadTimes::default());
        for n in 0..25 {
            lanes.enter(0, n % 2, || u64::from(n));
        }
        lanes.leave(0, || 25);
        let times = lanes.times(0, label);
        assert_eq!((times.spans.len(), times.dropped), (18, 7));
        assert!(times.spans.iter().all(|span| span.duration_ns == 1));
    }
}
