//! The pool with real threads: every share once, groups in order, nothing hangs, nothing spins when idle.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

const SPIN: Duration = Duration::from_micros(200);

/// Counts how often each share runs, and checks that the groups before were complete when a share starts.
struct Counting {
    groups: Vec<Vec<AtomicU32>>,
    finished: Vec<AtomicUsize>,
    early: AtomicUsize,
    stop_at: Option<(usize, u32)>,
    stopped: AtomicBool,
}

impl Counting {
    fn new(groups: &[u32]) -> Counting {
        Counting {
            groups: groups.iter().map(|n| (0..*n).map(|_| AtomicU32::new(0)).collect()).collect(),
            finished: groups.iter().map(|_| AtomicUsize::new(0)).collect(),
            early: AtomicUsize::new(0),
            stop_at: None,
            stopped: AtomicBool::new(false),
        }
    }

    fn check(&self) {
        assert_eq!(self.early.load(SeqCst), 0, "a share ran before its group was open");
        for (group, shares) in self.groups.iter().enumerate() {
            for (share, count) in shares.iter().enumerate() {
                assert_eq!(count.load(SeqCst), 1, "group {group}, share {share}");
            }
        }
    }
}

impl Job for Counting {
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
        if self.stopped() {
            return;
        }
        if group > 0 && self.finished[group - 1].load(Relaxed) != self.groups[group - 1].len() {
            self.early.fetch_add(1, SeqCst);
        }
        self.groups[group][share as usize].fetch_add(1, Relaxed);
        self.finished[group].fetch_add(1, Relaxed);
        if self.stop_at == Some((group, share)) {
            self.stopped.store(true, Relaxed);
        }
    }
    fn leave(&self, _me: usize) {}
    fn next_ranges(&self, _group: usize, _me: usize, _team: usize) -> NextRanges {
        NextRanges::default()
    }
    fn stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }
}

#[test]
fn every_share_runs_once_whatever_the_threads() {
    for threads in [1, 2, 3, 5] {
        let pool = Pool::new(threads, SPIN).unwrap();
        for shares in [1, 2, 7, 100, MAX_SHARES] {
            let groups: Vec<u32> = (0..50).map(|i| if i % 5 == 4 { 1 } else { shares }).collect();
            let job = Counting::new(&groups);
            pool.run(&job);
            job.check();
        }
        let many = Counting::new(&[3; 20_000]);
        pool.run(&many);
        many.check();
        pool.run(&Counting::new(&[]));
    }
}

#[test]
fn threads_that_always_park_lose_no_wake_up() {
    for threads in [2, 3, 5] {
        let pool = Pool::new(threads, Duration::ZERO).unwrap();
        for _ in 0..20 {
            let job = Counting::new(&[5; 100]);
            pool.run(&job);
            job.check();
        }
    }
}

#[test]
fn callers_from_many_threads_take_turns() {
    let pool = Pool::new(3, SPIN).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let job = Counting::new(&[4, 1, 9, 2]);
                    pool.run(&job);
                    job.check();
                }
            });
        }
    });
}

#[test]
fn a_stopped_job_ends_early_and_the_next_one_runs() {
    for threads in [1, 2, 3, 5] {
        let pool = Pool::new(threads, SPIN).unwrap();
        for stop in 0..40usize {
            let mut job = Counting::new(&[6, 1, 4095, 2, 7]);
            let group = stop % 5;
            job.stop_at = Some((group, stop as u32 % job.shares(group)));
            pool.run(&job);
            assert!(job.stopped());
            let later = job.groups[group + 1..].iter().flatten();
            assert!(later.into_iter().all(|count| count.load(SeqCst) == 0));
            let next = Counting::new(&[3, 1, 8]);
            pool.run(&next);
            next.check();
        }
    }
}

#[test]
fn numbers_may_wrap_in_a_job() {
    for before in [3, 40, 1000] {
        let start = (1u64 << 40) - before;
        let protocol = Protocol::starting_at(start, 2, clock::ticks(SPIN));
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| protocol.serve(1));
            for _ in 0..20 {
                let job = Counting::new(&[5; 100]);
                protocol.run(&job, |_| 2);
                job.check();
            }
            protocol.quit();
            worker.thread().unpark();
        });
    }
}

/// A thread that the team left out for longer than half of all numbers takes part again.
#[test]
fn a_stale_range_with_a_wrapped_number_is_not_mistaken_for_a_new_range() {
    let mut protocol = Protocol::starting_at(0, 2, clock::ticks(SPIN));
    protocol.jump_to(3 << 38);
    let job = Counting::new(&[4, 4]);
    // No worker: the caller steals the other half, which an unrefreshed range would hide for ever.
    protocol.run(&job, |_| 2);
    job.check();
}

#[test]
fn a_team_may_change_at_every_review() {
    let protocol = Protocol::starting_at(0, 4, clock::ticks(Duration::from_micros(5)));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..4)
            .map(|me| {
                scope.spawn({
                    let protocol = &protocol;
                    move || protocol.serve(me)
                })
            })
            .collect();
        let sizes = AtomicU64::new(0);
        for _ in 0..100 {
            let job = Counting::new(&[9; 200]);
            protocol.run(&job, |_| 1 + (sizes.fetch_add(1, Relaxed) * 7 % 4) as u32);
            job.check();
        }
        protocol.quit();
        workers.iter().for_each(|worker| worker.thread().unpark());
    });
}

#[test]
fn pools_may_be_dropped_at_any_time() {
    for threads in [1, 2, 5, 64] {
        drop(Pool::new(threads, SPIN).unwrap());
        let pool = Pool::new(threads, SPIN).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        drop(pool);
    }
}

/// The CPU time that the other tests' threads use is not counted: only that of this pool's workers.
#[cfg(target_os = "linux")]
#[test]
fn idle_threads_use_no_time() {
    let pool = Pool::new(5, SPIN).unwrap();
    pool.run(&Counting::new(&[50; 100]));
    let clocks: Vec<libc::clockid_t> = pool
        .workers
        .iter()
        .map(|worker| {
            let mut clock = 0;
            let thread = std::os::unix::thread::JoinHandleExt::as_pthread_t(worker);
            // SAFETY: the worker has not been joined.
            assert_eq!(unsafe { libc::pthread_getcpuclockid(thread, &mut clock) }, 0);
            clock
        })
        .collect();
    let used = || -> u128 {
        let read = |clock: &libc::clockid_t| {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the clock of a living thread.
            assert_eq!(unsafe { libc::clock_gettime(*clock, &mut time) }, 0);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_micros()
        };
        clocks.iter().map(read).sum()
    };
    // Until all have parked. On a busy machine a thread may get no core for a while, so ten intervals in a row count.
    let (mut before, mut unused) = (used(), 0);
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(50));
        let now = used();
        unused = if now == before { unused + 1 } else { 0 };
        before = now;
        if unused == 10 {
            break;
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(used() - before, 0, "microseconds of CPU time");
    let job = Counting::new(&[50; 3]);
    pool.run(&job);
    job.check();
}
