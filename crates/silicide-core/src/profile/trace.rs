//! Timelines of calls and threads in Chrome's trace format, which Perfetto reads too.

use super::{Profile, ProfiledCall};
use std::fmt::Write as _;
use std::time::Duration;

/// A row of a trace: the host, the device or a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The host.
    Host,
    /// The device: its calls, from mark to mark.
    Device,
    /// A thread of the device; 0 is the one that submits, which is the host's.
    Thread(u32),
}

impl Lane {
    /// Its number in a trace.
    fn number(self) -> u32 {
        match self {
            Lane::Host => 1,
            Lane::Device => 2,
            Lane::Thread(thread) => thread.saturating_add(3),
        }
    }
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceEvent {
    /// A kernel, or what the host did.
    pub name: &'static str,
    /// The row that it belongs to.
    pub lane: Lane,
    /// When it began, counted from when profiling began.
    pub begin: Duration,
    /// How long it took.
    pub taken: Duration,
    /// The call, if it is one.
    pub call: Option<ProfiledCall>,
}

impl Profile {
    /// The events as JSON in Chrome's trace format, times in microseconds: a lane for the host, one for the device, and one for
    /// each of its threads.
    pub fn chrome_trace(&self, device: &str) -> String {
        let mut text = format!(
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"dropped\":{}}},\"traceEvents\":[\n",
            self.dropped()
        );
        let threads = (0u32..).take(self.threads().len());
        let threads = threads.map(|thread| (Lane::Thread(thread), format!("{device} thread {thread}")));
        let lanes = [(Lane::Host, "host".to_owned()), (Lane::Device, device.to_owned())];
        for (lane, name) in lanes.into_iter().chain(threads) {
            let (lane, name) = (lane.number(), escaped(&name));
            let _ = writeln!(
                text,
                "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{lane},\"args\":{{\"name\":\"{name}\"}}}},"
            );
        }
        for (i, event) in self.events().iter().enumerate() {
            let (begin, taken) = (event.begin.as_nanos() as f64 / 1e3, event.taken.as_nanos() as f64 / 1e3);
            let _ = write!(
                text,
                "{}{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{begin:.3},\"dur\":{taken:.3}",
                if i == 0 { "" } else { ",\n" },
                escaped(event.name),
                event.lane.number(),
            );
            if let Some(call) = event.call {
                let (op, scope) = (escaped(call.op), escaped(call.scope));
                let _ = write!(
                    text,
                    ",\"cat\":\"{scope}\",\"args\":{{\"op\":\"{op}\",\"scope\":\"{scope}\",\"bytes\":{},\"flops\":{}}}",
                    call.work.bytes, call.work.flops
                );
            }
            text.push('}');
        }
        // The list of lanes ends with a comma, whatever follows.
        if self.events().is_empty() {
            text.push_str("{\"name\":\"nothing\",\"ph\":\"i\",\"pid\":1,\"tid\":1,\"ts\":0}");
        }
        text.push_str("\n]}\n");
        text
    }
}

/// Text inside a JSON string.
fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|letter| match letter {
            '"' | '\\' => vec!['\\', letter],
            letter if letter.is_control() => vec![' '],
            letter => vec![letter],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Work;
    use crate::profile::Replay;
    use silicide_hal::{Span, ThreadSpan, ThreadTimes};

    #[test]
    fn traces_are_json_with_lanes_for_the_device_and_its_threads() {
        let call = ProfiledCall {
            op: "matmul",
            kernel: "a \"b\"",
            scope: "layer",
            work: Work { bytes: 7, flops: 9 },
        };
        let mut profile = Profile::default();
        assert!(profile.chrome_trace("cpu").ends_with("\n]}\n"));
        let spans = [Span { label: "matmul", start_ns: 1500, duration_ns: 250 }];
        let at = (Duration::from_micros(10), Duration::from_micros(3));
        let span = ThreadSpan { thread: 1, label: "part", start_ns: 1600, duration_ns: 100 };
        let threads = ThreadTimes { spans: vec![span], dropped: 0 };
        profile.add(&Replay {
            name: "token",
            calls: &[call],
            spans: &spans,
            threads: &threads,
            size: (1, 0),
            at,
        });
        profile.add_host("sample", Duration::from_micros(13), Duration::from_micros(1));
        let trace = profile.chrome_trace("cpu\n");
        assert!(trace.contains("\"args\":{\"name\":\"cpu \"}"), "{trace}");
        assert!(
            trace.contains(
                "\"name\":\"a \\\"b\\\"\",\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":11.500,\"dur\":0.250"
            ),
            "{trace}"
        );
        let part = "\"name\":\"part\",\"ph\":\"X\",\"pid\":1,\"tid\":4,\"ts\":11.600,\"dur\":0.100";
        assert!(trace.contains(part), "{trace}");
        assert!(trace.contains("\"tid\":4,\"args\":{\"name\":\"cpu  thread 1\"}"), "{trace}");
        assert!(trace.contains("\"bytes\":7,\"flops\":9"), "{trace}");
        assert_eq!(trace.matches('{').count(), trace.matches('}').count());
    }
}
