//! `weighted_sum` on the CPU: a tile is a run of outputs, a part of a sum or several sums.

use super::{WeightedSum, WeightedSumExtents};
use crate::cpu::needs::{elements, in_tiles};
use crate::cpu::{CHUNK, Simd, chunks, native_kernel, tiles};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Tiles of outputs.
pub(super) struct CpuWeightedSum;

impl Kernel for CpuWeightedSum {
    type Op = WeightedSum;

    fn name(&self) -> &'static str {
        "weighted_sum.elements.cpu"
    }

    fn fits(&self, _op: &WeightedSum, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let WeightedSumExtents { count, n, .. } = WeightedSumExtents::of(io);
        if u32::try_from(count).is_err() || u32::try_from(n).is_err() {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, _op: &WeightedSum, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let WeightedSumExtents { count, n, .. } = WeightedSumExtents::of(io);
        let args = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];
        Plan::launch(Program::Native(&SUM), &args, &[count as u32, n as u32], tiles(io.output(0).elements()))
    }
}

// SAFETY: output `i` is of sum `i / n`, which reads column `i % n` of `count` rows and their weights; a tile writes its own
// outputs.
native_kernel!(unsafe SUM, "weighted_sum.elements.cpu", run::<S>, needs needs);

/// The length of y is the number of outputs.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (count, n) = (launch.count(0), launch.count(1));
    let outputs = elements(launch, 2, 4);
    in_tiles(launch, outputs)?;
    let rows = outputs.div_ceil(n)? * count;
    Some(Needs::new().read(rows * n * 4u32, 4).read(rows * 4u32, 4).write(outputs * 4u32, 4).extent())
}

/// Bindings: x, weights, y. Parameters: rows of a sum, their length.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [count, n] = [0, 1].map(|i| tile.param(i) as usize);
    for run in chunks(tile, tile.bytes(2) / 4) {
        let mut at = run.start;
        while at < run.end {
            let (sum, column) = (at / n, at % n);
            let length = (n - column).min(run.end - at);
            let mut sums = [0f32; CHUNK];
            let sums = sums.get_mut(..length).unwrap_or_default();
            for i in sum * count..(sum + 1) * count {
                // SAFETY: `needs` requires rows and weights of these extents.
                let (x, weight) = unsafe {
                    (
                        tile.read_part::<f32>(0, i * n + column..i * n + column + length),
                        tile.read_part::<f32>(1, i..i + 1),
                    )
                };
                let weight = weight.first().copied().unwrap_or(0.0);
                sums.iter_mut().zip(x).for_each(|(sum, x)| *sum = S::mul_add(weight, *x, *sum));
            }
            // SAFETY: these outputs are of this tile alone.
            unsafe { tile.write::<f32>(2, at..at + length) }.copy_from_slice(sums);
            at += length;
        }
    }
}
