//! What programs need and what plans bind, for every launch of every case: plans bind enough, and a byte less is refused.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use conformance::{Call, reference};
use rustc_hash::FxHashSet;
use silicide_core::kernel::{Access, Launch, Operand, Plan, Step};
use silicide_core::{Device, DeviceInfo};
use silicide_hal::{BindingNeed, Program};
use std::collections::BTreeSet;

/// A launch with the bytes and the access of each binding.
struct Bound<'a> {
    launch: &'a Launch,
    bytes: Vec<u64>,
    access: Vec<Access>,
}

impl Bound<'_> {
    fn of<'a>(call: &Call, plan: &Plan, launch: &'a Launch) -> Bound<'a> {
        let arguments: Vec<_> = call.arguments().collect();
        let (mut bytes, mut access) = (Vec::new(), Vec::new());
        for arg in &launch.args {
            let (all, how) = match arg.operand {
                Operand::Slot(i) => {
                    (arguments[usize::from(i)].bytes(), call.op.slots()[usize::from(i)].access)
                }
                Operand::Scratch(i, access) => (plan.scratch[usize::from(i)], access),
                Operand::Table(words) => (size_of_val(words), Access::Read),
            };
            bytes.push((if arg.bytes == usize::MAX { all - arg.start } else { arg.bytes }) as u64);
            access.push(how);
        }
        Bound { launch, bytes, access }
    }

    /// Returns the needs of the launch, if the program takes it and it has a need for each binding.
    fn needs(&self, bytes: &[u64]) -> Option<Vec<BindingNeed>> {
        let Launch { program, params, grid, .. } = self.launch;
        let needs = program.needs(params, *grid, bytes)?;
        (needs.bindings().len() == bytes.len()).then(|| needs.bindings().to_vec())
    }

    /// Whether lowering takes it over these bytes.
    fn is_taken(&self, bytes: &[u64]) -> bool {
        let needs = self.needs(bytes);
        needs.is_some_and(|needs| needs.iter().zip(bytes).all(|(need, bytes)| need.bytes <= *bytes))
    }
}

/// Devices as plans see them.
fn infos() -> Vec<DeviceInfo> {
    vec![Device::cpu().unwrap().info().clone(), reference::full_gpu(), reference::plain_gpu()]
}

/// Calls `each` for every launch of every case.
fn launches(mut each: impl FnMut(&str, &Bound<'_>)) {
    for (op, cases) in silicide_ops::all() {
        for case in &cases {
            let call = Call::of(case).unwrap();
            for on in infos() {
                for i in 0..call.op.kernel_count() {
                    if call.op.kernel_fits(i, &call.io(), &on).is_err() {
                        continue;
                    }
                    let plan = call.op.kernel_plan(i, &call.io(), &on);
                    for step in &plan.steps {
                        if let Step::Dispatch(launch) = step {
                            let what = format!("{op}, {}: {}", case.label, launch.program.name());
                            each(&what, &Bound::of(&call, &plan, launch));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_plan_binds_what_its_programs_need() {
    let mut seen = FxHashSet::default();
    launches(|what, bound| {
        seen.insert(bound.launch.program.name());
        let needs =
            bound.needs(&bound.bytes).unwrap_or_else(|| panic!("{what} is not taken: {:?}", bound.launch));
        for (i, (need, (bytes, access))) in
            needs.iter().zip(bound.bytes.iter().zip(&bound.access)).enumerate()
        {
            assert!(need.bytes <= *bytes, "{what}: binding {i} has {bytes} bytes, needs {need:?}");
            assert!(
                access.writes() || !need.access.writes(),
                "{what}: binding {i} is {access:?}, needs {need:?}"
            );
            assert!(
                access.reads() || !need.access.reads(),
                "{what}: binding {i} is {access:?}, needs {need:?}"
            );
        }
    });
    assert!(seen.len() >= 80, "{} programs: {seen:?}", seen.len());
}

/// Bindings whose length is no extent are bound as long as they are needed, so that nothing of them is lost; those that stand
/// in for an argument that is not there are not needed at all, or as much as that would be.
#[test]
fn a_binding_that_is_an_element_shorter_is_refused() {
    let (mut tried, mut longer) = (0usize, FxHashSet::default());
    launches(|what, bound| {
        let needs = bound.needs(&bound.bytes).unwrap();
        for (i, need) in needs.iter().enumerate() {
            if need.is_extent || need.bytes == 0 {
                continue;
            }
            // An element, or for block formats the byte that makes a block too short.
            let unit = u64::from(need.align.min(need.unit)).max(1);
            let mut shorter = bound.bytes.clone();
            shorter[i] = need.bytes - unit.min(need.bytes);
            assert!(!bound.is_taken(&shorter), "{what}: binding {i} of {} bytes, {need:?}", shorter[i]);
            tried += 1;
            if need.bytes + 64 < bound.bytes[i] {
                longer.insert((bound.launch.program.name(), i));
            }
        }
    });
    assert!(tried > 10_000, "{tried}");
    let mut longer: Vec<_> = longer.into_iter().collect();
    longer.sort_unstable();
    // Logits stand in for the bias of `route`; groups end with words that only grouping uses; a pattern need not reach the end; tiles
    // of attention read the bounds of queries in a work list, not the items after them.
    let known = [
        "attention.matrix.",
        "attention.prompt.wgsl",
        "attention.tiled.wgsl",
        "expert_linear.",
        "route.rows.",
        "strided_copy.rows.cpu",
    ];
    let unknown: Vec<_> =
        longer.iter().filter(|(name, _)| !known.iter().any(|known| name.starts_with(known))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Ops whose shaders state no needs yet, so that every access is checked.
const CHECKED: [&str; 7] = [
    "causal_conv",
    "causal_decay",
    "codebook_decode",
    "codebook_encode",
    "delta_net",
    "masked_attention",
    "tri_solve",
];

/// Shaders of this crate state what they need; bounds checks are for those that do not.
#[test]
fn few_shaders_of_ops_are_translated_with_bounds_checks() {
    let mut checked = BTreeSet::new();
    launches(|what, bound| {
        let op = what.split(',').next().unwrap_or_default();
        match &bound.launch.program {
            Program::Wgsl(kernel) if kernel.is_checked() => checked.insert(op.to_owned()),
            _ => false,
        };
    });
    assert_eq!(checked, CHECKED.map(str::to_owned).into());
}
