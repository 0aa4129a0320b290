//! `rope` on the CPU: some tokens are a tile. A token's cosines and sines are taken apart once for all its heads.

use super::{Rope, RopeExtents, RopeStyle};
use crate::cpu::needs::in_tiles_of;
use crate::cpu::{CHUNK, Simd, TILE, native_kernel};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Tiles of tokens.
pub(super) struct CpuRope;

impl Kernel for CpuRope {
    type Op = Rope;

    fn name(&self) -> &'static str {
        "rope.pairs.cpu"
    }

    fn fits(&self, _op: &Rope, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let small = io.inputs.iter().all(|info| info.elements() <= u32::MAX as usize);
        if !small {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &Rope, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(RopeExtents { tokens, heads, dim, pairs }) = RopeExtents::of(io) else {
            return Plan::default();
        };
        let together = (TILE / (heads * dim).max(1)).max(1);
        let params = [tokens, heads, dim, pairs, together, usize::from(op.style == RopeStyle::Halves)];
        let args = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];
        let grid = [tokens.div_ceil(together) as u32, 1, 1];
        Plan::launch(Program::Native(&PAIRS), &args, &params.map(|word| word as u32), grid)
    }
}

// SAFETY: a tile reads its own tokens of x and of the table and writes them to y; pairs lie in their head. Where y is x, pairs
// are read before they are written.
native_kernel!(unsafe PAIRS, "rope.pairs.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, dim, pairs, together] = [0, 1, 2, 3, 4].map(|i| launch.count(i));
    in_tiles_of(launch, tokens, together)?;
    let bytes = tokens * heads * dim * 4u32;
    let needs = Needs::new().read(bytes, 4).read(tokens * pairs * 8u32, 4).write(bytes, 4).over(0b1);
    (pairs * 2u32 <= dim).then_some(needs)
}

/// Bindings: x, table, y. Parameters: tokens, heads, elements of a head, pairs, tokens of a tile, whether pairs are of
/// two halves.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [tokens, heads, dim, pairs, together] = [0, 1, 2, 3, 4].map(|i| tile.param(i) as usize);
    let first = tile.index[0] as usize * together;
    for token in first..(first + together).min(tokens) {
        for start in (0..pairs).step_by(CHUNK) {
            let count = (pairs - start).min(CHUNK);
            let (mut cosines, mut sines) = ([0.0; CHUNK], [0.0; CHUNK]);
            // SAFETY: `needs` requires a table of `pairs` pairs for each token.
            let turns = unsafe {
                let at = (token * pairs + start) * 2;
                tile.read_part::<f32>(1, at..at + 2 * count)
            };
            for ((turn, cosine), sine) in turns.as_chunks::<2>().0.iter().zip(&mut cosines).zip(&mut sines) {
                [*cosine, *sine] = *turn;
            }
            let (cosines, sines) = (&cosines[..count], &sines[..count]);
            for head in 0..heads {
                let row = (token * heads + head) * dim;
                // SAFETY: the pairs lie in the head, which is of this tile alone.
                unsafe {
                    if tile.param(5) != 0 {
                        turn_halves::<S>(tile, row + start, pairs, cosines, sines);
                    } else {
                        turn_neighbours::<S>(tile, row + 2 * start, cosines, sines);
                    }
                }
            }
        }
        // SAFETY: the token's heads are of this tile alone.
        unsafe { pass_rest(tile, token * heads..(token + 1) * heads, dim, 2 * pairs) };
    }
}

/// Turns pairs of neighbours from element `at` on.
///
/// # Safety
/// x and y hold them, and nothing else touches those of y.
#[inline(always)]
unsafe fn turn_neighbours<S: Simd>(tile: &Tile<'_>, at: usize, cosines: &[f32], sines: &[f32]) {
    let mut turned = [0.0; 2 * CHUNK];
    let count = 2 * cosines.len();
    // SAFETY: x holds these elements, by the caller; they are read before y, which may be x, is borrowed.
    let x = unsafe { tile.read_part::<f32>(0, at..at + count) };
    for (((turned, x), &c), &s) in
        turned.as_chunks_mut::<2>().0.iter_mut().zip(x.as_chunks::<2>().0).zip(cosines).zip(sines)
    {
        let [a, b] = *x;
        *turned = [S::mul_add(a, c, -b * s), S::mul_add(b, c, a * s)];
    }
    // SAFETY: y holds these elements, and nothing else touches them, by the caller; `x` is not used any more.
    unsafe { tile.write::<f32>(2, at..at + count) }.copy_from_slice(&turned[..count]);
}

/// Turns pairs whose halves begin at element `at` and at element `at + apart`.
///
/// # Safety
/// As for [`turn_neighbours`].
#[inline(always)]
unsafe fn turn_halves<S: Simd>(tile: &Tile<'_>, at: usize, apart: usize, cosines: &[f32], sines: &[f32]) {
    let count = cosines.len();
    let (mut low, mut high) = ([0.0; CHUNK], [0.0; CHUNK]);
    // SAFETY: x holds both halves, by the caller; they are read before y, which may be x, is borrowed.
    let (a, b) = unsafe {
        (tile.read_part::<f32>(0, at..at + count), tile.read_part::<f32>(0, at + apart..at + apart + count))
    };
    for (((low, &a), (high, &b)), (&c, &s)) in
        low.iter_mut().zip(a).zip(high.iter_mut().zip(b)).zip(cosines.iter().zip(sines))
    {
        *low = S::mul_add(a, c, -b * s);
        *high = S::mul_add(b, c, a * s);
    }
    // SAFETY: y holds both halves, and nothing else touches them, by the caller; `a` and `b` are not used any more.
    unsafe {
        tile.write::<f32>(2, at..at + count).copy_from_slice(&low[..count]);
        tile.write::<f32>(2, at + apart..at + apart + count).copy_from_slice(&high[..count]);
    }
}

/// Copies the elements past the first `turned` of heads `rows`, each of `dim` elements, unless y is x.
///
/// # Safety
/// As for [`turn_neighbours`].
#[inline(always)]
unsafe fn pass_rest(tile: &Tile<'_>, rows: std::ops::Range<usize>, dim: usize, turned: usize) {
    if tile.start(0) == tile.start(2) || turned == dim {
        return;
    }
    for row in rows {
        let rest = row * dim + turned..(row + 1) * dim;
        // SAFETY: x and y hold these elements, and nothing else touches those of y, by the caller; x and y are apart.
        unsafe { tile.write::<f32>(2, rest.clone()).copy_from_slice(tile.read_part::<f32>(0, rest)) };
    }
}
