//! Where the blocks of weight rows are: as files have them, one row after the other ([`Strided`]), or with sixteen rows interleaved
//! ([`Interleaved`]).
//!
//! Row-major, a block of `BYTES` bytes at a time:
//!
//! ```text
//! row 0: | block 0 | block 1 | ...      a vector of 16 rows reads 16 streams, and transposes 16 x 16 bytes in registers
//! row 1: | block 0 | block 1 | ...
//! ```
//!
//! Interleaved, the blocks of sixteen rows at the same depth taken apart in words of four bytes:
//!
//! ```text
//! | odd bytes of rows 0..16 | word 0 of rows 0..16 | word 1 of rows 0..16 | ... |   one stream, nothing to transpose
//! ```
//!
//! Odd bytes are those that fill no word, at a block's beginning or end ([`BlockFormat::WORDS_AT`]). The size is the same.
//!
//! Codes in planes are groups of whole words, with codes [rearranged](super::interleave) inside of them. Their scales, and their biases, are
//! interleaved as elements ([`InterleavedPlanes`]):
//!
//! ```text
//! codes:  | word 0 of rows 0..16  | word 1 of rows 0..16  | ... |
//! scales: | scale 0 of rows 0..16 | scale 1 of rows 0..16 | ... |
//! ```
//!
//! [`VectorRows`] names as many weight rows as a vector has lanes. A [`BlockView`] of it is the proof that one block of every row can be
//! read: its constructor is unsafe and states so. Reads through it are safe, as offsets are held inside blocks.
//!
//! Sixteen rows are interleaved for every instruction set, as stored weights are the same for all. Another width, such as 8 rows for AVX2,
//! is another `Interleaved<WIDTH>`: in `Dispatch` of `gemv`, in [`EitherLayout`], and in `interleave`, which writes it. [`INTERLEAVE`] then
//! becomes a constant of the instruction set, and the stored layout a part of the weights' encoding.

mod stored;

pub(super) use stored::{EitherLayout, Interleaved, InterleavedPlanes, Strided};

use super::formats::{BlockFormat, ScaleSlots};
use crate::isa::{CodeLanes, MAX_LANES};
use crate::prefetch::{LINE, fetch};
use silicide_quant::DType;
use std::marker::PhantomData;

/// Weight rows that are interleaved.
pub const INTERLEAVE: usize = MAX_LANES;

/// All weight rows of a product: the blocks of a format, or the codes of one in planes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightRows {
    /// The first block, or code, of the first row; of the first of the rows that it is interleaved with.
    pub(super) start: *const u8,
    /// Bytes from one row to the next; if interleaved, bytes of a row.
    pub(super) stride: usize,
    /// For interleaved rows, which of [`INTERLEAVE`] is the first.
    pub(super) interleaved: Option<usize>,
    /// Scales and biases in planes, if there are any.
    pub(super) planes: Option<AffinePlanes>,
}

/// Scales and biases in planes of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct AffinePlanes {
    /// The first scale of the first row.
    pub(super) scales: *const u8,
    /// The first bias of the first row.
    pub(super) biases: *const u8,
    /// Bytes from one row to the next, in both planes; if interleaved, bytes of a row.
    pub(super) stride: usize,
    /// Groups of 32 weights that share a scale and a bias.
    pub(super) groups: usize,
    /// The type of both: f16, bf16 or f32.
    pub(super) dtype: DType,
}

impl WeightRows {
    /// Returns the rows from `rows` on. Addresses only: nothing is read.
    #[inline(always)]
    pub(super) fn skip(self, rows: usize) -> WeightRows {
        let (whole, lane) = match self.interleaved {
            None => (rows, None),
            Some(lane) => {
                let row = lane + rows;
                (row / INTERLEAVE * INTERLEAVE, Some(row % INTERLEAVE))
            }
        };
        let start = self.start.wrapping_add(whole * self.stride);
        let planes = self.planes.map(|planes| AffinePlanes {
            scales: planes.scales.wrapping_add(whole * planes.stride),
            biases: planes.biases.wrapping_add(whole * planes.stride),
            ..planes
        });
        WeightRows { start, interleaved: lane, planes, ..self }
    }

    /// Prefetches the scales and biases of `rows` rows to L2, if they lie in planes. Addresses only.
    #[inline(always)]
    pub(super) fn prefetch_scales(self, rows: usize) {
        let Some(planes) = self.planes else { return };
        for plane in [planes.scales, planes.biases] {
            for line in 0..(rows * planes.stride).div_ceil(LINE) {
                fetch::<false>(plane.wrapping_add(line * LINE));
            }
        }
    }
}

/// How the blocks of a vector of weight rows lie in memory.
pub(super) trait WeightLayout: Copy {
    /// Groups whose scales are unpacked before their codes, at least.
    const SCALES_AHEAD: usize;
    /// Prefetch distance from L2 into L1, in bytes. An L1 miss that hits L2 still holds a line-fill buffer that a DRAM prefetch
    /// needs, so lines are moved early.
    const PREFETCH_L1: Option<usize>;
    /// Whether rows share cache lines.
    const SHARES_LINES: bool = false;
    /// Whether the codes of planes are [rearranged](super::interleave) inside their words.
    const REARRANGED: bool = false;

    /// Returns the layout of these rows.
    fn new(rows: WeightRows) -> Self;
    /// The address of the first block.
    fn start(self) -> *const u8;
    /// Blocks that lie together: those of one row, or of all that are interleaved.
    fn together(self) -> usize;
    /// Prefetch distance into L2, in bytes: DRAM latency times bandwidth. `None` prefetches the same place in the next vector of
    /// rows.
    fn prefetch_distance(self) -> Option<usize>;

    /// Loads 16 bytes of every lane's block from byte `at` on, which begins a word. `at` is held inside the block.
    fn words<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> [I::Words; 4];
    /// Loads the f16 at byte `at` of every lane's block; it begins a word, is the upper half of one, or fills none.
    fn f16<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> I::Floats;
    /// Widens the f16 at byte `at` of blocks: scale `slot` of all groups of a block.
    fn f16_scales<I: CodeLanes, F: BlockFormat>(
        blocks: BlockViews<I, Self, F>,
        at: usize,
        slot: usize,
        to: ScaleSlots<I>,
    );
    /// Unpacks scales and biases from planes. Layouts of blocks have none.
    #[inline(always)]
    fn plane_scales<I: CodeLanes, F: BlockFormat>(_: BlockViews<I, Self, F>, _: ScaleSlots<I>) {}
    /// Reads byte `at` of a lane's block: one of the first word, or before it. `lane` and `at` are held inside.
    fn byte<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, lane: usize, at: usize) -> u8;
}

/// A view of `I::LANES` weight rows in format `F`.
#[derive(Clone, Copy)]
pub(super) struct VectorRows<I, L, F> {
    isa: I,
    layout: L,
    format: PhantomData<F>,
}

impl<I: CodeLanes, L: WeightLayout, F: BlockFormat> VectorRows<I, L, F> {
    /// Returns a view of `LANES` rows.
    #[inline(always)]
    pub(super) fn new(isa: I, rows: WeightRows) -> VectorRows<I, L, F> {
        VectorRows { isa, layout: L::new(rows), format: PhantomData }
    }

    /// Returns the address of block `block` of the first row, or of the interleaved rows together.
    #[inline(always)]
    pub(super) fn address(self, block: usize) -> *const u8 {
        self.layout.start().wrapping_add(block * self.layout.together() * F::BYTES)
    }

    /// Returns the address to prefetch into L2 while block `block` is used. `next` is the address of the next vector of rows.
    #[inline(always)]
    pub(super) fn prefetch_address(self, block: usize, next: *const u8) -> *const u8 {
        match self.layout.prefetch_distance() {
            None => next.wrapping_add(block * I::LANES * F::BYTES),
            Some(distance) => self.address(block).wrapping_add(distance),
        }
    }

    /// Returns a view of block `block` of every row.
    ///
    /// # Safety
    /// Every row has this block, in this layout and format, and nothing writes it while the view is used.
    #[inline(always)]
    pub(super) unsafe fn block(self, block: usize) -> BlockView<I, L, F> {
        BlockView { isa: self.isa, layout: self.layout, start: self.address(block), format: PhantomData }
    }

    /// Returns a view of `count` blocks of every row from block `first` on, for their scales.
    ///
    /// # Safety
    /// Every row has these blocks, in this layout and format; where it has planes, whole scales of them. Nothing writes them while
    /// the view is used.
    #[inline(always)]
    pub(super) unsafe fn blocks(self, first: usize, count: usize) -> BlockViews<I, L, F> {
        BlockViews { rows: self, first, count }
    }
}

/// One block of each weight row of a vector, all readable.
#[derive(Clone, Copy)]
pub(super) struct BlockView<I, L, F> {
    pub(super) isa: I,
    layout: L,
    start: *const u8,
    format: PhantomData<F>,
}

impl<I: CodeLanes, L: WeightLayout, F: BlockFormat> BlockView<I, L, F> {
    /// Loads 16 bytes of each row's block from byte `at` on: word `i` has bytes `4i..4i + 4` of each. `at` begins a word.
    #[inline(always)]
    pub(super) fn words(self, at: usize) -> [I::Words; 4] {
        L::words(self, at)
    }

    /// Loads 32 bytes of each row's block from byte `at` on, as eight words.
    #[inline(always)]
    pub(super) fn words32(self, at: usize) -> [I::Words; 8] {
        let ([a, b, c, d], [e, f, g, h]) = (self.words(at), self.words(at + 16));
        [a, b, c, d, e, f, g, h]
    }

    /// Loads the f16 that ends each row's block and fills no word.
    #[inline(always)]
    pub(super) fn last_f16(self) -> I::Floats {
        const { assert!(F::BYTES % 4 == 2 && F::WORDS_AT == 0) };
        L::f16(self, F::BYTES - 2)
    }

    /// Reads byte `at` of the block of the row in `lane`: a byte of the first word, or one before it.
    #[inline(always)]
    pub(super) fn byte(self, lane: usize, at: usize) -> u8 {
        L::byte(self, lane, at)
    }
}

/// Adjacent blocks of each weight row of a vector, all readable.
#[derive(Clone, Copy)]
pub(super) struct BlockViews<I, L, F> {
    rows: VectorRows<I, L, F>,
    first: usize,
    count: usize,
}

impl<I: CodeLanes, L: WeightLayout, F: BlockFormat> BlockViews<I, L, F> {
    /// The token.
    #[inline(always)]
    pub(super) fn isa(self) -> I {
        self.rows.isa
    }

    /// The number of blocks.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        self.count
    }

    /// The views of the blocks, one by one.
    #[inline(always)]
    pub(super) fn iter(self) -> impl Iterator<Item = BlockView<I, L, F>> {
        // SAFETY: every row has these blocks (`VectorRows::blocks`).
        (self.first..self.first + self.count).map(move |block| unsafe { self.rows.block(block) })
    }

    /// Widens the f16 at byte `at` of every block to scale `slot` of all its groups.
    #[inline(always)]
    pub(super) fn f16_scales(self, at: usize, slot: usize, to: ScaleSlots<I>) {
        L::f16_scales(self, at, slot, to);
    }

    /// Unpacks scales and biases from planes: slots 0 and 1 of every group. A block is a group here.
    #[inline(always)]
    pub(super) fn plane_scales(self, to: ScaleSlots<I>) {
        L::plane_scales(self, to);
    }
}
