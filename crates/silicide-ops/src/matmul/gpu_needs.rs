//! What programs of products need of their bindings, on GPUs.

use super::gpu::Weights;
use crate::mlx;
use crate::needs::{TypedNeeds, dtype};
use silicide_hal::{Access, Count, LaunchShape, Needs};

/// Facts of a program: how weights are stored, and the depth that passes through shared memory at a time, where depths must be
/// whole steps of it.
pub(crate) fn facts(weights: Weights, step: usize) -> [u32; 3] {
    match weights {
        Weights::Of(dtype) => [0, dtype.code(), step as u32],
        Weights::Mlx(format) => [1, mlx::code(format), step as u32],
    }
}

/// Activations, weights, outputs, and the table of a format that has one. Parameters: rows, columns, depth, batches, outputs from
/// one row to the next, the first column of the launch.
pub(crate) fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, columns, k, batches, stride, first] = [0, 1, 2, 3, 4, 5].map(|i| launch.count(i));
    let [kind, code, step] = [0, 1, 2].map(|i| launch.fact(i));
    let is_whole = launch.param(2).is_multiple_of(step.max(1));
    if rows == Count(0) || columns == Count(0) || first + columns > stride || !is_whole {
        return None;
    }
    let (needs, y) = (Needs::new().read(batches * rows * k * 4u32, 4), batches * rows * stride * 4u32);
    if kind == 0 {
        let dtype = dtype(code)?;
        // Rows are whole blocks.
        k.0.is_multiple_of(dtype.block_len() as u64).then_some(())?;
        let needs = needs.elements(Access::Read, dtype, batches * columns * k)?;
        return Some(needs.write(y, 4).table(dtype));
    }
    let format = mlx::from_code(code)?;
    k.0.is_multiple_of(format.group() as u64).then_some(())?;
    Some(mlx::gpu::read_planes(needs, format, batches * columns * k)?.write(y, 4))
}
