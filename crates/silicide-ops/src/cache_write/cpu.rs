//! `cache_write` on the CPU. A tile is a head and the slots of one remainder: each slot is of one tile, which goes through
//! the tokens in order, so that the last one for a slot is what stays.

use super::{CacheWrite, CacheWriteExtents};
use crate::cpu::element::{Float, code};
use crate::cpu::{Simd, TILE, native_kernel};
use crate::elementwise::{fits_cpu, is_float};
use crate::needs::{bytes, dtype};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::{DType, Format, bf16, f16};

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
        let Some(CacheWriteExtents { tokens, heads, dim, capacity }) = CacheWriteExtents::of(io) else {
            return Plan::default();
        };
        let shares = (tokens * dim / TILE).clamp(1, MOST_SHARES);
        // A slot is negative where its first bit is set; as a number without sign it is then no slot of any cache.
        let signed = io.input(1).dtype == DType::I32;
        let capacity = if signed { capacity.min(1 << 31) } else { capacity };
        let stride = io.output(0).shape.axes().get(1).copied().unwrap_or(0);
        let words = [tokens, heads, dim, capacity, stride].map(|word| word as u32);
        let [tokens, heads, dim, capacity, stride] = words;
        let params = [tokens, heads, dim, capacity, stride, code(io.output(0).dtype)];
        let args = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];
        Plan::launch(Program::Native(&ROWS), &args, &params, [shares as u32, heads, 1])
    }
}

// SAFETY: a slot is checked against those that may be written, which are at most those of a head, before it is used. A tile
// writes the slots of its remainder in its head.
native_kernel!(unsafe ROWS, "cache_write.rows.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, dim, capacity, stride] = [0, 1, 2, 3, 4].map(|i| launch.count(i));
    let [_, down] = launch.plane()?;
    let (cache, align) = cache_bytes(launch.param(5), heads * stride, dim)?;
    let needs = Needs::new().read(tokens * heads * dim * 4u32, 4).read(tokens * 4u32, 4);
    (down == heads && capacity <= stride).then(|| needs.write(cache, align))
}

/// Bytes and alignment of a cache of `rows` rows of `dim` elements, of the type with this code, which [`store_row`] writes.
pub(crate) fn cache_bytes(code: u32, rows: Count, dim: Count) -> Option<(Count, usize)> {
    let dtype = dtype(code).filter(|dtype| dtype.is_block() || is_float(*dtype))?;
    Some((rows * bytes(dtype, dim)?, if dtype.is_block() { 1 } else { dtype.size() }))
}

/// Bindings: rows, slots, cache. Parameters: tokens, heads, elements of a head, slots that may be written, slots of a head,
/// type of the cache.
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
        if slot >= capacity || slot % shares != share {
            continue;
        }
        let from = (token * heads + head) * dim;
        let to = (head * stride + slot) * dim;
        // SAFETY: the row is of this token and head; the slot exists, and is of this tile alone.
        unsafe {
            let row = tile.read_part::<f32>(0, from..from + dim);
            store_row::<S>(tile, 2, tile.param(5), to, row);
        }
    }
}

/// Stores `row` in the cache at binding `cache`, from element `at` on. `code` is the type of the cache.
///
/// # Safety
/// The CPU has `S`; the cache holds the elements, and nothing else touches them.
#[inline(always)]
pub(crate) unsafe fn store_row<S: Simd>(tile: &Tile<'_>, cache: usize, code: u32, at: usize, row: &[f32]) {
    const F32: u32 = DType::F32.code();
    const F16: u32 = DType::F16.code();
    const BF16: u32 = DType::BF16.code();
    const BLOCKS: u32 = DType::ALL.len() as u32;
    let range = at..at + row.len();
    // SAFETY: by the caller, the CPU has `S`, and the cache holds elements `range` of the type that `code` names, which
    // nothing else touches. `cache_bytes` sized it for this type.
    unsafe {
        match code {
            F32 => f32::narrow(S::assume(), row, tile.write::<f32>(cache, range)),
            F16 => f16::narrow(S::assume(), row, tile.write::<f16>(cache, range)),
            BF16 => bf16::narrow(S::assume(), row, tile.write::<bf16>(cache, range)),
            code => {
                let number = code.wrapping_sub(BLOCKS) as usize;
                let Some(&format) = Format::ALL.get(number) else { return };
                let bytes = |elements: usize| elements / format.block_len() * format.block_bytes();
                // Rows are whole blocks, as every shape of a block format; so encoding can't fail.
                let _ = format.encode(row, tile.write::<u8>(cache, bytes(range.start)..bytes(range.end)));
            }
        }
    }
}
