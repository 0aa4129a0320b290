//! Reasons that several backends cannot run a test for, for [`Rig::CANNOT`](super::Rig::CANNOT).
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) const ONE_DEVICE: &str = "there is one device, and it is opened without an index";
pub(crate) const RUNS_INSIDE_SUBMIT: &str = "a list has run when `submit` returns";
pub(crate) const NO_TIMESTAMPS: &str = "it has no timestamps";
