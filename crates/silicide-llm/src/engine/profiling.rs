//! Passes whose kernels are timed: captured with marks between ops, so that they run one after the other.

use super::bound::BoundPass;
use super::inputs::Span;
use super::load::Model;
use super::passes::PassClass;
use crate::error::Result;
use silicide_core::hal::{Span as DeviceSpan, ThreadSpan, ThreadTimes};
use silicide_core::profile::{Profile, ProfiledCall, Replay};
use std::time::{Duration, Instant};

/// Times of a session's kernels.
#[derive(Debug)]
pub(super) struct Profiling {
    begin: Instant,
    profile: Profile,
    /// The same for each of the model's devices.
    by_device: Vec<Profile>,
}

impl Profiling {
    /// Creates an empty profile.
    pub(super) fn new(model: &Model) -> Profiling {
        let by_device = model.devices().iter().map(|_| Profile::default()).collect();
        Profiling { begin: Instant::now(), profile: Profile::default(), by_device }
    }

    /// Adds the host's work since `begin`.
    pub(super) fn note(&mut self, what: &'static str, begin: Instant) {
        self.profile.add_host(what, begin - self.begin, begin.elapsed());
    }

    /// The measured times, of all devices together.
    pub(super) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The measured times of each device.
    pub(super) fn by_device(&self) -> &[Profile] {
        &self.by_device
    }

    /// Runs a pass with marks, waits for it, and adds its times.
    pub(super) fn replay(&mut self, model: &Model, pass: &mut BoundPass, span: &Span<'_>) -> Result<()> {
        let plain = model.captured(PassClass { is_marked: false, ..pass.class() })?;
        let name = if span.tokens.len() == 1 { "token" } else { "prompt" };
        let begin = Instant::now();
        let mut all = SegmentTimes::default();
        let mut by_device: Vec<SegmentTimes> =
            self.by_device.iter().map(|_| SegmentTimes::default()).collect();
        for (number, segment) in plain.segments.iter().enumerate() {
            let calls = pass.calls(number)?;
            let submitted = Instant::now();
            let submission = pass.replay_segment(number)?;
            submission.wait()?;
            let taken = submitted.elapsed();
            pass.transfer(number)?;
            let (spans, threads) = (submission.times(), submission.thread_times());
            let of_device = by_device.get_mut(segment.device);
            for times in [Some(&mut all), of_device].into_iter().flatten() {
                times.add(&calls, &spans, &threads, submitted - begin);
                times.taken += taken;
                let report = segment.executor.report();
                times.size = (times.size.0 + report.commands, times.size.1 + report.barriers.1);
            }
        }
        // Copies between segments belong to the pass.
        all.taken = begin.elapsed();
        let profiles = std::iter::once(&mut self.profile).chain(&mut self.by_device);
        for (profile, times) in profiles.zip(std::iter::once(&all).chain(&by_device)) {
            if times.size.0 > 0 {
                profile.add(&Replay {
                    name,
                    calls: &times.calls,
                    spans: &times.spans,
                    threads: &times.threads,
                    size: times.size,
                    at: (begin - self.begin, times.taken),
                });
            }
        }
        Ok(())
    }
}

/// The times of segments of one pass.
#[derive(Default)]
struct SegmentTimes {
    calls: Vec<ProfiledCall>,
    spans: Vec<DeviceSpan>,
    threads: ThreadTimes,
    size: (usize, usize),
    taken: Duration,
}

impl SegmentTimes {
    /// Adds the times of a segment that began `offset` after the pass.
    fn add(&mut self, calls: &[ProfiledCall], spans: &[DeviceSpan], threads: &ThreadTimes, offset: Duration) {
        let offset = u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX);
        // A device that does not time its kernels has calls without spans.
        self.calls.extend(calls.iter().zip(spans).map(|(call, _)| *call));
        let later = |start_ns: u64| start_ns.saturating_add(offset);
        let spans = spans.iter().take(calls.len());
        self.spans.extend(spans.map(|span| DeviceSpan { start_ns: later(span.start_ns), ..span.clone() }));
        let threads_spans = threads.spans.iter().cloned();
        let moved = threads_spans.map(|span| ThreadSpan { start_ns: later(span.start_ns), ..span });
        self.threads.spans.extend(moved);
        self.threads.dropped += threads.dropped;
    }
}
