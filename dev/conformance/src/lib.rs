//! `silicide-conformance` with what only this repository needs: the device `msl`, the reference devices, the
//! support table made from them, and a choice of cases for slow devices.
#![forbid(unsafe_code)]

pub mod reference;
mod risk;
pub mod support;
mod target;

pub use risk::{Cover, PRODUCTS, by_risk, covering};
pub use silicide_conformance::{
    Call, Declined, Effort, Event, Failure, Layout, Mismatch, Problem, Report, Spot, Subject, Tally, Target,
    Unsupported, compare, layouts, programs, run,
};
pub use target::open;
