//! In steady state the CPU device submits and replays without allocating, on any of its threads.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[allow(dead_code, unused_macros, unused_imports, reason = "only the bench and the kernels are used")]
mod contract;
mod steady;

use contract::{TestKernel, kernels};
use silicide_hal::cpu::{self, CpuOptions};

#[test]
fn steady_submissions_and_replays_of_the_cpu_allocate_nothing() {
    let device = cpu::open(&CpuOptions::default().threads(3)).unwrap();
    // Without marks: the spans of a list are vectors of their own.
    steady::allocates_nothing("cpu", device, &kernels::native(TestKernel::Affine), false);
}
