//! Finding and opening devices.

use crate::kernels::count;
use crate::rig::{Rig, options, range};
use silicide_hal::metal::{self, MetalOptions};
use silicide_hal::{Backend, CommandList, HalError, NativeObject};

#[test]
fn devices_are_listed_as_they_open() {
    let listed = metal::enumerate().unwrap();
    assert!(!listed.is_empty());
    for (index, info) in listed.iter().enumerate() {
        let device = metal::open(index, &MetalOptions::default()).unwrap();
        let opened = device.info();
        assert_eq!((opened.backend, &opened.id), (Backend::Metal, &format!("metal:{index}")));
        assert_eq!((opened.limits, opened.features, &opened.name), (info.limits, info.features, &info.name));
        assert!(opened.is_gpu() && !opened.name.is_empty() && !opened.driver.is_empty());
        assert!(opened.memory.total > 0 && opened.memory.available <= opened.memory.total);
        for object in [NativeObject::Device, NativeObject::Queue, NativeObject::Timeline] {
            // SAFETY: nothing is done with it.
            assert!(unsafe { device.native(object) }.is_some(), "{object:?}");
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let error = metal::open(99, &MetalOptions::default()).err().unwrap();
    assert!(matches!(&error, HalError::Unavailable { detail, .. } if detail.contains("metal:99")), "{error}");
}

/// Opening, using and dropping devices, while memory is kept warm and when it is not, ends every heart.
#[test]
fn devices_come_and_go() {
    for keep in [0, 1, 60] {
        let mut options = options();
        options.keep_warm = std::time::Duration::from_secs(keep);
        for _ in 0..10 {
            let rig = Rig::with(&options);
            let block = rig.alloc_with(&[1u32]);
            let mut list = CommandList::default();
            list.dispatch(rig.compile(count()), [1, 1, 1], &[range(block, 0, 4)], &[0, 1]);
            rig.run(&list);
            assert_eq!(rig.read::<u32>(block), [2]);
        }
    }
}

#[test]
fn captures_work_or_say_what_to_set() {
    let rig = Rig::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("work.gputrace");
    match rig.device.capture(Some(&path)) {
        Ok(()) => {
            rig.run(&CommandList::default());
            rig.device.capture(None).unwrap();
            assert!(path.exists());
        }
        Err(HalError::Unavailable { advice, .. }) => assert!(advice.contains("METAL_CAPTURE_ENABLED")),
        Err(other) => panic!("{other}"),
    }
}
