//! The thread pool: persistent threads that enter a job once and run its groups together with the caller.
//!
//! The shares of each group are fixed by the job. Every thread claims from its own range first, then from the back of
//! the others'; the thread that finishes the last share opens the next group, so there is no barrier to wait at and no
//! leader that can be missing. Waiting is a bounded spin, then parking: an idle pool costs nothing. A team that keeps
//! waiting for a thread that lost its core works without it for a while.
//!
//! | file | what |
//! |---|---|
//! | `word` | the packed words that the threads meet at |
//! | `protocol` | claiming, finishing, opening, sleeping: all that is shared between threads |
//! | `team` | how many threads take part, from the time lost in waiting |
//! | `prefetch` | waiting threads prefetch the weights that they stream next |
//! | `clock` | cheap time |
//! | `sync` | atomics and threads, or loom's models of them |

mod clock;
mod prefetch;
mod protocol;
mod sync;
mod team;
mod word;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use prefetch::NextRanges;
pub(crate) use protocol::Job;
pub(crate) use word::MAX_SHARES;

use protocol::Protocol;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use team::Team;

/// Threads and their shared state. Dropping it ends the threads.
pub(crate) struct Pool {
    protocol: Arc<Protocol>,
    workers: Vec<JoinHandle<()>>,
    /// Held while a job runs: one at a time.
    team: Mutex<Team>,
}

impl Pool {
    /// Returns a pool of `threads` threads, the caller of [`Pool::run`] included.
    pub(crate) fn new(threads: usize, spin: Duration) -> io::Result<Pool> {
        let protocol = Arc::new(Protocol::new(threads, clock::ticks(spin)));
        let team = Mutex::new(Team::new(threads as u32, clock::now()));
        let mut pool = Pool { protocol, workers: Vec::with_capacity(threads), team };
        for me in 1..threads {
            let protocol = Arc::clone(&pool.protocol);
            let worker =
                Builder::new().name(format!("silicide-cpu-{me}")).spawn(move || protocol.serve(me))?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Runs a job to its end, on this thread and the pool's.
    pub(crate) fn run(&self, job: &dyn Job) {
        let mut team = self.team.lock().unwrap_or_else(PoisonError::into_inner);
        if self.workers.is_empty() {
            run_alone(job);
        } else {
            self.protocol.run(job, |lost| team.review(clock::now, lost));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.protocol.quit();
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // Workers run nothing that unwinds. A panic of one could not be reported any more.
            let _ = worker.join();
        }
    }
}

fn run_alone(job: &dyn Job) {
    for group in 0..job.groups() {
        if job.stopped() {
            return;
        }
        match job.shares(group) {
            1 => job.run_whole(group, 0),
            shares => {
                (0..shares).for_each(|share| job.run_share(group, share, 0));
                job.leave(0);
            }
        }
    }
}
