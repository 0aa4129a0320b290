//! Interleaving weights: blocks of sixteen columns are taken apart in words and put side by side, as
//! [`Source`](super::source::Source) reads them.

use super::source::TOGETHER;
use super::unit::Unit;
use crate::cpu::native_kernel;
use crate::interleave::Parts;
use crate::matmul::cpu::vector::Vector;
use silicide_hal::Tile;
use silicide_quant::Format;

native_kernel!(
    /// Blocks of columns, side by side.
    INTERLEAVE,
    "interleave.words.cpu",
    tile::<S>
);

/// Words of a column that are moved at a time.
const WORDS: usize = 4;

/// A tile: some groups of columns.
///
/// # Safety
///
/// The instruction set is present; bindings are as many bytes of columns as the parameters say, and as many to write.
#[inline(always)]
unsafe fn tile<U: Unit>(tile: &Tile<'_>) {
    let [groups, bytes, tile_groups] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let Some(parts) = Format::ALL.get(tile.param(3) as usize).and_then(|format| Parts::of(*format)) else {
        return;
    };
    let first = tile.index[0] as usize * tile_groups;
    for group in first..(first + tile_groups).min(groups) {
        let range = group * TOGETHER * bytes..(group + 1) * TOGETHER * bytes;
        // SAFETY: the planner made the grid for these extents; tiles have different groups.
        let (from, to) = unsafe { (tile.read_part::<u8>(0, range.clone()), tile.write::<u8>(1, range)) };
        for (block, to) in to.chunks_exact_mut(TOGETHER * parts.block).enumerate() {
            let from = from.get(block * parts.block..).unwrap_or_default();
            // SAFETY: the instruction set is present; this block of each of sixteen columns follows, `bytes` apart.
            unsafe { interleave::<U>(parts, from.as_ptr(), bytes, to) };
        }
    }
}

/// Interleaves a block of each of sixteen columns, which are `stride` bytes apart.
///
/// # Safety
///
/// The instruction set is present, and the blocks are there.
#[inline(always)]
unsafe fn interleave<U: Unit>(parts: Parts, from: *const u8, stride: usize, to: &mut [u8]) {
    let (first, odd) = parts.odd;
    let (head, words) = to.split_at_mut(TOGETHER * odd);
    // SAFETY: the caller's promise; a column has `odd` bytes and its words, and what is written is inside of the block's room.
    unsafe {
        for column in 0..TOGETHER * usize::from(odd > 0) {
            let (from, to) = (from.add(column * stride + first), head.as_mut_ptr().add(column * odd));
            std::ptr::copy_nonoverlapping(from, to, odd);
        }
        let from = from.add(parts.words);
        let count = words.len() / (4 * TOGETHER);
        // Four words of a vector of columns at a time, where vectors hold columns side by side.
        let whole = if U::SIDE_BY_SIDE { count / WORDS * WORDS } else { 0 };
        for word in (0..whole).step_by(WORDS) {
            for lane in (0..TOGETHER).step_by(U::Floats::LANES) {
                let columns = U::transpose(from.add(lane * stride + 4 * word), stride);
                for (i, columns) in columns.into_iter().enumerate() {
                    U::store(columns, words.as_mut_ptr().add(4 * ((word + i) * TOGETHER + lane)));
                }
            }
        }
        for word in whole..count {
            for column in 0..TOGETHER {
                let to = words.as_mut_ptr().add(4 * (word * TOGETHER + column));
                std::ptr::copy_nonoverlapping(from.add(column * stride + 4 * word), to, 4);
            }
        }
    }
}
