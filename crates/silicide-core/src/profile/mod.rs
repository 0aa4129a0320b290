//! Profiles: the calls of a captured graph with their bytes, operations and measured times, summed by kernel and by scope.
//!
//! A profile is made of replays of a graph that was captured with marks ([`GraphOptions::mark_ops`](crate::GraphOptions)). Without
//! marks nothing is measured.

mod roofline;
mod trace;

pub use roofline::Roofline;
pub use trace::{Lane, TraceEvent};

use crate::kernel::Work;
use rustc_hash::FxHashMap;
use silicide_hal::{Span, ThreadTimes};
use std::time::Duration;

/// The most events that a profile keeps for a trace.
const MOST_EVENTS: usize = 200_000;

/// One call of an op in a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfiledCall {
    /// The op.
    pub op: &'static str,
    /// The kernel that computes it.
    pub kernel: &'static str,
    /// The innermost scope that it was recorded in.
    pub scope: &'static str,
    /// Bytes that it moves and operations that it computes.
    pub work: Work,
}

/// Totals of the calls of one kernel, or in one scope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProfileRow {
    /// Kernel or scope.
    pub name: &'static str,
    /// Calls.
    pub calls: u64,
    /// Device time.
    pub time: Duration,
    /// Bytes that had to be read or written.
    pub bytes: u64,
    /// Operations.
    pub flops: u64,
}

impl ProfileRow {
    /// Bytes in a second.
    pub fn bandwidth(&self) -> f64 {
        rate(self.bytes, self.time)
    }

    /// Operations in a second.
    pub fn speed(&self) -> f64 {
        rate(self.flops, self.time)
    }

    fn add(&mut self, call: &ProfiledCall, time: Duration) {
        self.calls += 1;
        self.time += time;
        self.bytes = self.bytes.saturating_add(call.work.bytes);
        self.flops = self.flops.saturating_add(call.work.flops);
    }
}

fn rate(amount: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { amount as f64 / time.as_secs_f64() }
}

/// Times of many replays.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    kernels: FxHashMap<&'static str, ProfileRow>,
    scopes: FxHashMap<&'static str, ProfileRow>,
    events: Vec<TraceEvent>,
    replays: u64,
    commands: u64,
    barriers: u64,
    device: Duration,
    host: Duration,
    /// How long each thread of the device ran tiles.
    threads: Vec<Duration>,
    dropped: u64,
}

/// One replay.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    /// Its kind: `prompt`, `token`.
    pub name: &'static str,
    /// The calls of its graph, in order.
    pub calls: &'a [ProfiledCall],
    /// Times that the device measured, one span to a call.
    pub spans: &'a [Span],
    /// Times of the device's threads, if it has any.
    pub threads: &'a ThreadTimes,
    /// Launches, copies and fills of the graph as it runs without marks, and barriers between them.
    pub size: (usize, usize),
    /// When it was submitted, counted from when profiling began, and how long it took until its end was seen.
    pub at: (Duration, Duration),
}

impl Profile {
    /// Adds a replay.
    pub fn add(&mut self, replay: &Replay<'_>) {
        let (begin, taken) = replay.at;
        self.replays += 1;
        self.commands += replay.size.0 as u64;
        self.barriers += replay.size.1 as u64;
        self.host += taken;
        self.keep(TraceEvent { name: replay.name, lane: Lane::Host, begin, taken, call: None });
        for (call, span) in replay.calls.iter().zip(replay.spans) {
            let time = Duration::from_nanos(span.duration_ns);
            self.device += time;
            for (rows, name) in [(&mut self.kernels, call.kernel), (&mut self.scopes, call.scope)] {
                rows.entry(name).or_insert(ProfileRow { name, ..ProfileRow::default() }).add(call, time);
            }
            let begin = begin + Duration::from_nanos(span.start_ns);
            let (name, call) = (call.kernel, Some(*call));
            self.keep(TraceEvent { name, lane: Lane::Device, begin, taken: time, call });
        }
        self.dropped += replay.threads.dropped;
        for span in &replay.threads.spans {
            let (thread, taken) = (span.thread as usize, Duration::from_nanos(span.duration_ns));
            if self.threads.len() <= thread {
                self.threads.resize(thread + 1, Duration::ZERO);
            }
            if let Some(busy) = self.threads.get_mut(thread) {
                *busy += taken;
            }
            let begin = begin + Duration::from_nanos(span.start_ns);
            self.keep(TraceEvent {
                name: span.label,
                lane: Lane::Thread(span.thread),
                begin,
                taken,
                call: None,
            });
        }
    }

    /// Adds a sample of the host's work during the same pass.
    pub fn add_host(&mut self, name: &'static str, begin: Duration, taken: Duration) {
        self.keep(TraceEvent { name, lane: Lane::Host, begin, taken, call: None });
    }

    fn keep(&mut self, event: TraceEvent) {
        match self.events.len() < MOST_EVENTS {
            true => self.events.push(event),
            false => self.dropped += 1,
        }
    }

    /// Kernels, those that took longest first.
    pub fn kernels(&self) -> Vec<ProfileRow> {
        sorted(&self.kernels)
    }

    /// Scopes, those that took longest first.
    pub fn scopes(&self) -> Vec<ProfileRow> {
        sorted(&self.scopes)
    }

    /// Replays.
    pub fn replays(&self) -> u64 {
        self.replays
    }

    /// Launches, copies and fills, and barriers between them, of all replays.
    pub fn commands(&self) -> (u64, u64) {
        (self.commands, self.barriers)
    }

    /// Time on the device in calls, and time until the ends of replays were seen.
    pub fn times(&self) -> (Duration, Duration) {
        (self.device, self.host)
    }

    /// How long each thread of the device ran tiles; nothing for devices that are not made of threads.
    pub fn threads(&self) -> &[Duration] {
        &self.threads
    }

    /// What happened when; the first of it, if there was very much.
    pub fn events(&self) -> &[TraceEvent] {
        &self.events
    }

    /// Events that were not kept because there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn sorted(rows: &FxHashMap<&'static str, ProfileRow>) -> Vec<ProfileRow> {
    let mut rows: Vec<ProfileRow> = rows.values().copied().collect();
    rows.sort_by(|a, b| b.time.cmp(&a.time).then(a.name.cmp(b.name)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::ThreadSpan;

    fn call(kernel: &'static str, scope: &'static str, bytes: u64) -> ProfiledCall {
        ProfiledCall { op: "op", kernel, scope, work: Work { bytes, flops: 2 * bytes } }
    }

    #[test]
    fn rows_sum_calls_and_come_by_time() {
        let calls = [call("a", "x", 10), call("b", "x", 20), call("a", "y", 30)];
        let times = [100, 900, 300];
        let starts = [0, 100, 1000];
        let spans: Vec<Span> = (starts.iter().zip(times))
            .map(|(&start_ns, duration_ns)| Span { label: "op", start_ns, duration_ns })
            .collect();
        let mut profile = Profile::default();
        let at = (Duration::from_micros(5), Duration::from_micros(2));
        let ran = |thread, duration_ns| ThreadSpan { thread, label: "a", start_ns: 50, duration_ns };
        let threads = ThreadTimes { spans: vec![ran(0, 700), ran(2, 40)], dropped: 3 };
        let replay =
            Replay { name: "token", calls: &calls, spans: &spans, threads: &threads, size: (7, 3), at };
        profile.add(&replay);
        profile.add(&replay);
        let kernels = profile.kernels();
        assert_eq!(kernels.iter().map(|row| (row.name, row.calls)).collect::<Vec<_>>(), [("b", 2), ("a", 4)]);
        assert_eq!((kernels[1].bytes, kernels[1].flops), (80, 160));
        assert_eq!(kernels[1].time, Duration::from_nanos(800));
        assert_eq!(kernels[1].bandwidth(), 80.0 / 800e-9);
        assert_eq!(profile.scopes()[0].name, "x");
        assert_eq!((profile.replays(), profile.commands()), (2, (14, 6)));
        assert_eq!(profile.times(), (Duration::from_nanos(2600), Duration::from_micros(4)));
        assert_eq!(profile.threads(), [1400, 0, 80].map(Duration::from_nanos));
        assert_eq!((profile.events().len(), profile.dropped()), (12, 6));
        assert_eq!(profile.events()[2].begin, Duration::from_nanos(5100));
    }

    #[test]
    fn too_many_events_are_counted() {
        let mut profile = Profile::default();
        for _ in 0..MOST_EVENTS + 2 {
            profile.add_host("sample", Duration::ZERO, Duration::ZERO);
        }
        assert_eq!((profile.events().len(), profile.dropped()), (MOST_EVENTS, 2));
        assert!(profile.chrome_trace("cpu").contains("\"dropped\":2"));
    }

    #[test]
    fn rows_without_time_have_no_rates() {
        let row = ProfileRow { bytes: 5, ..ProfileRow::default() };
        assert_eq!((row.bandwidth(), row.speed()), (0.0, 0.0));
    }
}
