//! The formats of 256 weights under one scale, with scales of their own for every 32 or 16 of them: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K,
//! and IQ4_XS, whose scales are made the same way; TQ2_0, with the codes of Q2_K and no other scales.
//!
//! Small scales are taken apart in all columns at once, from words that a transposition has put side by side.

use super::format::{CODE_WORDS, Codes, Layout, Place, Sink, Zero, bytes_of_run, nibbles};
use super::legacy::MINIMUMS;
use super::levels::IQ4_LEVELS;
use super::source::Source;
use super::unit::Unit;
use crate::f32::vector::Vector;

/// Runs of a block.
const RUNS: usize = 8;

/// Does something for each number, which is a constant there: shifts by constants are one instruction.
macro_rules! unroll {
    ($name:ident in [$($number:literal),*] $body:block) => {
        $({
            const $name: usize = $number;
            $body
        })*
    };
}

/// 2-bit codes with scales and minimums of 4 bits per 16. Scales, codes, a scale and a factor of minimums: each half of the
/// codes is 32 bytes with the codes of a run in each pair of bits.
pub(super) struct Q2K;
/// 2-bit codes of -1, 0 and 1, then a scale.
pub(super) struct Tq2_0;
/// 3-bit codes with scales of 6 bits per 16. Upper bits, lower bits as in Q2_K, scales, a scale of all.
pub(super) struct Q3K;
/// 4-bit codes with scales and minimums of 6 bits. A scale and a factor of minimums, 12 bytes, then nibbles: 32 bytes have
/// the codes of a run in their lower halves and of the next in their upper ones.
pub(super) struct Q4K;
/// The same with fifth bits before the nibbles: bit `i` of 32 bytes is for run `i`.
pub(super) struct Q5K;
/// 6-bit codes with signed scales of 8 bits per 16. Nibbles, upper bits, scales, a scale of all.
pub(super) struct Q6K;
/// 4-bit codes of uneven levels with scales of 6 bits. A scale, upper bits of scales, lower bits, nibbles.
pub(super) struct Iq4Xs;

// SAFETY: reads blocks of 84 bytes only.
unsafe impl Codes for Q2K {
    const LAYOUT: Layout = Layout { zero: Zero::Code(0), halves: true, minimums: true };
    const BLOCK: usize = 84;
    const RUNS: usize = RUNS;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise.
        unsafe {
            two_bits::<U, S, Self>(columns, block, 16, to);
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        for block in 0..count {
            // SAFETY: the caller's promise; the last four bytes are the scale and the factor.
            unsafe {
                let [.., halves] = columns.words::<U, Self>(first + block, 68);
                let (scale, factor) = (U::half(halves, 0), U::half(halves, 16));
                let subs = columns.words::<U, Self>(first + block, 0);
                let factor = negated::<U>(factor);
                unroll!(SUB in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                    let (at, run) = (8 * (SUB % 4) as u32, block * RUNS + SUB / 2);
                    let sub = U::number(U::field(subs[SUB / 4], at, 15), 0);
                    product::<U>(scale, sub).store(to.scale(run, SUB % 2));
                    let sub = U::number(U::field(subs[SUB / 4], at + 4, 15), 0);
                    product::<U>(factor, sub).store(to.scale(run, 2 + SUB % 2));
                });
            }
        }
    }
}

// SAFETY: reads blocks of 110 bytes only.
unsafe impl Codes for Q3K {
    const LAYOUT: Layout = Layout { zero: Zero::Code(4), halves: true, minimums: false };
    const BLOCK: usize = 110;
    const RUNS: usize = RUNS;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise.
        unsafe {
            let upper = bytes_of_run::<U, S, Self>(columns, block, 0);
            unroll!(PART in [0, 1] {
                let pairs = bytes_of_run::<U, S, Self>(columns, block, 32 + PART * 32);
                unroll!(RUN in [0, 1, 2, 3] {
                    let mut codes = pairs;
                    for (codes, upper) in codes.iter_mut().zip(&upper) {
                        let third = U::bits(*upper, (PART * 4 + RUN) as u32, 1);
                        *codes = U::join::<2>(U::bits(*codes, 2 * RUN as u32, 3), third);
                    }
                    to.codes(PART * 4 + RUN, &codes);
                });
            });
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        for block in 0..count {
            // SAFETY: the caller's promise; twelve bytes of scales and a half end the block.
            unsafe {
                let [_, a, b, upper] = columns.words::<U, Self>(first + block, 92);
                let (lower, scale) = ([a, b], columns.last_half::<U, Self>(first + block));
                unroll!(SUB in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                    // Lower nibbles in bytes 0..8, first all lower halves, then all upper ones; pairs of bits in bytes 8..12.
                    let low = U::field(lower[SUB % 8 / 4], (8 * (SUB % 4) + 4 * (SUB / 8)) as u32, 15);
                    let high = U::field(upper, (8 * (SUB % 4) + 2 * (SUB / 4)) as u32, 3);
                    let sub = U::number(U::join::<4>(low, high), 32);
                    product::<U>(scale, sub).store(to.scale(block * RUNS + SUB / 2, SUB % 2));
                });
            }
        }
    }
}

// SAFETY: reads blocks of 144 bytes only.
unsafe impl Codes for Q4K {
    const LAYOUT: Layout = MINIMUMS;
    const BLOCK: usize = 144;
    const RUNS: usize = RUNS;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        for pair in 0..RUNS / 2 {
            // SAFETY: the caller's promise.
            unsafe {
                let (low, high) = half_bytes::<U, S, Self>(columns, block, 16 + pair * 32);
                to.codes(2 * pair, &low);
                to.codes(2 * pair + 1, &high);
            }
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { six_bits::<U, S, Self>(columns, first, count, to) }
    }
}

// SAFETY: reads blocks of 176 bytes only.
unsafe impl Codes for Q5K {
    const LAYOUT: Layout = MINIMUMS;
    const BLOCK: usize = 176;
    const RUNS: usize = RUNS;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise.
        unsafe {
            let fifth = bytes_of_run::<U, S, Self>(columns, block, 16);
            unroll!(PAIR in [0, 1, 2, 3] {
                let (mut low, mut high) = half_bytes::<U, S, Self>(columns, block, 48 + PAIR * 32);
                for (i, fifth) in fifth.iter().enumerate() {
                    low[i] = U::join::<4>(low[i], U::bits(*fifth, 2 * PAIR as u32, 1));
                    high[i] = U::join::<4>(high[i], U::bits(*fifth, 2 * PAIR as u32 + 1, 1));
                }
                to.codes(2 * PAIR, &low);
                to.codes(2 * PAIR + 1, &high);
            });
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { six_bits::<U, S, Self>(columns, first, count, to) }
    }
}

// SAFETY: reads blocks of 210 bytes only.
unsafe impl Codes for Q6K {
    const LAYOUT: Layout = Layout { zero: Zero::Code(32), halves: true, minimums: false };
    const BLOCK: usize = 210;
    const RUNS: usize = RUNS;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        for half in 0..2 {
            // SAFETY: the caller's promise. Each half of the block has 64 bytes of nibbles for four runs and 32 of upper bits.
            unsafe {
                let upper = bytes_of_run::<U, S, Self>(columns, block, 128 + half * 32);
                let nibbles = [
                    bytes_of_run::<U, S, Self>(columns, block, half * 64),
                    bytes_of_run::<U, S, Self>(columns, block, half * 64 + 32),
                ];
                unroll!(RUN in [0, 1, 2, 3] {
                    let mut codes = nibbles[RUN % 2];
                    for (codes, upper) in codes.iter_mut().zip(&upper) {
                        let nibble = if RUN < 2 { U::low(*codes) } else { U::high(*codes) };
                        *codes = U::join::<4>(nibble, U::bits(*upper, 2 * RUN as u32, 3));
                    }
                    to.codes(half * 4 + RUN, &codes);
                });
            }
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        for block in 0..count {
            // SAFETY: the caller's promise; sixteen scales and a half end the block.
            unsafe {
                let scale = columns.last_half::<U, Self>(first + block);
                let subs = columns.words::<U, Self>(first + block, 192);
                unroll!(SUB in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                    let sub = U::signed(subs[SUB / 4], 8 * (SUB % 4) as u32);
                    product::<U>(scale, sub).store(to.scale(block * RUNS + SUB / 2, SUB % 2));
                });
            }
        }
    }
}

// SAFETY: reads blocks of 136 bytes only.
unsafe impl Codes for Iq4Xs {
    const LAYOUT: Layout = Layout::plain(Zero::Bytes);
    const BLOCK: usize = 136;
    const RUNS: usize = RUNS;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        for run in 0..RUNS {
            // SAFETY: the caller's promise.
            unsafe {
                let mut codes = nibbles::<U>(columns.words::<U, Self>(block, 8 + run * 16));
                for codes in &mut codes {
                    *codes = U::bytes(U::lookup(*codes, &IQ4_LEVELS));
                }
                to.codes(run, &codes);
            }
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        for block in 0..count {
            // SAFETY: the caller's promise.
            unsafe {
                let [high, low, ..] = columns.words::<U, Self>(first + block, 0);
                let scale = U::half(high, 0);
                unroll!(RUN in [0, 1, 2, 3, 4, 5, 6, 7] {
                    let low = U::field(low, 4 * RUN as u32, 15);
                    let high = U::field(high, 16 + 2 * RUN as u32, 3);
                    let sub = U::number(U::join::<4>(low, high), 32);
                    product::<U>(scale, sub).store(to.scale(block * RUNS + RUN, 0));
                });
            }
        }
    }
}

// SAFETY: reads blocks of 66 bytes only.
unsafe impl Codes for Tq2_0 {
    const LAYOUT: Layout = Layout::plain(Zero::Code(1));
    const BLOCK: usize = 66;
    const RUNS: usize = RUNS;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise.
        unsafe { two_bits::<U, S, Self>(columns, block, 0, to) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { columns.halves::<U, Self>([64, 0], first, count, to) }
    }
}

/// Codes of a block in the pairs of bits of 64 bytes from byte `at` on: those of four runs in each half.
#[inline(always)]
unsafe fn two_bits<U: Unit, S: Source, F: Codes>(columns: S, block: usize, at: usize, to: &mut impl Sink<U>) {
    for part in 0..2 {
        // SAFETY: the caller's promise.
        unsafe {
            let pairs = bytes_of_run::<U, S, F>(columns, block, at + part * 32);
            unroll!(RUN in [0, 1, 2, 3] {
                let mut codes = pairs;
                for codes in &mut codes {
                    *codes = U::bits(*codes, 2 * RUN as u32, 3);
                }
                to.codes(part * 4 + RUN, &codes);
            });
        }
    }
}

/// Codes in the lower and in the upper halves of 32 bytes from byte `at` on.
#[inline(always)]
unsafe fn half_bytes<U: Unit, S: Source, F: Codes>(
    columns: S,
    block: usize,
    at: usize,
) -> ([U::Words; CODE_WORDS], [U::Words; CODE_WORDS]) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut low = bytes_of_run::<U, S, F>(columns, block, at);
        let mut high = low;
        for (low, high) in low.iter_mut().zip(&mut high) {
            (*low, *high) = (U::low(*low), U::high(*high));
        }
        (low, high)
    }
}

/// A product.
#[inline(always)]
unsafe fn product<U: Unit>(a: U::Floats, b: U::Floats) -> U::Floats {
    // SAFETY: the caller's promise.
    unsafe { a.multiply_add(b, U::Floats::zero()) }
}

/// Floats with the other sign.
#[inline(always)]
unsafe fn negated<U: Unit>(floats: U::Floats) -> U::Floats {
    // SAFETY: the caller's promise.
    unsafe { product::<U>(floats, U::Floats::splat(&-1.0)) }
}

/// Scales and minimums of 6 bits: the first four of each are the lower bits of bytes 0..4 and 4..8; the others have
/// their lower bits in the halves of bytes 8..12 and their upper ones above the first four.
#[inline(always)]
unsafe fn six_bits<U: Unit, S: Source, F: Codes>(columns: S, first: usize, count: usize, to: Place) {
    for block in 0..count {
        // SAFETY: the caller's promise: a block begins with two halves and twelve bytes.
        unsafe {
            let [halves, one, two, both] = columns.words::<U, F>(first + block, 0);
            let (scale, factor) = (U::half(halves, 0), negated::<U>(U::half(halves, 16)));
            let to = to.skip(block * RUNS);
            unroll!(I in [0, 1, 2, 3] {
                let at = 8 * I as u32;
                let sub = U::number(U::field(one, at, 63), 0);
                product::<U>(scale, sub).store(to.scale(I, 0));
                let sub = U::number(U::field(two, at, 63), 0);
                product::<U>(factor, sub).store(to.scale(I, 1));
                let sub = U::number(U::join::<4>(U::field(both, at, 15), U::field(one, at + 6, 3)), 0);
                product::<U>(scale, sub).store(to.scale(I + 4, 0));
                let sub = U::number(U::join::<4>(U::field(both, at + 4, 15), U::field(two, at + 6, 3)), 0);
                product::<U>(factor, sub).store(to.scale(I + 4, 1));
            });
        }
    }
}
