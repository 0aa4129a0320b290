//! `silicide-conformance` with what only this repository needs: the device `msl`, the reference devices, and the
//! support table made from them.
#![forbid(unsafe_code)]

mod msl_target;
pub mod reference;
pub mod support;

pub use msl_target::open;
pub use silicide_conformance::{
    Call, Declined, Effort, Event, Failure, Layout, Mismatch, Problem, Report, Spot, Subject, Tally, Target,
    Unsupported, compare, layouts, programs, run,
};
