//! Lists long enough to be cut into command buffers, and marks without timing.

use crate::contract::TestKernel;
use crate::{bench, options};
use silicide_hal::{Command, CommandList};

#[test]
fn marks_are_not_timed_unless_asked_for() {
    let bench = bench(&options());
    assert!(!bench.device.info().features.timestamps);
    let mut list = CommandList::default();
    list.commands.push(Command::Mark { label: "a" });
    assert!(bench.device.spans(bench.run(&list)).is_empty());
}

/// Slow work teaches the device to cut lists.
#[test]
fn a_long_list_is_cut_and_stays_ordered() {
    let bench = bench(&options());
    let (spin, affine) = (bench.compile(TestKernel::Spin), bench.compile(TestKernel::Affine));
    let (words, counter) = (bench.bind(&vec![0u32; 100_000]), bench.bind(&[0u32]));
    for _ in 0..2 {
        let mut list = CommandList::default();
        for _ in 0..100 {
            list.dispatch(spin, [100_000, 1, 1], &[words], &[0, 2000]);
            list.dispatch(affine, [1, 1, 1], &[counter], &[0, 1, 1, 1, 1]);
            list.commands.push(Command::Barrier);
        }
        bench.run(&list);
    }
    assert_eq!(bench.read::<u32>(counter), [200]);
}
