//! The keys and values of a block, as the microkernels read them: keys in lanes, values row by row.
//!
//! For few rows, caches of f32, f16 and bf16 are read in place, if keys lie in lanes and the block does not pass the end of the ring. Otherwise
//! the block is decoded to f32 in the workspace: once for all rows of a tile. Both hold the same numbers, so the bits are the same.

use super::rows::zeros;
use super::{Call, Extents, K, PAGE, V};
use crate::attention::{MOST_DIM, MOST_KEY_DIM};
use crate::cpu::Simd;
use crate::cpu::element::read_coded;
use silicide_gemm::f32::{DenseRows, F32Kernels, KEY_LANES, SUM_PADDING, transpose_keys};
use silicide_hal::Tile;
use silicide_quant::{DType, decode_into};
use std::ops::Range;

/// Codes of plain types are below this.
const PLAIN: u32 = DType::ALL.len() as u32;

/// Prefetch distance in keys. The microkernel of scores reads up to 64 keys side by side, so it is more than that; L1 holds as many of the keys and
/// values of a head of 128 elements. The last keys of a block are followed by the first of the next.
const AHEAD: usize = 96;

/// The type of a code.
#[inline(always)]
fn dtype(code: u32) -> DType {
    DType::from_code(code).unwrap_or(DType::F32)
}

/// Memory for the keys and values of a block, decoded.
#[repr(C, align(64))]
pub(super) struct PageWorkspace {
    keys: [f32; PAGE * MOST_KEY_DIM],
    values: [f32; PAGE * MOST_DIM],
    /// Keys of a set, row by row.
    rows: [f32; KEY_LANES * MOST_KEY_DIM],
}

/// Keys and values of the positions of a block that some row sees.
pub(super) struct Page<'a> {
    /// Sets of keys, the first of which is set `first_set` of the block.
    pub(super) keys: DenseRows<'a>,
    pub(super) first_set: usize,
    /// Values, of which the first is that of key `first` of the block.
    pub(super) values: DenseRows<'a>,
    pub(super) first: usize,
    /// Prefetch distances in bytes of keys and values that are read in place.
    pub(super) ahead: [Option<usize>; 2],
}

/// Some slots of a head, one after the other, and the position of the first.
struct Slots {
    position: usize,
    first: usize,
    count: usize,
}

impl<'a> Call<'a> {
    /// Returns `positions`, which are all in the cache, as runs of slots: one, or two where they pass the end of the ring.
    #[inline(always)]
    fn slots(&self, positions: Range<usize>) -> impl Iterator<Item = Slots> + use<> {
        let (capacity, mut at) = (self.extents.capacity, positions.start);
        std::iter::from_fn(move || {
            let first = at % capacity;
            let slots = Slots { position: at, first, count: (positions.end - at).min(capacity - first) };
            at += slots.count;
            (slots.count > 0).then_some(slots)
        })
    }

    /// Returns the keys and values of `positions` of a head, which are of the block that begins at `base`. They are read in place if
    /// `in_place`, where that is possible. None if a microkernel refuses extents.
    ///
    /// # Safety
    /// The CPU has `S`; `kv_head` is a head of the cache. `workspace` is the caller's alone,
    /// until the page is no longer used.
    #[inline(always)]
    pub(super) unsafe fn page<S: Simd + F32Kernels>(
        &self,
        kv_head: usize,
        base: usize,
        positions: Range<usize>,
        in_place: bool,
        workspace: *mut PageWorkspace,
    ) -> Option<Page<'a>> {
        let [key_size, value_size] = self.types.map(|code| dtype(code).size());
        let Extents { dim, value_dim, .. } = self.extents;
        let first = positions.start - base;
        // SAFETY: this function has the conditions of both.
        unsafe {
            let (keys, is_key) = self.keys::<S>(kv_head, positions.clone(), in_place, workspace)?;
            let (values, is_value) = self.values::<S>(kv_head, positions, in_place, workspace)?;
            let ahead = [
                is_key.then_some(AHEAD * dim * key_size),
                is_value.then_some(AHEAD * value_dim * value_size),
            ];
            Some(Page { keys, first_set: first / KEY_LANES, values, first, ahead })
        }
    }

    /// Returns the sets of keys that have `positions`, and whether they are in place.
    ///
    /// # Safety
    /// As for [`Call::page`].
    #[inline(always)]
    unsafe fn keys<S: Simd + F32Kernels>(
        &self,
        kv_head: usize,
        positions: Range<usize>,
        in_place: bool,
        workspace: *mut PageWorkspace,
    ) -> Option<(DenseRows<'a>, bool)> {
        let (Extents { dim, capacity, in_lanes, .. }, code) = (self.extents, self.types[0]);
        let each = KEY_LANES * dim;
        let sets = positions.start / KEY_LANES..positions.end.div_ceil(KEY_LANES);
        if in_lanes {
            // Slots are whole sets, so a position has the same lane in its set as its slot has in the cache's.
            let (ring, at) = (capacity / KEY_LANES, kv_head * capacity / KEY_LANES);
            let start = sets.start % ring;
            if in_place && start + sets.len() <= ring {
                let start = (at + start) * each * dtype(code).size();
                // SAFETY: the cache has `capacity / KEY_LANES` sets of `each` elements for every head, as `needs` requires.
                return unsafe {
                    let start = self.tile.start(K).add(start).cast_const();
                    DenseRows::from_raw_parts(dtype(code), start, [sets.len(), each], each)
                        .map(|sets| (sets, true))
                };
            }
            for (i, set) in sets.clone().enumerate() {
                // SAFETY: a block has at most `PAGE / KEY_LANES` sets, so the workspace has room; the cache has set `set % ring`.
                unsafe {
                    let to = (&raw mut (*workspace).keys).cast::<f32>().add(i * each);
                    let to = zeros(to, each);
                    read_coded::<S>(self.tile, K, code, (at + set % ring) * each, to);
                }
            }
        } else {
            for (i, set) in sets.clone().enumerate() {
                let lanes = positions.start.max(set * KEY_LANES)..positions.end.min((set + 1) * KEY_LANES);
                // SAFETY: as above; slots are positions modulo the capacity, so the cache has the rows of `lanes`.
                unsafe {
                    let to = (&raw mut (*workspace).keys).cast::<f32>().add(i * each);
                    let to = zeros(to, each);
                    self.transpose_set::<S>(kv_head, lanes, to, (&raw mut (*workspace).rows).cast())?;
                }
            }
        }
        // SAFETY: the loops above have filled as many sets of the workspace.
        unsafe {
            let keys = (&raw const (*workspace).keys).cast::<u8>();
            DenseRows::from_raw_parts(DType::F32, keys, [sets.len(), each], each).map(|sets| (sets, false))
        }
    }

    /// Makes a set of the keys of `positions`, which are of one set and lie row by row. `staging` has room for the rows of a set. None if
    /// that is refused.
    ///
    /// # Safety
    /// As for [`Call::page`].
    #[inline(always)]
    unsafe fn transpose_set<S: Simd + F32Kernels>(
        &self,
        kv_head: usize,
        positions: Range<usize>,
        set: &mut [f32],
        staging: *mut f32,
    ) -> Option<()> {
        let (Extents { dim, capacity, .. }, code) = (self.extents, self.types[0]);
        let (slot, count) = (positions.start % capacity, positions.len());
        let is_whole = count == KEY_LANES && slot + count <= capacity;
        // SAFETY: the CPU has `S`, and the cache has the rows, by the caller.
        let rows = unsafe {
            if is_whole && code < PLAIN {
                let start = (kv_head * capacity + slot) * dim * dtype(code).size();
                DenseRows::from_raw_parts(dtype(code), self.tile.start(K).add(start), [count, dim], dim)
            } else {
                let rows = zeros(staging, KEY_LANES * dim);
                for run in self.slots(positions) {
                    let lane = run.position % KEY_LANES;
                    if let Some(to) = rows.get_mut(lane * dim..(lane + run.count) * dim) {
                        read_rows::<S>(self.tile, K, code, (kv_head * capacity + run.first) * dim, to);
                    }
                }
                DenseRows::from_raw_parts(DType::F32, staging.cast(), [KEY_LANES, dim], dim)
            }
        };
        // SAFETY: the CPU has `S`, by the caller.
        transpose_keys(unsafe { S::assume() }, rows?, set).ok()
    }

    /// Returns the values of `positions`, and whether they are in place.
    ///
    /// # Safety
    /// As for [`Call::page`].
    #[inline(always)]
    unsafe fn values<S: Simd>(
        &self,
        kv_head: usize,
        positions: Range<usize>,
        in_place: bool,
        workspace: *mut PageWorkspace,
    ) -> Option<(DenseRows<'a>, bool)> {
        let (Extents { value_dim: dim, capacity, .. }, code) = (self.extents, self.types[1]);
        let (slot, count, at) = (positions.start % capacity, positions.len(), kv_head * capacity);
        if in_place && code < PLAIN && slot + count <= capacity {
            let start = (at + slot) * dim * dtype(code).size();
            // SAFETY: the cache has `capacity` rows of `dim` elements for every head, as `needs` requires.
            return unsafe {
                let start = self.tile.start(V).add(start).cast_const();
                DenseRows::from_raw_parts(dtype(code), start, [count, dim], dim).map(|rows| (rows, true))
            };
        }
        // Padded, so that the microkernel reads whole vectors.
        let padded = dim.next_multiple_of(SUM_PADDING);
        // SAFETY: a block has at most `PAGE` keys, and `MOST_DIM` is padded, so the workspace, which is the caller's alone, has room.
        let (start, values) = unsafe {
            let start = (&raw mut (*workspace).values).cast::<f32>();
            (start, zeros(start, count * padded))
        };
        for run in self.slots(positions.clone()) {
            let (first, from) = (run.position - positions.start, (at + run.first) * dim);
            let to = values.get_mut(first * padded..(first + run.count) * padded).unwrap_or_default();
            // SAFETY: the cache has the rows of the run.
            unsafe {
                if padded == dim {
                    read_rows::<S>(self.tile, V, code, from, to);
                    continue;
                }
                for (i, to) in to.chunks_exact_mut(padded).enumerate() {
                    let to = to.get_mut(..dim).unwrap_or_default();
                    read_rows::<S>(self.tile, V, code, from + i * dim, to);
                }
            }
        }
        // SAFETY: `values` has `count` rows, which are initialised.
        unsafe {
            DenseRows::from_raw_parts(DType::F32, start.cast_const().cast(), [count, padded], padded)
                .map(|rows| (rows, false))
        }
    }
}

/// Reads elements of binding `i` from `start` on, whole blocks of them, as many as `to` takes.
///
/// # Safety
/// The CPU has `S`; the binding holds these elements, of the type with this code, and nothing writes them now.
#[inline(always)]
unsafe fn read_rows<S: Simd>(tile: &Tile<'_>, i: usize, code: u32, start: usize, to: &mut [f32]) {
    let dtype = dtype(code);
    // SAFETY: this function has the conditions of `read_coded`; of a compressed type, the binding holds the blocks.
    unsafe {
        if !dtype.is_compressed() {
            return read_coded::<S>(tile, i, code, start, to);
        }
        let bytes = |elements: usize| elements / dtype.block_len() * dtype.block_bytes();
        // Rows are whole blocks, as every shape of such a type; so decoding can't fail.
        let _ = decode_into(dtype, tile.read_part::<u8>(i, bytes(start)..bytes(start + to.len())), to);
    }
}
