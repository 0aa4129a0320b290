//! The protocol under loom: every interleaving of small jobs, up to a bound on preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p silicide-hal --lib loom --release`
//!
//! The data that shares write lies in cells that loom watches: a share that is not ordered after the groups before it,
//! or runs twice at once, or touches a job that is over, is reported as a race; a lost wake-up as a deadlock.

use super::prefetch::NextRanges;
use super::protocol::{Job, Protocol};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Each share adds up all cells of the group before it, then writes its own.
struct Chain {
    groups: Vec<Vec<UnsafeCell<u32>>>,
}

// SAFETY: that accesses are ordered is what loom checks.
unsafe impl Sync for Chain {}

impl Chain {
    fn new(groups: &[u32]) -> Chain {
        let group = |shares: &u32| (0..*shares).map(|_| UnsafeCell::new(0)).collect();
        Chain { groups: groups.iter().map(group).collect() }
    }

    /// What each share of each group leaves behind: 1 in the first, then one more than the sum of the group before.
    fn check(&self) {
        let mut expected = 1;
        for group in &self.groups {
            for cell in group {
                // SAFETY: the job is over, and loom checks that it is.
                cell.with_mut(|value| assert_eq!(unsafe { *value }, expected));
            }
            expected = expected * group.len() as u32 + 1;
        }
    }
}

impl Job for Chain {
    fn groups(&self) -> usize {
        self.groups.len()
    }
    fn shares(&self, group: usize) -> u32 {
        self.groups[group].len() as u32
    }
    fn run_whole(&self, group: usize, me: usize) {
        self.run_share(group, 0, me);
    }
    fn run_share(&self, group: usize, share: u32, _me: usize) {
        let before = group.checked_sub(1).map_or(&[][..], |before| &self.groups[before]);
        // SAFETY: only read, after they were written: loom checks.
        let sum: u32 = before.iter().map(|cell| cell.with(|value| unsafe { *value })).sum();
        // SAFETY: written by this share alone: loom checks.
        self.groups[group][share as usize].with_mut(|value| unsafe { *value += sum + 1 });
    }
    fn leave(&self, _me: usize) {}
    fn next_ranges(&self, _group: usize, _me: usize, _team: usize) -> NextRanges {
        NextRanges::default()
    }
    fn stopped(&self) -> bool {
        false
    }
}

/// Runs jobs one after the other on `threads` threads, with a team of the size that `team` says at each review. More than two
/// preemptions take minutes: only with `scripts/test --all`.
fn model(threads: usize, preemptions: usize, jobs: &'static [&'static [u32]], team: fn(u32) -> u32) {
    let mut builder = loom::model::Builder::new();
    let has_time = std::env::var_os("SILICIDE_TEST_ALL").is_some();
    builder.preemption_bound = Some(if has_time { preemptions } else { preemptions.min(2) });
    builder.check(move || {
        let protocol = Arc::new(Protocol::new(threads, 0));
        let serve = |me| {
            let protocol = Arc::clone(&protocol);
            thread::spawn(move || protocol.serve(me))
        };
        let workers: Vec<_> = (1..threads).map(serve).collect();
        let mut reviews = 0;
        for groups in jobs {
            let job = Chain::new(groups);
            protocol.run(&job, |_| {
                reviews += 1;
                team(reviews)
            });
            job.check();
        }
        protocol.quit();
        for worker in workers {
            worker.thread().unpark();
            worker.join().unwrap();
        }
    });
}

#[test]
fn loom_two_threads_two_groups() {
    model(2, 3, &[&[2, 2]], |_| 2);
}

#[test]
fn loom_groups_run_by_their_opener() {
    model(2, 3, &[&[1, 2, 1]], |_| 2);
}

#[test]
fn loom_two_jobs() {
    model(2, 3, &[&[2], &[2]], |_| 2);
}

#[test]
fn loom_a_team_that_shrinks_and_grows() {
    model(2, 2, &[&[2], &[2], &[2]], |review| 1 + review % 2);
}

#[test]
fn loom_three_threads() {
    model(3, 1, &[&[3]], |_| 3);
}
