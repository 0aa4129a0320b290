//! `interleave` on the CPU: a tile is some sets of sixteen rows. Fewer rows after the last set of a matrix are copied as they are.

use super::{Interleave, TOGETHER};
use crate::cpu::native_kernel;
use crate::cpu::needs::in_tiles_of;
use crate::elementwise::fits_cpu;
use crate::weight;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::F32Kernels;
use silicide_gemm::q8::Q8Kernels;
use silicide_gemm::{f32, q8};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::Encoding;

/// Bytes that one tile moves, about.
const TILE_BYTES: usize = 64 << 10;

// SAFETY: a tile reads the rows of its own sets and writes as many bytes of each set.
native_kernel!(
    /// Rows side by side.
    unsafe INTERLEAVE,
    "interleave.words.cpu",
    tile::<S>,
    needs needs
);

/// Parameters: matrices, rows of each, bytes of a row, sets of a tile, the code of the rows' encoding, the plane.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [matrices, n, bytes, tile_sets] = [0, 1, 2, 3].map(|i| launch.count(i));
    in_tiles_of(launch, matrices * n.div_ceil(Count::from(TOGETHER))?, tile_sets)?;
    let all = matrices * n * bytes;
    Some(Needs::new().read(all, 1).write(all, 1))
}

/// Interleaves some sets of rows.
///
/// # Safety
///
/// The CPU has `S`; bindings are as many bytes of rows as the parameters say, and as many to write.
#[inline(always)]
unsafe fn tile<S: F32Kernels + Q8Kernels>(tile: &Tile<'_>) {
    let [matrices, n, bytes, tile_sets] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
    let (Some(encoding), plane) = (weight::from_code(tile.param(4)), tile.param(5) as usize) else { return };
    let (first, sets) = (tile.index[0] as usize * tile_sets, n.div_ceil(TOGETHER));
    for set in first..(first + tile_sets).min(matrices * sets) {
        let row = set % sets * TOGETHER;
        let (start, rows) = (set / sets * n + row, TOGETHER.min(n - row));
        let range = start * bytes..(start + rows) * bytes;
        // SAFETY: the caller runs on a CPU with `S`; `needs` has checked the extents, and tiles have different sets.
        let (isa, from, to) =
            unsafe { (S::assume(), tile.read_part::<u8>(0, range.clone()), tile.write::<u8>(1, range)) };
        if rows < TOGETHER {
            to.copy_from_slice(from);
            continue;
        }
        let done = match encoding {
            Encoding::Element(dtype) => f32::interleave(isa, dtype, from, to),
            Encoding::Block(format) => q8::interleave(isa, format, from, to),
            Encoding::Planes(format) => q8::interleave_plane(isa, format, plane, from, to),
            _ => Ok(()),
        };
        // Shapes were checked by `infer`, so this is not refused.
        debug_assert_eq!(done, Ok(()));
    }
}

/// The kernel.
pub(super) struct InterleaveWords;

impl Kernel for InterleaveWords {
    type Op = Interleave;

    fn name(&self) -> &'static str {
        INTERLEAVE.name
    }

    fn fits(&self, _: &Interleave, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let fits = u32::try_from(io.input(0).shape.rows().max(io.input(0).shape.last())).is_ok();
        if fits { fits_cpu(on) } else { Err(Decline("takes extents of at most 32 bits")) }
    }

    fn plan(&self, op: &Interleave, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let Some(code) = weight::code(op.of.into()) else { return Plan::default() };
        let (shape, bytes) = (io.input(0).shape, io.input(0).shape.last());
        let n = shape.axes().iter().rev().nth(1).copied().unwrap_or(1).max(1);
        let matrices = shape.rows() / n;
        let tile_sets = (TILE_BYTES / (TOGETHER * bytes)).max(1);
        let params = [matrices, n, bytes, tile_sets].map(|extent| extent as u32);
        let params = [params.as_slice(), &[code, op.plane as u32]].concat();
        let tiles = (matrices * n.div_ceil(TOGETHER)).div_ceil(tile_sets);
        let args = [Arg::slot(0), Arg::slot(1)];
        Plan::launch(Program::Native(&INTERLEAVE), &args, &params, [tiles as u32, 1, 1])
    }
}
