//! `mlx_matmul` on the CPU. Affine codes are multiplied in integers, with activations rounded to 8 bits, by the products of
//! `silicide-gemm`. Groups of any format are decoded to f32 by the format's own decoder, into memory that stays in the first cache, and
//! multiplied there with all rows. Sums are in a fixed order that no tile boundary changes.

mod integer;

use super::{MlxMatmul, problem};
use crate::cpu::native_kernel;
use crate::cpu::needs::in_tiles_of;
use crate::elementwise::fits_cpu;
use crate::matmul::Problem;
use crate::mlx::{self, Planes};
use crate::product::Cut;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::few::{self, Rows};
use silicide_gemm::f32::pack;
use silicide_gemm::f32::vector::Unit;
use silicide_hal::{Count, DeviceInfo, LaunchShape, NativeKernel, Needs, Program, Tile};
use smallvec::SmallVec;

/// Elements of a column that are decoded at a time: whole groups of every format, whose longest has 128.
const RUN: usize = 256;
/// Columns that are decoded at a time, and those of a tile: a multiple of what is multiplied at a time.
const COLUMNS: usize = 24;

/// Runs of columns, decoded.
#[repr(align(64))]
struct Decoded([[f32; RUN]; COLUMNS]);

/// Affine codes, in integers.
pub(super) struct Integer;

impl Kernel for Integer {
    type Op = MlxMatmul;

    fn name(&self) -> &'static str {
        "mlx_matmul.integer.cpu"
    }

    fn fits(&self, op: &MlxMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = problem(io).ok_or(Decline("takes extents of at most 32 bits"))?;
        fits_cpu(on)?;
        integer::declines(&problem, op.format).map_or(Ok(Cost::BEST), |why| Err(Decline(why)))
    }

    fn plan(&self, op: &MlxMatmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        problem(io).map_or(Plan::default(), |problem| integer::plan(&problem, op.format, on))
    }
}

/// Any format.
pub(super) struct Groups;

impl Kernel for Groups {
    type Op = MlxMatmul;

    fn name(&self) -> &'static str {
        "mlx_matmul.groups.cpu"
    }

    fn fits(&self, _op: &MlxMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        problem(io).ok_or(Decline("takes extents of at most 32 bits"))?;
        fits_cpu(on).map(|_| Cost::FALLBACK)
    }

    fn plan(&self, op: &MlxMatmul, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(Problem { m, n, k, .. }) = problem(io) else { return Plan::default() };
        let args: SmallVec<[Arg; 5]> = (0..mlx::planes(op.format) as u8 + 2).map(Arg::slot).collect();
        let params = [m as u32, n as u32, k as u32, mlx::code(op.format)];
        Plan::launch(Program::Native(&GROUPS), &args, &params, [n.div_ceil(COLUMNS) as u32, 1, 1])
    }
}

// SAFETY: a tile reads all rows and its own columns of each plane, in whole groups, and writes its own columns of the outputs.
native_kernel!(unsafe GROUPS, "mlx_matmul.groups.cpu", groups::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [m, n, k] = [0, 1, 2].map(|i| launch.count(i));
    let format = mlx::from_code(launch.param(3))?;
    in_tiles_of(launch, n, Count::from(COLUMNS))?;
    if !k.0.is_multiple_of(format.group() as u64) {
        return None;
    }
    let needs = mlx::read_planes(Needs::new().read(m * k * 4u32, 4), format, n * k)?;
    Some(needs.write(m * n * 4u32, 4))
}

/// Every program of the op, and how its tiles cut the output.
pub(crate) static PROGRAMS: [(&NativeKernel, Cut); 2] =
    [(&integer::MULTIPLY, Cut::Both(3, 4)), (&GROUPS, Cut::Fixed(COLUMNS))];

/// A tile: some columns, all rows.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are activations, planes and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn groups<U: Unit>(tile: &Tile<'_>) {
    let [m, n, k] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let Some(planes) = Planes::new(tile, 1, tile.param(3)) else { return };
    let [x, ..] = tile.index.map(|i| i as usize);
    let column = x * COLUMNS;
    let columns = COLUMNS.min(n - column);
    let mut decoded = Decoded([[0.0; RUN]; COLUMNS]);
    for first in (0..k).step_by(RUN) {
        let depth = RUN.min(k - first);
        // SAFETY: the planner made the grid for these extents; tiles have different columns, and nobody writes the
        // planes.
        unsafe {
            for (i, run) in decoded.0.iter_mut().take(columns).enumerate() {
                planes.decode((column + i) * k + first, run.get_mut(..depth).unwrap_or_default());
            }
            few::multiply::<U, pack::F32>(&Rows {
                a: tile.start(0).cast::<f32>().add(first),
                b: decoded.0.as_ptr().cast(),
                y: tile.start(planes.count() + 1).cast::<f32>().add(column),
                depth,
                a_stride: k,
                b_stride: RUN,
                y_stride: n,
                rows: m,
                columns,
                accumulate: first > 0,
                ahead: None,
            });
        }
    }
}
