//! The needs of the programs of products on GPUs.

use crate::weight;
use silicide_hal::{Count, LaunchShape, Needs};
use silicide_quant::Encoding;

/// Facts of a program: the encoding of its weights, and the depth that passes through shared memory at a time, where depths must be
/// whole steps of it. Two more may follow: the alignment in bytes that activations need, and weights in one plane.
pub(crate) fn facts(weights: Encoding, step: usize) -> [u32; 2] {
    [weight::code(weights).unwrap_or(u32::MAX), step as u32]
}

/// Activations, weights, outputs, and the table of a format that has one. Parameters: rows, columns, depth, batches, outputs from
/// one row to the next, the first column of the launch.
pub(crate) fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, columns, k, batches, stride, first] = [0, 1, 2, 3, 4, 5].map(|i| launch.count(i));
    let (encoding, step) = (weight::from_code(launch.fact(0))?, launch.fact(1));
    // Rows are whole groups.
    let is_whole =
        launch.param(2).is_multiple_of(step.max(1)) && k.0.is_multiple_of(encoding.group_len() as u64);
    if rows == Count(0) || columns == Count(0) || first + columns > stride || !is_whole {
        return None;
    }
    let needs = Needs::new().read(batches * rows * k * 4u32, 4).aligned(launch.fact(2));
    let needs = weight::gpu::read_planes(needs, encoding, batches * columns * k)?.aligned(launch.fact(3));
    Some(weight::gpu::read_table(needs.write(batches * rows * stride * 4u32, 4), encoding))
}
