//! How matrices are multiplied where subgroups multiply 8x8 matrices together: many rows, for every weight format, with
//! the same fills of shared memory as the tiled kernel. All in f32, so nothing is rounded that other kernels keep.

use super::gpu;
use super::{Matmul, Problem, gpu_needs};
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, MatrixShape, Program, Snippet};
use silicide_quant::Encoding;

static BODY: Snippet = Snippet {
    name: "matmul.matrix.wgsl",
    text: concat!(include_str!("tile.wgsl"), include_str!("matrix.wgsl")),
};

/// Subgroups of a workgroup, each with a quarter of its outputs, as in `matrix.wgsl`.
const SUBGROUPS: u32 = 4;
/// Outputs along a side of a workgroup's square.
const SQUARE: usize = 64;
/// Depth that passes through shared memory at a time.
const STEP: usize = 32;
/// Bytes of shared memory: rows and columns at each of these depths, with a cell of four elements between.
const SHARED_BYTES: usize = 2 * STEP * (SQUARE + 4) * 4;

/// The kernel for many rows in 8x8 matrices.
pub(super) struct Matrix;

/// The kernel for many rows in 8x8 matrices.
pub(super) static MATRIX: Matrix = Matrix;

/// Whether the kernel can run the problem, and what it costs.
pub(crate) fn check(problem: Option<Problem>, on: &DeviceInfo) -> Result<Cost, Decline> {
    let problem = gpu::check(problem, on)?;
    if !on.features.matrices.has(MatrixShape::F32M8N8K8) {
        return Err(Decline("needs 8x8 matrices of subgroups"));
    }
    let (least, most) = on.features.subgroup_size;
    if !on.features.subgroups || least != most || SUBGROUPS.saturating_mul(most) > on.limits.max_workgroup {
        return Err(Decline("needs workgroups of four subgroups of one size"));
    }
    if on.limits.max_workgroup_bytes < SHARED_BYTES {
        return Err(Decline("needs 17 KiB of shared memory"));
    }
    // Where most of a square would lie outside, smaller ones win.
    Ok(if problem.m.min(problem.n) > gpu::LARGE { Cost::BEST } else { Cost(Cost::GOOD.0 + 1) })
}

/// Whether the device multiplies these best in matrices. Kernels of several products have none.
pub(crate) fn is_best(problem: Option<Problem>, on: &DeviceInfo) -> bool {
    check(problem, on) == Ok(Cost::BEST)
}

/// The plan.
pub(crate) fn plan(problem: &Problem, weights: Encoding, on: &DeviceInfo) -> Plan {
    let mut plan = Plan::default();
    let Some(mut kernel) = gpu::kernel(&[&BODY], weights, on) else { return plan };
    kernel.append(gpu::fills(gpu::fill(problem.k, STEP)));
    let kernel = kernel.constant("WG", SUBGROUPS * on.features.subgroup_size.1);
    let step = gpu::fill_step(problem.k, STEP);
    // SAFETY: as for the tiled kernel; workgroups past the end have no depth and no columns.
    let kernel = unsafe { kernel.unchecked(gpu_needs::needs, &gpu_needs::facts(weights, step)) };
    for run in gpu::runs(problem, weights, on) {
        let squares =
            run.rows.len().div_ceil(SQUARE) * run.columns.len().div_ceil(SQUARE) * run.batches.len();
        let (args, params) = (run.args(problem, weights), run.params(problem));
        plan.push(Program::Wgsl(kernel.clone()), &args, &params, wgsl::grid(squares, on));
    }
    plan
}

impl Kernel for Matrix {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        BODY.name
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        check(Problem::of(io), on)
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let weights = Encoding::from(io.input(1).dtype);
        Problem::of(io).map_or(Plan::default(), |problem| plan(&problem, weights, on))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::{Backend, MatrixShapes};

    #[test]
    fn the_matrix_kernel_declines_small_problems_and_devices_without_matrices() {
        let mut on = DeviceInfo::new(Backend::Metal, "metal:0", "test");
        on.limits.max_workgroup_bytes = 32 << 10;
        on.features.subgroups = true;
        on.features.subgroup_size = (32, 32);
        let problem = |m| Some(Problem { batch: 1, m, n: 128, k: 64 });
        assert!(check(problem(128), &on).is_err());
        on.features.matrices = MatrixShapes::NONE.with(MatrixShape::F32M8N8K8);
        assert_eq!(check(problem(128), &on).ok(), Some(Cost::BEST));
        assert!(check(problem(16), &on).is_ok_and(|cost| cost > Cost::GOOD));
        let less = |change: fn(&mut DeviceInfo)| {
            let mut on = on.clone();
            change(&mut on);
            check(problem(128), &on).is_err()
        };
        assert!(less(|on| on.features.subgroup_size = (8, 32)));
        assert!(less(|on| on.limits.max_workgroup = 64));
        assert!(less(|on| on.limits.max_workgroup_bytes = 16 << 10));
    }
}
