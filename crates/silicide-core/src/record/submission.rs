//! A submitted list: waiting for it, its errors and its times.

use crate::device::Device;
use crate::error::{Error, Result};
use silicide_hal::{Span, ThreadTimes, Ticket};
use std::time::Duration;

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

    /// What each thread did in a list with a mark before each op, once it is done, on a device that is made of threads. Kept as
    /// long as times.
    pub fn thread_times(&self) -> ThreadTimes {
        self.device.raw().thread_times(self.ticket)
    }
}
