//! The lines of a pull where no progress bar can be drawn: standard error is a file or a pipe.
//!
//! A line comes when the download begins, when another phase begins after that, and every [`PERIOD`] in between. A stored model
//! that is hashed again has no first line: hashing takes less than a second for most.

use indicatif::HumanBytes;
use silicide_llm::store::PullPhase;
use std::time::{Duration, Instant};

/// The time between two lines of one phase.
const PERIOD: Duration = Duration::from_secs(5);

/// How far a pull is.
#[derive(Clone, Copy, Debug)]
pub(super) struct PullStep<'a> {
    pub(super) name: &'a str,
    pub(super) phase: PullPhase,
    /// Bytes of the phase that are done.
    pub(super) done: u64,
    /// Bytes of the phase.
    pub(super) total: u64,
}

/// Decides which steps of a pull become lines.
#[derive(Debug)]
pub(super) struct PullLog {
    begun: Instant,
    printed: Instant,
    phase: Option<PullPhase>,
    has_downloaded: bool,
}

impl PullLog {
    pub(super) fn new(now: Instant) -> PullLog {
        PullLog { begun: now, printed: now, phase: None, has_downloaded: false }
    }

    /// Returns the line for `step`, if it is time for one.
    pub(super) fn line(&mut self, now: Instant, step: PullStep<'_>) -> Option<String> {
        let PullStep { name, phase, done, total } = step;
        let is_new = self.phase.replace(phase) != Some(phase);
        self.has_downloaded |= phase == PullPhase::Downloading;
        let is_due = if is_new { phase != PullPhase::Checking } else { now - self.printed >= PERIOD };
        if !is_due {
            return None;
        }
        self.printed = now;
        let (what, size) = (phase_name(phase), HumanBytes(total));
        Some(match total {
            0 => format!("{name}: {what}"),
            _ if is_new => format!("{name}: {what} {size}"),
            _ => format!("{name}: {what}, {}% of {size}", done.min(total).saturating_mul(100) / total),
        })
    }

    /// Returns the line after a pull that succeeded, if it downloaded anything.
    pub(super) fn end(&self, now: Instant) -> Option<String> {
        let seconds = (now - self.begun).as_secs_f64();
        self.has_downloaded.then(|| format!("downloaded and checked in {seconds:.1} s"))
    }
}

/// Returns the words for a phase of a pull.
pub(super) fn phase_name(phase: PullPhase) -> &'static str {
    match phase {
        PullPhase::Waiting => "waiting for another pull",
        PullPhase::Downloading => "downloading",
        PullPhase::Checking => "checking the stored model",
        _ => "unpacking",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 200 << 20;

    /// The lines of steps, each a phase, the second it comes at and the bytes done, and the line at the end.
    fn lines(steps: &[(PullPhase, u64, u64)]) -> Vec<String> {
        let begun = Instant::now();
        let mut log = PullLog::new(begun);
        let mut lines = Vec::new();
        let mut now = begun;
        for &(phase, second, done) in steps {
            now = begun + Duration::from_secs(second);
            lines.extend(log.line(now, PullStep { name: "m", phase, done, total: SIZE }));
        }
        lines.extend(log.end(now));
        lines
    }

    #[test]
    fn a_download_logs_its_start_its_progress_and_its_end() {
        use PullPhase::{Downloading, Unpacking};
        let steps = [
            (Downloading, 0, 0),
            (Downloading, 1, SIZE / 20),
            (Downloading, 5, SIZE / 4),
            (Downloading, 9, SIZE / 2),
            (Downloading, 11, SIZE),
            (Unpacking, 12, 0),
            (Unpacking, 13, SIZE),
        ];
        let expected = [
            "m: downloading 200.00 MiB",
            "m: downloading, 25% of 200.00 MiB",
            "m: downloading, 100% of 200.00 MiB",
            "m: unpacking 200.00 MiB",
            "downloaded and checked in 13.0 s",
        ];
        assert_eq!(lines(&steps), expected);
    }

    #[test]
    fn a_stored_model_that_is_checked_quickly_logs_no_line() {
        use PullPhase::Checking;
        assert_eq!(lines(&[(Checking, 0, 0), (Checking, 1, SIZE)]), [""; 0]);
        let slow = lines(&[(Checking, 0, 0), (Checking, 6, SIZE / 2)]);
        assert_eq!(slow, ["m: checking the stored model, 50% of 200.00 MiB"]);
    }
}
