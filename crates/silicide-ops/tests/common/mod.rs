//! Devices that tests of kernels run on.

use silicide_core::{Device, DeviceOptions, Isa};

/// Returns a CPU device for each instruction set of this machine.
pub(crate) fn devices() -> impl Iterator<Item = Device> {
    Isa::available().into_iter().map(|isa| {
        samples::note_isa(isa.name(), "kernels");
        Device::open_with("cpu", &DeviceOptions::default().isa(isa)).unwrap()
    })
}
