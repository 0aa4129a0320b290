//! `mlx_matmul` on the CPU. Affine codes are multiplied in integers, with activations rounded to 8 bits, by the products of
//! `silicide-gemm`. Groups of any format are decoded to f32 by the format's own decoder, into memory that stays in L1 or L2, and
//! multiplied there as dense weights are, in the same order.

mod integer;

use super::{MlxMatmul, problem};
use crate::cpu::native_kernel;
use crate::cpu::needs::in_tiles_of;
use crate::elementwise::fits_cpu;
use crate::matmul::Problem;
use crate::mlx::{self, Planes};
use crate::product::Cut;
use crate::product::dense::{DecodedWorkspace, compute_decoded};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::F32Kernels;
use silicide_gemm::{Matrix, MatrixMut};
use silicide_hal::{Count, DeviceInfo, LaunchShape, NativeKernel, Needs, Program, Tile};
use smallvec::SmallVec;

/// Outputs of a tile: a multiple of those that are decoded at a time.
const OUTPUTS: usize = 48;

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
        Plan::launch(Program::Native(&GROUPS), &args, &params, [n.div_ceil(OUTPUTS) as u32, 1, 1])
    }
}

// SAFETY: a tile reads all rows and its own outputs' part of each plane, in whole groups, and writes its own outputs of all rows.
native_kernel!(unsafe GROUPS, "mlx_matmul.groups.cpu", groups::<S>, needs needs, workspace size_of::<DecodedWorkspace>());

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [m, n, k] = [0, 1, 2].map(|i| launch.count(i));
    let format = mlx::from_code(launch.param(3))?;
    in_tiles_of(launch, n, Count::from(OUTPUTS))?;
    if !k.0.is_multiple_of(format.group() as u64) {
        return None;
    }
    let needs = mlx::read_planes(Needs::new().read(m * k * 4u32, 4), format, n * k)?;
    Some(needs.write(m * n * 4u32, 4))
}

/// Every program of the op, and how its tiles cut the output.
pub(crate) static PROGRAMS: [(&NativeKernel, Cut); 2] =
    [(&integer::MULTIPLY, Cut::Both(3, 4)), (&GROUPS, Cut::Fixed(OUTPUTS))];

/// Computes a tile: some outputs, all rows.
///
/// # Safety
///
/// The CPU has `S`; bindings are activations, planes and outputs of the extents in the parameters.
#[inline(always)]
unsafe fn groups<S: F32Kernels>(tile: &Tile<'_>) {
    let [m, n, k] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let Some(planes) = Planes::new(tile, 1, tile.param(3)) else { return };
    let first = tile.index[0] as usize * OUTPUTS;
    let outputs = OUTPUTS.min(n - first);
    // SAFETY: `needs` has checked that bindings have these extents; tiles have different outputs. This is the only reference into the workspace.
    let (isa, lhs, out, workspace) = unsafe {
        let y = tile.start(planes.count() + 1).cast::<f32>().add(first);
        (
            S::assume(),
            Matrix::from_raw_parts(tile.start(0).cast::<f32>(), [m, k], k),
            MatrixMut::from_raw_parts(y, [m, outputs], n),
            DecodedWorkspace::from_uninit(tile.workspace()),
        )
    };
    compute_decoded(isa, lhs, out, workspace, |output, at, to| {
        // SAFETY: the planes have the groups of this output, and nothing writes them.
        unsafe { planes.decode((first + output) * k + at, to) };
    });
}
