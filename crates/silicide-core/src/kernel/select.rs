//! Choosing a kernel: the cheapest that fits, the first of equals. Deterministic, and no trial runs.

use super::op::{DynOp, Io};
use crate::error::{Error, Result};
use silicide_hal::DeviceInfo;

/// The index of the kernel to use, or why none can be.
pub(crate) fn select(op: &dyn DynOp, io: &Io<'_>, on: &DeviceInfo, wanted: Option<&str>) -> Result<usize> {
    let candidates = (0..op.kernel_count()).filter(|&i| wanted.is_none_or(|name| op.kernel_name(i) == name));
    let fitting = candidates.filter_map(|i| op.kernel_fits(i, io, on).ok().map(|cost| (cost, i)));
    match fitting.min() {
        Some((_, i)) => Ok(i),
        None => Err(no_kernel(op, io, on, wanted)),
    }
}

#[cold]
fn no_kernel(op: &dyn DynOp, io: &Io<'_>, on: &DeviceInfo, wanted: Option<&str>) -> Error {
    let reason = |i: usize| {
        let name = op.kernel_name(i);
        match (op.kernel_fits(i, io, on), wanted) {
            (Err(decline), _) => format!("{name}: {}", decline.0),
            (Ok(_), Some(_)) => format!("{name}: not the one asked for"),
            (Ok(_), None) => name.to_owned(),
        }
    };
    let declined: Vec<String> = (0..op.kernel_count()).map(reason).collect();
    let declined = if declined.is_empty() { "it has no kernels".to_owned() } else { declined.join("; ") };
    Error::NoKernel { op: op.name(), device: on.id.clone(), io: io.to_string(), declined }
}
