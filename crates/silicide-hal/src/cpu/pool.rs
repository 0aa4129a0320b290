//! Runs the groups of a job.

/// Groups of shares of work. Groups run in order; shares of one group may run at once. Nothing here unwinds.
pub(crate) trait Job: Sync {
    /// The number of groups.
    fn groups(&self) -> usize;
    /// The number of shares of a group; with 1 it is run by [`Job::run_whole`].
    fn shares(&self, group: usize) -> u32;
    /// Runs a group of one share.
    fn run_whole(&self, group: usize);
    /// Runs one share of a group.
    fn run_share(&self, group: usize, share: u32);
    /// Whether the rest of the job is to be skipped.
    fn stopped(&self) -> bool;
}

/// Runs a job on the calling thread.
pub(crate) fn run(job: &dyn Job) {
    for group in 0..job.groups() {
        if job.stopped() {
            return;
        }
        match job.shares(group) {
            1 => job.run_whole(group),
            shares => (0..shares).for_each(|share| job.run_share(group, share)),
        }
    }
}
