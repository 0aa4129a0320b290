//! In steady state a Vulkan device submits and replays without allocating.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[allow(dead_code, unused_macros, unused_imports, reason = "only the bench and the kernels are used")]
mod contract;
mod steady;

use contract::{TestKernel, kernels};
use silicide_hal::Program;
use silicide_hal::vulkan::{self, VulkanOptions};

#[test]
fn steady_submissions_and_replays_of_vulkan_allocate_nothing() {
    let program = Program::Wgsl(kernels::wgsl(TestKernel::Affine));
    for (push, marks) in [(true, true), (true, false), (false, true)] {
        let device = vulkan::open(0, &VulkanOptions::default().push_descriptors(push)).unwrap();
        let name = format!("vulkan, push descriptors {push}, marks {marks}");
        steady::allocates_nothing(&name, device, &program, marks);
    }
}
