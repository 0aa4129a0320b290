//! The device keeps the contract of a backend: the tests of `silicide-hal`.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a failure should end the test")]

#[path = "../../../crates/silicide-hal/tests/contract/mod.rs"]
mod contract;
mod support;

use contract::Rig;
use contract::reasons::{NO_TIMESTAMPS, ONE_DEVICE, RUNS_INSIDE_SUBMIT};
use msl::{MslDevice, NEWEST, info};
use silicide_hal::{DeviceInfo, RawDevice, Result};
use std::sync::Arc;

/// The device that runs Metal kernels on the host.
struct Msl;

impl Rig for Msl {
    const CANNOT: &'static [(&'static str, &'static str)] = &[
        ("a_device_that_does_not_exist_is_refused", ONE_DEVICE),
        ("a_wait_times_out_while_its_list_runs", RUNS_INSIDE_SUBMIT),
        ("every_mark_has_a_span", NO_TIMESTAMPS),
        ("spans_of_the_last_64_lists_are_kept", NO_TIMESTAMPS),
        ("every_replay_has_spans_of_its_own", NO_TIMESTAMPS),
    ];

    fn open(_index: usize) -> Result<Arc<dyn RawDevice>> {
        Ok(Arc::new(MslDevice::new(support::clang().expect("checked by `is_here`"), NEWEST)?))
    }

    fn list() -> Vec<DeviceInfo> {
        vec![info()]
    }

    fn is_here() -> bool {
        support::clang().is_some()
    }
}

contract::contract_tests!(crate::Msl);
