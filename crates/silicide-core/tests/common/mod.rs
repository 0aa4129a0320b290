//! What tests of the core share: devices to run on, small ops, and backends that do what no device here does.

pub(crate) mod defects;
pub(crate) mod ops;
pub(crate) mod pairs;
pub(crate) mod wrapped;

use silicide_core::hal::null::{self, NullDevice, NullOptions};
use silicide_core::memory::{Allocation, Request};
use silicide_core::{Allocator, Buffer, Device, DeviceOptions, Result};
use std::sync::Arc;

/// Forwards every request to another allocator.
#[derive(Debug)]
pub(crate) struct ForwardingAllocator(pub(crate) Arc<dyn Allocator>);

impl Allocator for ForwardingAllocator {
    fn name(&self) -> &'static str {
        "forwarding"
    }
    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        self.0.allocate(device, request)
    }
}

/// The GPU that tests run on.
pub(crate) const GPU: &str = if cfg!(target_vendor = "apple") { "metal:0" } else { "vulkan:0" };

/// The devices that run kernels: the CPU, and a GPU where there is one. On a build machine there must be one.
pub(crate) fn devices() -> Vec<Device> {
    devices_with(&DeviceOptions::default())
}

/// The same, opened with options.
pub(crate) fn devices_with(options: &DeviceOptions) -> Vec<Device> {
    let mut devices = vec![Device::open_with("cpu", options).unwrap()];
    match Device::open_with(GPU, options) {
        Ok(device) => devices.push(device),
        Err(error) => samples::not_tested(format!("{GPU}: {error}")),
    }
    devices
}

/// A null device, and the backend behind it to ask and to steer.
pub(crate) fn null_device(options: &NullOptions) -> (Device, Arc<NullDevice>) {
    null_device_with(options, &DeviceOptions::default())
}

/// The same, with options of the device.
pub(crate) fn null_device_with(backend: &NullOptions, options: &DeviceOptions) -> (Device, Arc<NullDevice>) {
    let raw = null::open(backend).unwrap();
    // SAFETY: the backend was just opened; tests steer it and submit nothing.
    (unsafe { Device::with_backend(raw.clone(), options) }, raw)
}

/// A null device that keeps work in flight until it is released, at the latest when the test is over: a device that
/// goes waits for its work.
pub(crate) fn holding_device() -> (Device, Arc<NullDevice>, Released) {
    let (device, raw) = null_device(&NullOptions::default().hold());
    let released = Released(raw.clone());
    (device, raw, released)
}

/// Lets go of all work in flight when dropped.
pub(crate) struct Released(pub(crate) Arc<NullDevice>);

impl Drop for Released {
    fn drop(&mut self) {
        self.0.set_hold(false);
        self.0.release_all();
    }
}

/// A buffer of f32 values.
pub(crate) fn vector(device: &Device, values: &[f32]) -> Buffer {
    Buffer::from_slice(device, values.len(), values).unwrap()
}

/// 0, 1, 2, ...
pub(crate) fn count(elements: usize) -> Vec<f32> {
    (0..elements).map(|i| i as f32).collect()
}

/// Asserts that a result is an error of some variant, and gives its text.
macro_rules! assert_error {
    ($result:expr, $pattern:pat $(if $guard:expr)?) => {
        match $result {
            Err(ref error @ $pattern) $(if $guard)? => error.to_string(),
            Err(other) => panic!("expected {}, got {other:?}", stringify!($pattern)),
            Ok(_) => panic!("expected {}, got success", stringify!($pattern)),
        }
    };
}
