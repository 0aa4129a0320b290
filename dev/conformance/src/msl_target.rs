//! Opens targets by name, with the devices that run Metal's form of the kernels on the host.

use crate::{Failure, Problem, Target};
use silicide_core::{Device, Isa};

/// Opens devices by name, as [`silicide_conformance::open`] does, and two more: `msl` runs the kernels in the Metal
/// Shading Language on the host, and `msl:wgsl` only those translated from WGSL. A device that does not open is a
/// failure.
pub fn open(names: &[String], isa: Option<Isa>) -> (Vec<Target>, Vec<Failure>) {
    let (mut targets, mut failures) = (Vec::new(), Vec::new());
    for name in names {
        let metal = match name.as_str() {
            "msl" => msl::NEWEST,
            "msl:wgsl" => msl::OLDEST,
            _ => {
                let (opened, failed) = silicide_conformance::open(std::slice::from_ref(name), isa);
                for isa in opened.iter().filter_map(|target| target.main.info().isa) {
                    samples::note_isa(isa.name(), "conformance");
                }
                targets.extend(opened);
                failures.extend(failed);
                continue;
            }
        };
        match open_msl(metal) {
            Ok(device) => targets.push(Target::of(name, device)),
            Err(error) => failures.push(Failure::of_device(name, Problem::Missing(error))),
        }
    }
    (targets, failures)
}

/// Opens a device of the host that runs MSL.
fn open_msl(target: silicide_hal::wgsl::MslTarget) -> Result<Device, String> {
    msl::open(&Target::gpu_options(), target)
}
