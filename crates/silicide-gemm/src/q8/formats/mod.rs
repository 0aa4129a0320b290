//! Block formats: how blocks of a vector of weight rows become codes, scales and minimums.
//!
//! `w = scale * (code - zero) + minimum`, for each group of 32 weights or each half of it. A format here is an implementation of
//! [`BlockFormat`] and a name in the table below, and is faster than one that `decode_i8` unpacks.
//!
//! | file | formats |
//! |---|---|
//! | `legacy` | Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: one scale per 32 weights |
//! | `k` | Q2_K to Q6_K, IQ4_XS, TQ2_0: 256 weights to a block, with small scales in integers |
//! | `levels` | IQ4_NL, MXFP4, NVFP4, Q1_0: codes that are looked up in a table of sixteen, and signs |
//! | `affine` | affine codes of MLX, with scales and biases in planes |
//! | `decode_i8` | every other format that `silicide-quant` decodes to i8: code books (IQ1 to IQ3) and digits (TQ1_0, Q2_0) |
//!
//! One group of a panel, for `NR_VECTORS` vectors of outputs side by side:
//!
//! ```text
//! word 0: codes 0..4 of output 0 | of output 1 | ... | of output NR - 1     4 bytes each
//! ...
//! word 7: codes 28..32 of each output
//! scale (two, where halves of a group have their own), then as many minimums: an f32 for each output
//! ```

pub(super) mod affine;
pub(super) mod decode_i8;
mod k;
mod legacy;
mod levels;

use super::layout::{
    BlockView, BlockViews, EitherLayout, INTERLEAVE, Interleaved, InterleavedPlanes, Strided, VectorRows,
    WeightLayout, WeightRows,
};
use crate::isa::{CodeLanes, CodeSums, FloatLanes, IntLanes, Task};
use crate::prefetch::{LINE, SpreadPrefetch, fetch};
use silicide_quant::Format;
use std::marker::PhantomData;
use std::ops::Range;

/// Weights of a group: those under one scale, or two.
pub const GROUP: usize = 32;
/// Words of four codes in a group.
pub(super) const CODE_WORDS: usize = GROUP / 4;
/// KC, in groups: the deepest panel, whole blocks of every format.
pub const MAX_KC: usize = 64;

/// The code that stands for zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zero {
    /// `zero`; codes are at most `largest`, which is below 64.
    Code { zero: u8, largest: u8 },
    /// Codes are signed bytes, as [`CodeLanes::signed_codes`] makes them.
    Bytes,
}

/// The layout of a group in a panel: eight words of codes; one scale or, with halves, two; then as many minimums, if there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PanelLayout {
    pub(super) zero: Zero,
    /// Whether each half of a group has its own scale and minimum.
    pub(super) halves: bool,
    /// Whether weights are `scale * (code - zero) + minimum`.
    pub(super) minimums: bool,
}

impl PanelLayout {
    /// One scale.
    pub(super) const fn plain(zero: Zero) -> PanelLayout {
        PanelLayout { zero, halves: false, minimums: false }
    }

    /// Scales of a group, or minimums.
    #[inline(always)]
    pub(super) const fn scales(self) -> usize {
        1 + self.halves as usize
    }

    /// Whether dot products start from a term of the row: not where codes have minimums and no zero.
    #[inline(always)]
    pub(super) const fn starts(self) -> bool {
        !self.minimums || matches!(self.zero, Zero::Bytes)
    }

    /// How products of codes are summed.
    #[inline(always)]
    pub(super) const fn sums(self) -> CodeSums {
        match self.zero {
            Zero::Bytes => CodeSums::Signed,
            Zero::Code { largest, .. } => {
                // Products of pairs of codes with activations of at most 127.
                let pairs = i16::MAX / (2 * 127 * largest as i16);
                assert!(pairs >= 2);
                let words = 1 << pairs.ilog2();
                let most = CODE_WORDS / self.scales();
                CodeSums::Words(if words < most { words } else { most })
            }
        }
    }

    /// Words of a group in a panel, for each output.
    #[inline(always)]
    pub(super) const fn words(self) -> usize {
        CODE_WORDS + self.scales() * (1 + self.minimums as usize)
    }
}

/// Takes the codes of the groups of a block, in their order.
pub(super) trait CodeSink<I: CodeLanes> {
    /// Takes the codes of group `group` of a block.
    fn codes(&mut self, isa: I, group: usize, codes: &[I::Words; CODE_WORDS]);
}

/// Memory for scales and minimums of `groups` groups of a vector of outputs.
#[derive(Clone, Copy)]
pub(super) struct ScaleSlots<I> {
    to: *mut f32,
    /// f32s from one slot to the next, and from one group to the next.
    step: usize,
    group_step: usize,
    groups: usize,
    slots: usize,
    isa: PhantomData<I>,
}

impl<I: FloatLanes> ScaleSlots<I> {
    /// Returns slots of `groups` groups that follow each other: vectors of `LANES`.
    ///
    /// # Safety
    /// `groups * slots * LANES` f32s can be written, and nothing else touches them while the slots are used.
    #[inline(always)]
    pub(super) unsafe fn new(to: *mut f32, groups: usize, slots: usize) -> ScaleSlots<I> {
        ScaleSlots { to, step: I::LANES, group_step: slots * I::LANES, groups, slots, isa: PhantomData }
    }

    /// Stores scale, or minimum, `slot` of a group. Slots come as a [`PanelLayout`] has them; others are ignored.
    #[inline(always)]
    pub(super) fn set(self, isa: I, group: usize, slot: usize, scales: I::Floats) {
        if let Some(to) = self.slot(group, slot) {
            // SAFETY: `slot` returns memory for a vector.
            unsafe { isa.store(scales, to) }
        }
    }

    /// Stores one lane.
    #[inline(always)]
    pub(super) fn set_lane(self, group: usize, slot: usize, lane: usize, scale: f32) {
        if let Some(to) = self.slot(group, slot) {
            // SAFETY: `slot` returns memory for a vector, of which this is a lane.
            unsafe { *to.add(lane.min(I::LANES - 1)) = scale }
        }
    }

    /// The slots of later groups.
    #[inline(always)]
    pub(super) fn skip(self, groups: usize) -> ScaleSlots<I> {
        let groups = groups.min(self.groups);
        ScaleSlots {
            to: self.to.wrapping_add(groups * self.group_step),
            groups: self.groups - groups,
            ..self
        }
    }

    /// Loads slot `slot` of a group.
    ///
    /// # Safety
    /// The group has this slot, and it was stored.
    #[inline(always)]
    pub(super) unsafe fn get(self, isa: I, group: usize, slot: usize) -> I::Floats {
        // SAFETY: the group has this slot, by this function's contract.
        unsafe { isa.load(self.to.add(group * self.group_step + slot * self.step)) }
    }

    /// The memory of a slot, which has room for a vector.
    #[inline(always)]
    fn slot(self, group: usize, slot: usize) -> Option<*mut f32> {
        let inside = group < self.groups && slot < self.slots;
        inside.then(|| self.to.wrapping_add(group * self.group_step + slot * self.step))
    }
}

/// A vector of outputs in a panel, or some lanes of it: where its groups go.
#[derive(Clone, Copy)]
pub(super) struct PanelSlot {
    /// The codes of the first lane in the first group, and its first scale.
    codes: *mut u8,
    scales: *mut f32,
    /// Outputs of the panel, side by side.
    width: usize,
    /// Words of a group.
    words: usize,
    groups: usize,
}

impl PanelSlot {
    /// Returns the slot of `groups` groups in a panel of `width` outputs.
    ///
    /// # Safety
    /// `to` is a vector's place in the first word of a panel that can be written: `groups` groups of `layout.words()` rows of `width`
    /// f32s. Nothing else touches the vector's part while the slot is used.
    #[inline(always)]
    pub(super) unsafe fn new(to: *mut f32, width: usize, layout: PanelLayout, groups: usize) -> PanelSlot {
        let scales = to.wrapping_add(CODE_WORDS * width);
        PanelSlot { codes: to.cast(), scales, width, words: layout.words(), groups }
    }

    /// The slot of `count` groups from group `first` on; of as many of them as there are.
    #[inline(always)]
    pub(super) fn part(self, first: usize, count: usize) -> PanelSlot {
        let first = first.min(self.groups);
        let skipped = first * self.words * self.width;
        PanelSlot {
            codes: self.codes.wrapping_add(4 * skipped),
            scales: self.scales.wrapping_add(skipped),
            groups: count.min(self.groups - first),
            ..self
        }
    }

    /// The slot of the vector's lanes from `lane` on, which is one of them.
    #[inline(always)]
    fn lanes<I: IntLanes>(self, lane: usize) -> PanelSlot {
        let lane = lane.min(I::LANES - 1);
        PanelSlot {
            codes: self.codes.wrapping_add(lane * I::LANE_BYTES),
            scales: self.scales.wrapping_add(lane),
            ..self
        }
    }

    /// Where scales and minimums go.
    #[inline(always)]
    pub(super) fn scales<I: FloatLanes>(self) -> ScaleSlots<I> {
        ScaleSlots {
            to: self.scales,
            step: self.width,
            group_step: self.words * self.width,
            groups: self.groups,
            slots: self.words - CODE_WORDS,
            isa: PhantomData,
        }
    }
}

impl<I: CodeLanes> CodeSink<I> for PanelSlot {
    #[inline(always)]
    fn codes(&mut self, isa: I, group: usize, codes: &[I::Words; CODE_WORDS]) {
        if group >= self.groups {
            return;
        }
        for (word, codes) in codes.iter().enumerate() {
            let to = self.codes.wrapping_add(4 * (group * self.words + word) * self.width);
            // SAFETY: the slot has this group (`PanelSlot::new`), and a word of it has room for a vector.
            unsafe { isa.store_codes(*codes, to) }
        }
    }
}

/// A format of blocks.
pub(super) trait BlockFormat: Copy {
    /// The layout that it unpacks to.
    const LAYOUT: PanelLayout;
    /// Bytes of a block; of its codes, for a format in planes.
    const BYTES: usize;
    /// Groups in a block.
    const GROUPS: usize = 1;
    /// Where words of four bytes begin in a block: after its odd bytes, or at 0, if these end it.
    const WORDS_AT: usize = 0;
    /// Whether weights can be interleaved.
    const INTERLEAVED: bool = true;
    /// Whether codes, scales and biases lie in planes.
    const IN_PLANES: bool = false;

    /// Unpacks the codes of a block.
    fn codes<I: CodeLanes, L: WeightLayout>(block: BlockView<I, L, Self>, to: &mut impl CodeSink<I>);
    /// Unpacks the scales, and minimums if there are any, of some blocks.
    fn scales<I: CodeLanes, L: WeightLayout>(blocks: BlockViews<I, L, Self>, to: ScaleSlots<I>);
}

/// A unit of unpacking: some groups of a vector of weight rows.
#[derive(Clone, Copy)]
pub(super) struct UnpackPart {
    pub(super) rows: WeightRows,
    /// The first group, which begins a block.
    pub(super) first: usize,
    /// Groups: whole blocks, at most [`MAX_KC`].
    pub(super) groups: usize,
    pub(super) to: PanelSlot,
}

impl UnpackPart {
    /// The part of the vector's lanes from `lane` on.
    #[inline(always)]
    fn lanes<I: IntLanes>(&self, lane: usize) -> UnpackPart {
        let rows = self.rows.skip(lane);
        UnpackPart { rows, to: self.to.lanes::<I>(lane), ..*self }
    }
}

/// A slot of a panel; each group that it takes is a step of a prefetch.
struct PrefetchingSlot<'a> {
    slot: PanelSlot,
    next: &'a mut SpreadPrefetch,
}

impl<I: CodeLanes> CodeSink<I> for PrefetchingSlot<'_> {
    #[inline(always)]
    fn codes(&mut self, isa: I, group: usize, codes: &[I::Words; CODE_WORDS]) {
        self.slot.codes(isa, group, codes);
        self.next.step();
    }
}

/// Unpacks a part, and prefetches what comes next.
struct Unpack<'a, U, F, L> {
    unpacker: U,
    part: UnpackPart,
    next: &'a mut SpreadPrefetch,
    format: PhantomData<(F, L)>,
}

impl<U: CodeLanes, F: BlockFormat, L: WeightLayout> Task for Unpack<'_, U, F, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { unpacker, part, next, .. } = self;
        let rows = VectorRows::<U, L, F>::new(unpacker, part.rows);
        let (first, count) = (part.first / F::GROUPS, part.groups / F::GROUPS);
        // SAFETY: `unpack_as` says that rows have these blocks.
        F::scales(unsafe { rows.blocks(first, count) }, part.to.scales());
        for block in 0..count {
            let slot = part.to.part(block * F::GROUPS, F::GROUPS);
            let mut to = PrefetchingSlot { slot, next: &mut *next };
            // SAFETY: `unpack_as` says that rows have these blocks.
            F::codes(unsafe { rows.block(first + block) }, &mut to);
        }
    }
}

/// Unpacks a part in a format, by a function of its own: inside larger ones, registers run short.
///
/// # Safety
/// `LANES` rows have the groups of the part in this format and the layout that `interleaved` says, which nothing writes.
#[inline(always)]
unsafe fn unpack_as<I: IntLanes, F: BlockFormat>(isa: I, part: &UnpackPart, next: &mut SpreadPrefetch) {
    for lane in (0..I::LANES).step_by(<I::Unpacker as FloatLanes>::LANES) {
        let (unpacker, part) = (isa.unpacker(), part.lanes::<I>(lane));
        macro_rules! run {
            ($layout:ty) => {
                unpacker.run_task(Unpack::<I::Unpacker, F, $layout> {
                    unpacker,
                    part,
                    next: &mut *next,
                    format: PhantomData,
                })
            };
        }
        if const { F::INTERLEAVED && F::IN_PLANES } && part.rows.interleaved.is_some() {
            run!(InterleavedPlanes);
        } else if const { !<I::Unpacker as CodeLanes>::UNPACK_PER_LAYOUT && !F::IN_PLANES } {
            run!(EitherLayout);
        } else if const { F::INTERLEAVED && !F::IN_PLANES } && part.rows.interleaved.is_some() {
            run!(Interleaved<INTERLEAVE>);
        } else {
            run!(Strided);
        }
    }
}

/// Cache lines of a block of every row of a vector.
pub(super) const fn lines_of_block<I: FloatLanes, F: BlockFormat>() -> usize {
    (I::LANES * F::BYTES).div_ceil(LINE)
}

/// Prefetches lines from an address on to L2; or, if `FIRST`, to L1.
#[inline(always)]
pub(super) fn prefetch<const FIRST: bool>(from: *const u8, lines: Range<usize>) {
    for line in lines {
        fetch::<FIRST>(from.wrapping_add(line * LINE));
    }
}

/// Returns the codes in nibbles: the lower ones are weights 0..16, the upper ones weights 16..32.
#[inline(always)]
fn nibbles<I: CodeLanes>(isa: I, [a, b, c, d]: [I::Words; 4]) -> [I::Words; CODE_WORDS] {
    let (low, high) = (|words| isa.low_nibbles(words), |words| isa.high_nibbles(words));
    [low(a), low(b), low(c), low(d), high(a), high(b), high(c), high(d)]
}

/// Applies `change` to each word.
#[inline(always)]
fn map_words<W: Copy>(mut words: [W; CODE_WORDS], change: impl Fn(W) -> W) -> [W; CODE_WORDS] {
    for word in &mut words {
        *word = change(*word);
    }
    words
}

/// Declares the table of formats, by file.
macro_rules! table {
    ($($file:ident: $($format:ident),+;)*) => {
        /// The layout that a format unpacks to, if it has integer products.
        pub(super) const fn panel_layout(format: Format) -> Option<PanelLayout> {
            match format {
                $($(Format::$format => Some($file::$format::LAYOUT),)+)*
                _ => decode_i8::panel_layout(format),
            }
        }

        /// Where words begin in the blocks of a format that can be interleaved.
        #[inline]
        pub(super) const fn words_at(format: Format) -> Option<usize> {
            match format {
                $($(Format::$format => Some($file::$format::WORDS_AT),)+)*
                _ => None,
            }
        }

        /// Unpacks a part of weight rows in a format.
        ///
        /// # Safety
        /// `LANES` rows have the groups of the part in this format, which nothing writes.
        pub(super) unsafe fn unpack<I: IntLanes>(
            isa: I,
            format: Format,
            part: &UnpackPart,
            next: &mut SpreadPrefetch,
        ) {
            // SAFETY: rows have the groups in this format, by this function's contract.
            unsafe {
                match format {
                    $($(Format::$format => unpack_as::<I, $file::$format>(isa, part, next),)+)*
                    format => decode_i8::unpack(isa, format, part, next),
                }
            }
        }

        /// Calls `visitor` with the format's type, if it is in the table.
        #[inline(always)]
        pub(super) fn visit<V: FormatVisitor>(format: Format, visitor: V) -> Option<V::Output> {
            match format {
                $($(Format::$format => Some(visitor.visit::<$file::$format>()),)+)*
                _ => None,
            }
        }
    };
}

table! {
    legacy: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0;
    k: Q2K, Q3K, Q4K, Q5K, Q6K, Iq4Xs, Tq2_0;
    levels: Iq4Nl, Mxfp4, Nvfp4, Q1_0;
}

/// A function over the type of a format.
pub(super) trait FormatVisitor {
    /// The type that it returns.
    type Output;
    /// Does the work for a format.
    fn visit<F: BlockFormat>(self) -> Self::Output;
}
