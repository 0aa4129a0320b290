//! The formats of few levels in short blocks: IQ4_NL, MXFP4 and NVFP4, whose nibbles stand for levels of a table; Q1_0, of signs.

use super::format::{CODE_WORDS, Codes, Layout, Place, Sink, Zero, nibbles};
use super::source::Source;
use super::unit::Unit;
use crate::f32::vector::Vector;

/// 4-bit codes of uneven levels, and a scale.
pub(super) struct Iq4Nl;
/// 4-bit floats under a power of two.
pub(super) struct Mxfp4;

/// 4-bit floats under small floats, four groups of 16: in each the lower halves of eight bytes come first.
pub(super) struct Nvfp4;
/// Signs of 128 weights under one scale.
pub(super) struct Q1_0;

/// What nibbles of IQ4 stand for.
pub(super) const IQ4_LEVELS: [u8; 16] = [
    -127i8 as u8,
    -104i8 as u8,
    -83i8 as u8,
    -65i8 as u8,
    -49i8 as u8,
    -35i8 as u8,
    -22i8 as u8,
    -10i8 as u8,
    1,
    13,
    25,
    38,
    53,
    69,
    89,
    113,
];
/// Where zero is among [`FP4_LEVELS`].
const FP4_ZERO: u8 = 12;
/// Twice what 4-bit floats stand for, above [`FP4_ZERO`].
const FP4_LEVELS: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

// SAFETY: reads blocks of 18 bytes only.
unsafe impl Codes for Iq4Nl {
    const LAYOUT: Layout = Layout::plain(Zero::Bytes);
    const BLOCK: usize = 18;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow a scale.
        unsafe {
            let mut codes = nibbles::<U>(columns.words::<U, Self>(block, 2));
            for codes in &mut codes {
                *codes = U::bytes(U::lookup(*codes, &IQ4_LEVELS));
            }
            to.codes(0, &codes);
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { columns.halves::<U, Self>([0, 0], first, count, to) }
    }
}

// SAFETY: reads blocks of 17 bytes only.
unsafe impl Codes for Mxfp4 {
    const LAYOUT: Layout = Layout::plain(Zero::Code(FP4_ZERO));
    const BLOCK: usize = 17;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 1;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow an exponent.
        unsafe {
            let mut codes = nibbles::<U>(columns.words::<U, Self>(block, 1));
            for codes in &mut codes {
                *codes = U::lookup(*codes, &FP4_LEVELS);
            }
            to.codes(0, &codes);
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        for lane in 0..U::Floats::LANES {
            for block in 0..count {
                // SAFETY: the caller's promise.
                unsafe {
                    let exponent = columns.byte::<Self>(lane, first + block, 0);
                    *to.scale(block, 0).add(lane) = HALF_POWERS[usize::from(exponent)];
                }
            }
        }
    }
}

// SAFETY: reads blocks of 36 bytes only.
unsafe impl Codes for Nvfp4 {
    const LAYOUT: Layout = Layout { zero: Zero::Code(FP4_ZERO), halves: true, minimums: false };
    const BLOCK: usize = 36;
    const RUNS: usize = 2;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        for run in 0..Self::RUNS {
            // SAFETY: the caller's promise; 32 bytes of nibbles follow four scales.
            unsafe {
                let words = columns.words::<U, Self>(block, 4 + run * 16);
                let [a, b, c, d, e, f, g, h] = nibbles::<U>(words);
                let mut codes = [a, b, e, f, c, d, g, h];
                for codes in &mut codes {
                    *codes = U::lookup(*codes, &FP4_LEVELS);
                }
                to.codes(run, &codes);
            }
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        for lane in 0..U::Floats::LANES {
            for group in 0..4 * count {
                // SAFETY: the caller's promise.
                unsafe {
                    let scale = columns.byte::<Self>(lane, first + group / 4, group % 4);
                    let scale = HALF_FLOATS[usize::from(scale)];
                    *to.scale(group / 2, group % 2).add(lane) = scale;
                }
            }
        }
    }
}

// SAFETY: reads blocks of 18 bytes only.
unsafe impl Codes for Q1_0 {
    // Bits are spread as 16 or 0: eightfold levels of 1 and -1.
    const LAYOUT: Layout = Layout::plain(Zero::Code(8));
    const BLOCK: usize = 18;
    const RUNS: usize = 4;
    const WORDS_AT: usize = 2;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise; sixteen bytes of signs follow a scale.
        unsafe {
            let signs = columns.words::<U, Self>(block, 2);
            for (run, signs) in signs.into_iter().enumerate() {
                let mut codes = [signs; CODE_WORDS];
                for (word, codes) in codes.iter_mut().enumerate() {
                    *codes = U::spread(*codes, 4 * word as u32);
                }
                to.codes(run, &codes);
            }
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe {
            columns.halves::<U, Self>([0, 0], first, count, to);
            for run in 0..count * Self::RUNS {
                let scale = U::Floats::load(to.scale(run, 0));
                scale.multiply_add(U::Floats::splat(&0.125), U::Floats::zero()).store(to.scale(run, 0));
            }
        }
    }
}

/// Half of what every byte stands for as a float without sign, of four bits of exponent and three of mantissa; the pattern for NaN
/// is zero.
static HALF_FLOATS: [f32; 256] = {
    let (mut floats, mut i) = ([0.0; 256], 0);
    while i < 256 {
        let (exponent, mantissa) = (i as u32 >> 3 & 15, i as u32 & 7);
        // Below the normal range, mantissas count units of 2^-9.
        let small = mantissa as f32 / 1024.0;
        let normal = f32::from_bits((exponent + 127 - 8) << 23 | mantissa << 20);
        floats[i] = if i == 0x7f {
            0.0
        } else if exponent == 0 {
            small
        } else {
            normal
        };
        i += 1;
    }
    floats
};

/// `2^(exponent - 128)` for every exponent, the scale of levels that are doubled; at most `2^100`, which no weight needs and with
/// which sums stay finite.
static HALF_POWERS: [f32; 256] = {
    let (mut powers, mut i) = ([0.0; 256], 0);
    while i < 256 {
        let exponent = if i < 228 { i as u32 } else { 228 };
        powers[i] = f32::from_bits(if exponent < 2 { 1 << (21 + exponent) } else { (exponent - 1) << 23 });
        i += 1;
    }
    powers
};
