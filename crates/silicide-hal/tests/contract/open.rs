//! The description of a device; opening, dropping, captures.

use super::{Bench, Rig, TestKernel};
use silicide_hal::{CommandList, HalError};

pub(crate) fn a_device_describes_itself<R: Rig>(bench: &Bench<R>) {
    let info = bench.device.info();
    let (limits, features) = (info.limits, info.features);
    assert!(!info.name.is_empty() && !info.fingerprint.is_empty());
    assert!(info.fingerprint.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)), "{info:?}");
    assert!(limits.max_block >= limits.max_binding && limits.max_binding >= 1 << 27, "{limits:?}");
    assert!(limits.binding_alignment.is_power_of_two() && limits.binding_alignment <= 256, "{limits:?}");
    assert!(limits.max_param_bytes >= 128 && limits.max_bindings >= 4, "{limits:?}");
    assert!(limits.max_workgroup >= 128 && limits.max_workgroup_bytes >= 16 << 10, "{limits:?}");
    assert!(limits.max_grid.iter().all(|axis| *axis >= 65_535), "{limits:?}");
    assert!(features.subgroup_size.0 >= 1 && features.subgroup_size.0 <= features.subgroup_size.1);
    assert!(info.memory.total > 0 && info.memory.available <= info.memory.total, "{:?}", info.memory);
    // Exactly one of the two kinds of processor.
    assert_ne!(info.is_gpu(), info.isa.is_some() || info.id == "null", "{info:?}");
}

pub(crate) fn a_listed_device_opens_as_it_is_listed<R: Rig>(bench: &Bench<R>) {
    let listed = R::list();
    assert_eq!(listed[0].id, bench.device.info().id);
    for (index, listed) in listed.iter().enumerate() {
        let device = R::open(index).unwrap();
        let opened = device.info();
        assert_eq!((opened.backend, &opened.id), (listed.backend, &listed.id));
        assert_eq!((&opened.name, &opened.driver), (&listed.name, &listed.driver));
        assert_eq!(opened.fingerprint, listed.fingerprint);
        assert_eq!((opened.limits, opened.features), (listed.limits, listed.features));
    }
}

pub(crate) fn a_device_that_does_not_exist_is_refused<R: Rig>(bench: &Bench<R>) {
    let name = bench.device.info().backend.name();
    let error = R::open(99).err().unwrap();
    let HalError::Unavailable { backend, detail, advice } = &error else { panic!("{error}") };
    assert_eq!(*backend, name);
    assert!(detail.contains(&format!("{name}:99")) && !advice.is_empty(), "{error}");
}

pub(crate) fn a_device_that_is_dropped_can_be_opened_again<R: Rig>(_: &Bench<R>) {
    for _ in 0..5 {
        let bench = Bench::<R>::new(R::open(0).unwrap());
        let x = bench.bind(&[1u32]);
        let mut list = CommandList::default();
        list.dispatch(bench.compile(TestKernel::Affine), [1, 1, 1], &[x], &[0, 1, 1, 1, 1]);
        bench.run(&list);
        assert_eq!(bench.read::<u32>(x), [2]);
    }
}

pub(crate) fn a_capture_is_written_or_refused_with_advice<R: Rig>(bench: &Bench<R>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("work.gputrace");
    match bench.device.capture(Some(&path)) {
        Ok(()) => {
            bench.run(&CommandList::default());
            bench.device.capture(None).unwrap();
            assert!(path.exists());
        }
        Err(HalError::Unavailable { advice, .. }) => assert!(!advice.is_empty()),
        Err(other) => panic!("{other}"),
    }
}
