//! Where the blocks of columns are: as files have them, one column after the other ([`Strided`]), or with sixteen columns
//! interleaved ([`Interleaved`]).
//!
//! Interleaved blocks are those of sixteen columns at the same depth, taken apart in words of four bytes: word `i` of all
//! sixteen lies side by side, in the order of columns. Bytes that are left over, at a block's beginning or end
//! ([`Codes::WORDS_AT`]), come first, those of sixteen columns side by side too. So a vector of columns is one stream of memory,
//! and nothing has to be transposed. The size is the same.

use super::format::{Codes, MAX_RUNS, Place};
use super::unit::Unit;
use crate::f32::vector::{MAX_LANES, Vector};
use silicide_quant::DType;
use std::mem::MaybeUninit;

/// Columns that are interleaved.
pub const TOGETHER: usize = MAX_LANES;

/// Columns of weights, one to a lane: the blocks of a format, or the codes of one in planes.
#[derive(Clone, Copy)]
pub struct Columns {
    /// The first block, or code, of the first column; of the first of those it is interleaved with.
    pub(super) start: *const u8,
    /// Bytes from one column to the next; if interleaved, of a column.
    pub(super) stride: usize,
    /// Whether [`TOGETHER`] columns are interleaved, and which of them is first.
    pub(super) interleaved: Option<usize>,
    /// The other planes, if there are any.
    pub(super) planes: Option<Planes>,
}

/// Scales and biases in planes of their own.
#[derive(Clone, Copy)]
pub struct Planes {
    /// The first scale of the first column.
    pub scales: *const u8,
    /// The first bias of the first column.
    pub biases: *const u8,
    /// Bytes from one column to the next.
    pub stride: usize,
    /// Runs that share a scale and a bias.
    pub runs: usize,
    /// Their type: f16, bf16 or f32.
    pub dtype: DType,
}

impl Columns {
    /// Blocks of a format, one column after the other.
    #[inline(always)]
    pub fn of_blocks(start: *const u8, stride: usize) -> Columns {
        Columns { start, stride, interleaved: None, planes: None }
    }

    /// Blocks of a format, interleaved.
    #[inline(always)]
    pub fn interleaved(start: *const u8, stride: usize) -> Columns {
        Columns { start, stride, interleaved: Some(0), planes: None }
    }

    /// Codes of a format in planes, one column after the other.
    #[inline(always)]
    pub fn of_codes(start: *const u8, stride: usize, planes: Planes) -> Columns {
        Columns { start, stride, interleaved: None, planes: Some(planes) }
    }

    /// Later columns; if interleaved, as many as fill lanes.
    #[inline(always)]
    pub(super) unsafe fn skip(self, columns: usize) -> Columns {
        let (whole, lane) = match self.interleaved {
            None => (columns, None),
            Some(lane) => {
                let column = lane + columns;
                (column / TOGETHER * TOGETHER, Some(column % TOGETHER))
            }
        };
        // SAFETY: the caller's promise: there are as many.
        unsafe {
            let mut later = Columns { start: self.start.add(whole * self.stride), interleaved: lane, ..self };
            if let Some(planes) = &mut later.planes {
                planes.scales = planes.scales.add(columns * planes.stride);
                planes.biases = planes.biases.add(columns * planes.stride);
            }
            later
        }
    }
}

/// A vector of columns.
///
/// # Safety
///
/// For methods the unit's instruction set is present, and as many columns as it has lanes have the blocks that are asked for. Bytes
/// are counted from the start of a block.
pub(super) unsafe trait Source: Copy {
    /// Runs whose scales are unpacked before their codes.
    const AHEAD: usize;
    /// How far ahead memory is brought nearer: in bytes, or `None` for the same place in the next vector of columns.
    const NEXT: Option<usize>;
    /// How many bytes ahead memory that was brought nearer is brought to the first cache; `None` where that is not one stretch.
    const NEAR: Option<usize>;

    /// Columns of this kind.
    fn new(columns: Columns) -> Self;
    /// The other planes.
    fn planes(self) -> Option<Planes>;
    /// Where the first column's block begins; of those it is interleaved with, together.
    fn block<F: Codes>(self, block: usize) -> *const u8;
    /// Sixteen bytes of each column from byte `at` on: word `i` has bytes `4i..4i + 4` of each. They are words of the block.
    unsafe fn words<U: Unit, F: Codes>(self, block: usize, at: usize) -> [U::Words; 4];
    /// The half-precision number of each column that ends the block and is no word.
    unsafe fn last_half<U: Unit, F: Codes>(self, block: usize) -> U::Floats;
    /// Widens the half-precision number at byte `at` of `count` blocks from `first` on: scale `scale` of all runs of a block.
    unsafe fn halves<U: Unit, F: Codes>(
        self,
        at_and_scale: [usize; 2],
        first: usize,
        count: usize,
        to: Place,
    );
    /// A byte of the column in `lane`: one of the first word, or before it.
    unsafe fn byte<F: Codes>(self, lane: usize, block: usize, at: usize) -> u8;
}

/// Columns one after the other.
#[derive(Clone, Copy)]
pub(super) struct Strided(Columns);

/// Columns that are interleaved.
#[derive(Clone, Copy)]
pub(super) struct Interleaved {
    start: *const u8,
    lane: usize,
}

/// Bytes of a block that are in no word.
const fn odd<F: Codes>() -> usize {
    F::BLOCK % 4
}

// SAFETY: reads what is asked for, in blocks.
unsafe impl Source for Strided {
    const AHEAD: usize = 16;
    const NEXT: Option<usize> = None;
    const NEAR: Option<usize> = None;

    #[inline(always)]
    fn new(columns: Columns) -> Strided {
        Strided(columns)
    }

    #[inline(always)]
    fn planes(self) -> Option<Planes> {
        self.0.planes
    }

    #[inline(always)]
    fn block<F: Codes>(self, block: usize) -> *const u8 {
        self.0.start.wrapping_add(block * F::BLOCK)
    }

    #[inline(always)]
    unsafe fn words<U: Unit, F: Codes>(self, block: usize, at: usize) -> [U::Words; 4] {
        // SAFETY: the caller's promise.
        unsafe { U::transpose(self.block::<F>(block).add(at), self.0.stride) }
    }

    #[inline(always)]
    unsafe fn last_half<U: Unit, F: Codes>(self, block: usize) -> U::Floats {
        // SAFETY: the caller's promise: blocks end with it, and are longer than sixteen bytes.
        unsafe {
            let [.., last] = self.words::<U, F>(block, F::BLOCK - 16);
            U::half(last, 16)
        }
    }

    #[inline(always)]
    unsafe fn halves<U: Unit, F: Codes>(
        self,
        [at, scale]: [usize; 2],
        first: usize,
        count: usize,
        to: Place,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let start = self.block::<F>(first).add(at);
            Halves { start, stride: self.0.stride, bytes: F::BLOCK, count }.unpack::<U, false>(
                to,
                F::RUNS,
                scale,
            );
        }
    }

    #[inline(always)]
    unsafe fn byte<F: Codes>(self, lane: usize, block: usize, at: usize) -> u8 {
        // SAFETY: the caller's promise.
        unsafe { *self.block::<F>(block).add(lane * self.0.stride + at) }
    }
}

impl Interleaved {
    /// The word at byte `at` of each column's block.
    #[inline(always)]
    unsafe fn word<U: Unit, F: Codes>(self, block: usize, at: usize) -> U::Words {
        let word = (at - F::WORDS_AT) / 4;
        // SAFETY: the caller's promise.
        unsafe {
            U::adjacent(self.block::<F>(block).add(TOGETHER * odd::<F>() + 4 * (word * TOGETHER + self.lane)))
        }
    }

    /// The half-precision number that is no word.
    #[inline(always)]
    unsafe fn odd_half<U: Unit, F: Codes>(self, block: usize) -> U::Floats {
        // SAFETY: the caller's promise.
        unsafe { U::Floats::load_f16(self.block::<F>(block).add(2 * self.lane).cast()) }
    }
}

// SAFETY: reads what is asked for, in blocks.
unsafe impl Source for Interleaved {
    const AHEAD: usize = 1;
    // Far enough for what memory takes to answer, at the speed at which it gives. What then waits for the second cache only waits
    // with few requests of its own, and takes them from those to memory; so it is asked for early, too.
    const NEXT: Option<usize> = Some(16384);
    const NEAR: Option<usize> = Some(4096);

    #[inline(always)]
    fn new(columns: Columns) -> Interleaved {
        Interleaved { start: columns.start, lane: columns.interleaved.unwrap_or(0) }
    }

    #[inline(always)]
    fn planes(self) -> Option<Planes> {
        None
    }

    #[inline(always)]
    fn block<F: Codes>(self, block: usize) -> *const u8 {
        self.start.wrapping_add(block * TOGETHER * F::BLOCK)
    }

    #[inline(always)]
    unsafe fn words<U: Unit, F: Codes>(self, block: usize, at: usize) -> [U::Words; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            [
                self.word::<U, F>(block, at),
                self.word::<U, F>(block, at + 4),
                self.word::<U, F>(block, at + 8),
                self.word::<U, F>(block, at + 12),
            ]
        }
    }

    #[inline(always)]
    unsafe fn last_half<U: Unit, F: Codes>(self, block: usize) -> U::Floats {
        // SAFETY: the caller's promise.
        unsafe { self.odd_half::<U, F>(block) }
    }

    #[inline(always)]
    unsafe fn halves<U: Unit, F: Codes>(
        self,
        [at, scale]: [usize; 2],
        first: usize,
        count: usize,
        to: Place,
    ) {
        for block in 0..count {
            // SAFETY: the caller's promise.
            unsafe {
                let wide = if odd::<F>() == 2 {
                    self.odd_half::<U, F>(first + block)
                } else {
                    U::half(self.word::<U, F>(first + block, at / 4 * 4), 8 * (at % 4) as u32)
                };
                for run in 0..F::RUNS {
                    wide.store(to.scale(block * F::RUNS + run, scale));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn byte<F: Codes>(self, lane: usize, block: usize, at: usize) -> u8 {
        // SAFETY: the caller's promise.
        unsafe {
            let start = self.block::<F>(block);
            if odd::<F>() > 0 {
                *start.add((self.lane + lane) * odd::<F>() + at)
            } else {
                *start.add((self.lane + lane) * 4 + at)
            }
        }
    }
}

/// Numbers of 16 bits, one in every `bytes` of each column from `start` on.
#[derive(Clone, Copy)]
pub(super) struct Halves {
    pub(super) start: *const u8,
    pub(super) stride: usize,
    pub(super) bytes: usize,
    pub(super) count: usize,
}

impl Halves {
    /// Widens the numbers, half-precision or, if `BRAIN`, upper halves of f32: each is scale `scale` of so many runs.
    #[inline(always)]
    pub(super) unsafe fn unpack<U: Unit, const BRAIN: bool>(self, to: Place, runs: usize, scale: usize) {
        let mut staged = MaybeUninit::<[[u16; MAX_LANES]; MAX_RUNS]>::uninit();
        let staged = staged.as_mut_ptr().cast::<u16>();
        // SAFETY: the caller's promise; what is converted was staged, and has room for the most lanes.
        unsafe {
            for lane in 0..U::Floats::LANES {
                stage(self.start.add(lane * self.stride), self.bytes, self.count, staged.add(lane));
            }
            for block in 0..self.count {
                let from = staged.add(block * MAX_LANES);
                let wide = if BRAIN { U::Floats::load_bf16(from) } else { U::Floats::load_f16(from) };
                for run in 0..runs {
                    wide.store(to.scale(block * runs + run, scale));
                }
            }
        }
    }
}

/// The numbers of one column to one lane of as many vectors. Through memory, as putting sixteen numbers into one register takes
/// longer than all else; not inlined, lest the compiler do just that.
#[inline(never)]
unsafe fn stage(from: *const u8, bytes: usize, count: usize, to: *mut u16) {
    for block in 0..count {
        // SAFETY: the caller's promise: the column has `count` blocks, and there are as many vectors.
        unsafe {
            let half = from.add(block * bytes).cast::<u16>().read_unaligned();
            *to.add(block * MAX_LANES) = u16::from_le(half);
        }
    }
}
