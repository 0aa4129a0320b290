//! `softmax` on the CPU: the maximum of a row in a first pass, exponentials and their sum in a second, weights written
//! in a third. Exponentials of rows that fit are kept for the third pass, those of longer rows computed again.

use super::Softmax;
use crate::cpu::element::{Target, code, read_coded, view_coded};
use crate::cpu::math::exp_down;
use crate::cpu::{Portable, Simd};
use crate::rows::cpu::{
    HEADER, LONG, Lanes, Room, RowKernel, Run, fetch_next_row, fits, plan, row_programs, streaming,
};
use crate::rows::lanes::{largest_of, sum_of};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Tile};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Bindings; without a mask, `x` stands in for it.
const X: usize = 0;
const MASK: usize = 1;
const Y: usize = 2;

/// Parameter words; a mask of no rows is none.
const SCALE: usize = HEADER;
const MASK_ROWS: usize = HEADER + 1;
const X_CODE: usize = HEADER + 2;
const MASK_CODE: usize = HEADER + 3;

/// The longest row whose exponentials are kept.
const KEPT: usize = 8 << 10;

/// Workspace: the exponentials of a row. Not initialised: that would take longer than a short row.
type Kept = [MaybeUninit<f32>; KEPT];

/// The largest logit of a run, and the sum of `exp(logit - largest)`.
#[derive(Clone, Copy, Debug)]
struct Weights {
    largest: f32,
    sum: f64,
}

impl Weights {
    /// Of nothing. The lowest number lies below every logit but -infinity, whose exponentials it makes 0.
    const NONE: Weights = Weights { largest: f32::MIN, sum: 0.0 };

    /// Of both together.
    #[inline(always)]
    fn with(self, other: Weights) -> Weights {
        let largest = if other.largest > self.largest { other.largest } else { self.largest };
        // One value, so the instruction set does not matter.
        let scaled =
            |weights: Weights| weights.sum * f64::from(exp_down::<Portable>(weights.largest - largest));
        Weights { largest, sum: scaled(self) + scaled(other) }
    }

    /// What one unit of weight becomes.
    #[inline(always)]
    fn share(self) -> f32 {
        if self.sum == 0.0 { 0.0 } else { (1.0 / self.sum) as f32 }
    }
}

struct Weigh;

row_programs!(PROGRAMS, Weigh, "softmax.rows.cpu");

/// A block of logits: as many as there are, each `scale · x` still to be taken where there is no mask.
struct Logits<'a> {
    values: &'a [f32],
    scale: f32,
}

impl<'a> Logits<'a> {
    /// # Safety
    /// As for [`RowKernel`]; the block lies in the run.
    #[inline(always)]
    unsafe fn load<S: Simd>(
        tile: &Tile<'a>,
        run: Run,
        block: Range<usize>,
        first: &'a mut [f32],
        second: &'a mut [f32],
    ) -> Logits<'a> {
        let (scale, mask_rows) = (tile.param_f32(SCALE), tile.param(MASK_ROWS) as usize);
        let at = run.at(block.start);
        // SAFETY: the caller's promise; the mask has rows as long as those of `x`.
        unsafe {
            if mask_rows == 0 {
                return Logits { values: view_coded::<S>(tile, X, tile.param(X_CODE), at, first), scale };
            }
            read_coded::<S>(tile, X, tile.param(X_CODE), at, first);
            let at = run.row % mask_rows * run.k + block.start;
            let masks = view_coded::<S>(tile, MASK, tile.param(MASK_CODE), at, second);
            for (value, mask) in first.iter_mut().zip(masks) {
                *value = *value * scale + *mask;
            }
        }
        Logits { values: first, scale: 1.0 }
    }
}

/// The largest logit of a run.
///
/// # Safety
/// As for [`RowKernel`].
#[inline(always)]
unsafe fn largest<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> f32 {
    let mut largest = f32::MIN;
    for block in run.blocks() {
        let Room { first, second, .. } = lanes.room(block.len());
        // SAFETY: the caller's promise.
        let Logits { values, scale } = unsafe { Logits::load::<S>(tile, run, block, first, second) };
        largest = largest_of(values, |x| x * scale, largest);
    }
    largest
}

/// The exponentials of a block, while the block below is on its way.
///
/// # Safety
/// As for [`RowKernel`]; the block lies in the run.
#[inline(always)]
unsafe fn exponentials<'a, S: Simd>(
    tile: &Tile<'_>,
    room: Room<'a>,
    run: Run,
    block: Range<usize>,
    largest: f32,
) -> &'a mut [f32] {
    // As many lines as a core can wait for.
    const PIECE: usize = 256;
    let Room { first, second, results } = room;
    // SAFETY: the caller's promise.
    let Logits { values, scale } = unsafe { Logits::load::<S>(tile, run, block.clone(), first, second) };
    let pieces = results.chunks_mut(PIECE).zip(values.chunks(PIECE));
    for ((results, values), start) in pieces.zip(block.step_by(PIECE)) {
        fetch_next_row(tile, X, tile.param(X_CODE), run, start..start + values.len());
        for (result, value) in results.iter_mut().zip(values) {
            *result = exp_down::<S>(*value * scale - largest);
        }
    }
    results
}

impl RowKernel for Weigh {
    type Partial = Weights;
    const LONGEST: usize = LONG;
    const WRITES_RUNS: bool = true;
    const WORKSPACE: usize = size_of::<Kept>();

    #[inline(always)]
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> Weights {
        let mut sum = 0.0;
        // SAFETY: the caller's promise.
        let largest = unsafe { largest::<S>(tile, lanes, run) };
        for block in run.blocks() {
            let room = lanes.room(block.len());
            // SAFETY: the caller's promise.
            let weights = unsafe { exponentials::<S>(tile, room, run, block, largest) };
            sum += sum_of(weights, |x| x);
        }
        Weights { largest, sum }
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run, partials: &[Weights]) {
        let mut all = Weights::NONE;
        for partial in partials {
            all = all.with(*partial);
        }
        let share = all.share();
        for block in run.blocks() {
            let (at, room) = (run.at(block.start), lanes.room(block.len()));
            // SAFETY: the caller's promise; every block is read before it is written.
            unsafe {
                let weights = exponentials::<S>(tile, room, run, block, all.largest);
                for weight in weights.iter_mut() {
                    *weight *= share;
                }
                target(tile).write::<S>(tile, at, weights);
            }
        }
    }

    #[inline(always)]
    unsafe fn row<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) {
        if run.k > KEPT {
            // SAFETY: the caller's promise.
            return unsafe {
                let weights = Self::reduce::<S>(tile, lanes, run);
                Self::finish::<S>(tile, lanes, run, &[weights]);
            };
        }
        // SAFETY: the only reference into the workspace; an array of `MaybeUninit` needs no initialisation.
        let kept = unsafe { tile.workspace::<Kept>().assume_init_mut() };
        let mut sum = 0.0;
        // SAFETY: the caller's promise.
        let largest = unsafe { largest::<S>(tile, lanes, run) };
        for block in run.blocks() {
            let (room, kept) = (lanes.room(block.len()), &mut kept[block.clone()]);
            // SAFETY: the caller's promise.
            let weights = unsafe { exponentials::<S>(tile, room, run, block, largest) };
            sum += sum_of(weights, |x| x);
            kept.write_copy_of_slice(weights);
        }
        let share = Weights { largest, sum }.share();
        for block in run.blocks() {
            let Room { results, .. } = lanes.room(block.len());
            // SAFETY: every block was written in the loop above.
            let kept = unsafe { kept[block.clone()].assume_init_ref() };
            for (result, weight) in results.iter_mut().zip(kept) {
                *result = *weight * share;
            }
            // SAFETY: the caller's promise; the whole row has been read.
            unsafe { target(tile).write::<S>(tile, run.at(block.start), results) };
        }
    }
}

/// Where the weights go.
#[inline(always)]
fn target(tile: &Tile<'_>) -> Target {
    Target { binding: Y, code: tile.param(X_CODE), streaming: streaming(tile) }
}

/// Tiles of rows.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = Softmax;

    fn name(&self) -> &'static str {
        "softmax.rows.cpu"
    }

    fn fits(&self, _op: &Softmax, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &Softmax, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let mask = u8::from(op.masked);
        let mask_info = io.input(mask as usize);
        let mask_rows = if op.masked { mask_info.elements() / io.input(0).shape.last().max(1) } else { 0 };
        let args = [Arg::slot(0), Arg::slot(mask), Arg::slot(1 + mask)];
        let params = [op.scale.to_bits(), mask_rows as u32, code(io.input(0).dtype), code(mask_info.dtype)];
        plan::<Weigh>(&PROGRAMS, io, &args, &params)
    }
}
