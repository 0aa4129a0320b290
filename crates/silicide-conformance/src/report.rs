//! What conformance found: failures, what kernels declined and why, what no kernel could run, and times.

use crate::compare::Mismatch;
use serde::Serialize;
use std::fmt;

/// Everything that was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// One row for each op and device.
    pub tallies: Vec<Tally>,
    /// Everything that is wrong.
    pub failures: Vec<Failure>,
    /// Cases that no kernel fits.
    pub unsupported: Vec<Unsupported>,
    /// Kernels that declined.
    pub declined: Vec<Declined>,
}

/// What one op did on one device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// The op.
    pub op: &'static str,
    /// The device.
    pub device: String,
    /// Cases.
    pub cases: usize,
    /// Trials of a kernel in a layout, on each instruction set and with each number of threads.
    pub runs: usize,
    /// Times that a kernel declined.
    pub declined: usize,
    /// Cases, in some layout, that no kernel fits.
    pub unsupported: usize,
    /// Failures.
    pub failures: usize,
    /// Time on the device, compiling included.
    pub seconds: f64,
}

/// A failure and where it was.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The op.
    pub op: &'static str,
    /// The device, with its instruction set.
    pub device: String,
    /// The kernel.
    pub kernel: &'static str,
    /// The case.
    pub case: String,
    /// The layout, or what else was special.
    pub variant: String,
    /// The problem.
    pub problem: Problem,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Problem {
    /// An output is too far from the reference.
    Wrong {
        /// The output.
        output: &'static str,
        /// Where and how far.
        mismatch: Mismatch,
        /// The normalised mean square error that was allowed.
        nmse: f64,
        /// The difference of one element that was allowed, relative to the largest.
        max: f64,
    },
    /// Memory beside the outputs was written.
    Overwrote {
        /// In the first or second of two runs.
        run: usize,
        /// Which memory.
        what: String,
    },
    /// Two runs of the same thing gave different bits.
    NotRepeatable(String),
    /// Another number of threads gave different bits.
    ThreadCount(String),
    /// The validation layer complained.
    Validation(String),
    /// The run failed.
    Error(String),
    /// The case can't be made, or its reference panicked.
    BadCase(String),
    /// A device can't be opened.
    Missing(String),
    /// No case of the op has a kernel on the device.
    NothingRuns,
}

/// A case that no kernel fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsupported {
    /// The op.
    pub op: &'static str,
    /// The device.
    pub device: String,
    /// The case.
    pub case: String,
    /// The layout.
    pub variant: String,
}

/// A kernel that declined, and how often.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Declined {
    /// The op.
    pub op: &'static str,
    /// The device.
    pub device: String,
    /// The kernel.
    pub kernel: &'static str,
    /// Its reason.
    pub reason: &'static str,
    /// How often.
    pub times: usize,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Counts a kernel that declined.
    pub(crate) fn decline(&mut self, declined: Declined) {
        let same = |known: &&mut Declined| {
            known.kernel == declined.kernel
                && known.reason == declined.reason
                && known.device == declined.device
        };
        match self.declined.iter_mut().find(same) {
            Some(known) => known.times += declined.times,
            None => self.declined.push(declined),
        }
    }
}

impl Failure {
    /// A failure of a device as a whole.
    pub fn of_device(device: &str, problem: Problem) -> Failure {
        let (device, nothing) = (device.to_owned(), String::new());
        Failure { op: "", device, kernel: "", case: nothing.clone(), variant: nothing, problem }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = [self.op, &self.device, self.kernel, &self.case, &self.variant];
        let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
        write!(f, "{}: {}", place.join(" | "), self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Wrong { output, mismatch, nmse, max } => {
                let Mismatch { index, expected, got, wrong, nmse: error } = mismatch;
                write!(
                    f,
                    "{output}[{index}] is {got:e}, expected {expected:e}; {wrong} elements are wrong "
                )?;
                write!(f, "by more than {max:e} of the largest; nmse {error:e}, allowed {nmse:e}")
            }
            Problem::Overwrote { run, what } => write!(f, "run {run} changed {what}"),
            Problem::NotRepeatable(what) => write!(f, "two runs differ: {what}"),
            Problem::ThreadCount(what) => write!(f, "the number of threads changes the result: {what}"),
            Problem::Validation(message) => write!(f, "validation: {message}"),
            Problem::Error(error) => write!(f, "{error}"),
            Problem::BadCase(what) => write!(f, "the case is no case: {what}"),
            Problem::Missing(error) => {
                write!(f, "cannot be opened: {error} (choose devices with --device to leave it out)")
            }
            Problem::NothingRuns => write!(f, "no case has a kernel that fits"),
        }
    }
}
