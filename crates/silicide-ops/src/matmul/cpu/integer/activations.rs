//! Rounding activations: every 32 to 8 bits, under their own scale.
//!
//! A rounded block is [`BLOCK_BYTES`]: 32 signed bytes in -127..=127, the scale as f32, and two words that depend on the
//! format of the weights ([`Side`]).

use super::format::LEN;
use super::unit::{Side, Unit};
use crate::cpu::native_kernel;
use silicide_hal::Tile;

/// Where the scale is.
pub(super) const SCALE: usize = LEN;
/// Where the words beside it are.
pub(super) const SIDE: usize = LEN + 4;
/// Bytes of a rounded block; a multiple of 16.
pub(super) const BLOCK_BYTES: usize = LEN + 16;

native_kernel!(
    /// Activations to rounded blocks.
    ACTIVATIONS,
    "matmul.activations.cpu",
    tile::<S>
);

/// A tile: some rows.
///
/// # Safety
///
/// The unit's instruction set is present; bindings are rows of f32 and as many rounded blocks as the parameters say.
#[inline(always)]
unsafe fn tile<U: Unit>(tile: &Tile<'_>) {
    let [rows, blocks, tile_rows] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let first = tile.index[0] as usize * tile_rows;
    let range = first * blocks..(first + tile_rows).min(rows) * blocks;
    // SAFETY: the planner made the grid for these extents; tiles have different rows.
    let (from, to) = unsafe {
        (
            tile.read_part::<[f32; LEN]>(0, range.clone()),
            tile.write::<[u8; BLOCK_BYTES]>(1, range),
        )
    };
    let side = Side::from_word(tile.param(3));
    for (from, to) in from.iter().zip(to) {
        round::<U>(from, to, side);
    }
}

/// Rounds a block.
#[inline(always)]
fn round<U: Unit>(from: &[f32; LEN], to: &mut [u8; BLOCK_BYTES], side: Side) {
    // Added to a small number, it leaves the nearest whole number in the lowest bits.
    const ROUND: f32 = (3 << 22) as f32;
    // Sizes have the order of their bits; those of infinities and NaN come after all numbers.
    let mut largest = [0u32; 8];
    for chunk in from.as_chunks::<8>().0 {
        for (largest, value) in largest.iter_mut().zip(chunk) {
            *largest = (*largest).max(value.to_bits() & (u32::MAX >> 1));
        }
    }
    let largest = f32::from_bits(largest.into_iter().fold(0, u32::max));
    let scale = if largest.is_finite() { largest * (1.0 / 127.0) } else { f32::NAN };
    let inverse = if scale > 0.0 { 127.0 / largest } else { 0.0 };
    let mut codes = [0i8; LEN];
    for (code, value) in codes.iter_mut().zip(from) {
        *code = (value * inverse + ROUND).to_bits() as i8;
    }
    let mut sums = [0i32; 2];
    for (sum, half) in sums.iter_mut().zip(codes.as_chunks::<{ LEN / 2 }>().0) {
        for code in half {
            *sum += i32::from(*code);
        }
    }
    let [first, second] = sums;
    let words = match side {
        Side::Sum => [(scale * (first + second) as f32).to_bits(), 0],
        Side::Zero(zero) => [(-i32::from(zero) * (first + second)) as u32, 0],
        Side::Bytes => [(-U::ZERO * (first + second)) as u32, 0],
        Side::Halves => [(-32 * first) as u32, (-32 * second) as u32],
    };
    let mut block = [0; BLOCK_BYTES];
    for (byte, code) in block.iter_mut().zip(codes) {
        *byte = code as u8;
    }
    let [a, b] = words;
    for (at, word) in [(SCALE, scale.to_bits()), (SIDE, a), (SIDE + 4, b)] {
        block[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    *to = block;
}
