//! The layouts: [`Strided`], [`Interleaved`], [`InterleavedPlanes`], and [`EitherLayout`] for code that is compiled once for two of them.

use super::{AffinePlanes, BlockView, BlockViews, INTERLEAVE, VectorRows, WeightLayout, WeightRows};
use crate::isa::{CodeLanes, MAX_LANES};
use crate::q8::formats::{BlockFormat, MAX_KC, ScaleSlots};
use silicide_quant::DType;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Rows one after the other.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Strided(WeightRows);

/// Rows that are interleaved, `WIDTH` together. The width is a parameter: what is best differs by instruction set.
#[derive(Clone, Copy)]
pub(in crate::q8) struct Interleaved<const WIDTH: usize> {
    start: *const u8,
    /// Which of the interleaved rows is in the first lane.
    lane: usize,
}

/// Codes, scales and biases in planes, each of which is interleaved.
#[derive(Clone, Copy)]
pub(in crate::q8) struct InterleavedPlanes {
    codes: Interleaved<INTERLEAVE>,
    planes: Option<AffinePlanes>,
}

/// One layout or the other, by a branch. Both are of blocks.
#[derive(Clone, Copy)]
pub(in crate::q8) enum EitherLayout {
    Strided(Strided),
    Interleaved(Interleaved<INTERLEAVE>),
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
    const PREFETCH_L1: Option<usize> = None;

    #[inline(always)]
    fn new(rows: WeightRows) -> Strided {
        Strided(rows)
    }

    #[inline(always)]
    fn start(self) -> *const u8 {
        self.0.start
    }

    #[inline(always)]
    fn together(self) -> usize {
        1
    }

    #[inline(always)]
    fn prefetch_distance(self) -> Option<usize> {
        None
    }

    #[inline(always)]
    fn words<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> [I::Words; 4] {
        let at = hold_words::<F>(at);
        // SAFETY: 16 bytes from `at` on are in the block, which can be read in every row (`VectorRows::block`).
        unsafe { block.isa.load_transposed(block.start.add(at), block.layout.0.stride) }
    }

    #[inline(always)]
    fn f16<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> I::Floats {
        // 16 bytes that end with the f16.
        let [.., last] = Strided::words(block, at.saturating_sub(14));
        block.isa.f16_in_word(last, 16)
    }

    #[inline(always)]
    fn f16_scales<I: CodeLanes, F: BlockFormat>(
        blocks: BlockViews<I, Self, F>,
        at: usize,
        slot: usize,
        to: ScaleSlots<I>,
    ) {
        const { assert!(F::BYTES >= 2) };
        let BlockViews { rows, first, count } = blocks;
        let start = rows.address(first).wrapping_add(at.min(F::BYTES - 2));
        let scales = StridedF16 { start, stride: rows.layout.0.stride, step: F::BYTES, count };
        // SAFETY: every row has these blocks (`VectorRows::blocks`), and the f16 is inside them.
        unsafe { scales.unpack::<I, false>(rows.isa, to, F::GROUPS, slot) }
    }

    #[inline(always)]
    fn plane_scales<I: CodeLanes, F: BlockFormat>(blocks: BlockViews<I, Self, F>, to: ScaleSlots<I>) {
        let (isa, Some(planes)) = (blocks.isa(), blocks.rows.layout.0.planes) else { return };
        let AffinePlanes { stride, groups, dtype, .. } = planes;
        for (slot, plane) in [planes.scales, planes.biases].into_iter().enumerate() {
            let start = plane.wrapping_add(blocks.first / groups * dtype.size());
            let scales = StridedF16 { start, stride, step: 2, count: blocks.count / groups };
            match dtype {
                // SAFETY: planes have whole scales of these groups, one plane row to a weight row (`VectorRows::blocks`).
                DType::F16 => unsafe { scales.unpack::<I, false>(isa, to, groups, slot) },
                // SAFETY: planes have whole scales of these groups, one plane row to a weight row (`VectorRows::blocks`).
                DType::BF16 => unsafe { scales.unpack::<I, true>(isa, to, groups, slot) },
                // SAFETY: planes have the scales of these groups, of every row (`VectorRows::blocks`).
                _ => unsafe {
                    f32_scales::<I>(blocks.count, slot, to, |lane, group| {
                        plane.wrapping_add(lane * stride + (blocks.first + group) / groups * 4)
                    })
                },
            }
        }
    }

    #[inline(always)]
    fn byte<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, lane: usize, at: usize) -> u8 {
        let (lane, at) = hold_byte::<I, F>(lane, at);
        // SAFETY: the byte is in the block of one of the rows, which can be read (`VectorRows::block`).
        unsafe { *block.start.add(lane * block.layout.0.stride + at) }
    }
}

/// Holds `at` to where 16 bytes of words begin in a block.
#[inline(always)]
fn hold_words<F: BlockFormat>(at: usize) -> usize {
    const { assert!(F::BYTES >= 16 && F::WORDS_AT < 4) };
    at.clamp(F::WORDS_AT, F::BYTES - 16)
}

/// Holds `lane` to the lanes of a vector, and `at` to the first bytes of a block.
#[inline(always)]
fn hold_byte<I: CodeLanes, F: BlockFormat>(lane: usize, at: usize) -> (usize, usize) {
    const { assert!(F::BYTES >= 4) };
    (lane.min(I::LANES - 1), at.min(first_bytes::<F>() - 1))
}

impl<const WIDTH: usize> Interleaved<WIDTH> {
    /// Loads word `word` of every lane's block. There is one after `word` whole words, or it is held to the last.
    #[inline(always)]
    fn word<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, word: usize) -> I::Words {
        const { assert!(F::BYTES >= 4) };
        let word = word.min(F::BYTES / 4 - 1);
        let at = WIDTH * odd_bytes::<F>() + 4 * (word * WIDTH + block.layout.lane);
        // SAFETY: the interleaved blocks can be read (`VectorRows::block`); their words follow the odd bytes of all rows.
        unsafe { block.isa.load_adjacent(block.start.add(at)) }
    }
}

impl<const WIDTH: usize> WeightLayout for Interleaved<WIDTH> {
    const SCALES_AHEAD: usize = 1;
    const PREFETCH_L1: Option<usize> = Some(4096);
    const SHARES_LINES: bool = true;

    #[inline(always)]
    fn new(rows: WeightRows) -> Self {
        Interleaved { start: rows.start, lane: rows.interleaved.unwrap_or(0) }
    }

    #[inline(always)]
    fn start(self) -> *const u8 {
        self.start
    }

    #[inline(always)]
    fn together(self) -> usize {
        WIDTH
    }

    #[inline(always)]
    fn prefetch_distance(self) -> Option<usize> {
        Some(16384)
    }

    #[inline(always)]
    fn words<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> [I::Words; 4] {
        let word = (hold_words::<F>(at) - F::WORDS_AT) / 4;
        [
            Self::word(block, word),
            Self::word(block, word + 1),
            Self::word(block, word + 2),
            Self::word(block, word + 3),
        ]
    }

    #[inline(always)]
    fn f16<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> I::Floats {
        if odd_bytes::<F>() == 2 {
            // SAFETY: the interleaved blocks can be read (`VectorRows::block`); they begin with the odd bytes of all rows, an f16 each.
            let halves = unsafe { block.isa.load_halves(block.start.add(2 * block.layout.lane).cast()) };
            block.isa.f16_floats(halves)
        } else {
            block.isa.f16_in_word(Self::word(block, (at - F::WORDS_AT) / 4), 8 * (at % 4) as u32)
        }
    }

    #[inline(always)]
    fn f16_scales<I: CodeLanes, F: BlockFormat>(
        blocks: BlockViews<I, Self, F>,
        at: usize,
        slot: usize,
        to: ScaleSlots<I>,
    ) {
        for (i, block) in blocks.iter().enumerate() {
            let wide = Self::f16(block, at);
            for group in 0..F::GROUPS {
                to.set(block.isa, i * F::GROUPS + group, slot, wide);
            }
        }
    }

    #[inline(always)]
    fn byte<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, lane: usize, at: usize) -> u8 {
        let (lane, at) = hold_byte::<I, F>(lane, at);
        // SAFETY: the interleaved blocks can be read (`VectorRows::block`): odd bytes of all rows come first, then first words.
        unsafe { *block.start.add((block.layout.lane + lane) * first_bytes::<F>() + at) }
    }
}

impl WeightLayout for InterleavedPlanes {
    /// A turn of a vector that shares its lines.
    const SCALES_AHEAD: usize = 8;
    const PREFETCH_L1: Option<usize> = Interleaved::<INTERLEAVE>::PREFETCH_L1;
    const SHARES_LINES: bool = true;
    const REARRANGED: bool = true;

    #[inline(always)]
    fn new(rows: WeightRows) -> Self {
        InterleavedPlanes { codes: Interleaved::new(rows), planes: rows.planes }
    }

    #[inline(always)]
    fn start(self) -> *const u8 {
        self.codes.start()
    }

    #[inline(always)]
    fn together(self) -> usize {
        self.codes.together()
    }

    #[inline(always)]
    fn prefetch_distance(self) -> Option<usize> {
        self.codes.prefetch_distance()
    }

    #[inline(always)]
    fn words<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> [I::Words; 4] {
        WeightLayout::words(block.in_layout(block.layout.codes), at)
    }

    #[inline(always)]
    fn f16<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> I::Floats {
        WeightLayout::f16(block.in_layout(block.layout.codes), at)
    }

    /// Blocks of codes have no scales.
    #[inline(always)]
    fn f16_scales<I: CodeLanes, F: BlockFormat>(
        _: BlockViews<I, Self, F>,
        _: usize,
        _: usize,
        _: ScaleSlots<I>,
    ) {
    }

    #[inline(always)]
    fn plane_scales<I: CodeLanes, F: BlockFormat>(blocks: BlockViews<I, Self, F>, to: ScaleSlots<I>) {
        let InterleavedPlanes { codes, planes } = blocks.rows.layout;
        let (isa, Some(planes)) = (blocks.isa(), planes) else { return };
        let AffinePlanes { groups, dtype, .. } = planes;
        let (first, count) = (blocks.first / groups, blocks.count / groups);
        for (slot, plane) in [planes.scales, planes.biases].into_iter().enumerate() {
            let start = plane.wrapping_add((first * INTERLEAVE + codes.lane) * dtype.size());
            let rows = InterleavedF16 { start, count };
            match dtype {
                // SAFETY: planes have whole scales of these groups, of sixteen rows each (`VectorRows::blocks`).
                DType::F16 => unsafe { rows.unpack::<I, false>(isa, to, groups, slot) },
                // SAFETY: planes have whole scales of these groups, of sixteen rows each (`VectorRows::blocks`).
                DType::BF16 => unsafe { rows.unpack::<I, true>(isa, to, groups, slot) },
                // SAFETY: planes have the scales of these groups, of every row (`VectorRows::blocks`).
                _ => unsafe {
                    f32_scales::<I>(blocks.count, slot, to, |lane, group| {
                        start.wrapping_add((group / groups * INTERLEAVE + lane) * 4)
                    })
                },
            }
        }
    }

    #[inline(always)]
    fn byte<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, lane: usize, at: usize) -> u8 {
        WeightLayout::byte(block.in_layout(block.layout.codes), lane, at)
    }
}

/// Unpacks scales of f32: slot `slot` of `groups` groups. They are at the addresses that `place` returns for a lane and a group.
///
/// # Safety
/// A f32 can be read at the address of each lane and group.
#[inline(always)]
unsafe fn f32_scales<I: CodeLanes>(
    groups: usize,
    slot: usize,
    to: ScaleSlots<I>,
    place: impl Fn(usize, usize) -> *const u8,
) {
    for (lane, group) in (0..I::LANES).flat_map(|lane| (0..groups).map(move |group| (lane, group))) {
        // SAFETY: the scale can be read, by this function's contract.
        let bits = unsafe { place(lane, group).cast::<u32>().read_unaligned() };
        // `IntLanes::scale` takes scales of 22 bits; of biases, rounding leaves no more.
        to.set_lane(group, slot, lane, f32::from_bits(bits & !3));
    }
}

/// Does the same for either layout.
macro_rules! either {
    ($layout:expr, $name:ident => $body:expr) => {
        match $layout {
            EitherLayout::Strided($name) => $body,
            EitherLayout::Interleaved($name) => $body,
        }
    };
}

impl WeightLayout for EitherLayout {
    const SCALES_AHEAD: usize = 1;
    const PREFETCH_L1: Option<usize> = None;

    #[inline(always)]
    fn new(rows: WeightRows) -> EitherLayout {
        match rows.interleaved {
            None => EitherLayout::Strided(Strided::new(rows)),
            Some(_) => EitherLayout::Interleaved(Interleaved::new(rows)),
        }
    }

    #[inline(always)]
    fn start(self) -> *const u8 {
        either!(self, layout => layout.start())
    }

    #[inline(always)]
    fn together(self) -> usize {
        either!(self, layout => layout.together())
    }

    #[inline(always)]
    fn prefetch_distance(self) -> Option<usize> {
        either!(self, layout => layout.prefetch_distance())
    }

    #[inline(always)]
    fn words<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> [I::Words; 4] {
        either!(block.layout, layout => WeightLayout::words(block.in_layout(layout), at))
    }

    #[inline(always)]
    fn f16<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, at: usize) -> I::Floats {
        either!(block.layout, layout => WeightLayout::f16(block.in_layout(layout), at))
    }

    #[inline(always)]
    fn f16_scales<I: CodeLanes, F: BlockFormat>(
        blocks: BlockViews<I, Self, F>,
        at: usize,
        slot: usize,
        to: ScaleSlots<I>,
    ) {
        let BlockViews { rows: VectorRows { isa, layout, format }, first, count } = blocks;
        either!(layout, layout => {
            let rows = VectorRows { isa, layout, format };
            WeightLayout::f16_scales(BlockViews { rows, first, count }, at, slot, to);
        });
    }

    #[inline(always)]
    fn byte<I: CodeLanes, F: BlockFormat>(block: BlockView<I, Self, F>, lane: usize, at: usize) -> u8 {
        either!(block.layout, layout => WeightLayout::byte(block.in_layout(layout), lane, at))
    }
}

impl<I: CodeLanes, L: WeightLayout, F: BlockFormat> BlockView<I, L, F> {
    /// Returns the view of the same blocks in the layout that they have.
    #[inline(always)]
    fn in_layout<M: WeightLayout>(self, layout: M) -> BlockView<I, M, F> {
        BlockView { isa: self.isa, layout, start: self.start, format: PhantomData }
    }
}

/// Numbers of 16 bits, interleaved: `count` of each row from `start` on, where that of the first row is.
#[derive(Clone, Copy)]
struct InterleavedF16 {
    start: *const u8,
    count: usize,
}

impl InterleavedF16 {
    /// As [`StridedF16::unpack`].
    ///
    /// # Safety
    /// The numbers can be read in `LANES` rows, [`INTERLEAVE`] of them apart.
    #[inline(always)]
    unsafe fn unpack<I: CodeLanes, const BRAIN: bool>(
        self,
        isa: I,
        to: ScaleSlots<I>,
        groups: usize,
        slot: usize,
    ) {
        for block in 0..self.count {
            let at = self.start.wrapping_add(2 * block * INTERLEAVE);
            // SAFETY: `LANES` rows have this number, by this function's contract.
            let halves = unsafe { isa.load_halves(at.cast()) };
            let wide = if BRAIN { isa.bf16_floats(halves) } else { isa.f16_floats(halves) };
            for group in 0..groups {
                to.set(isa, block * groups + group, slot, wide);
            }
        }
    }
}

/// Numbers of 16 bits: `count` of each row from `start` on, `step` bytes apart, in rows `stride` bytes apart.
#[derive(Clone, Copy)]
pub(super) struct StridedF16 {
    pub(super) start: *const u8,
    pub(super) stride: usize,
    pub(super) step: usize,
    pub(super) count: usize,
}

impl StridedF16 {
    /// Widens the numbers, f16 or, if `BRAIN`, bf16: each is scale `slot` of `groups` groups. At most [`MAX_KC`] are taken.
    ///
    /// # Safety
    /// The numbers can be read in `LANES` rows.
    #[inline(always)]
    pub(super) unsafe fn unpack<I: CodeLanes, const BRAIN: bool>(
        self,
        isa: I,
        to: ScaleSlots<I>,
        groups: usize,
        slot: usize,
    ) {
        let mut staged = MaybeUninit::<[[u16; MAX_LANES]; MAX_KC]>::uninit();
        let (staged, count) = (staged.as_mut_ptr().cast::<u16>(), self.count.min(MAX_KC));
        for lane in 0..I::LANES {
            // SAFETY: the row has the numbers, by this function's contract; there is room for `MAX_KC` vectors of `MAX_LANES`.
            unsafe { stage(self.start.add(lane * self.stride), self.step, count, staged.add(lane)) };
        }
        for block in 0..count {
            // SAFETY: the lanes of these vectors were staged.
            let halves = unsafe { isa.load_halves(staged.add(block * MAX_LANES)) };
            let wide = if BRAIN { isa.bf16_floats(halves) } else { isa.f16_floats(halves) };
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
        // SAFETY: the row has this number, and there is this vector, by this function's contract.
        unsafe {
            let half = from.add(block * step).cast::<u16>().read_unaligned();
            *to.add(block * MAX_LANES) = u16::from_le(half);
        }
    }
}
