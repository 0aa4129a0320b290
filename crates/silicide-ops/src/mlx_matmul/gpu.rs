//! `mlx_matmul` on GPUs: the kernels of `matmul`, with weights in planes.

use super::{MlxMatmul, problem};
use crate::matmul::gpu::{Weights, check, check_few, has_subgroups, plan_few, plan_tiled};
use crate::matmul::matrix;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::DeviceInfo;

/// The kernel for few rows.
pub(super) struct Few;

/// The kernel for many rows.
pub(super) struct Tiled;

/// The kernel for many rows in 8x8 matrices.
pub(super) struct Matrix;

impl Kernel for Few {
    type Op = MlxMatmul;

    fn name(&self) -> &'static str {
        "mlx_matmul.few.wgsl"
    }

    fn fits(&self, _: &MlxMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        check_few(problem(io), on).map(|_| Cost::BEST)
    }

    fn plan(&self, op: &MlxMatmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        problem(io).map_or(Plan::default(), |problem| {
            plan_few(&problem, Weights::Mlx(op.format), on, has_subgroups(on))
        })
    }
}

impl Kernel for Tiled {
    type Op = MlxMatmul;

    fn name(&self) -> &'static str {
        "mlx_matmul.tiled.wgsl"
    }

    fn fits(&self, _: &MlxMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        check(problem(io), on).map(|_| Cost::GOOD)
    }

    fn plan(&self, op: &MlxMatmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        problem(io).map_or(Plan::default(), |problem| plan_tiled(&problem, Weights::Mlx(op.format), on))
    }
}

impl Kernel for Matrix {
    type Op = MlxMatmul;

    fn name(&self) -> &'static str {
        "mlx_matmul.matrix.wgsl"
    }

    fn fits(&self, _: &MlxMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        matrix::check(problem(io), on)
    }

    fn plan(&self, op: &MlxMatmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        problem(io).map_or(Plan::default(), |problem| matrix::plan(&problem, Weights::Mlx(op.format), on))
    }
}
