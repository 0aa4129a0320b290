//! Samples of the GPU's clock to spans. Plain arithmetic over ticks.

use crate::Span;

/// `MTLCounterErrorValue`: a sample that was not taken.
const NOT_TAKEN: u64 = u64::MAX;

/// The clock where a piece of a list began, and where it ended if that is known too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// The mark that opens the piece; pieces without one belong to the mark before.
    pub(super) label: Option<&'static str>,
    pub(super) start: u64,
    /// By default the start of the next piece.
    pub(super) end: Option<u64>,
}

/// Nanoseconds per tick of the GPU's clock, from two looks at the clocks of CPU and GPU. The CPU's counts
/// nanoseconds.
pub(super) fn ratio(first: (u64, u64), second: (u64, u64)) -> f64 {
    let (cpu, gpu) = (second.0.wrapping_sub(first.0), second.1.wrapping_sub(first.1));
    match cpu > 0 && gpu > 0 && gpu < u64::MAX / 2 {
        true => cpu as f64 / gpu as f64,
        // The two looks were at the same moment. Apple's own GPUs count nanoseconds.
        false => 1.0,
    }
}

/// The spans of a list whose pieces began and ended as the samples say. A pass with nothing in it is not sampled: it
/// takes no time.
pub(super) fn spans(samples: &[Sample], nanoseconds_per_tick: f64, spans: &mut Vec<Span>) {
    let taken = |tick: u64| Some(tick).filter(|tick| *tick != NOT_TAKEN && *tick != 0);
    let last = samples.iter().rev().find_map(|sample| sample.end.and_then(taken).or(taken(sample.start)));
    let last = last.unwrap_or(0);
    // From behind: a piece that was not sampled begins where the next one does.
    let mut next = last;
    let mut starts: Vec<(&'static str, u64)> = Vec::new();
    for sample in samples.iter().rev() {
        next = taken(sample.start).unwrap_or(next).min(next);
        starts.extend(sample.label.map(|label| (label, next)));
    }
    starts.reverse();
    let Some((_, first)) = starts.first().copied() else { return };
    let nanoseconds = |from: u64, to: u64| (to.saturating_sub(from) as f64 * nanoseconds_per_tick) as u64;
    for (index, (label, start)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(last, |(_, start)| *start);
        spans.push(Span {
            label,
            start_ns: nanoseconds(first, *start),
            duration_ns: nanoseconds(*start, end),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(label: Option<&'static str>, start: u64, end: u64) -> Sample {
        Sample { label, start, end: Some(end) }
    }

    fn found(samples: &[Sample], ratio: f64) -> Vec<(&'static str, u64, u64)> {
        let mut found = Vec::new();
        spans(samples, ratio, &mut found);
        found.iter().map(|span| (span.label, span.start_ns, span.duration_ns)).collect()
    }

    #[test]
    fn a_span_lasts_until_the_next_mark() {
        let samples = [
            sample(None, 90, 99),
            sample(Some("a"), 100, 140),
            sample(None, 150, 170),
            sample(Some("b"), 180, 200),
        ];
        assert_eq!(found(&samples, 2.0), [("a", 0, 160), ("b", 160, 40)]);
    }

    #[test]
    fn passes_that_were_not_sampled_take_no_time() {
        let samples =
            [sample(Some("a"), 100, 140), sample(Some("b"), 0, 0), sample(Some("c"), 150, NOT_TAKEN)];
        assert_eq!(found(&samples, 1.0), [("a", 0, 50), ("b", 50, 0), ("c", 50, 0)]);
        assert_eq!(found(&[sample(Some("a"), NOT_TAKEN, NOT_TAKEN)], 1.0), [("a", 0, 0)]);
        assert!(found(&[], 1.0).is_empty());
    }

    #[test]
    fn samples_between_dispatches_have_starts_alone() {
        let at = |label, start| Sample { label, start, end: None };
        assert_eq!(
            found(&[at(Some("a"), 10), at(Some("b"), 30), at(None, 35)], 1.0),
            [("a", 0, 20), ("b", 20, 5)]
        );
    }

    #[test]
    fn ticks_are_held_against_the_cpus_clock() {
        assert_eq!(ratio((1000, 10), (9000, 110)), 80.0);
        assert_eq!(ratio((1000, 10), (1000, 10)), 1.0);
        assert_eq!(ratio((1000, 10), (2000, 5)), 1.0);
    }
}
