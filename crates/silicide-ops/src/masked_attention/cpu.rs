//! `masked_attention` on the CPU: a tile is a query of a head. Keys are folded in order, a block at a time.
//!
//! ```text
//! for block of 64 keys:
//!     scores = scale * q . k + mask;  largest = max(largest, scores);  sums *= exp(old largest - largest)
//!     for key of the block: w = exp(score - largest);  sum += w;  sums += w * v
//! ```

use super::{MOST_KEY_DIM, MOST_VALUE_DIM, MaskedAttention, MaskedExtents};
use crate::cpu::element::{code, size, view_coded};
use crate::cpu::{Simd, math, native_kernel};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::DType;

/// Keys of a block.
const BLOCK: usize = 64;
/// The type word of a mask of bytes.
const BYTES: u32 = DType::U8.code();

/// Tiles of a query.
pub(super) struct CpuMasked;

impl Kernel for CpuMasked {
    type Op = MaskedAttention;

    fn name(&self) -> &'static str {
        "masked_attention.queries.cpu"
    }

    fn fits(&self, _op: &MaskedAttention, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if io.inputs.iter().any(|info| u32::try_from(info.elements()).is_err()) {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &MaskedAttention, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = MaskedExtents::of(io) else { return Plan::default() };
        let types = [1, 2, 3].map(|i| code(io.input(i).dtype));
        let params: Vec<u32> = extents
            .words()
            .into_iter()
            .chain(types)
            .chain([op.scale.to_bits(), u32::from(op.sinks)])
            .collect();
        let slots = if op.sinks { 6 } else { 5 };
        let args: Vec<Arg> = (0..slots).map(Arg::slot).collect();
        let grid = [extents.heads as u32, extents.tokens as u32, 1];
        Plan::launch(Program::Native(&QUERIES), &args, &params, grid)
    }
}

// SAFETY: a tile reads its query, its row of the mask, and keys and values of its head below `keys`, and writes its result.
native_kernel!(unsafe QUERIES, "masked_attention.queries.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, kv_heads, dim, value_dim, capacity, keys, by_head] =
        [0, 1, 2, 3, 4, 5, 6, 7].map(|i| launch.count(i));
    let fits = launch.plane()? == [heads, tokens]
        && launch.param(1).checked_rem(launch.param(2)) == Some(0)
        && keys <= capacity
        && launch.param(12) <= 1
        && dim <= Count::from(MOST_KEY_DIM)
        && value_dim <= Count::from(MOST_VALUE_DIM);
    let masks = if by_head == Count(0) { tokens } else { tokens * heads };
    let of_mask = if launch.param(10) == BYTES { 1 } else { size(launch.param(10)) };
    let [of_keys, of_values] = [8, 9].map(|i| size(launch.param(i)));
    let needs = Needs::new()
        .read(tokens * heads * dim * 4u32, 4)
        .read(kv_heads * capacity * dim * of_keys, of_keys)
        .read(kv_heads * capacity * value_dim * of_values, of_values)
        .read(masks * keys * of_mask, of_mask);
    let needs = if launch.param(12) != 0 { needs.read(heads * 4u32, 4) } else { needs };
    fits.then(|| needs.write(tokens * heads * value_dim * 4u32, 4))
}

/// Bindings: q, k, v, mask, sinks if there are, y. Parameters: the extents, the types of k, v and mask, the scale, whether there are sinks.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [tokens, heads, kv_heads, dim, value_dim, capacity, keys, by_head] =
        [0, 1, 2, 3, 4, 5, 6, 7].map(|i| tile.param(i) as usize);
    let [of_keys, of_values, of_mask] = [8, 9, 10].map(|i| tile.param(i));
    let (scale, sinks) = (tile.param_f32(11), tile.param(12) as usize);
    let [head, token, _] = tile.index.map(|index| index as usize);
    let row = token * heads + head;
    let first = head / (heads / kv_heads) * capacity;
    let mask_row = if by_head != 0 { head * tokens + token } else { token };
    // SAFETY: `needs` requires queries of these extents.
    let query = unsafe { tile.read_part::<f32>(0, row * dim..(row + 1) * dim) };
    let mut sums = [0f32; MOST_VALUE_DIM];
    let sums = &mut sums[..value_dim];
    let (mut largest, mut total) = (f32::NEG_INFINITY, 0f32);
    for start in (0..keys).step_by(BLOCK) {
        let count = (keys - start).min(BLOCK);
        let mut scores = [f32::NEG_INFINITY; BLOCK];
        let at = mask_row * keys + start;
        if of_mask == BYTES {
            // SAFETY: `needs` requires a byte for each key of each row of the mask.
            let shown = unsafe { tile.read_part::<u8>(3, at..at + count) };
            scores
                .iter_mut()
                .zip(shown)
                .filter(|(_, shown)| **shown != 0)
                .for_each(|(score, _)| *score = 0.0);
        } else {
            let mut room = [0f32; BLOCK];
            // SAFETY: `needs` requires an element for each key of each row of the mask.
            let added = unsafe { view_coded::<S>(tile, 3, of_mask, at, &mut room[..count]) };
            scores[..count].copy_from_slice(added);
        }
        let mut best = largest;
        let mut seen = false;
        for (j, score) in scores.iter_mut().enumerate().take(count) {
            if *score == f32::NEG_INFINITY {
                continue;
            }
            let mut room = [0f32; MOST_KEY_DIM];
            // SAFETY: `needs` requires `capacity` keys for each head, and `keys` of them are seen at most.
            let key =
                unsafe { view_coded::<S>(tile, 1, of_keys, (first + start + j) * dim, &mut room[..dim]) };
            *score = S::mul_add(scale, math::dot::<S>(query, key), *score);
            best = if *score > best { *score } else { best };
            seen = true;
        }
        if !seen {
            continue;
        }
        if best > largest {
            let factor = math::exp::<S>(largest - best);
            sums.iter_mut().for_each(|sum| *sum *= factor);
            total *= factor;
            largest = best;
        }
        for (j, score) in scores.iter().enumerate().take(count) {
            let weight = if *score == f32::NEG_INFINITY { 0.0 } else { math::exp::<S>(*score - largest) };
            if weight == 0.0 {
                continue;
            }
            total += weight;
            let mut room = [0f32; MOST_VALUE_DIM];
            // SAFETY: as for keys.
            let value = unsafe {
                view_coded::<S>(tile, 2, of_values, (first + start + j) * value_dim, &mut room[..value_dim])
            };
            sums.iter_mut().zip(value).for_each(|(sum, v)| *sum = S::mul_add(weight, *v, *sum));
        }
    }
    if sinks != 0 {
        // SAFETY: `needs` requires a sink for each head.
        let sink = unsafe { tile.read_part::<f32>(4, head..head + 1)[0] };
        if sink != f32::NEG_INFINITY {
            let best = if sink > largest { sink } else { largest };
            let factor = math::exp::<S>(largest - best);
            sums.iter_mut().for_each(|sum| *sum *= factor);
            total = total * factor + math::exp::<S>(sink - best);
        }
    }
    // SAFETY: the query's result is of this tile alone.
    let y = unsafe { tile.write::<f32>(4 + sinks, row * value_dim..(row + 1) * value_dim) };
    let factor = if total == 0.0 { 0.0 } else { total.recip() };
    y.iter_mut().zip(sums).for_each(|(y, sum)| *y = *sum * factor);
}
