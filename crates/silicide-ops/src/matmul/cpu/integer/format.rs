//! What a format that is multiplied in integers says of itself: how 32 weights of some columns become codes, scales and
//! minimums. A new format is one implementation of [`Codes`] and one line in the table; `legacy` and `k` have them.

use super::unit::{MAX_LANES, Side, Unit};
use crate::matmul::cpu::vector::Vector;
use std::mem::MaybeUninit;

/// Weights under one scale.
pub(super) const LEN: usize = 32;
/// Runs of weights whose scales are decoded at a time.
pub(super) const STAGED: usize = 64;

/// Columns of weights, one to a lane.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// The first block of the first column.
    pub(super) start: *const u8,
    /// Bytes from one column to the next.
    pub(super) stride: usize,
}

/// Scales of some runs of weights, a lane to each column; and minimums, or scales of second halves. Only what was written
/// is read.
#[repr(align(64))]
pub(super) struct Scales {
    first: MaybeUninit<[[f32; MAX_LANES]; STAGED]>,
    second: MaybeUninit<[[f32; MAX_LANES]; STAGED]>,
}

impl Scales {
    /// Room for scales.
    #[inline(always)]
    pub(super) fn new() -> Scales {
        Scales { first: MaybeUninit::uninit(), second: MaybeUninit::uninit() }
    }

    /// Where scales go, and what comes second: one after the other, [`MAX_LANES`] to a run.
    #[inline(always)]
    pub(super) fn starts(&mut self) -> (*mut f32, *mut f32) {
        (self.first.as_mut_ptr().cast(), self.second.as_mut_ptr().cast())
    }

    /// Those of run `i`.
    ///
    /// # Safety
    ///
    /// The unit's instruction set is present; [`Codes::scales`] has written them. Without a second, the first stands in.
    #[inline(always)]
    pub(super) unsafe fn at<U: Unit, F: Codes>(&self, i: usize) -> (U::Floats, U::Floats) {
        // SAFETY: the caller's promise.
        unsafe {
            let first = U::Floats::load(self.first.as_ptr().cast::<f32>().add(i * MAX_LANES));
            if matches!(F::SIDE, Side::Zero(_) | Side::Bytes) {
                return (first, first);
            }
            (first, U::Floats::load(self.second.as_ptr().cast::<f32>().add(i * MAX_LANES)))
        }
    }
}

/// A format. Weights are `scale * (code - zero)`, or `scale * code + minimum`.
///
/// # Safety
///
/// The unit's instruction set is present, and as many columns as it has lanes have the runs that are asked for.
pub(super) unsafe trait Codes {
    /// What the kernel needs beside activations, which says where zero is.
    const SIDE: Side;
    /// Bytes of a block.
    const BLOCK: usize;
    /// Runs of [`LEN`] weights in a block.
    const RUNS: usize;
    /// Bytes of a run, on average, rounded up.
    const BYTES: usize = Self::BLOCK.div_ceil(Self::RUNS);

    /// The codes of run `run`: words `i` are weights `4i..4i + 4`.
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8];
    /// The scales, and minimums or second scales if there are any, of `count` runs from `first` on, whole blocks of them;
    /// at most [`STAGED`].
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales);
}

/// What dot products of the format start from.
///
/// # Safety
///
/// The unit's instruction set is present, and `side` is a word of rounded activations.
#[inline(always)]
pub(super) unsafe fn start<U: Unit, F: Codes>(side: *const u8) -> U::Sums {
    // SAFETY: the caller's promise.
    unsafe { if F::SIDE == Side::Sum { U::zero() } else { U::splat(side.cast()) } }
}

/// [`Unit::dot`] for the codes of the format.
///
/// # Safety
///
/// The unit's instruction set is present, and `x` has four rounded activations.
#[inline(always)]
pub(super) unsafe fn dot<U: Unit, F: Codes>(sums: U::Sums, codes: U::Words, x: *const u8) -> U::Sums {
    // SAFETY: the caller's promise.
    unsafe {
        if F::SIDE == Side::Bytes {
            U::dot::<true>(sums, codes, x.cast())
        } else {
            U::dot::<false>(sums, codes, x.cast())
        }
    }
}

/// Codes from nibbles: the lower ones are weights 0..16, the upper ones weights 16..32.
#[inline(always)]
pub(super) unsafe fn nibbles<U: Unit>([a, b, c, d]: [U::Words; 4]) -> [U::Words; 8] {
    // SAFETY: the caller's promise.
    unsafe { [U::low(a), U::low(b), U::low(c), U::low(d), U::high(a), U::high(b), U::high(c), U::high(d)] }
}

/// Half-precision numbers at byte `AT` of blocks of `BYTES`.
#[inline(always)]
pub(super) unsafe fn halves<U: Unit, const BYTES: usize, const AT: usize>(
    columns: Columns,
    first: usize,
    count: usize,
    to: *mut f32,
) {
    let mut staged = MaybeUninit::<[[u16; MAX_LANES]; STAGED]>::uninit();
    let staged = staged.as_mut_ptr().cast::<u16>();
    // SAFETY: the caller's promise: the columns have these blocks; what is converted was staged, and has room for the
    // most lanes.
    unsafe {
        let start = columns.start.add(first * BYTES + AT);
        for lane in 0..U::Floats::LANES {
            stage::<BYTES>(start.add(lane * columns.stride), count, staged.add(lane));
        }
        for block in 0..count {
            U::Floats::load_f16(staged.add(block * MAX_LANES)).store(to.add(block * MAX_LANES));
        }
    }
}

/// The halves of one column, one in every `BYTES`, to one lane of as many vectors. Through memory, as putting sixteen
/// numbers into one register takes longer than all else; not inlined, lest the compiler do just that.
#[inline(never)]
unsafe fn stage<const BYTES: usize>(from: *const u8, count: usize, to: *mut u16) {
    for block in 0..count {
        // SAFETY: the caller's promise: the column has `count` blocks, and there are as many vectors.
        unsafe {
            let half = from.add(block * BYTES).cast::<u16>().read_unaligned();
            *to.add(block * MAX_LANES) = u16::from_le(half);
        }
    }
}
