//! When memory is kept resident and when it is let go: the state behind a heart that beats while a device is in use
//! and for a while after, and then stops.

use std::time::{Duration, Instant};

/// Time between two beats. The system unwires memory about a second after its last request.
pub(super) const BEAT: Duration = Duration::from_millis(500);

/// Whether the heart beats, and since when there was nothing to do.
#[derive(Debug)]
pub(super) struct Warmth {
    keep: Duration,
    used: Option<Instant>,
    is_beating: bool,
}

/// The action at a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// Request residency again, and wait for the next beat.
    Keep,
    /// End residency and stop: the next use starts again.
    Release,
}

impl Warmth {
    /// Memory stays warm for `keep` after its last use.
    pub(super) fn new(keep: Duration) -> Warmth {
        Warmth { keep, used: None, is_beating: false }
    }

    /// Notes a use. True when a heart must be started.
    pub(super) fn touch(&mut self, now: Instant) -> bool {
        self.used = Some(now);
        !self.keep.is_zero() && !std::mem::replace(&mut self.is_beating, !self.keep.is_zero())
    }

    /// Returns the action of a beat at `now`.
    pub(super) fn beat(&mut self, now: Instant) -> Beat {
        match self.used {
            Some(used) if now.saturating_duration_since(used) < self.keep => Beat::Keep,
            _ => {
                self.is_beating = false;
                Beat::Release
            }
        }
    }

    /// The heart could not be started.
    pub(super) fn stopped(&mut self) {
        self.is_beating = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heart_is_started_once_and_stops_when_idle() {
        let (mut warmth, start) = (Warmth::new(Duration::from_secs(2)), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        assert!(warmth.touch(at(0)));
        assert!(!warmth.touch(at(100)));
        assert_eq!(warmth.beat(at(500)), Beat::Keep);
        assert!(!warmth.touch(at(1000)));
        assert_eq!(warmth.beat(at(2999)), Beat::Keep);
        assert_eq!(warmth.beat(at(3000)), Beat::Release);
        assert!(warmth.touch(at(9000)), "after a release the next use starts anew");
        assert_eq!(warmth.beat(at(9500)), Beat::Keep);
    }

    #[test]
    fn nothing_beats_where_nothing_is_kept() {
        let mut warmth = Warmth::new(Duration::ZERO);
        assert!(!warmth.touch(Instant::now()));
        assert_eq!(warmth.beat(Instant::now()), Beat::Release);
    }

    #[test]
    fn a_heart_that_did_not_start_is_tried_again() {
        let mut warmth = Warmth::new(BEAT);
        assert!(warmth.touch(Instant::now()));
        warmth.stopped();
        assert!(warmth.touch(Instant::now()));
    }
}
