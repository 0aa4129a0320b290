//! `delta_net` on the CPU: a tile is some rows of a head's state, which stay in L1 while the tokens go by.
//!
//! ```text
//! for token:
//!     for row of the tile:
//!         state[row] *= exp(decay);  kept = state[row] . k
//!         state[row] += beta * (v[row] - kept) * k;  y[row] = scale * (state[row] . q)
//! ```

use super::{DeltaExtents, DeltaNet, KeyHeads, MOST_KEY_DIM};
use crate::cpu::{Simd, math, native_kernel};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Rows of a tile: 16 KiB of a state of 256 columns.
const ROWS: usize = 16;

/// Tiles of a head's rows.
pub(super) struct CpuDeltaNet;

impl Kernel for CpuDeltaNet {
    type Op = DeltaNet;

    fn name(&self) -> &'static str {
        "delta_net.rows.cpu"
    }

    fn fits(&self, _op: &DeltaNet, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if io.inputs.iter().any(|info| u32::try_from(info.elements()).is_err()) {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &DeltaNet, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = DeltaExtents::of(io) else { return Plan::default() };
        let [sequences, tokens, key_heads, heads, key_dim, value_dim] = extents.words();
        let tiled = u32::from(op.key_heads == KeyHeads::Tiled);
        let params = [sequences, tokens, key_heads, heads, key_dim, value_dim, tiled, op.scale.to_bits()];
        let args = [0, 1, 2, 3, 4, 5, 6, 7].map(Arg::slot);
        let grid = [value_dim.div_ceil(ROWS as u32), heads, sequences];
        Plan::launch(Program::Native(&HEAD_ROWS), &args, &params, grid)
    }
}

// SAFETY: a tile reads what its sequence has of its head and of the head's keys, and writes its own rows of results and of the
// state, which it alone reads.
native_kernel!(unsafe HEAD_ROWS, "delta_net.rows.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [sequences, tokens, key_heads, heads, key_dim, value_dim] =
        [0, 1, 2, 3, 4, 5].map(|i| launch.count(i));
    let grid = [launch.param(5).div_ceil(ROWS as u32), launch.param(3), launch.param(0)];
    let fits = launch.grid == grid
        && key_dim.0 <= MOST_KEY_DIM as u64
        && launch.param(3).checked_rem(launch.param(2)) == Some(0)
        && launch.param(6) <= 1;
    let rows = sequences * tokens;
    let (keys, values) = (rows * key_heads * key_dim * 4u32, rows * heads * value_dim * 4u32);
    let (scalars, state) = (rows * heads * 4u32, sequences * heads * value_dim * key_dim * 4u32);
    let needs = Needs::new().read(keys, 4).read(keys, 4).read(values, 4).read(scalars, 4).read(scalars, 4);
    fits.then(|| needs.read(state, 4).write(values, 4).write(state, 4).over(0b10_0000))
}

/// Bindings: q, k, v, decay, beta, state, y, new state. Parameters: the extents, whether heads of keys are taken in turn, and the scale.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [tokens, key_heads, heads, key_dim, value_dim] = [1, 2, 3, 4, 5].map(|i| tile.param(i) as usize);
    let [block, head, sequence] = tile.index.map(|index| index as usize);
    let key_head = if tile.param(6) != 0 { head % key_heads } else { head / (heads / key_heads) };
    let scale = tile.param_f32(7);
    let first = block * ROWS;
    let count = (value_dim - first).min(ROWS);
    let at = ((sequence * heads + head) * value_dim + first) * key_dim;
    let mut state = [[0f32; MOST_KEY_DIM]; ROWS];
    // SAFETY: `needs` requires states of these extents; these rows are of this tile alone.
    let before = unsafe { tile.read_part::<f32>(5, at..at + count * key_dim) };
    for (row, before) in state.iter_mut().zip(before.chunks_exact(key_dim)) {
        row[..key_dim].copy_from_slice(before);
    }
    for token in sequence * tokens..(sequence + 1) * tokens {
        let from = (token * key_heads + key_head) * key_dim;
        let scalar = token * heads + head;
        let values = scalar * value_dim + first;
        // SAFETY: `needs` requires keys, values and scalars for each token; they are only read.
        let (q, k, v, decay, beta) = unsafe {
            (
                tile.read_part::<f32>(0, from..from + key_dim),
                tile.read_part::<f32>(1, from..from + key_dim),
                tile.read_part::<f32>(2, values..values + count),
                tile.read_part::<f32>(3, scalar..scalar + 1)[0],
                tile.read_part::<f32>(4, scalar..scalar + 1)[0],
            )
        };
        let factor = math::exp::<S>(decay);
        // SAFETY: these results are of this tile alone.
        let y = unsafe { tile.write::<f32>(6, values..values + count) };
        for ((row, v), y) in state.iter_mut().zip(v).zip(y) {
            let row = &mut row[..key_dim];
            row.iter_mut().for_each(|s| *s *= factor);
            let delta = beta * (v - math::dot::<S>(row, k));
            row.iter_mut().zip(k).for_each(|(s, k)| *s = S::mul_add(delta, *k, *s));
            *y = scale * math::dot::<S>(row, q);
        }
    }
    // SAFETY: these rows are of this tile alone; `before`, which may be the same bytes, is not used any more.
    let after = unsafe { tile.write::<f32>(7, at..at + count * key_dim) };
    for (row, after) in state.iter().zip(after.chunks_exact_mut(key_dim)) {
        after.copy_from_slice(&row[..key_dim]);
    }
}
