//! Opening Metal devices: their objects, memory that is kept warm, captures.

use crate::contract::TestKernel;
use crate::{bench, options};
use silicide_hal::{CommandList, HalError, NativeObject};
use std::time::Duration;

#[test]
fn native_objects_of_a_device_are_returned() {
    let bench = bench(&options());
    for object in [NativeObject::Device, NativeObject::Queue, NativeObject::Timeline] {
        // SAFETY: nothing is done with it.
        assert!(unsafe { bench.device.native(object) }.is_some(), "{object:?}");
    }
}

#[test]
fn devices_come_and_go_while_memory_is_kept_warm() {
    for keep in [0, 1, 60] {
        for _ in 0..10 {
            let bench = bench(&options().keep_warm(Duration::from_secs(keep)));
            let x = bench.bind(&[1u32]);
            let mut list = CommandList::default();
            list.dispatch(bench.compile(TestKernel::Affine), [1, 1, 1], &[x], &[0, 1, 1, 1, 1]);
            bench.run(&list);
            assert_eq!(bench.read::<u32>(x), [2]);
        }
    }
}

#[test]
fn a_refused_capture_names_the_variable_to_set() {
    let directory = tempfile::tempdir().unwrap();
    let bench = bench(&options());
    match bench.device.capture(Some(&directory.path().join("work.gputrace"))) {
        Ok(()) => bench.device.capture(None).unwrap(),
        Err(HalError::Unavailable { advice, .. }) => assert!(advice.contains("METAL_CAPTURE_ENABLED")),
        Err(other) => panic!("{other}"),
    }
}
