//! `interleaved_matmul` on the CPU: the integer products of `matmul`, over another source of columns.

use super::{InterleavedMatmul, problem};
use crate::elementwise::fits_cpu;
use crate::matmul::cpu::integer::interleaved;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::DeviceInfo;

/// The kernel.
pub(super) struct Integer;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Integer {
    type Op = InterleavedMatmul;

    fn name(&self) -> &'static str {
        interleaved::MULTIPLY.name
    }

    fn fits(&self, _: &InterleavedMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        problem(io).ok_or(Decline("takes extents of at most 32 bits"))?;
        fits_cpu(on)
    }

    fn plan(&self, op: &InterleavedMatmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        problem(io).map_or(Plan::default(), |problem| interleaved::plan(&problem, op.format, on))
    }
}
