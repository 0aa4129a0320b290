//! What a format that is multiplied in integers says of itself: how blocks of some columns become codes, scales and minimums
//! in a panel. A new format is one implementation of [`Codes`] and one line in the table; `legacy`, `k`, `levels` and `mlx` have
//! them, and `spelled` serves the formats that have none.

use super::unit::Unit;
use crate::matmul::cpu::vector::{MAX_LANES, Vector};
use silicide_quant::DType;
use std::mem::MaybeUninit;

/// Weights under one scale, or two.
pub(super) const LEN: usize = 32;
/// Words of a run's codes, for each column.
pub(super) const CODE_WORDS: usize = LEN / 4;
/// The most runs that are unpacked at a time: whole blocks of every format.
pub(super) const MAX_RUNS: usize = 64;

/// Which code stands for zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zero {
    /// This one; codes are below 128.
    Code(u8),
    /// Codes are signed bytes, as [`Unit::bytes`] makes them.
    Bytes,
}

/// How a run lies in a panel: eight rows of words, four codes of each column side by side; then one scale or, with halves,
/// two; then as many minimums, if there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) zero: Zero,
    /// Whether each half of a run has its own scale and minimum.
    pub(super) halves: bool,
    /// Whether weights are `scale * (code - zero) + minimum`.
    pub(super) minimums: bool,
}

impl Layout {
    /// One scale.
    pub(super) const fn plain(zero: Zero) -> Layout {
        Layout { zero, halves: false, minimums: false }
    }

    /// Scales, or minimums.
    #[inline(always)]
    pub(super) const fn scales(self) -> usize {
        1 + self.halves as usize
    }

    /// Words of a run in a panel, for each column.
    #[inline(always)]
    pub(super) const fn words(self) -> usize {
        CODE_WORDS + self.scales() * (1 + self.minimums as usize)
    }
}

/// Columns of weights, one to a lane: the blocks of a format, or the codes of one in planes.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// The first block, or code, of the first column.
    pub(super) start: *const u8,
    /// Bytes from one column to the next.
    pub(super) stride: usize,
    /// The other planes, if there are any.
    pub(super) planes: Option<Planes>,
}

/// Scales and biases in planes of their own.
#[derive(Clone, Copy)]
pub(super) struct Planes {
    /// The first scale and bias of the first column.
    pub(super) scales: *const u8,
    pub(super) biases: *const u8,
    /// Bytes from one column to the next.
    pub(super) stride: usize,
    /// Runs that share a scale and a bias.
    pub(super) runs: usize,
    /// Their type: f16, bf16 or f32.
    pub(super) dtype: DType,
}

impl Columns {
    /// Blocks of a format.
    #[inline(always)]
    pub(super) fn of_blocks(start: *const u8, stride: usize) -> Columns {
        Columns { start, stride, planes: None }
    }

    /// Later columns.
    #[inline(always)]
    pub(super) unsafe fn skip(self, columns: usize) -> Columns {
        // SAFETY: the caller's promise: there are as many.
        unsafe {
            let mut later = Columns { start: self.start.add(columns * self.stride), ..self };
            if let Some(planes) = &mut later.planes {
                planes.scales = planes.scales.add(columns * planes.stride);
                planes.biases = planes.biases.add(columns * planes.stride);
            }
            later
        }
    }
}

/// A vector of columns in a panel: where its runs go.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) to: *mut f32,
    /// Floats from one word to the next.
    pub(super) width: usize,
    /// Words of a run.
    pub(super) words: usize,
}

impl Place {
    /// The place of later runs.
    #[inline(always)]
    pub(super) unsafe fn skip(self, runs: usize) -> Place {
        // SAFETY: the caller's promise: the panel has these runs.
        Place { to: unsafe { self.to.add(runs * self.words * self.width) }, ..self }
    }

    /// Stores the codes of run `run`.
    #[inline(always)]
    pub(super) unsafe fn codes<U: Unit>(self, run: usize, codes: &[U::Words; CODE_WORDS]) {
        for (word, codes) in codes.iter().enumerate() {
            // SAFETY: the caller's promise: the panel has this run.
            unsafe { U::store(*codes, self.to.add((run * self.words + word) * self.width).cast()) }
        }
    }

    /// Where the scales of run `run` are; minimums follow.
    #[inline(always)]
    pub(super) unsafe fn scale(self, run: usize, i: usize) -> *mut f32 {
        // SAFETY: the caller's promise: the panel has this run.
        unsafe { self.to.add((run * self.words + CODE_WORDS + i) * self.width) }
    }
}

/// What is unpacked at a time: some runs of a vector of columns.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) columns: Columns,
    /// The first run, which begins a block.
    pub(super) first: usize,
    /// Whole blocks, at most [`MAX_RUNS`].
    pub(super) runs: usize,
    pub(super) to: Place,
    /// What is read after these columns.
    pub(super) next: *const u8,
}

/// A format.
///
/// # Safety
///
/// For methods the unit's instruction set is present, as many columns as it has lanes have the blocks that are asked for, and
/// the place has room for their runs.
pub(super) unsafe trait Codes {
    /// What it unpacks to.
    const LAYOUT: Layout;
    /// Bytes of a block; of its codes, for a format in planes.
    const BLOCK: usize;
    /// Runs of [`LEN`] weights in a block.
    const RUNS: usize;

    /// Unpacks the codes of block `block`.
    unsafe fn codes<U: Unit>(columns: Columns, block: usize, to: Place);
    /// Unpacks the scales, and minimums if there are any, of `count` blocks from `first` on.
    unsafe fn scales<U: Unit>(columns: Columns, first: usize, count: usize, to: Place);
}

/// Unpacks a part, while what comes next is brought nearer in the order of memory.
///
/// # Safety
///
/// The unit's instruction set is present, the columns have the runs, and the place has room for them.
#[inline(always)]
pub(super) unsafe fn unpack<U: Unit, F: Codes>(part: &Part) {
    const LINE: usize = 64;
    let lines = (U::Floats::LANES * F::BLOCK).div_ceil(LINE);
    let (first, count) = (part.first / F::RUNS, part.runs / F::RUNS);
    // SAFETY: the caller's promise.
    unsafe {
        F::scales::<U>(part.columns, first, count, part.to);
        for block in 0..count {
            let next = part.next.wrapping_add((first + block) * U::Floats::LANES * F::BLOCK);
            for line in 0..lines {
                U::prefetch(next.wrapping_add(line * LINE));
            }
            F::codes::<U>(part.columns, first + block, part.to.skip(block * F::RUNS));
        }
    }
}

/// Codes from nibbles: the lower ones are weights 0..16, the upper ones weights 16..32.
#[inline(always)]
pub(super) unsafe fn nibbles<U: Unit>([a, b, c, d]: [U::Words; 4]) -> [U::Words; CODE_WORDS] {
    // SAFETY: the caller's promise.
    unsafe { [U::low(a), U::low(b), U::low(c), U::low(d), U::high(a), U::high(b), U::high(c), U::high(d)] }
}

/// The 32 bytes at `from` in each column, as eight words.
#[inline(always)]
pub(super) unsafe fn bytes_of_run<U: Unit>(from: *const u8, stride: usize) -> [U::Words; CODE_WORDS] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b, c, d] = U::transpose(from, stride);
        let [e, f, g, h] = U::transpose(from.add(16), stride);
        [a, b, c, d, e, f, g, h]
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
    /// Those of a format: byte `at` of `count` blocks from `first` on.
    #[inline(always)]
    pub(super) unsafe fn of<F: Codes>(columns: Columns, at: usize, first: usize, count: usize) -> Halves {
        // SAFETY: the caller's promise: the columns have these blocks.
        let start = unsafe { columns.start.add(first * F::BLOCK + at) };
        Halves { start, stride: columns.stride, bytes: F::BLOCK, count }
    }

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
