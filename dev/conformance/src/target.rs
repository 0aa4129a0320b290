//! Opens targets by name, with the devices that run Metal's form of the kernels on the host.

use crate::{Failure, Problem, Target};
use silicide_core::{Device, Isa};

/// Opens devices by name, as [`silicide_conformance::open`] does, and two more: `msl` runs the kernels in the Metal
/// Shading Language on the host, and `msl:wgsl` only those translated from WGSL. A device that does not open is a
/// failure.
pub fn open(names: &[String], isa: Option<Isa>) -> (Vec<Target>, Vec<Failure>) {
    let (mut targets, mut failures) = (Vec::new(), Vec::new());
    for name in names {
        match open_msl(name) {
            Some(Ok(device)) => targets.push(Target::of(name, device)),
            Some(Err(error)) => failures.push(Failure::of_device(name, Problem::Missing(error))),
            None => {
                let (opened, failed) = silicide_conformance::open(std::slice::from_ref(name), isa);
                for isa in opened.iter().filter_map(|target| target.main.info().isa) {
                    samples::note_isa(isa.name(), "conformance");
                }
                targets.extend(opened);
                failures.extend(failed);
            }
        }
    }
    (targets, failures)
}

/// Opens a device of the host that runs MSL, if `name` is one.
#[cfg(feature = "gpu")]
fn open_msl(name: &str) -> Option<Result<Device, String>> {
    let target = match name {
        "msl" => msl::NEWEST,
        "msl:wgsl" => msl::OLDEST,
        _ => return None,
    };
    Some(msl::open(&Target::gpu_options(), target))
}

/// Without kernels of GPUs there is no such device.
#[cfg(not(feature = "gpu"))]
fn open_msl(name: &str) -> Option<Result<Device, String>> {
    let missing = "this build has no kernels of GPUs: build with --features gpu";
    name.starts_with("msl").then(|| Err(missing.to_owned()))
}
