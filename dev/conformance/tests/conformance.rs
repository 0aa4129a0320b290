//! Every op on the CPU with every instruction set, every op on Vulkan, and a fresh support table. One test per op and
//! device, so that they run side by side and a failure names its op.
//!
//! On a software driver of Vulkan, cases are chosen by risk ([`conformance::by_risk`], and [`conformance::covering`] for
//! matrix products and attention). `SILICIDE_TEST_ALL=1` (`scripts/test --all`) runs all of them there too, in every layout. `scripts/check-msl`
//! runs products of every kernel, and of every block format.

use conformance::{Cover, Effort, PRODUCTS, Target, by_risk, covering, open, run, support};
use std::path::Path;

/// The largest case, in bytes and operations, that a software driver runs.
const MOST: u64 = 1 << 20;

#[track_caller]
fn conforms(device: &str, op: &str) {
    let (targets, missing) = open(&[device.to_owned()], None);
    let mut ops = silicide_ops::all();
    ops.retain(|(name, _)| *name == op);
    let all = std::env::var_os("SILICIDE_TEST_ALL").is_some();
    let slow = |target: &Target| target.main.info().is_gpu() && target.main.info().software;
    let mut effort = Effort::Full;
    if let Some(target) = targets.iter().find(|target| slow(target) && !all) {
        effort = Effort::Quick;
        for (name, cases) in &mut ops {
            let (all, on) = (std::mem::take(cases), target.main.info());
            let is_product = PRODUCTS.contains(name);
            *cases =
                if is_product { covering(all, on, MOST, Cover::Kernels) } else { by_risk(all, on, MOST) };
        }
    }
    let mut report = run(&ops, &targets, effort, &|_| ());
    report.failures.extend(missing);
    assert!(report.passed(), "{report}");
    println!("{report}");
}

macro_rules! one_test_per_op {
    ($($op:ident),* $(,)?) => {
        mod cpu {
            $(#[test] fn $op() { super::conforms("cpu", stringify!($op)); })*
        }

        mod vulkan {
            $(#[test] fn $op() { super::conforms("vulkan:0", stringify!($op)); })*
        }
    };
}

silicide_ops::for_each_op!(one_test_per_op);

#[test]
fn the_support_table_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/SUPPORT.md");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let fresh = support::table(&silicide_ops::all()).unwrap();
    assert!(
        committed == fresh,
        "run `cargo run -p conformance -- --support docs/SUPPORT.md` and commit the file"
    );
}
