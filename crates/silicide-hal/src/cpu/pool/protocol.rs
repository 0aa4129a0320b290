//! The protocol of a pool's threads: claim shares, finish them, open the next group, sleep.
//!
//! # The state
//!
//! - `gate`: the published group. Waiting threads watch it.
//! - `left`: shares of that group that are not finished yet.
//! - `ranges`, one per thread: its shares that are not claimed yet (see [`Range`]).
//! - `asleep`: a bit for every thread that is parked or about to be.
//! - `posted`: where the job is.
//!
//! # Why it is right
//!
//! - **A claim proves that its group is alive.** A share is run only after a successful exchange on a range of the
//!   group's number; the group cannot end before the share does. Only then is `posted` followed, so a thread that
//!   was away for any length of time never looks at a job that is over: its exchanges fail.
//! - **What earlier groups wrote is visible.** Each finisher releases its writes by `left.fetch_sub`, the last one
//!   acquires them all and publishes the next group with a release; every thread enters a group by an acquiring load.
//! - **No wake-up is lost.** A sleeper sets its bit, then looks at the gate; an opener sets the gate, then looks at
//!   the bits; a sequentially consistent fence stands between on both sides, so one of them sees the other. Only the
//!   caller's wake-up matters for progress: any other thread that sleeps holds no share.
//! - **Numbers may wrap.** A job has far fewer groups than half of all numbers, and old ranges that no thread has
//!   touched are refreshed between jobs.
//!
//! `loom_tests` checks the orderings by exhaustive search on small jobs.

use super::clock;
use super::prefetch::{NextRanges, Prefetcher};
use super::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Mutex, Padded, SPINS, Thread, current, fence, park,
};
use super::word::{End, Gate, Number, Range};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::{OnceLock, PoisonError};

/// Looks at the gate before the clock is first read.
const QUICK_LOOKS: u32 = 8;
/// The most threads that one thread wakes for a group. Those wake others in turn.
const WAKES: u32 = 2;
/// The caller reviews the team each time it has looked at the gate this often.
const REVIEW_EVERY: u32 = 16;
/// Ranges are refreshed after this many groups.
const REFRESH_AFTER: u64 = 1 << 36;

/// Groups of shares of work. Groups run in order; shares of one group may run at once.
///
/// Nothing here may unwind: a thread that holds a share and vanishes would leave the others waiting.
pub(crate) trait Job: Sync {
    /// Returns the number of groups.
    fn groups(&self) -> usize;
    /// Returns the number of shares of a group, 1 to [`MAX_SHARES`](super::MAX_SHARES); with 1 it is run by
    /// [`Job::run_whole`].
    fn shares(&self, group: usize) -> u32;
    /// Runs a group of one share, as thread `me`.
    fn run_whole(&self, group: usize, me: usize);
    /// Runs one share of a group, as thread `me`.
    fn run_share(&self, group: usize, share: u32, me: usize);
    /// Thread `me` has run all shares of a group that it could get.
    fn leave(&self, me: usize);
    /// Returns the ranges that thread `me` streams first in the groups after `group`, with `team` threads.
    fn next_ranges(&self, group: usize, me: usize, team: usize) -> NextRanges;
    /// Returns whether the rest of the job is to be skipped.
    fn stopped(&self) -> bool;
}

/// A job and the number of its first group. Lies on the caller's stack while the job runs. Threads copy it, and make
/// a reference of the pointer only for calls that return before the end of the job is published: a reference that
/// outlives what it refers to is undefined behaviour even when it is not used.
#[derive(Clone, Copy)]
struct Posted {
    job: *const dyn Job,
    first: Number,
}

impl Posted {
    fn new(job: &dyn Job, first: Number) -> Posted {
        // SAFETY: only the lifetime changes. The pointer is followed only while a claimed share, or the gate that is
        // not published yet, keeps the job running (`work`, `open`).
        let job = unsafe { std::mem::transmute::<*const dyn Job, *const dyn Job>(&raw const *job) };
        Posted { job, first }
    }
}

/// When a thread waited so long that it slept, in ticks.
struct Slept {
    since: u64,
    until: u64,
}

impl Slept {
    /// Returns the wait beyond the time that the thread itself had worked on the group, which it entered at `entered`. Parts
    /// of a group are alike, so a longer wait is for a thread that lost its core.
    fn beyond(&self, entered: u64) -> u64 {
        let (waited, worked) = (self.until.saturating_sub(self.since), self.since.saturating_sub(entered));
        waited.saturating_sub(worked)
    }
}

/// See the module.
pub(super) struct Protocol {
    gate: Padded<AtomicU64>,
    left: Padded<AtomicU32>,
    ranges: Box<[Padded<AtomicU64>]>,
    asleep: Padded<AtomicU64>,
    posted: Padded<AtomicPtr<Posted>>,
    /// The size of the team for groups yet to be opened.
    team: AtomicU32,
    quit: AtomicBool,
    /// Ticks to spin before sleeping.
    spin: u64,
    /// When the ranges were last brought up to date.
    refreshed: AtomicU64,
    workers: Box<[OnceLock<Thread>]>,
    caller: Mutex<Option<Thread>>,
}

impl Protocol {
    /// Returns the state for `threads` threads that spin for `spin` ticks.
    pub(super) fn new(threads: usize, spin: u64) -> Protocol {
        Protocol::starting_at(0, threads, spin)
    }

    /// Returns the same with groups counted from `number`.
    pub(super) fn starting_at(number: u64, threads: usize, spin: u64) -> Protocol {
        let number = Number::new(number);
        let nothing = Range::new(number, 0, 0).bits();
        let team = threads as u32;
        Protocol {
            gate: Padded(AtomicU64::new(Gate::new(number, team, 0).bits())),
            left: Padded(AtomicU32::new(0)),
            ranges: (0..threads).map(|_| Padded(AtomicU64::new(nothing))).collect(),
            asleep: Padded(AtomicU64::new(0)),
            posted: Padded(AtomicPtr::new(std::ptr::null_mut())),
            team: AtomicU32::new(team),
            quit: AtomicBool::new(false),
            spin,
            refreshed: AtomicU64::new(Gate::new(number, 0, 0).bits()),
            workers: (0..threads).map(|_| OnceLock::new()).collect(),
            caller: Mutex::new(None),
        }
    }

    /// Runs a job to its end as thread 0. `review` gets the ticks lost in waiting for others, and returns the
    /// size of the team. Only one thread at a time may be in here.
    pub(super) fn run(&self, job: &dyn Job, mut review: impl FnMut(u64) -> u32) {
        let before = self.look();
        self.refresh(before);
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = Some(current());
        let mut posted = Posted::new(job, before.number().plus(1));
        let end = posted.first.plus(job.groups());
        // Followed only by threads that hold a share, so never after this function has returned.
        self.posted.0.store(&raw mut posted, Relaxed);
        self.team.store(review(0), Relaxed);
        self.open(posted, 0, 0);
        let mut gate = self.look();
        let mut looks = 0;
        let mut prefetcher = Prefetcher::default();
        while gate.number() != end {
            let entered = clock::now();
            let worked = self.work(gate, 0, &mut prefetcher);
            let (next, slept) = self.wait(gate, 0, &mut prefetcher);
            gate = next;
            looks += 1;
            let lost = slept.filter(|_| worked).map_or(0, |slept| slept.beyond(entered));
            if lost > 0 || looks % REVIEW_EVERY == 0 {
                self.team.store(review(lost), Relaxed);
            }
        }
    }

    /// Takes part in jobs as thread `me`, until [`Protocol::quit`].
    pub(super) fn serve(&self, me: usize) {
        if let Some(handle) = self.workers.get(me) {
            handle.get_or_init(current);
        }
        let mut gate = self.look();
        let mut prefetcher = Prefetcher::default();
        while !self.quit.load(Relaxed) {
            self.work(gate, me, &mut prefetcher);
            let (next, slept) = self.wait(gate, me, &mut prefetcher);
            gate = next;
            if slept.is_some() {
                self.wake(gate);
            }
        }
    }

    /// Makes [`Protocol::serve`] return. The caller unparks sleeping threads after this.
    pub(super) fn quit(&self) {
        self.quit.store(true, Relaxed);
    }

    fn look(&self) -> Gate {
        Gate::from_bits(self.gate.0.load(Acquire))
    }

    /// Runs every share of the published group that it can claim. Returns whether there was one; `prefetcher` then has the
    /// ranges of the next groups.
    #[inline]
    fn work(&self, gate: Gate, me: usize, prefetcher: &mut Prefetcher) -> bool {
        if gate.shares() == 0 || !gate.wants(me) {
            return false;
        }
        let mut done = 0;
        let mut held = None;
        for of in (me..gate.team()).chain(0..me) {
            let end = if of == me { End::Front } else { End::Back };
            while let Some(share) = self.claim(gate, of, end) {
                // SAFETY: the claimed share is not finished, so its job is still running and is the one posted.
                let posted = unsafe { *self.posted.0.load(Relaxed) };
                let group = gate.number().since(posted.first) as usize;
                // SAFETY: the claimed share is not finished, so its job is still running.
                unsafe { (*posted.job).run_share(group, share, me) };
                done += 1;
                held = Some((posted, group));
            }
        }
        let Some((posted, group)) = held else { return false };
        // SAFETY: the claimed shares are not finished, so the job is still running.
        unsafe {
            (*posted.job).leave(me);
            prefetcher.set((*posted.job).next_ranges(group, me, gate.team()));
        }
        if self.left.0.fetch_sub(done, AcqRel) == done {
            // The job waits for this thread to open what comes next, so it is still there.
            // The lines arrive while this thread runs groups of one share.
            prefetcher.step();
            self.open(posted, group + 1, me);
        }
        true
    }

    /// Takes one share out of a thread's range.
    #[inline]
    fn claim(&self, gate: Gate, of: usize, end: End) -> Option<u32> {
        let range = &self.ranges.get(of)?.0;
        let mut seen = range.load(Relaxed);
        loop {
            let (share, rest) = Range::from_bits(seen).during(gate, of)?.take(end)?;
            match range.compare_exchange_weak(seen, rest.bits(), Relaxed, Relaxed) {
                Ok(_) => return Some(share),
                Err(now) => seen = now,
            }
        }
    }

    /// Publishes the first group from `group` on that is worth sharing, after running those before it here; or the
    /// end of the job.
    fn open(&self, posted: Posted, group: usize, me: usize) {
        // SAFETY: the job goes on until its end is published below.
        let (group, shares) = run_until_shared(unsafe { &*posted.job }, group, me);
        self.left.0.store(shares, Relaxed);
        let gate = Gate::new(posted.first.plus(group), self.team.load(Relaxed), shares);
        self.gate.0.store(gate.bits(), Release);
        fence(SeqCst);
        self.wake(gate);
    }

    /// Wakes some of the sleeping threads that the group is for, the caller first.
    #[inline]
    fn wake(&self, gate: Gate) {
        let sleepers = self.asleep.0.load(Relaxed) & gate.wanted();
        if sleepers != 0 {
            self.wake_some(sleepers, gate.shares().saturating_sub(1).clamp(1, WAKES));
        }
    }

    #[cold]
    fn wake_some(&self, mut sleepers: u64, count: u32) {
        for _ in 0..count {
            let thread = sleepers.trailing_zeros() as usize;
            let bit = sleepers & sleepers.wrapping_neg();
            sleepers &= !bit;
            // The thread that clears the bit unparks.
            if self.asleep.0.fetch_and(!bit, Relaxed) & bit == 0 {
                continue;
            }
            if thread == 0 {
                let caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
                caller.iter().for_each(Thread::unpark);
            } else if let Some(handle) = self.workers.get(thread).and_then(OnceLock::get) {
                handle.unpark();
            }
        }
    }

    /// Waits until a group other than `gate` is published for this thread, and prefetches meanwhile. Returns the
    /// published group, and when this thread slept.
    #[inline]
    fn wait(&self, gate: Gate, me: usize, prefetcher: &mut Prefetcher) -> (Gate, Option<Slept>) {
        for _ in 0..QUICK_LOOKS {
            let now = self.look();
            if now != gate && now.wants(me) {
                return (now, None);
            }
            if !SPINS {
                break;
            }
            if !prefetcher.step() {
                std::hint::spin_loop();
            }
        }
        self.wait_long(gate, me, prefetcher)
    }

    fn wait_long(&self, gate: Gate, me: usize, prefetcher: &mut Prefetcher) -> (Gate, Option<Slept>) {
        let since = clock::now();
        // A thread that the team left out sleeps at once.
        let spins = SPINS && (gate.shares() == 0 || gate.wants(me));
        while spins && clock::now().saturating_sub(since) < self.spin && !self.quit.load(Relaxed) {
            for _ in 0..QUICK_LOOKS {
                let now = self.look();
                if now != gate && now.wants(me) {
                    return (now, None);
                }
                if !prefetcher.step() {
                    std::hint::spin_loop();
                }
            }
        }
        let gate = self.sleep(gate, me);
        (gate, Some(Slept { since, until: clock::now() }))
    }

    /// Sleeps until a group other than `gate` is published for this thread. A wake-up for anything less is
    /// slept through: threads that woke each other without cause would never rest.
    #[cold]
    fn sleep(&self, gate: Gate, me: usize) -> Gate {
        let bit = 1u64 << me;
        loop {
            if self.asleep.0.fetch_or(bit, Relaxed) & bit == 0 {
                fence(SeqCst);
            }
            let now = self.look();
            if (now != gate && now.wants(me)) || self.quit.load(Relaxed) {
                self.asleep.0.fetch_and(!bit, Relaxed);
                return now;
            }
            park();
        }
    }

    /// Refreshes ranges before they are so old that they read as new. No thread claims between jobs.
    fn refresh(&self, gate: Gate) {
        let last = Gate::from_bits(self.refreshed.load(Relaxed));
        if gate.number().since(last.number()) > REFRESH_AFTER {
            let nothing = Range::new(gate.number(), 0, 0).bits();
            self.ranges.iter().for_each(|range| range.0.store(nothing, Relaxed));
            self.refreshed.store(gate.bits(), Relaxed);
        }
    }

    /// As if no thread but the caller had claimed anything until group `number`.
    #[cfg(all(test, not(loom)))]
    pub(super) fn jump_to(&mut self, number: u64) {
        let gate = Gate::new(Number::new(number), self.ranges.len() as u32, 0);
        *self.gate.0.get_mut() = gate.bits();
    }
}

/// Runs groups of one share, from `group` on. Returns the next group that has more, and how many; or the end and 0.
fn run_until_shared(job: &dyn Job, group: usize, me: usize) -> (usize, u32) {
    let groups = job.groups();
    for group in group..groups {
        if job.stopped() {
            break;
        }
        match job.shares(group) {
            1 => job.run_whole(group, me),
            shares => return (group, shares),
        }
    }
    (groups, 0)
}
