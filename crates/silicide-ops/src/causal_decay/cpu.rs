//! `causal_decay` on the CPU: a tile is a matrix of a head.

use super::{CausalDecay, DecayExtents};
use crate::cpu::{Simd, math, native_kernel};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Tiles of a matrix.
pub(super) struct CpuDecay;

impl Kernel for CpuDecay {
    type Op = CausalDecay;

    fn name(&self) -> &'static str {
        "causal_decay.heads.cpu"
    }

    fn fits(&self, _op: &CausalDecay, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if io.inputs.iter().chain(io.outputs).any(|info| u32::try_from(info.elements()).is_err()) {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &CausalDecay, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = DecayExtents::of(io) else { return Plan::default() };
        let [chunks, groups, heads, n] = extents.words();
        let params = [chunks, groups, heads, n, u32::from(op.diagonal)];
        Plan::launch(Program::Native(&HEADS), &[0, 1, 2].map(Arg::slot), &params, [heads, chunks, 1])
    }
}

// SAFETY: a tile reads a matrix of its group and the sums of its head, and writes its head's matrix.
native_kernel!(unsafe HEADS, "causal_decay.heads.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [chunks, groups, heads, n] = [0, 1, 2, 3].map(|i| launch.count(i));
    let fits = launch.plane()? == [heads, chunks]
        && launch.param(2).checked_rem(launch.param(1)) == Some(0)
        && launch.param(4) <= 1;
    let needs = Needs::new().read(chunks * groups * n * n * 4u32, 4).read(chunks * heads * n * 4u32, 4);
    fits.then(|| needs.write(chunks * heads * n * n * 4u32, 4))
}

/// Bindings: x, g, y. Parameters: chunks, groups, heads, rows of a matrix, whether the diagonal is kept.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [groups, heads, n, diagonal] = [1, 2, 3, 4].map(|i| tile.param(i) as usize);
    let [head, chunk, _] = tile.index.map(|index| index as usize);
    let group = chunk * groups + head / (heads / groups);
    let of_head = chunk * heads + head;
    // SAFETY: `needs` requires matrices and sums of these extents; the head's matrix is of this tile alone.
    let (x, g, y) = unsafe {
        (
            tile.read_part::<f32>(0, group * n * n..(group + 1) * n * n),
            tile.read_part::<f32>(1, of_head * n..(of_head + 1) * n),
            tile.write::<f32>(2, of_head * n * n..(of_head + 1) * n * n),
        )
    };
    for (i, (x, y)) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)).enumerate() {
        let (kept, rest) = y.split_at_mut(i + diagonal);
        let last = g[i];
        for ((y, x), g) in kept.iter_mut().zip(x).zip(g) {
            *y = x * math::exp::<S>(last - g);
        }
        rest.fill(0.0);
    }
}
