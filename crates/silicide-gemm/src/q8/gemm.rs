//! GEMM: panels of weights are unpacked in the thread's workspace and multiplied there with all rows.
//!
//! ```text
//! for NC outputs:                        # panels of NR, side by side in L2
//!     for KC groups of the depth:
//!         unpack NC x KC weights to panels
//!         for MR rows:                   # their activations in L1
//!             for NR outputs: microkernel    # and prefetches of what is unpacked next
//! ```
//!
//! For few rows NC is one panel and KC is short, so that it stays in L1. Formats meet only where they are unpacked: everything else
//! is compiled once for each instruction set. Each output is summed group by group, through `y` from one KC to the next, so neither
//! NC nor KC changes its bits.

use super::formats::{MAX_KC, PanelLayout, PanelSlot, UnpackPart};
use super::layout::{INTERLEAVE, WeightRows};
use super::microkernel::{self, NR_VECTORS, PanelBlock};
use super::quantize::QuantizedRows;
use crate::isa::IntLanes;
use crate::prefetch::{PrefetchRows, SpreadPrefetch};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most words of a group in a panel, for each output.
const MAX_GROUP_WORDS: usize = 12;

/// The most groups of a block, or of a scale of planes.
const MAX_BLOCK_GROUPS: usize = 8;

/// NC: the most outputs that are unpacked at a time.
pub const MAX_NC: usize = 128;

/// The most bytes of an output in a panel.
pub const PANEL_OUTPUT_BYTES: usize = 4 * MAX_GROUP_WORDS * MAX_KC;

/// Workspace of a product: panels of up to 384 KiB, to stay in L2; or what a GEMV stages, which is less. Its contents are unspecified.
#[repr(C, align(64))]
pub struct Q8Workspace([MaybeUninit<f32>; MAX_NC * MAX_GROUP_WORDS * MAX_KC]);

impl std::fmt::Debug for Q8Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Q8Workspace")
    }
}

impl Q8Workspace {
    /// Returns a workspace on the heap.
    pub fn new() -> Box<Q8Workspace> {
        // SAFETY: all fields are `MaybeUninit`.
        unsafe { Box::new_uninit().assume_init() }
    }

    /// Returns memory as a workspace.
    #[inline(always)]
    pub fn from_uninit(memory: &mut MaybeUninit<Q8Workspace>) -> &mut Q8Workspace {
        // SAFETY: all fields are `MaybeUninit`.
        unsafe { memory.assume_init_mut() }
    }
}

/// Block sizes of a GEMM: outputs and groups that are unpacked at a time. An instruction set takes at most its own NC and KC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocking {
    /// NC: whole panels, at most [`MAX_NC`].
    pub nc: usize,
    /// KC, in groups: whole blocks, at most [`MAX_KC`].
    pub kc: usize,
}

impl Blocking {
    /// For few rows: one panel that stays in L1.
    pub const FEW_ROWS: Blocking = Blocking { nc: super::NR, kc: super::GEMV_KC };
    /// For many rows: as many panels as the workspace has room for.
    pub const MANY_ROWS: Blocking = Blocking { nc: MAX_NC, kc: MAX_KC };
}

/// Quantized rows times weight rows. What weight rows hold is up to the function that unpacks them.
#[derive(Clone, Copy)]
pub(super) struct Q8Product<'a> {
    pub(super) lhs: QuantizedRows<'a>,
    pub(super) weights: WeightRows,
    pub(super) blocking: Blocking,
    /// Where output 0 of the first row would be; outputs from one row to the next.
    pub(super) y: *mut f32,
    pub(super) y_stride: usize,
    pub(super) workspace: *mut Q8Workspace,
}

impl Q8Product<'_> {
    /// Returns the workspace as memory for a `T`, which is not initialised. Every call returns the same bytes.
    #[inline(always)]
    pub(super) fn staging<T>(&self) -> *mut T {
        const { assert!(size_of::<T>() <= size_of::<Q8Workspace>()) };
        const { assert!(align_of::<T>() <= align_of::<Q8Workspace>()) };
        self.workspace.cast()
    }

    /// Returns where the codes of some outputs from output `output` and group `first` on are, for prefetches. They may not exist.
    #[inline(always)]
    pub(super) fn region(
        &self,
        (output, first): (usize, usize),
        outputs: usize,
        groups: usize,
    ) -> PrefetchRows {
        let (rows, all) = (self.weights.skip(output), self.lhs.groups());
        let together = if rows.interleaved.is_some() { INTERLEAVE } else { 1 };
        let bytes = |groups: usize| rows.stride * groups / all * together;
        PrefetchRows {
            start: rows.start.wrapping_add(bytes(first)),
            rows: outputs / together,
            bytes: bytes(groups.min(all - first)),
            stride: rows.stride * together,
        }
    }

    /// Computes the outputs of a range, which `unpack` unpacks to a layout.
    ///
    /// # Safety
    /// Weights have the rows up to the end of the range, at least `LANES`, with the groups of LHS; nothing writes them. The outputs of the
    /// range can be written in all rows of LHS. Nothing else touches them or the workspace. `unpack` fills the part that it is given.
    #[inline(always)]
    pub(super) unsafe fn multiply<I: IntLanes>(
        &self,
        isa: I,
        range: Range<usize>,
        layout: PanelLayout,
        unpack: impl Fn(&UnpackPart, &mut SpreadPrefetch),
    ) {
        const { assert!(I::NC <= MAX_NC && I::NC.is_multiple_of(super::NR) && I::KC <= MAX_KC) };
        const { assert!(I::KC.is_multiple_of(MAX_BLOCK_GROUPS)) };
        let (lanes, width, all) = (I::LANES, NR_VECTORS * I::LANES, self.lhs.groups());
        let panel = self.staging::<Q8Workspace>().cast::<f32>();
        let (nc, kc) = (self.blocking.nc.min(I::NC), self.blocking.kc.min(I::KC));
        for output in range.clone().step_by(nc) {
            let outputs = nc.min(range.end - output);
            self.weights.skip(output + nc).prefetch_scales(nc);
            for first in (0..all).step_by(kc) {
                let groups = kc.min(all - first);
                let next = if first + groups < all { (output, first + groups) } else { (output + nc, 0) };
                let vectors = outputs.div_ceil(lanes);
                let steps = groups
                    * (vectors
                        + microkernel::strips::<I>(layout, self.lhs.rows()) * vectors.div_ceil(NR_VECTORS));
                let mut next = SpreadPrefetch::new(self.region(next, nc, kc), steps);
                for at in (0..outputs.next_multiple_of(width)).step_by(lanes) {
                    // A vector that is not whole begins earlier, with outputs that are computed and not written.
                    let skipped = (output + at + lanes).saturating_sub(range.end);
                    let rows = self.weights.skip((output + at).saturating_sub(skipped));
                    let to = panel.wrapping_add(at / width * width * layout.words() * groups + at % width);
                    // SAFETY: the workspace has room for MAX_NC outputs and MAX_KC groups of every layout; `Q8Gemm::check` has compared
                    // the blocking.
                    let to = unsafe { PanelSlot::new(to, width, layout, groups) };
                    unpack(&UnpackPart { rows, first, groups, to }, &mut next);
                }
                let block = PanelBlock {
                    lhs: self.lhs,
                    row: 0,
                    rows: self.lhs.rows(),
                    first,
                    groups,
                    panel,
                    y: self.y.wrapping_add(output),
                    y_stride: self.y_stride,
                    outputs,
                    accumulate: first > 0,
                };
                // SAFETY: the panels were unpacked above, and the outputs can be written, by this function's contract.
                unsafe { microkernel::multiply(isa, layout, block, &mut next) };
            }
        }
    }
}
