//! A cheap clock, for waiting and for the cost of waiting. Ticks are the processor's counter on x86-64 and nanoseconds
//! elsewhere. Only decisions about waiting depend on it, never results, so a counter that drifts does no harm.

use std::time::Duration;

/// Returns the time, in ticks.
#[inline(always)]
pub(super) fn now() -> u64 {
    // A model must not depend on when it runs.
    if cfg!(all(test, loom)) { 0 } else { source::now() }
}

/// Returns a duration in ticks.
pub(super) fn ticks(duration: Duration) -> u64 {
    (duration.as_nanos() as f64 * source::per_nanosecond()) as u64
}

#[cfg(target_arch = "x86_64")]
mod source {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    #[inline(always)]
    pub(super) fn now() -> u64 {
        // SAFETY: every x86-64 processor has the counter.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// Returns the counter's speed, measured once against the system's clock.
    pub(super) fn per_nanosecond() -> f64 {
        static SPEED: OnceLock<f64> = OnceLock::new();
        *SPEED.get_or_init(|| {
            let (clock, counter) = both();
            while clock.elapsed() < Duration::from_micros(500) {
                std::hint::spin_loop();
            }
            let (clock_after, counter_after) = both();
            let ticks = counter_after.saturating_sub(counter) as f64;
            (ticks / (clock_after - clock).as_nanos() as f64).max(0.001)
        })
    }

    /// Returns the system's clock and the counter at the same moment: the closest of a few tries, since the thread may lose
    /// its core between the two.
    fn both() -> (Instant, u64) {
        let read = || {
            let (before, clock, after) = (now(), Instant::now(), now());
            (after.wrapping_sub(before), clock, before)
        };
        let mut best = read();
        for _ in 0..4 {
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        (best.1, best.2)
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod source {
    use std::sync::OnceLock;
    use std::time::Instant;

    #[inline(always)]
    pub(super) fn now() -> u64 {
        static EPOCH: OnceLock<Instant> = OnceLock::new();
        EPOCH.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    pub(super) fn per_nanosecond() -> f64 {
        1.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_system_clock() {
        // Losing the core between two readings spoils one try, hardly all of them.
        let close = (0..10).any(|_| {
            let (clock, counter) = (std::time::Instant::now(), now());
            std::thread::sleep(Duration::from_millis(10));
            let (passed, expected) = (now() - counter, ticks(clock.elapsed()));
            passed.abs_diff(expected) < expected / 10
        });
        assert!(close);
    }
}
