//! The test entry: every op on the CPU with every instruction set, every op on Vulkan, and a fresh support table.

use conformance::{Effort, open, run, support};
use std::path::Path;

#[track_caller]
fn conforms(device: &str) {
    let (targets, missing) = open(&[device.to_owned()], None);
    let mut report = run(&silicide_ops::all(), &targets, Effort::Full, &|_| ());
    report.failures.extend(missing);
    assert!(report.passed(), "{report}");
    println!("{report}");
}

#[test]
fn the_cpu_conforms() {
    conforms("cpu");
}

#[test]
fn vulkan_conforms() {
    conforms("vulkan:0");
}

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
