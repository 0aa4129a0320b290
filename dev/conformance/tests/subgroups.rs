//! Kernels whose text uses subgroups require a size of them where the driver lets one choose.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use conformance::{Call, reference};
use rustc_hash::FxHashSet;
use silicide_core::DeviceInfo;
use silicide_core::kernel::Step;
use silicide_hal::{Program, WgslKernel};

/// Returns whether a text has operations of subgroups, or reads which of them an invocation is.
fn uses_subgroups(kernel: &WgslKernel) -> bool {
    let source = kernel.source();
    let code = source.lines().map(|line| line.split("//").next().unwrap_or(""));
    let words = ["builtin(subgroup", "subgroupShuffle", "subgroupAdd", "subgroupMax", "coopMultiplyAdd"];
    code.into_iter().any(|line| words.iter().any(|word| line.contains(word)))
}

/// Calls `each` with every op and every WGSL program that its cases launch on a device.
fn programs(on: &DeviceInfo, mut each: impl FnMut(&'static str, &WgslKernel)) {
    for (op, cases) in silicide_ops::all() {
        for case in &cases {
            let call = Call::of(case).unwrap();
            for i in (0..call.op.kernel_count()).filter(|&i| call.op.kernel_fits(i, &call.io(), on).is_ok()) {
                for step in &call.op.kernel_plan(i, &call.io(), on).steps {
                    if let Step::Dispatch(launch) = step
                        && let Program::Wgsl(kernel) = &launch.program
                    {
                        each(op, kernel);
                    }
                }
            }
        }
    }
}

/// A GPU with every feature, and subgroups of these sizes, of which kernels can require one.
fn device(sizes: (u32, u32), required: (u32, u32)) -> DeviceInfo {
    let mut on = reference::full_gpu();
    (on.features.subgroup_size, on.features.required_subgroup_size) = (sizes, required);
    on
}

#[test]
fn kernels_with_subgroups_require_their_size() {
    // AMD from RDNA on, and Intel.
    for sizes in [(32, 64), (8, 32)] {
        let on = device(sizes, sizes);
        let (mut with, mut sized) = (FxHashSet::default(), FxHashSet::default());
        programs(&on, |op, kernel| {
            let name = kernel.name;
            assert!(kernel.subgroup().is_some() || !uses_subgroups(kernel), "{op}: {name}");
            assert_eq!(kernel.check_subgroup(&on.features), Ok(()), "{op}: {name}");
            if let Some(size) = kernel.subgroup() {
                with.insert(op);
                sized.insert(size);
            }
        });
        for op in ["matmul", "linear", "expert_linear", "attention"] {
            assert!(with.contains(op), "{op} has no kernel with subgroups");
        }
        // Matrices take the largest subgroups, all else the preferred ones.
        let expected = [on.features.preferred_subgroup().unwrap(), sizes.1];
        assert_eq!(sized, expected.into_iter().collect(), "{sizes:?}");
    }
}

#[test]
fn kernels_require_no_subgroups_where_the_driver_chooses() {
    let on = device((32, 32), (0, 0));
    let mut used = false;
    programs(&on, |op, kernel| {
        assert_eq!(kernel.subgroup(), None, "{op}: {}", kernel.name);
        used |= uses_subgroups(kernel);
    });
    assert!(used);
}
