//! Conformance: runs every kernel on every device, in every case, and compares it with the op's f64 reference.
//!
//! A kernel passes when all of this holds:
//!
//! 1. Its outputs are within the op's tolerance.
//! 2. Two submissions without a wait between them produce the same bits, with any number of threads.
//! 3. It writes every byte of its outputs and no byte outside them.
//! 4. It depends on its inputs alone: the memory around them and the old contents of outputs differ between the two
//!    submissions, and scratch memory holds NaN.
#![forbid(unsafe_code)]

mod compare;
mod layout;
mod report;
mod run;
mod subject;
mod table;
mod target;
mod trial;

pub use compare::{Mismatch, compare};
pub use layout::{Effort, Layout, Spot, layouts};
pub use report::{Declined, Failure, Problem, Report, Tally, Unsupported};
pub use run::{Event, programs, run};
pub use subject::{Call, Subject};
pub use target::{Target, open};

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
