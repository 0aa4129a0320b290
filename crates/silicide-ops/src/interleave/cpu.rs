//! `interleave` on the CPU: a tile is some groups of columns.

use super::{Interleave, TOGETHER};
use crate::cpu::native_kernel;
use crate::cpu::needs::in_tiles_of;
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::q8::{self, Q8Kernels};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::Format;

/// Bytes that one tile moves, about.
const TILE_BYTES: usize = 64 << 10;

// SAFETY: a tile reads the columns of its own groups and writes as many bytes of each group.
native_kernel!(
    /// Blocks of columns, side by side.
    unsafe INTERLEAVE,
    "interleave.words.cpu",
    tile::<S>,
    needs needs
);

/// Parameters: groups, bytes of a column, groups of a tile, the format.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [groups, bytes, tile_groups] = [0, 1, 2].map(|i| launch.count(i));
    in_tiles_of(launch, groups, tile_groups)?;
    let all = groups * TOGETHER * bytes;
    Some(Needs::new().read(all, 1).write(all, 1))
}

/// A tile: some groups of columns.
///
/// # Safety
///
/// The instruction set is present; bindings are as many bytes of columns as the parameters say, and as many to write.
#[inline(always)]
unsafe fn tile<S: Q8Kernels>(tile: &Tile<'_>) {
    let [groups, bytes, tile_groups] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let Some(&format) = Format::ALL.get(tile.param(3) as usize) else { return };
    let first = tile.index[0] as usize * tile_groups;
    for group in first..(first + tile_groups).min(groups) {
        let range = group * TOGETHER * bytes..(group + 1) * TOGETHER * bytes;
        // SAFETY: the caller runs on a CPU with `S`; the planner made the grid for these extents, and tiles have different groups.
        let (isa, from, to) =
            unsafe { (S::assume(), tile.read_part::<u8>(0, range.clone()), tile.write::<u8>(1, range)) };
        // Shapes were checked by `infer`, so this is not refused.
        let done = q8::interleave(isa, format, from, to);
        debug_assert_eq!(done, Ok(()));
    }
}

/// The kernel.
pub(super) struct Words;

impl Kernel for Words {
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
