//! `interleave` on the CPU: a tile is some groups of columns. The program is beside the products that read what it makes.

use super::{Interleave, TOGETHER};
use crate::elementwise::fits_cpu;
use crate::matmul::cpu::integer::rearrange::INTERLEAVE;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Program};

/// Bytes that one tile moves, about.
const TILE_BYTES: usize = 64 << 10;

/// The kernel.
pub(super) struct Words;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Words {
    type Op = Interleave;

    fn name(&self) -> &'static str {
        INTERLEAVE.name
    }

    fn fits(&self, _: &Interleave, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let fits = u32::try_from(io.input(0).shape.rows().max(io.input(0).shape.last())).is_ok();
        if fits { fits_cpu(on) } else { Err(Decline("takes extents of at most 32 bits")) }
    }

    fn plan(&self, op: &Interleave, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let (groups, bytes) = (io.input(0).shape.rows() / TOGETHER, io.input(0).shape.last());
        let tile_groups = (TILE_BYTES / (TOGETHER * bytes)).max(1);
        let params = [groups, bytes, tile_groups, op.format as usize].map(|word| word as u32);
        let args = [Arg::slot(0), Arg::slot(1)];
        Plan::launch(
            Program::Native(&INTERLEAVE),
            &args,
            &params,
            [groups.div_ceil(tile_groups) as u32, 1, 1],
        )
    }
}
