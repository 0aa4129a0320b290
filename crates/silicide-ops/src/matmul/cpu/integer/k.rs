//! The formats of 256 weights under one scale, with scales of their own for every 32 or 16 of them: Q4_K, Q5_K, Q6_K.

use super::format::{Codes, Columns, Scales};
use super::unit::{MAX_LANES, Side, Unit};
use crate::matmul::cpu::vector::Vector;
use silicide_quant::f16;

/// Runs of a block.
const RUNS: usize = 8;

/// 4-bit codes with scales and minimums of 6 bits. A scale and a factor of minimums, 12 bytes, then nibbles: 32 bytes have
/// the codes of a run in their lower halves and of the next in their upper ones.
pub(super) struct Q4K;
/// The same with fifth bits before the nibbles: bit `i` of 32 bytes is for run `i`.
pub(super) struct Q5K;
/// 6-bit codes with signed scales of 8 bits per 16. Nibbles, upper bits, scales, a scale of all.
pub(super) struct Q6K;

// SAFETY: reads blocks of 144 bytes only.
unsafe impl Codes for Q4K {
    const SIDE: Side = Side::Sum;
    const BLOCK: usize = 144;
    const RUNS: usize = RUNS;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise.
        unsafe {
            let start = columns.start.add(run / RUNS * Self::BLOCK + 16 + run % RUNS / 2 * 32);
            half_bytes::<U>(start, columns.stride, run % 2 == 1)
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { scales::<U>(Part::of::<Self>(columns, first, count), six_bits, to) }
    }
}

// SAFETY: reads blocks of 176 bytes only.
unsafe impl Codes for Q5K {
    const SIDE: Side = Side::Sum;
    const BLOCK: usize = 176;
    const RUNS: usize = RUNS;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise.
        unsafe {
            let start = columns.start.add(run / RUNS * Self::BLOCK + 16);
            let mut codes =
                half_bytes::<U>(start.add(32 + run % RUNS / 2 * 32), columns.stride, run % 2 == 1);
            upper_bits::<U>(&mut codes, start, columns.stride, (run as u32 % 8, 1));
            codes
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { scales::<U>(Part::of::<Self>(columns, first, count), six_bits, to) }
    }
}

// SAFETY: reads blocks of 210 bytes only.
unsafe impl Codes for Q6K {
    const SIDE: Side = Side::Halves;
    const BLOCK: usize = 210;
    const RUNS: usize = RUNS;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise. Each half of the block has 64 bytes of nibbles for four runs and 32 of upper bits.
        unsafe {
            let start = columns.start.add(run / RUNS * Self::BLOCK);
            let (half, run) = (run % RUNS / 4, run % 4);
            let mut codes =
                half_bytes::<U>(start.add(half * 64 + run % 2 * 32), columns.stride, run >= 2);
            upper_bits::<U>(&mut codes, start.add(128 + half * 32), columns.stride, (2 * run as u32, 3));
            codes
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { scales::<U>(Part::of::<Self>(columns, first, count), per_sixteen, to) }
    }
}

/// Codes in the lower or upper halves of 32 bytes.
#[inline(always)]
unsafe fn half_bytes<U: Unit>(from: *const u8, stride: usize, upper: bool) -> [U::Words; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b, c, d] = U::transpose(from, stride);
        let [e, f, g, h] = U::transpose(from.add(16), stride);
        let mut codes = [a, b, c, d, e, f, g, h];
        for codes in &mut codes {
            *codes = if upper { U::high(*codes) } else { U::low(*codes) };
        }
        codes
    }
}

/// Adds bits from 32 bytes, from bit `shift` on those in `mask`, above the nibbles.
#[inline(always)]
unsafe fn upper_bits<U: Unit>(
    codes: &mut [U::Words; 8],
    from: *const u8,
    stride: usize,
    (shift, mask): (u32, u8),
) {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b, c, d] = U::transpose(from, stride);
        let [e, f, g, h] = U::transpose(from.add(16), stride);
        for (codes, upper) in codes.iter_mut().zip(&[a, b, c, d, e, f, g, h]) {
            *codes = U::or(*codes, U::bits(*upper, shift, mask));
        }
    }
}

/// Blocks of columns.
#[derive(Clone, Copy)]
struct Part {
    start: *const u8,
    stride: usize,
    blocks: usize,
    block_bytes: usize,
}

impl Part {
    /// Those of `count` runs from `first` on.
    #[inline(always)]
    unsafe fn of<F: Codes>(columns: Columns, first: usize, count: usize) -> Part {
        // SAFETY: the caller's promise: the columns have these runs.
        let start = unsafe { columns.start.add(first / F::RUNS * F::BLOCK) };
        Part { start, stride: columns.stride, blocks: count / F::RUNS, block_bytes: F::BLOCK }
    }
}

/// First and second scales of the runs of a block at a pointer.
type Decode = unsafe fn(*const u8) -> ([f32; RUNS], [f32; RUNS]);

/// Decodes scales, one column after the other, through memory.
#[inline(always)]
unsafe fn scales<U: Unit>(part: Part, decode: Decode, to: &mut Scales) {
    let (first, second) = to.starts();
    for lane in 0..U::Floats::LANES {
        // SAFETY: the caller's promise: the columns have these blocks, of a format that `decode` knows, and there is room
        // for the runs of them.
        unsafe {
            let start = part.start.add(lane * part.stride);
            for block in 0..part.blocks {
                let (one, two) = decode(start.add(block * part.block_bytes));
                for (run, (one, two)) in one.into_iter().zip(two).enumerate() {
                    let at = (block * RUNS + run) * MAX_LANES + lane;
                    *first.add(at) = one;
                    *second.add(at) = two;
                }
            }
        }
    }
}

/// Scales and minimums of 6 bits: the first four of each are the lower bits of bytes 0..4 and 4..8; the others have
/// their lower bits in the halves of bytes 8..12 and their upper ones above the first four.
unsafe fn six_bits(block: *const u8) -> ([f32; RUNS], [f32; RUNS]) {
    // SAFETY: the caller's promise: a block begins with two halves and twelve bytes.
    let (scales, bytes) = unsafe { (block.cast::<[[u8; 2]; 2]>().read(), block.add(4).cast::<[u8; 12]>().read()) };
    let [scale, minimum] = scales.map(|half| f16::from_le_bytes(half).to_f32());
    let (mut one, mut two) = ([0.0; RUNS], [0.0; RUNS]);
    for i in 0..4 {
        let (low, high, packed) = (bytes[i], bytes[i + 4], bytes[i + 8]);
        one[i] = scale * f32::from(low & 63);
        two[i] = -minimum * f32::from(high & 63);
        one[i + 4] = scale * f32::from(packed & 15 | low >> 6 << 4);
        two[i + 4] = -minimum * f32::from(packed >> 4 | high >> 6 << 4);
    }
    (one, two)
}

/// Scales of 8 bits for every 16 weights.
unsafe fn per_sixteen(block: *const u8) -> ([f32; RUNS], [f32; RUNS]) {
    // SAFETY: the caller's promise: a block of 210 bytes ends with sixteen scales and a half.
    let (bytes, scale) = unsafe { (block.add(192).cast::<[[i8; 2]; RUNS]>().read(), block.add(208).cast::<[u8; 2]>().read()) };
    let scale = f16::from_le_bytes(scale).to_f32();
    (bytes.map(|[one, _]| scale * f32::from(one)), bytes.map(|[_, two]| scale * f32::from(two)))
}
