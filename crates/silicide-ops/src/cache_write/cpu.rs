//! `cache_write` on the CPU. A tile is a head and the sets of sixteen slots of one remainder: each slot is of one tile, which goes
//! through the tokens in order, so that the last one for a slot is what stays. A set in lanes is of one tile too.

use super::{CacheWrite, CacheWriteExtents};
use crate::attention::{KEY_LANES, MOST_KEY_DIM};
use crate::cpu::element::{Float, code, size};
use crate::cpu::{CHUNK, Simd, TILE, native_kernel};
use crate::elementwise::{fits_cpu, is_float};
use crate::needs::bytes;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::{DenseRows, F32Kernels, transpose_keys};
use silicide_gemm::prefetch::{LINE, fetch};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::{DType, bf16, f16};

/// Tiles per head, at most.
const MOST_SHARES: usize = 16;

/// Tiles of heads and slots.
pub(super) struct CpuCacheWrite;

impl Kernel for CpuCacheWrite {
    type Op = CacheWrite;

    fn name(&self) -> &'static str {
        "cache_write.rows.cpu"
    }

    fn fits(&self, _op: &CacheWrite, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        CacheWriteExtents::of(io).ok_or(Decline("takes extents of at most 32 bits"))?;
        fits_cpu(on)
    }

    fn plan(&self, _op: &CacheWrite, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(CacheWriteExtents { tokens, heads, dim, capacity, in_lanes }) = CacheWriteExtents::of(io)
        else {
            return Plan::default();
        };
        let stride = capacity;
        let shares = (tokens * dim / TILE).clamp(1, MOST_SHARES);
        // A slot is negative where its first bit is set; as a number without sign it is then no slot of any cache.
        let signed = io.input(1).dtype == DType::I32;
        let capacity = if signed { capacity.min(1 << 31) } else { capacity };
        let words = [tokens, heads, dim, capacity, stride].map(|word| word as u32);
        let [tokens, heads, dim, capacity, stride] = words;
        let params = [tokens, heads, dim, capacity, stride, code(io.output(0).dtype), u32::from(in_lanes)];
        let args = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];
        Plan::launch(Program::Native(&ROWS), &args, &params, [shares as u32, heads, 1])
    }
}

// SAFETY: a slot is checked against those that may be written, which are at most those of a head, before it is used. A tile
// writes the sets of its remainder in its head.
native_kernel!(unsafe ROWS, "cache_write.rows.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, dim, capacity, stride] = [0, 1, 2, 3, 4].map(|i| launch.count(i));
    let [_, down] = launch.plane()?;
    let (cache, align) = cache_bytes(launch.param(5), launch.param(6) != 0, [heads, stride, dim])?;
    let needs = Needs::new().read(tokens * heads * dim * 4u32, 4).read(tokens * 4u32, 4);
    (down == heads && capacity <= stride).then(|| needs.write(cache, align))
}

/// Bytes and alignment of a cache of `[heads, capacity, dim]`, of the type with this code, which [`store_row`] writes. In lanes, slots are
/// whole sets, and not of a block format.
pub(crate) fn cache_bytes(
    code: u32,
    in_lanes: bool,
    [heads, capacity, dim]: [Count; 3],
) -> Option<(Count, usize)> {
    let dtype = DType::from_code(code).filter(|dtype| dtype.is_compressed() || is_float(*dtype))?;
    if in_lanes && (dtype.is_compressed() || !capacity.0.is_multiple_of(KEY_LANES as u64)) {
        return None;
    }
    Some((heads * capacity * bytes(dtype, dim)?, if dtype.is_compressed() { 1 } else { dtype.size() }))
}

/// Bindings: rows, slots, cache. Parameters: tokens, heads, elements of a head, slots that may be written, slots of a head,
/// type of the cache, whether it is in lanes.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [tokens, heads, dim, capacity, stride] = [0, 1, 2, 3, 4].map(|i| tile.param(i) as usize);
    let [share, head, _] = tile.index.map(|i| i as usize);
    let shares = tile.grid[0] as usize;
    // SAFETY: `needs` requires a word for each token, in a binding that is only read.
    let slots = unsafe { tile.read_part::<u32>(1, 0..tokens) };
    for (token, &slot) in slots.iter().enumerate() {
        let slot = slot as usize;
        if slot >= capacity || slot / KEY_LANES % shares != share {
            continue;
        }
        let from = (token * heads + head) * dim;
        let to = CacheRow {
            binding: 2,
            code: tile.param(5),
            in_lanes: tile.param(6) != 0,
            row: head * stride + slot,
        };
        // SAFETY: the row is of this token and head; the slot exists, and its set is of this tile alone.
        unsafe { store_row::<S>(tile, to, tile.read_part::<f32>(0, from..from + dim)) };
    }
}

/// A row of a cache: that of one head and slot.
#[derive(Clone, Copy)]
pub(crate) struct CacheRow {
    pub(crate) binding: usize,
    /// The type of the cache.
    pub(crate) code: u32,
    pub(crate) in_lanes: bool,
    /// Rows before it: `head * capacity + slot`.
    pub(crate) row: usize,
}

/// Stores `values` in a row of a cache.
///
/// # Safety
/// The CPU has `S`; [`cache_bytes`] sized the cache for rows of as many elements; it has the row, and nothing else touches it, or, in
/// lanes, its set.
#[inline(always)]
pub(crate) unsafe fn store_row<S: Simd>(tile: &Tile<'_>, to: CacheRow, values: &[f32]) {
    const F32: u32 = DType::F32.code();
    const F16: u32 = DType::F16.code();
    const BF16: u32 = DType::BF16.code();
    let CacheRow { binding, code, row, .. } = to;
    // SAFETY: this function has the conditions of `store_elements`, for the type that `code` names; of a compressed type, the
    // cache holds the row's bytes.
    unsafe {
        match code {
            F32 => store_elements::<S, f32>(tile, to, values),
            F16 => store_elements::<S, f16>(tile, to, values),
            BF16 => store_elements::<S, bf16>(tile, to, values),
            code => {
                let Some(dtype) = DType::from_code(code).filter(|dtype| dtype.is_compressed()) else {
                    return;
                };
                let bytes = values.len() / dtype.block_len() * dtype.block_bytes();
                let to = tile.write::<u8>(binding, row * bytes..(row + 1) * bytes);
                // Rows are whole blocks, as every shape of such a type; so encoding can't fail.
                let _ = match dtype {
                    DType::Block(format) => format.encode(values, to),
                    DType::Turbo(format) => format.encode(values, to),
                    _ => Ok(()),
                };
            }
        }
    }
}

/// Prefetches the set of a row in lanes, to write to it: a row has a few elements in each line of it, which was last touched a token ago. Its bytes
/// are those of [`KEY_LANES`] rows of `dim` elements.
#[inline(always)]
pub(crate) fn prefetch_set(tile: &Tile<'_>, to: CacheRow, dim: usize) {
    let bytes = KEY_LANES * dim * size(to.code);
    let set = tile.start(to.binding).wrapping_add(to.row / KEY_LANES * bytes);
    for line in (0..bytes).step_by(LINE).filter(|_| to.in_lanes) {
        fetch::<true>(set.wrapping_add(line));
    }
}

/// The keys of a set in lanes: row by row, and element by element.
#[repr(C, align(64))]
pub(crate) struct SetWorkspace {
    rows: [f32; KEY_LANES * MOST_KEY_DIM],
    set: [f32; KEY_LANES * MOST_KEY_DIM],
}

impl SetWorkspace {
    /// Returns memory for the rows and for the set of keys of `dim` elements, as zeros.
    ///
    /// # Safety
    /// `memory` is a workspace of the caller alone; `dim` is at most [`MOST_KEY_DIM`].
    #[inline(always)]
    pub(crate) unsafe fn slices<'a>(memory: *mut SetWorkspace, dim: usize) -> [&'a mut [f32]; 2] {
        // SAFETY: the fields have room for `KEY_LANES * dim` numbers, of which all bits zero are one; zeros are written before a slice is made.
        unsafe {
            [&raw mut (*memory).rows, &raw mut (*memory).set].map(|field| {
                let start = field.cast::<f32>();
                start.write_bytes(0, KEY_LANES * dim);
                std::slice::from_raw_parts_mut(start, KEY_LANES * dim)
            })
        }
    }
}

/// Stores the rows of a whole set, [`KEY_LANES`] from `to` on, which is in lanes: transposed in memory of its own, `set`, so that the cache is
/// written in order. One row after the other has a few elements in each cache line of the set, and is half as fast.
///
/// # Safety
/// As for [`store_row`], for each of the rows; `to.row` begins a set.
#[inline(always)]
pub(crate) unsafe fn store_set<S: Simd + F32Kernels>(
    tile: &Tile<'_>,
    to: CacheRow,
    rows: &[f32],
    set: &mut [f32],
) {
    let dim = rows.len() / KEY_LANES;
    // SAFETY: `rows` has `KEY_LANES` rows of `dim` elements, and the CPU has `S`, by the caller.
    let (isa, keys) = unsafe {
        let keys = DenseRows::from_raw_parts(DType::F32, rows.as_ptr().cast(), [KEY_LANES, dim], dim);
        (S::assume(), keys)
    };
    let is_transposed = keys.is_some_and(|keys| transpose_keys(isa, keys, set).is_ok());
    // SAFETY: the cache has whole sets (`cache_bytes`), of which this one is the caller's alone.
    unsafe {
        match DType::ALL.get(to.code as usize) {
            Some(DType::F32) if is_transposed => narrow_set::<f32>(isa, tile, to, set),
            Some(DType::F16) if is_transposed => narrow_set::<f16>(isa, tile, to, set),
            Some(DType::BF16) if is_transposed => narrow_set::<bf16>(isa, tile, to, set),
            _ => {
                for (lane, row) in rows.chunks_exact(dim.max(1)).enumerate() {
                    store_row::<S>(tile, CacheRow { row: to.row + lane, ..to }, row);
                }
            }
        }
    }
}

/// # Safety
/// The cache is of `T` and has the set that begins with row `to.row`, which nothing else touches.
#[inline(always)]
unsafe fn narrow_set<T: Float>(isa: impl Simd, tile: &Tile<'_>, to: CacheRow, set: &[f32]) {
    let start = to.row * (set.len() / KEY_LANES);
    // SAFETY: the cache has the set, by the caller.
    T::narrow(isa, set, unsafe { tile.write::<T>(to.binding, start..start + set.len()) });
}

/// Stores `values` in a row of a cache of `T`.
///
/// # Safety
/// As for [`store_row`].
#[inline(always)]
unsafe fn store_elements<S: Simd, T: Float>(tile: &Tile<'_>, to: CacheRow, values: &[f32]) {
    let CacheRow { binding, in_lanes, row, .. } = to;
    let dim = values.len();
    // SAFETY: the CPU has `S`, by the caller.
    let isa = unsafe { S::assume() };
    if !in_lanes {
        // SAFETY: the cache has the row, which nothing else touches, by the caller.
        T::narrow(isa, values, unsafe { tile.write::<T>(binding, row * dim..(row + 1) * dim) });
        return;
    }
    let (set, lane) = (row / KEY_LANES * KEY_LANES * dim, row % KEY_LANES);
    // SAFETY: the cache has whole sets (`cache_bytes`), and nothing else touches this one, by the caller.
    let set = unsafe { tile.write::<T>(binding, set..set + KEY_LANES * dim) };
    let mut narrow = [T::zeroed(); CHUNK];
    for (values, set) in values.chunks(CHUNK).zip(set.chunks_mut(CHUNK * KEY_LANES)) {
        T::narrow(isa, values, &mut narrow);
        for (lanes, value) in set.as_chunks_mut::<KEY_LANES>().0.iter_mut().zip(&narrow) {
            lanes[lane] = *value;
        }
    }
}
