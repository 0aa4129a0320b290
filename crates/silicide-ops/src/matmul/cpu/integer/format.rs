//! The formats that are multiplied in integers: for each, how 32 weights of some columns become codes, scales and
//! minimums. A new format is one implementation of [`Codes`] and one line in the table.

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

/// Scales and minimums of some runs of weights, a lane to each column.
#[repr(align(64))]
pub(super) struct Scales {
    pub(super) scales: [[f32; MAX_LANES]; STAGED],
    pub(super) minimums: [[f32; MAX_LANES]; STAGED],
}

impl Scales {
    /// Room for scales.
    #[inline(always)]
    pub(super) fn new() -> Scales {
        Scales { scales: [[0.0; MAX_LANES]; STAGED], minimums: [[0.0; MAX_LANES]; STAGED] }
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
    /// Bytes of 32 weights, on average.
    const BYTES: usize;

    /// The codes of run `run`: words `i` are weights `4i..4i + 4`.
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8];
    /// The scales, and minimums if there are any, of `count` runs from `first` on; at most [`STAGED`].
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales);
}

/// 4-bit codes and a scale.
pub(super) struct Q4_0;
/// 4-bit codes, a scale and a minimum.
pub(super) struct Q4_1;
/// Signed bytes and a scale.
pub(super) struct Q8_0;

// SAFETY: reads blocks of 18 bytes only.
unsafe impl Codes for Q4_0 {
    const SIDE: Side = Side::Zero8;
    const BYTES: usize = 18;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow a scale.
        unsafe { nibbles::<U>(U::transpose(columns.start.add(run * Self::BYTES + 2), columns.stride)) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { halves::<U, 18, 0>(columns, first, count, &mut to.scales) }
    }
}

// SAFETY: reads blocks of 20 bytes only.
unsafe impl Codes for Q4_1 {
    const SIDE: Side = Side::Sum;
    const BYTES: usize = 20;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise; sixteen bytes of nibbles follow a scale and a minimum.
        unsafe { nibbles::<U>(U::transpose(columns.start.add(run * Self::BYTES + 4), columns.stride)) }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe {
            halves::<U, 20, 0>(columns, first, count, &mut to.scales);
            halves::<U, 20, 2>(columns, first, count, &mut to.minimums);
        }
    }
}

// SAFETY: reads blocks of 34 bytes only.
unsafe impl Codes for Q8_0 {
    const SIDE: Side = Side::Bytes;
    const BYTES: usize = 34;

    #[inline(always)]
    unsafe fn codes<U: Unit>(columns: Columns, run: usize) -> [U::Words; 8] {
        // SAFETY: the caller's promise; 32 bytes follow a scale.
        unsafe {
            let start = columns.start.add(run * Self::BYTES + 2);
            let [a, b, c, d] = U::transpose(start, columns.stride);
            let [e, f, g, h] = U::transpose(start.add(16), columns.stride);
            // No closure: it would not have the instruction set.
            let (a, b, c, d) = (U::bytes(a), U::bytes(b), U::bytes(c), U::bytes(d));
            [a, b, c, d, U::bytes(e), U::bytes(f), U::bytes(g), U::bytes(h)]
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { halves::<U, 34, 0>(columns, first, count, &mut to.scales) }
    }
}

/// Codes from nibbles: the lower ones are weights 0..16, the upper ones weights 16..32.
#[inline(always)]
unsafe fn nibbles<U: Unit>([a, b, c, d]: [U::Words; 4]) -> [U::Words; 8] {
    // SAFETY: the caller's promise.
    unsafe { [U::low(a), U::low(b), U::low(c), U::low(d), U::high(a), U::high(b), U::high(c), U::high(d)] }
}

/// Half-precision numbers at byte `AT` of blocks of `BYTES`.
#[inline(always)]
unsafe fn halves<U: Unit, const BYTES: usize, const AT: usize>(
    columns: Columns,
    first: usize,
    count: usize,
    to: &mut [[f32; MAX_LANES]; STAGED],
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
        for (block, to) in to.iter_mut().take(count).enumerate() {
            U::Floats::load_f16(staged.add(block * MAX_LANES)).store(to.as_mut_ptr());
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
