//! A submitted list: waiting for it, its errors and its times.

use crate::device::Device;
use crate::error::{Error, Result};
use silicide_hal::{Span, ThreadTimes, Ticket};
use std::time::Duration;

/// Device time of the marks with one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelTime {
    /// The label.
    pub label: &'static str,
    /// Marks with it.
    pub spans: u64,
    /// Nanoseconds from each of them to the next mark, or the end of the list.
    pub duration_ns: u64,
}

/// A submitted command list. Dropping it loses nothing: the work continues, and an error of the device is reported when
/// a buffer that it writes is read.
///
/// ```
/// # extern crate silicide_core as silicide;
/// use silicide::{Buffer, CommandEncoder, Device};
///
/// let device = Device::cpu()?;
/// let (from, to) = (Buffer::from_slice(&device, [2], &[1u32, 2])?, Buffer::from_slice(&device, [2], &[0u32; 2])?);
/// let mut encoder = CommandEncoder::new(&device);
/// encoder.copy(&from, &to)?;
/// let submission = encoder.submit()?;
/// while !submission.poll()? {
///     std::thread::yield_now();
/// }
/// for span in submission.times() {
///     println!("{}: {} ns", span.label, span.duration_ns);
/// }
/// # Ok::<(), silicide::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "an error of the submission shows when it is waited for"]
pub struct Submission {
    device: Device,
    ticket: Ticket,
}

impl Submission {
    pub(crate) fn new(device: Device, ticket: Ticket) -> Submission {
        Submission { device, ticket }
    }

    /// Its place on the device's timeline.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Waits until it is done; says how it went.
    pub fn wait(&self) -> Result<()> {
        self.wait_for(Duration::MAX)
    }

    /// Waits at most so long; running out of time is an error and stops nothing.
    pub fn wait_for(&self, timeout: Duration) -> Result<()> {
        self.device.timeline().wait(&self.device, self.ticket, timeout)
    }

    /// Whether it is done; its error if it failed.
    pub fn poll(&self) -> Result<bool> {
        self.device.timeline().poll(&self.device, self.ticket)
    }

    /// Its failure, if it is done and failed: its own, or that of earlier work whose results it read.
    pub fn error(&self) -> Option<Error> {
        self.poll().err()
    }

    /// Device times of its marks, once it is done. Kept for a device's last 64 lists.
    pub fn times(&self) -> Vec<Span> {
        self.device.raw().spans(self.ticket)
    }

    /// Device times of its marks, summed by label, in the order in which labels first occur. Kept as long as times.
    pub fn times_by_label(&self) -> Vec<LabelTime> {
        let mut sums: Vec<LabelTime> = Vec::new();
        for Span { label, duration_ns, .. } in self.times() {
            match sums.iter_mut().find(|sum| sum.label == label) {
                Some(sum) => {
                    sum.spans += 1;
                    sum.duration_ns = sum.duration_ns.saturating_add(duration_ns);
                }
                None => sums.push(LabelTime { label, spans: 1, duration_ns }),
            }
        }
        sums
    }

    /// Time at barriers, once it is done: in which no thread ran a tile, between the first tile and the last. It has the hand-over from
    /// group to group, and the stamps of marks. `None` unless the encoder [traces](crate::EncoderOptions::trace) a device that is
    /// made of threads, and where some tiles were not recorded. On GPUs barriers are part of the spans of marks.
    pub fn barrier_time(&self) -> Option<Duration> {
        let ThreadTimes { spans, dropped } = self.thread_times();
        let mut tiles: Vec<(u64, u64)> = spans
            .iter()
            .map(|span| (span.start_ns, span.start_ns.saturating_add(span.duration_ns)))
            .collect();
        tiles.sort_unstable();
        let (mut idle, mut reached) = (0u64, tiles.first().filter(|_| dropped == 0)?.0);
        for (start, end) in tiles {
            idle += start.saturating_sub(reached);
            reached = reached.max(end);
        }
        Some(Duration::from_nanos(idle))
    }

    /// What each thread did in a list that is [traced](crate::EncoderOptions::trace), once it is done, on a device that is made of threads. Kept as
    /// long as times.
    pub fn thread_times(&self) -> ThreadTimes {
        self.device.raw().thread_times(self.ticket)
    }
}
