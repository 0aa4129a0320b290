//! Conformance: every kernel, on every device, in every case, against the op's reference in f64.
//!
//! | file | what |
//! |---|---|
//! | `subject.rs` | a case made ready: its arguments, their contents, what must come out |
//! | `layout.rs` | where arguments lie in memory: odd offsets, side by side, in place |
//! | `trial.rs` | one run of one kernel in one layout: twice in a row, sentinels round everything |
//! | `compare.rs` | how far numbers are from the reference |
//! | `target.rs` | the devices to try: each instruction set, each thread count, each GPU |
//! | `run.rs` | all of it together |
//! | `risk.rs` | fewer cases for slow devices: each program in its smallest and its largest case |
//! | `report.rs`, `table.rs` | what went wrong, what was declined, and how long it took; for people |
//! | `reference.rs`, `support.rs` | imagined devices, and the support table made from them |
//!
//! A kernel passes when its outputs are within the op's tolerance, the same in both of two submissions made
//! without waiting and with any number of threads; when it writes every byte of its outputs and none beside them;
//! and when it depends on nothing but its inputs: memory round them and old contents of outputs differ between
//! the two submissions, scratch holds NaN.
#![forbid(unsafe_code)]

mod compare;
mod layout;
pub mod reference;
mod report;
mod risk;
mod run;
mod subject;
pub mod support;
mod table;
mod target;
mod trial;

pub use compare::{Mismatch, compare};
pub use layout::{Effort, Layout, Spot, layouts};
pub use report::{Declined, Failure, Problem, Report, Tally, Unsupported};
pub use risk::by_risk;
pub use run::{Event, programs, run};
pub use subject::{Call, Subject};
pub use target::{Target, open};
