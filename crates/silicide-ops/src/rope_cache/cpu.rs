//! `rope_cache` on the CPU: a tile is some heads of the cache with the queries that look at them, and all tokens in order, so
//! that of several tokens for one slot the last stays.

use super::{RopeCache, RopeCacheExtents};
use crate::attention::MOST_KEY_DIM;
use crate::cache_write::{CacheRow, cache_bytes, prefetch_set, store_row};
use crate::cpu::element::code;
use crate::cpu::needs::in_tiles_of;
use crate::cpu::{Simd, TILE, native_kernel};
use crate::elementwise::fits_cpu;
use crate::rope::RopeStyle;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};

/// The longest head: one is turned in a buffer of this many elements.
const LONGEST: usize = MOST_KEY_DIM;

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
        params.extend(in_lanes.map(u32::from));
        let args: smallvec::SmallVec<[Arg; 8]> = (0..8).map(Arg::slot).collect();
        let grid = [kv_heads.div_ceil(together) as u32, 1, 1];
        Plan::launch(Program::Native(&HEADS), &args, &params, grid)
    }
}

// SAFETY: a slot is checked against those that may be written, which are at most those of a head, before it is used. A tile
// has heads of the cache of its own, and the queries that look at them; where queries are q, a head is read before it is written.
native_kernel!(unsafe HEADS, "rope_cache.heads.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, kv_heads, dim, value_dim, pairs] = [0, 1, 2, 3, 4, 5].map(|i| launch.count(i));
    let [together, key_capacity, value_capacity, key_limit, value_limit] =
        [6, 7, 8, 9, 10].map(|i| launch.count(i));
    in_tiles_of(launch, kv_heads, together)?;
    let is_grouped = kv_heads != Count(0) && heads.0.is_multiple_of(kv_heads.0);
    let is_inside = key_limit <= key_capacity && value_limit <= value_capacity;
    if !is_grouped || !is_inside || dim > Count::from(LONGEST) {
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
/// two halves, types of keys and of values, whether each is in lanes.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [tokens, heads, kv_heads, dim, value_dim, pairs] = [0, 1, 2, 3, 4, 5].map(|i| tile.param(i) as usize);
    let [together, key_capacity, value_capacity, key_limit, value_limit] =
        [6, 7, 8, 9, 10].map(|i| tile.param(i) as usize);
    let (halves, group) = (tile.param(11) != 0, heads / kv_heads);
    let cache = |binding: usize, i: usize, row: usize| {
        let (code, in_lanes) = (tile.param(12 + i), tile.param(14 + i) != 0);
        CacheRow { binding, code, in_lanes, row }
    };
    let first = tile.index[0] as usize * together;
    let mut buffer = [0.0; LONGEST];
    // SAFETY: `needs` requires a word for each token, in a binding that is only read.
    let slots = unsafe { tile.read_part::<u32>(SLOTS, 0..tokens) };
    for (token, &slot) in slots.iter().enumerate() {
        // SAFETY: `needs` requires a table of `pairs` pairs for each token.
        let turns = unsafe { tile.read_part::<f32>(TABLE, token * pairs * 2..(token + 1) * pairs * 2) };
        let turned = &mut buffer[..dim];
        let slot = slot as usize;
        // The next tokens of a prompt write to the same lines.
        for head in (first..(first + together).min(kv_heads)).filter(|_| tokens == 1) {
            prefetch_set(tile, cache(KEYS, 0, head * key_capacity + slot), dim);
        }
        for head in first..(first + together).min(kv_heads) {
            for query in head * group..(head + 1) * group {
                let at = (token * heads + query) * dim;
                // SAFETY: the head is of this tile alone, and read before it is written: queries may be q.
                unsafe {
                    turn::<S>(tile.read_part::<f32>(Q, at..at + dim), turns, halves, turned);
                    tile.write::<f32>(QUERIES, at..at + dim).copy_from_slice(turned);
                }
            }
            let row = token * kv_heads + head;
            if slot < key_limit {
                // SAFETY: the row is of this token and head; the slot exists, and is of this tile alone.
                unsafe {
                    turn::<S>(tile.read_part::<f32>(K, row * dim..(row + 1) * dim), turns, halves, turned);
                    store_row::<S>(tile, cache(KEYS, 0, head * key_capacity + slot), turned);
                }
            }
            if slot < value_limit {
                // SAFETY: the row is of this token and head; `slot` is below the limit, which `needs` keeps within the capacity,
                // and the head is of this tile alone.
                unsafe {
                    let values = tile.read_part::<f32>(V, row * value_dim..(row + 1) * value_dim);
                    store_row::<S>(tile, cache(VALUES, 1, head * value_capacity + slot), values);
                }
            }
        }
    }
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
