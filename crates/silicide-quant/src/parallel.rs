//! Work on several threads: a queue of jobs that the caller and helpers take from until it is empty.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Elements of a job: a whole number of blocks of every format, and long against the cost of taking one.
pub(crate) const PARALLEL_RUN: usize = 1 << 15;

/// Does all jobs on at most `threads` threads, the calling one among them, and returns when they are done. Threads that
/// the system refuses are done without.
pub(crate) fn spread<T: Send>(threads: usize, jobs: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let queue = Mutex::new(jobs);
    let labour = || {
        loop {
            let job = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(job) = job else { break };
            work(job);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            if thread::Builder::new().spawn_scoped(scope, labour).is_err() {
                break;
            }
        }
        labour();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_job_is_done_once() {
        for threads in [0, 1, 2, 9] {
            let mut done = [0; 100];
            let count = AtomicUsize::new(0);
            spread(threads, done.iter_mut(), |slot| {
                *slot += 1;
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!((done, count.into_inner()), ([1; 100], 100));
        }
    }
}
