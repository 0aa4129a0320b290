//! `causal_conv` on the CPU: a tile is a block of channels of a sequence; channels are lanes.

use super::{CausalConv, ConvExtents, MOST_WIDTH};
use crate::cpu::{Simd, math, native_kernel};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Channels of a tile.
const BLOCK: usize = 64;

/// Tiles of channels.
pub(super) struct CpuConv;

impl Kernel for CpuConv {
    type Op = CausalConv;

    fn name(&self) -> &'static str {
        "causal_conv.channels.cpu"
    }

    fn fits(&self, _op: &CausalConv, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if io.inputs.iter().any(|info| u32::try_from(info.elements()).is_err()) {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &CausalConv, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = ConvExtents::of(io) else { return Plan::default() };
        let [sequences, tokens, channels, width] = extents.words();
        let args = [0, 1, 2, 3, 4].map(Arg::slot);
        let params = [sequences, tokens, channels, width, u32::from(op.silu)];
        let grid = [channels.div_ceil(BLOCK as u32), sequences, 1];
        Plan::launch(Program::Native(&CHANNELS), &args, &params, grid)
    }
}

// SAFETY: a tile reads and writes its own channels of its own sequence; a state is read before it is written.
native_kernel!(unsafe CHANNELS, "causal_conv.channels.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [sequences, tokens, channels, width] = [0, 1, 2, 3].map(|i| launch.count(i));
    let [blocks, rows] = launch.plane()?;
    if blocks != channels.div_ceil(BLOCK)? || rows != sequences || !(2..=MOST_WIDTH as u64).contains(&width.0)
    {
        return None;
    }
    let (x, state) = (sequences * tokens * channels * 4u32, sequences * channels * Count(width.0 - 1) * 4u32);
    let needs = Needs::new().read(x, 4).read(channels * width * 4u32, 4).read(state, 4);
    Some(needs.write(x, 4).write(state, 4).over(0b100))
}

/// Bindings: x, weights, state, y, new state. Parameters: sequences, tokens, channels, taps, whether to apply silu.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [tokens, channels, width] = [1, 2, 3].map(|i| tile.param(i) as usize);
    let [block, sequence, _] = tile.index.map(|index| index as usize);
    let first = block * BLOCK;
    let count = (channels - first).min(BLOCK);
    let kept = width - 1;
    // Taps and inputs by channel, so that channels are lanes: row `k` is tap or input `k` of the block.
    let mut taps = [[0f32; BLOCK]; MOST_WIDTH];
    let mut before = [[0f32; BLOCK]; MOST_WIDTH];
    // SAFETY: `needs` requires weights and states of these extents; the new state is written below, after these reads.
    let (weights, state) = unsafe {
        let at = (sequence * channels + first) * kept;
        (
            tile.read_part::<f32>(1, first * width..(first + count) * width),
            tile.read_part::<f32>(2, at..at + count * kept),
        )
    };
    for (channel, weights) in weights.chunks_exact(width).enumerate() {
        taps.iter_mut().zip(weights).for_each(|(row, weight)| row[channel] = *weight);
    }
    for (channel, state) in state.chunks_exact(kept).enumerate() {
        before.iter_mut().zip(state).for_each(|(row, value)| row[channel] = *value);
    }
    // SAFETY: x holds `tokens` rows for each sequence, and is only read.
    let input = |t: usize| unsafe {
        let at = (sequence * tokens + t) * channels + first;
        tile.read_part::<f32>(0, at..at + count)
    };
    for t in 0..tokens {
        let mut sums = [0f32; BLOCK];
        for (k, taps) in taps.iter().take(width).enumerate() {
            let add = |x: &[f32], sums: &mut [f32; BLOCK]| {
                let terms = sums.iter_mut().zip(x).zip(taps);
                terms.for_each(|((sum, x), tap)| *sum = S::mul_add(*tap, *x, *sum));
            };
            match (t + k).checked_sub(kept) {
                Some(token) => add(input(token), &mut sums),
                None => add(&before[(t + k) % MOST_WIDTH], &mut sums),
            }
        }
        if tile.param(4) != 0 {
            sums.iter_mut().for_each(|sum| *sum *= math::sigmoid::<S>(*sum));
        }
        let at = (sequence * tokens + t) * channels + first;
        // SAFETY: these channels of the token are of this tile alone.
        unsafe { tile.write::<f32>(3, at..at + count) }.copy_from_slice(&sums[..count]);
    }
    let at = (sequence * channels + first) * kept;
    // SAFETY: these channels' states are of this tile alone; `state`, which may be the same bytes, is not used any more.
    let new = unsafe { tile.write::<f32>(4, at..at + count * kept) };
    for k in 0..kept {
        let places = new.iter_mut().skip(k).step_by(kept);
        match (tokens + k).checked_sub(kept) {
            Some(token) => places.zip(input(token)).for_each(|(place, x)| *place = *x),
            None => places.zip(&before[(tokens + k) % MOST_WIDTH]).for_each(|(place, x)| *place = *x),
        }
    }
}
