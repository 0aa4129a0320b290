//! Devices: finding, opening, describing.

use crate::common::{devices, holding_device};
use silicide_core::hal::{Backend, HalError};
use silicide_core::{Buffer, Device, DeviceOptions, Error, Isa};
use silicide_quant::DType;

#[test]
fn every_listed_device_can_be_opened() {
    let listing = Device::list();
    assert!(listing.devices.iter().any(|info| info.id == "cpu"));
    for info in &listing.devices {
        let device = Device::open(&info.id).unwrap();
        assert_eq!((&device.info().id, device.info().backend), (&info.id, info.backend));
    }
    for missing in &listing.missing {
        assert!(matches!(missing, HalError::Unavailable { advice, .. } if !advice.is_empty()), "{missing:?}");
    }
    // Real GPUs, then the CPU, then emulated ones.
    let ranks: Vec<u8> = listing
        .devices
        .iter()
        .map(|info| match (info.backend, info.software) {
            (Backend::Cpu, _) => 1,
            (_, software) => 2 * u8::from(software),
        })
        .collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
}

#[test]
fn the_best_device_is_the_first_of_the_list() {
    let best = Device::best().unwrap();
    assert_eq!(best.info().id, Device::list().devices[0].id);
    assert_eq!(Device::open("best").unwrap().info().id, best.info().id);
    assert!(!best.info().software);
}

#[test]
fn unknown_names_are_refused_with_the_known_names() {
    for name in ["", "cuda", "cpu:1", "null:7", "vulkan:99", "vulkan:x", "vulkan:-1", "best:1", "cpu:"] {
        match Device::open(name) {
            Err(Error::UnknownDevice { name: refused, known }) => {
                assert_eq!(refused, name);
                assert!(known.contains("cpu"), "{known}");
            }
            // Without a loader, that is the first thing to say.
            Err(Error::Device { source: HalError::Unavailable { .. }, .. }) if name.starts_with("vulkan") => {
            }
            other => panic!("{name:?}: {other:?}"),
        }
    }
}

#[test]
fn devices_describe_themselves() {
    for device in devices() {
        let info = device.info();
        assert!(!info.name.is_empty() && !info.driver.is_empty() && !info.fingerprint.is_empty());
        assert!(info.limits.max_binding <= info.limits.max_block);
        assert!(info.limits.binding_alignment.is_power_of_two() && info.limits.binding_alignment <= 256);
        assert!(info.limits.max_param_bytes >= 64 && info.limits.max_bindings >= 4);
        assert!(info.memory.total > 0 && info.memory.available <= info.memory.total);
        assert_eq!(info.is_gpu(), matches!(info.backend, Backend::Vulkan | Backend::Metal));
        assert_eq!(info.isa.is_some(), info.backend == Backend::Cpu);
        assert!(device.validation_messages().is_empty());
    }
}

#[test]
fn options_reach_the_cpu() {
    let mut options = DeviceOptions::default();
    (options.threads, options.isa) = (Some(1), Some(Isa::Portable));
    let device = Device::open_with("cpu", &options).unwrap();
    assert_eq!((device.info().threads, device.info().isa), (1, Some(Isa::Portable)));
    let missing = Isa::ALL.into_iter().find(|isa| !isa.is_available());
    if let Some(isa) = missing {
        options.isa = Some(isa);
        let text = assert_error!(
            Device::open_with("cpu", &options),
            Error::Device { source: HalError::Unavailable { .. }, .. }
        );
        assert!(text.contains(isa.name()), "{text}");
    }
}

#[test]
fn handles_share_a_device() {
    let device = Device::cpu().unwrap();
    let clone = device.clone();
    assert!(device == clone && device.is_same(&clone));
    assert!(device != Device::cpu().unwrap());
    let buffer = Buffer::allocate(&clone, DType::U8, 1).unwrap();
    assert_eq!(device.usage().total(), 256);
    drop((device, clone));
    assert_eq!(buffer.device().usage().total(), 256);
}

#[test]
fn devices_count_their_waits() {
    let (device, raw, _released) = holding_device();
    let buffer = Buffer::allocate(&device, DType::U8, 16).unwrap();
    let mut encoder = silicide_core::CommandEncoder::new(&device);
    encoder.copy(&buffer.view(0, 4).unwrap(), &buffer.view(8, 4).unwrap()).unwrap();
    let submission = encoder.submit().unwrap();
    assert_eq!(device.counters().waits, 0);
    raw.release_all();
    submission.wait().unwrap();
    submission.wait().unwrap();
    drop(buffer.read::<u8>().unwrap());
    assert_eq!(device.counters().waits, 1, "what is known to be done is not waited for");
    assert!(device.counters().wait_calls > 1, "calls are counted all the same");
}

#[test]
#[cfg(not(feature = "vulkan"))]
fn a_backend_that_the_build_leaves_out_is_refused_with_its_feature() {
    assert!(Device::list().missing.iter().any(|error| error.to_string().contains("built without it")));
    match Device::open("vulkan:0") {
        Err(Error::Device { source: HalError::Unavailable { backend, advice, .. }, .. }) => {
            assert_eq!(backend, "vulkan");
            assert!(advice.contains("feature"), "{advice}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
#[cfg(not(target_vendor = "apple"))]
fn metal_elsewhere_is_refused_with_advice() {
    for name in ["metal", "metal:0", "metal:7"] {
        match Device::open(name) {
            Err(Error::Device { source: HalError::Unavailable { backend, advice, .. }, .. }) => {
                assert_eq!(backend, "metal");
                assert!(!advice.is_empty());
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_refused_capture_names_its_reason() {
    let cpu = Device::cpu().unwrap();
    match cpu.capture("/nowhere/work.gputrace") {
        Err(Error::Device { device, source: HalError::Unavailable { backend, .. } }) => {
            assert_eq!((device.as_str(), backend), ("cpu", "cpu"));
        }
        other => panic!("{other:?}"),
    }
}
