//! `rope_cache` on the CPU: a tile is some heads of the cache with the queries that look at them, and a share of the tokens. Of the
//! queries, a share is consecutive tokens. Of keys and values it is the sets of sixteen slots of one remainder, and tokens in order, so that
//! of several tokens for one slot the last stays. Tokens that fill a set in lanes are stored together.

use super::{RopeCache, RopeCacheExtents};
use crate::attention::{KEY_LANES, MOST_KEY_DIM};
use crate::cache_write::{CacheRow, SetWorkspace, cache_bytes, prefetch_set, store_row, store_set};
use crate::cpu::element::code;
use crate::cpu::{Simd, TILE, native_kernel};
use crate::elementwise::fits_cpu;
use crate::rope::RopeStyle;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::F32Kernels;
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::turbo::{HEAD_LENGTHS, rotate};

/// The longest head: one is turned in a buffer of this many elements.
const LONGEST: usize = MOST_KEY_DIM;
/// The most shares of the tokens.
const MOST_SHARES: usize = 16;

const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
const TABLE: usize = 3;
const SLOTS: usize = 4;
const QUERIES: usize = 5;
const KEYS: usize = 6;
const VALUES: usize = 7;

/// Tiles of heads.
pub(super) struct CpuRopeCache;

impl Kernel for CpuRopeCache {
    type Op = RopeCache;

    fn name(&self) -> &'static str {
        "rope_cache.heads.cpu"
    }

    fn fits(&self, _op: &RopeCache, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let extents = RopeCacheExtents::of(io).ok_or(Decline("takes extents of at most 32 bits"))?;
        if extents.dim > LONGEST {
            return Err(Decline("takes heads of at most 576 elements"));
        }
        if !extents.heads.is_multiple_of(extents.kv_heads) {
            return Err(Decline("takes as many queries for each head of the cache"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &RopeCache, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = RopeCacheExtents::of(io) else { return Plan::default() };
        let RopeCacheExtents { tokens, heads, kv_heads, dim, value_dim, pairs, capacities, in_lanes } =
            extents;
        let [key_limit, value_limit] = extents.limits(io);
        let each = tokens * (heads * dim / kv_heads.max(1) + dim + value_dim);
        let together = (TILE / each.max(1)).clamp(1, kv_heads.max(1));
        let [key_capacity, value_capacity] = capacities;
        let shares = (together * each / TILE).clamp(1, MOST_SHARES).min(tokens.max(1));
        let words = [
            tokens,
            heads,
            kv_heads,
            dim,
            value_dim,
            pairs,
            together,
            key_capacity,
            value_capacity,
            key_limit,
            value_limit,
            usize::from(op.style == RopeStyle::Halves),
        ];
        let mut params: smallvec::SmallVec<[u32; 16]> = words.iter().map(|&word| word as u32).collect();
        params.extend([code(io.output(1).dtype), code(io.output(2).dtype)]);
        params.extend(in_lanes.into_iter().chain(op.rotated).map(u32::from));
        let args: smallvec::SmallVec<[Arg; 8]> = (0..8).map(Arg::slot).collect();
        let grid = [kv_heads.div_ceil(together) as u32, shares as u32, 1];
        Plan::launch(Program::Native(&HEADS), &args, &params, grid)
    }
}

// SAFETY: a slot is checked against those that may be written, which are at most those of a head, before it is used. A tile
// has queries of its own, and of heads of the cache the slots of its remainder; where queries are q, a head is read before it is written.
native_kernel!(unsafe HEADS, "rope_cache.heads.cpu", run::<S>, needs needs, workspace size_of::<SetWorkspace>());

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, kv_heads, dim, value_dim, pairs] = [0, 1, 2, 3, 4, 5].map(|i| launch.count(i));
    let [together, key_capacity, value_capacity, key_limit, value_limit] =
        [6, 7, 8, 9, 10].map(|i| launch.count(i));
    let [across, shares] = launch.plane()?;
    let is_covered = across == kv_heads.div_ceil(together)?.max(Count(1)) && shares != Count(0);
    let is_grouped = kv_heads != Count(0) && heads.0.is_multiple_of(kv_heads.0);
    let is_inside = key_limit <= key_capacity && value_limit <= value_capacity;
    if !is_covered || !is_grouped || !is_inside || dim > Count::from(LONGEST) {
        return None;
    }
    let [key_lanes, value_lanes] = [14, 15].map(|i| launch.param(i) != 0);
    let (keys, key_align) = cache_bytes(launch.param(12), key_lanes, [kv_heads, key_capacity, dim])?;
    let (values, value_align) =
        cache_bytes(launch.param(13), value_lanes, [kv_heads, value_capacity, value_dim])?;
    let q = tokens * heads * dim * 4u32;
    let needs = Needs::new()
        .read(q, 4)
        .read(tokens * kv_heads * dim * 4u32, 4)
        .read(tokens * kv_heads * value_dim * 4u32, 4)
        .read(tokens * pairs * 8u32, 4)
        .read(tokens * 4u32, 4);
    Some(needs.write(q, 4).over(1 << Q).write(keys, key_align).write(values, value_align))
}

/// Bindings: q, k, v, table, slots, queries, keys, values. Parameters: tokens, heads, heads of the cache, elements of a head and
/// of a value, pairs, heads of a tile, slots of keys and of values, slots of each that may be written, whether pairs are of
/// two halves, types of keys and of values, whether each is in lanes, whether each is rotated.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd + F32Kernels>(tile: &Tile<'_>) {
    let [tokens, heads, kv_heads, dim, value_dim, pairs] = [0, 1, 2, 3, 4, 5].map(|i| tile.param(i) as usize);
    let [together, key_capacity, value_capacity, key_limit, value_limit] =
        [6, 7, 8, 9, 10].map(|i| tile.param(i) as usize);
    let (halves, group) = (tile.param(11) != 0, heads / kv_heads);
    let cache = |binding: usize, i: usize, row: usize| {
        let (code, in_lanes) = (tile.param(12 + i), tile.param(14 + i) != 0);
        CacheRow { binding, code, in_lanes, row }
    };
    let first = tile.index[0] as usize * together;
    let all = first..(first + together).min(kv_heads);
    let (share, shares) = (tile.index[1] as usize, tile.grid[1] as usize);
    let (mut buffer, mut value_buffer) = ([0.0; LONGEST], [0.0; *HEAD_LENGTHS.end()]);
    let turned = &mut buffer[..dim];
    let [has_rotated_keys, has_rotated_values] = [16, 17].map(|i| tile.param(i) != 0);
    // Queries and keys are turned, then rotated. `turn` is called where it is inlined: a closure would lack the instruction set.
    let rotate_turned = |y: &mut [f32]| {
        if has_rotated_keys {
            rotate(y);
        }
    };
    // SAFETY: `needs` requires a word for each token, in a binding that is only read.
    let slots = unsafe { tile.read_part::<u32>(SLOTS, 0..tokens) };
    // The next tokens of a prompt write to the same lines.
    if let [slot] = *slots {
        for head in all.clone() {
            prefetch_set(tile, cache(KEYS, 0, (head * key_capacity).wrapping_add(slot as usize)), dim);
        }
    }
    // SAFETY: `needs` requires a table of `pairs` pairs for each token.
    let turns =
        |token: usize| unsafe { tile.read_part::<f32>(TABLE, token * pairs * 2..(token + 1) * pairs * 2) };
    for token in share * tokens / shares..(share + 1) * tokens / shares {
        for query in all.start * group..all.end * group {
            let at = (token * heads + query) * dim;
            // SAFETY: the head is of this tile alone, and read before it is written: queries may be q.
            unsafe {
                turn::<S>(tile.read_part::<f32>(Q, at..at + dim), turns(token), halves, turned);
                rotate_turned(turned);
                tile.write::<f32>(QUERIES, at..at + dim).copy_from_slice(turned);
            }
        }
    }
    let key_lanes = tile.param(14) != 0;
    let [rows, set] = match key_lanes && tokens >= KEY_LANES {
        // SAFETY: the workspace is this tile's alone; `needs` requires a dim of at most `LONGEST`.
        true => unsafe { SetWorkspace::slices(tile.workspace::<SetWorkspace>().as_mut_ptr(), dim) },
        false => [&mut [][..], &mut []],
    };
    let mut token = 0;
    while let Some(&[slot, ..]) = slots.get(token..) {
        let slot = slot as usize;
        if slot / KEY_LANES % shares != share {
            token += 1;
            continue;
        }
        let is_set = !rows.is_empty()
            && key_limit.checked_sub(KEY_LANES).is_some_and(|last| slot <= last)
            && begins_set(slots.get(token..).unwrap_or_default());
        let count = if is_set { KEY_LANES } else { 1 };
        for head in all.clone() {
            let from = |token: usize, dim: usize| {
                (token * kv_heads + head) * dim..(token * kv_heads + head + 1) * dim
            };
            let key = cache(KEYS, 0, head * key_capacity + slot);
            // SAFETY: rows are of these tokens and this head. Slots are below the limits, which `needs` keeps within the capacities, and their
            // set is of this tile alone.
            unsafe {
                if is_set {
                    for (token, row) in (token..).zip(rows.chunks_exact_mut(dim)) {
                        turn::<S>(tile.read_part::<f32>(K, from(token, dim)), turns(token), halves, row);
                        rotate_turned(row);
                    }
                    store_set::<S>(tile, key, rows, set);
                } else if slot < key_limit {
                    turn::<S>(tile.read_part::<f32>(K, from(token, dim)), turns(token), halves, turned);
                    rotate_turned(turned);
                    store_row::<S>(tile, key, turned);
                }
                for i in (0..count).take_while(|i| slot + i < value_limit) {
                    let mut values = tile.read_part::<f32>(V, from(token + i, value_dim));
                    if let Some(rotated) = value_buffer.get_mut(..value_dim).filter(|_| has_rotated_values) {
                        rotated.copy_from_slice(values);
                        rotate(rotated);
                        values = rotated;
                    }
                    store_row::<S>(tile, cache(VALUES, 1, head * value_capacity + slot + i), values);
                }
            }
        }
        token += count;
    }
}

/// Whether the first slots are those of a whole set, in order.
#[inline(always)]
fn begins_set(slots: &[u32]) -> bool {
    let Some(&[first, ..]) = slots.get(..KEY_LANES) else { return false };
    first.is_multiple_of(KEY_LANES as u32)
        && slots.iter().take(KEY_LANES).zip(first..).all(|(slot, i)| *slot == i)
}

/// A head turned by the cosines and sines of its pairs. Elements past the pairs stay as they are.
#[inline(always)]
fn turn<S: Simd>(x: &[f32], turns: &[f32], halves: bool, y: &mut [f32]) {
    let turns = turns.as_chunks::<2>().0;
    y.copy_from_slice(x);
    if halves {
        let (a, b) = (x, x.get(turns.len()..).unwrap_or(&[]));
        let (low, high) = y.split_at_mut(turns.len().min(y.len()));
        for ((([c, s], a), b), (low, high)) in turns.iter().zip(a).zip(b).zip(low.iter_mut().zip(high)) {
            *low = S::mul_add(*a, *c, -b * s);
            *high = S::mul_add(*b, *c, a * s);
        }
    } else {
        let pairs = x.as_chunks::<2>().0.iter().zip(y.as_chunks_mut::<2>().0);
        for ([c, s], ([a, b], y)) in turns.iter().zip(pairs) {
            *y = [S::mul_add(*a, *c, -b * s), S::mul_add(*b, *c, a * s)];
        }
    }
}
