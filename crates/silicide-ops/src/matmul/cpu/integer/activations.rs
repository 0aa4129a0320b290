//! Rounding activations: every 32 to 8 bits, under their own scale.
//!
//! A rounded block is [`BLOCK_BYTES`]: 32 signed bytes in -127..=127, the scale as f32, and a word that depends on the format
//! of the weights ([`Side`]).

use super::format::LEN;
use super::unit::{Side, Unit};
use crate::cpu::native_kernel;
use silicide_hal::Tile;

/// Where the scale is.
pub(super) const SCALE: usize = LEN;
/// Where the word beside it is.
pub(super) const SIDE: usize = LEN + 4;
/// Bytes of a rounded block.
pub(super) const BLOCK_BYTES: usize = LEN + 8;

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
    for (from, to) in from.iter().zip(to) {
        round::<U>(from, to, tile.param(3));
    }
}

/// Rounds a block.
#[inline(always)]
fn round<U: Unit>(from: &[f32; LEN], to: &mut [u8; BLOCK_BYTES], side: u32) {
    // Added to a small number, it leaves the nearest whole number in the lowest bits.
    const ROUND: f32 = (3 << 22) as f32;
    let mut largest = [0f32; 8];
    // Not zero where there is a NaN or an infinity.
    let mut wrong = [0f32; 8];
    for chunk in from.as_chunks::<8>().0 {
        for i in 0..8 {
            largest[i] = largest[i].max(chunk[i].abs());
            wrong[i] += chunk[i] * 0.0;
        }
    }
    let largest = largest.into_iter().fold(0f32, f32::max);
    let scale = largest * (1.0 / 127.0);
    let inverse = if scale > 0.0 { 127.0 / largest } else { 0.0 };
    let wrong: f32 = wrong.into_iter().sum();
    let mut sum = 0;
    for (byte, &value) in to.iter_mut().zip(from) {
        let code = (value * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i8;
        sum += i32::from(code);
        *byte = code as u8;
    }
    let scale = scale + wrong;
    let side = if side == Side::Sum as u32 {
        (scale * sum as f32).to_le_bytes()
    } else {
        let zero = if side == Side::Zero8 as u32 { 8 } else { U::ZERO };
        (-zero * sum).to_le_bytes()
    };
    let [scale, side] = [scale.to_ne_bytes(), side];
    to[SCALE..SIDE].copy_from_slice(&scale);
    to[SIDE..].copy_from_slice(&side);
}
