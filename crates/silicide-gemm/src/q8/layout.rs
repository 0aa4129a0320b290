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
//! [`VectorRows`] is a view of as many weight rows as a vector has lanes. Its constructors are unsafe and state what is readable. A
//! [`BlockView`] made from it is the proof for one block of every row: reads through it are safe, as offsets are held inside blocks.

use super::formats::{BlockFormat, MAX_KC, ScaleSlots};
use crate::f32::vector::MAX_LANES;
use crate::isa::IntLanes;
use silicide_quant::DType;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

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
    /// Bytes from one row to the next, in both planes.
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
            scales: planes.scales.wrapping_add(rows * planes.stride),
            biases: planes.biases.wrapping_add(rows * planes.stride),
            ..planes
        });
        WeightRows { start, interleaved: lane, planes, ..self }
    }
}

/// How the blocks of a vector of weight rows lie in memory.
pub(super) trait WeightLayout: Copy {
    /// Groups whose scales are unpacked before their codes, at least.
    const SCALES_AHEAD: usize;
    /// Prefetch distance into L2, in bytes: DRAM latency times bandwidth. `None` prefetches the same place in the next vector of
    /// rows.
    const PREFETCH: Option<usize>;
    /// Prefetch distance from L2 into L1, in bytes. An L1 miss that hits L2 still holds a line-fill buffer that a DRAM prefetch
    /// needs, so lines are moved early.
    const PREFETCH_L1: Option<usize>;
    /// Blocks that lie together: those of one row, or of all that are interleaved.
    const TOGETHER: usize;

    /// Returns the layout of these rows.
    fn new(rows: WeightRows) -> Self;
    /// The address of the first block.
    fn start(self) -> *const u8;
    /// The planes of scales and biases.
    fn planes(self) -> Option<AffinePlanes>;

    /// Loads 16 bytes of every lane's block from byte `at` on, which begins a word.
    ///
    /// # Safety
    /// `block` is the address of a block that is readable for every lane, and `at + 16` bytes are in it.
    unsafe fn words<I: IntLanes, F: BlockFormat>(self, isa: I, block: *const u8, at: usize) -> [I::Words; 4];
    /// Loads the f16 at byte `at` of every lane's block; it begins a word, is the upper half of one, or fills none.
    ///
    /// # Safety
    /// As for [`WeightLayout::words`], with 2 bytes; the block has 16 bytes before the end of the f16.
    unsafe fn f16<I: IntLanes, F: BlockFormat>(self, isa: I, block: *const u8, at: usize) -> I::Floats;
    /// Widens the f16 at byte `at` of `count` blocks from `block` on: scale `slot` of all groups of a block.
    ///
    /// # Safety
    /// `count` blocks from `block` on are readable for every lane, and `at + 2` bytes are in each.
    unsafe fn f16_scales<I: IntLanes, F: BlockFormat>(
        self,
        isa: I,
        blocks: Blocks,
        at: usize,
        slot: usize,
        to: ScaleSlots<I>,
    );
    /// Reads byte `at` of a lane's block: one of the first word, or before it.
    ///
    /// # Safety
    /// As for [`WeightLayout::words`], with one byte; `lane` is one of the vector's.
    unsafe fn byte<F: BlockFormat>(self, block: *const u8, lane: usize, at: usize) -> u8;
}

/// Adjacent blocks of every row of a vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// The address of the first.
    pub(super) start: *const u8,
    pub(super) count: usize,
}

/// A view of `I::LANES` weight rows in format `F`.
#[derive(Clone, Copy)]
pub(super) struct VectorRows<I, L, F> {
    isa: I,
    layout: L,
    format: PhantomData<F>,
}

impl<I: IntLanes, L: WeightLayout, F: BlockFormat> VectorRows<I, L, F> {
    /// Returns a view of `LANES` rows.
    #[inline(always)]
    pub(super) fn new(isa: I, rows: WeightRows) -> VectorRows<I, L, F> {
        VectorRows { isa, layout: L::new(rows), format: PhantomData }
    }

    /// Returns the address of block `block` of the first row, or of the interleaved rows together.
    #[inline(always)]
    pub(super) fn address(self, block: usize) -> *const u8 {
        self.layout.start().wrapping_add(block * L::TOGETHER * F::BYTES)
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

impl<I: IntLanes, L: WeightLayout, F: BlockFormat> BlockView<I, L, F> {
    /// Loads 16 bytes of each row's block from byte `at` on: word `i` has bytes `4i..4i + 4` of each. `at` begins a word.
    #[inline(always)]
    pub(super) fn words(self, at: usize) -> [I::Words; 4] {
        const { assert!(F::BYTES >= 16 && F::WORDS_AT < 4) };
        // SAFETY: the view's block is readable for every lane, and `at` is held inside it.
        unsafe { self.layout.words::<I, F>(self.isa, self.start, at.clamp(F::WORDS_AT, F::BYTES - 16)) }
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
        const { assert!(F::BYTES >= 16 && F::BYTES % 4 == 2 && F::WORDS_AT == 0) };
        // SAFETY: the view's block is readable for every lane, and ends with the f16.
        unsafe { self.layout.f16::<I, F>(self.isa, self.start, F::BYTES - 2) }
    }

    /// Reads byte `at` of the block of the row in `lane`: a byte of the first word, or one before it.
    #[inline(always)]
    pub(super) fn byte(self, lane: usize, at: usize) -> u8 {
        const { assert!(F::BYTES >= 4) };
        // SAFETY: the view's block is readable for every lane; `lane` and `at` are held inside.
        unsafe { self.layout.byte::<F>(self.start, lane.min(I::LANES - 1), at.min(first_bytes::<F>() - 1)) }
    }
}

/// Adjacent blocks of each weight row of a vector, all readable.
#[derive(Clone, Copy)]
pub(super) struct BlockViews<I, L, F> {
    rows: VectorRows<I, L, F>,
    first: usize,
    count: usize,
}

impl<I: IntLanes, L: WeightLayout, F: BlockFormat> BlockViews<I, L, F> {
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
        // SAFETY: the view covers these blocks.
        (self.first..self.first + self.count).map(move |block| unsafe { self.rows.block(block) })
    }

    /// Widens the f16 at byte `at` of every block to scale `slot` of all its groups.
    #[inline(always)]
    pub(super) fn f16_scales(self, at: usize, slot: usize, to: ScaleSlots<I>) {
        const { assert!(F::BYTES >= 2) };
        let blocks = Blocks { start: self.rows.address(self.first), count: self.count };
        // SAFETY: the view covers these blocks, and `at` is held inside them.
        unsafe { self.rows.layout.f16_scales::<I, F>(self.rows.isa, blocks, at.min(F::BYTES - 2), slot, to) }
    }

    /// Unpacks scales and biases from planes: slots 0 and 1 of every group. A block is a group here.
    #[inline(always)]
    pub(super) fn plane_scales(self, to: ScaleSlots<I>) {
        let (isa, Some(planes)) = (self.rows.isa, self.rows.layout.planes()) else { return };
        let AffinePlanes { stride, groups, dtype, .. } = planes;
        for (slot, plane) in [planes.scales, planes.biases].into_iter().enumerate() {
            let start = plane.wrapping_add(self.first / groups * dtype.size());
            let scales = StridedF16 { start, stride, step: 2, count: self.count / groups };
            match dtype {
                // SAFETY: the view covers whole scales of these groups, one plane row to a weight row.
                DType::F16 => unsafe { scales.unpack::<I, false>(isa, to, groups, slot) },
                // SAFETY: as for f16.
                DType::BF16 => unsafe { scales.unpack::<I, true>(isa, to, groups, slot) },
                _ => {
                    for (lane, group) in
                        (0..I::LANES).flat_map(|lane| (0..self.count).map(move |group| (lane, group)))
                    {
                        let at = plane.wrapping_add(lane * stride + (self.first + group) / groups * 4);
                        // SAFETY: the view covers the scales of these groups.
                        let bits = unsafe { at.cast::<u32>().read_unaligned() };
                        // `IntLanes::scale` takes scales of 22 bits; of biases, rounding leaves no more.
                        to.set_lane(group, slot, lane, f32::from_bits(bits & !3));
                    }
                }
            }
        }
    }
}

/// Rows one after the other.
#[derive(Clone, Copy)]
pub(super) struct Strided(WeightRows);

/// Rows that are interleaved, `WIDTH` together. The width is a parameter: what is best differs by instruction set.
#[derive(Clone, Copy)]
pub(super) struct Interleaved<const WIDTH: usize> {
    start: *const u8,
    /// Which of the interleaved rows is in the first lane.
    lane: usize,
}

/// Bytes of a block that are in no word.
const fn odd_bytes<F: BlockFormat>() -> usize {
    F::BYTES % 4
}

/// Bytes of a block that [`BlockView::byte`] reads: those in no word, or the first word.
const fn first_bytes<F: BlockFormat>() -> usize {
    if odd_bytes::<F>() > 0 { odd_bytes::<F>() } else { 4 }
}

impl WeightLayout for Strided {
    const SCALES_AHEAD: usize = 16;
    const PREFETCH: Option<usize> = None;
    const PREFETCH_L1: Option<usize> = None;
    const TOGETHER: usize = 1;

    #[inline(always)]
    fn new(rows: WeightRows) -> Strided {
        Strided(rows)
    }

    #[inline(always)]
    fn start(self) -> *const u8 {
        self.0.start
    }

    #[inline(always)]
    fn planes(self) -> Option<AffinePlanes> {
        self.0.planes
    }

    #[inline(always)]
    unsafe fn words<I: IntLanes, F: BlockFormat>(self, isa: I, block: *const u8, at: usize) -> [I::Words; 4] {
        // SAFETY: the caller vouches for 16 bytes of the block of every lane.
        unsafe { isa.load_transposed(block.add(at), self.0.stride) }
    }

    #[inline(always)]
    unsafe fn f16<I: IntLanes, F: BlockFormat>(self, isa: I, block: *const u8, at: usize) -> I::Floats {
        // SAFETY: the caller vouches for 16 bytes that end with the f16.
        let [.., last] = unsafe { self.words::<I, F>(isa, block, at - 14) };
        isa.f16_in_word(last, 16)
    }

    #[inline(always)]
    unsafe fn f16_scales<I: IntLanes, F: BlockFormat>(
        self,
        isa: I,
        blocks: Blocks,
        at: usize,
        slot: usize,
        to: ScaleSlots<I>,
    ) {
        let start = blocks.start.wrapping_add(at);
        let scales = StridedF16 { start, stride: self.0.stride, step: F::BYTES, count: blocks.count };
        // SAFETY: the caller vouches for the blocks of every lane.
        unsafe { scales.unpack::<I, false>(isa, to, F::GROUPS, slot) }
    }

    #[inline(always)]
    unsafe fn byte<F: BlockFormat>(self, block: *const u8, lane: usize, at: usize) -> u8 {
        // SAFETY: the caller vouches for this byte of the lane's block.
        unsafe { *block.add(lane * self.0.stride + at) }
    }
}

impl<const WIDTH: usize> Interleaved<WIDTH> {
    /// Loads the word at byte `at` of every lane's block.
    ///
    /// # Safety
    /// As for [`WeightLayout::words`], with 4 bytes.
    #[inline(always)]
    unsafe fn word<I: IntLanes, F: BlockFormat>(self, isa: I, block: *const u8, at: usize) -> I::Words {
        let word = (at - F::WORDS_AT) / 4;
        // SAFETY: the caller vouches for the interleaved blocks; their words follow the odd bytes of all rows.
        unsafe { isa.load_adjacent(block.add(WIDTH * odd_bytes::<F>() + 4 * (word * WIDTH + self.lane))) }
    }

    /// Loads the f16 of every lane's block that is in no word.
    ///
    /// # Safety
    /// As for [`WeightLayout::words`], with the odd bytes, which are two.
    #[inline(always)]
    unsafe fn odd_f16<I: IntLanes>(self, isa: I, block: *const u8) -> I::Floats {
        // SAFETY: the caller vouches for the interleaved blocks, which begin with the odd bytes of all rows.
        unsafe { isa.load_f16(block.add(2 * self.lane).cast()) }
    }
}

impl<const WIDTH: usize> WeightLayout for Interleaved<WIDTH> {
    const SCALES_AHEAD: usize = 1;
    const PREFETCH: Option<usize> = Some(16384);
    const PREFETCH_L1: Option<usize> = Some(4096);
    const TOGETHER: usize = WIDTH;

    #[inline(always)]
    fn new(rows: WeightRows) -> Self {
        Interleaved { start: rows.start, lane: rows.interleaved.unwrap_or(0) }
    }

    #[inline(always)]
    fn start(self) -> *const u8 {
        self.start
    }

    #[inline(always)]
    fn planes(self) -> Option<AffinePlanes> {
        None
    }

    #[inline(always)]
    unsafe fn words<I: IntLanes, F: BlockFormat>(self, isa: I, block: *const u8, at: usize) -> [I::Words; 4] {
        // SAFETY: the caller vouches for four words of the block of every lane.
        unsafe {
            [
                self.word::<I, F>(isa, block, at),
                self.word::<I, F>(isa, block, at + 4),
                self.word::<I, F>(isa, block, at + 8),
                self.word::<I, F>(isa, block, at + 12),
            ]
        }
    }

    #[inline(always)]
    unsafe fn f16<I: IntLanes, F: BlockFormat>(self, isa: I, block: *const u8, at: usize) -> I::Floats {
        // SAFETY: the caller vouches for the f16 of every lane: in no word where the block has odd bytes, else in the word of `at`.
        unsafe {
            if odd_bytes::<F>() == 2 {
                self.odd_f16(isa, block)
            } else {
                isa.f16_in_word(self.word::<I, F>(isa, block, at / 4 * 4), 8 * (at % 4) as u32)
            }
        }
    }

    #[inline(always)]
    unsafe fn f16_scales<I: IntLanes, F: BlockFormat>(
        self,
        isa: I,
        blocks: Blocks,
        at: usize,
        slot: usize,
        to: ScaleSlots<I>,
    ) {
        for block in 0..blocks.count {
            // SAFETY: the caller vouches for these blocks of every lane.
            let wide = unsafe { self.f16::<I, F>(isa, blocks.start.add(block * WIDTH * F::BYTES), at) };
            for group in 0..F::GROUPS {
                to.set(isa, block * F::GROUPS + group, slot, wide);
            }
        }
    }

    #[inline(always)]
    unsafe fn byte<F: BlockFormat>(self, block: *const u8, lane: usize, at: usize) -> u8 {
        // SAFETY: the caller vouches for this byte of the lane's block: odd bytes of all rows come first, then first words.
        unsafe { *block.add((self.lane + lane) * first_bytes::<F>() + at) }
    }
}

/// Numbers of 16 bits: `count` of each row from `start` on, `step` bytes apart, in rows `stride` bytes apart.
#[derive(Clone, Copy)]
struct StridedF16 {
    start: *const u8,
    stride: usize,
    step: usize,
    count: usize,
}

impl StridedF16 {
    /// Widens the numbers, f16 or, if `BRAIN`, bf16: each is scale `slot` of `groups` groups. At most [`MAX_KC`] are taken.
    ///
    /// # Safety
    /// The numbers can be read in `LANES` rows.
    #[inline(always)]
    unsafe fn unpack<I: IntLanes, const BRAIN: bool>(
        self,
        isa: I,
        to: ScaleSlots<I>,
        groups: usize,
        slot: usize,
    ) {
        let mut staged = MaybeUninit::<[[u16; MAX_LANES]; MAX_KC]>::uninit();
        let (staged, count) = (staged.as_mut_ptr().cast::<u16>(), self.count.min(MAX_KC));
        for lane in 0..I::LANES {
            // SAFETY: the caller vouches for the row; there is room for `MAX_KC` vectors of `MAX_LANES`.
            unsafe { stage(self.start.add(lane * self.stride), self.step, count, staged.add(lane)) };
        }
        for block in 0..count {
            // SAFETY: the lanes of these vectors were staged.
            let wide = unsafe {
                let from = staged.add(block * MAX_LANES);
                if BRAIN { isa.load_bf16(from) } else { isa.load_f16(from) }
            };
            for group in 0..groups {
                to.set(isa, block * groups + group, slot, wide);
            }
        }
    }
}

/// Copies `count` numbers of one row to one lane of as many vectors. Through memory, as inserting sixteen numbers into a register takes
/// longer than all else; not inlined, so that the compiler does not do just that.
///
/// # Safety
/// `count` numbers can be read, `step` bytes apart, and as many vectors of [`MAX_LANES`] written.
#[inline(never)]
unsafe fn stage(from: *const u8, step: usize, count: usize, to: *mut u16) {
    for block in 0..count {
        // SAFETY: the caller vouches for this number and this vector.
        unsafe {
            let half = from.add(block * step).cast::<u16>().read_unaligned();
            *to.add(block * MAX_LANES) = u16::from_le(half);
        }
    }
}
