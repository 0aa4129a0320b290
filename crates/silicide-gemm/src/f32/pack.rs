//! Packing: weights widened to f32 in panels, as the register tile reads them.
//!
//! A panel is a sequence of sub-panels of NR outputs; the last may be narrower, in whole vectors. A sub-panel has `depth` rows of its
//! width:
//!
//! ```text
//! | w[0][0] w[1][0] .. w[NR-1][0] | w[0][1] w[1][1] .. w[NR-1][1] | ..      w[j][l]: element l of output j
//! ```
//!
//! Lanes without an output are zero. [`PackedPanel`] is the proof of what was packed: only packing makes one.

use super::element::{Element, STEP, load_step};
use super::lanes::DenseLanes;
use crate::isa::Task;
use crate::q8::INTERLEAVE;
use crate::view::Matrix;
use std::marker::PhantomData;

/// A packed panel, for an instruction set.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedPanel<'a, I> {
    /// Sub-panels of `outputs`, rounded up to whole vectors, and `depth`.
    pub(super) start: *const f32,
    pub(super) outputs: usize,
    pub(super) depth: usize,
    memory: PhantomData<(&'a [f32], I)>,
}

impl<'a, I> PackedPanel<'a, I> {
    /// Returns a panel that was packed.
    ///
    /// # Safety
    /// A task of this module has packed `outputs` by `depth` to `start` for `I`.
    #[inline(always)]
    pub(super) unsafe fn from_packed(start: *const f32, [outputs, depth]: [usize; 2]) -> PackedPanel<'a, I> {
        PackedPanel { start, outputs, depth, memory: PhantomData }
    }
}

/// Where sub-panels are: calls `each` with the first output of a sub-panel and its width in vectors.
#[inline(always)]
fn sub_panels<I: DenseLanes>(outputs: usize, mut each: impl FnMut(usize, usize)) {
    let nr = I::NR_VECTORS * I::LANES;
    for first in (0..outputs).step_by(nr) {
        each(first, (outputs - first).div_ceil(I::LANES).min(I::NR_VECTORS));
    }
}

/// Packs weight rows, which are outputs: transposes them.
pub(super) struct PackRows<'a, I, T> {
    pub(super) isa: I,
    pub(super) rows: Matrix<'a, T>,
    /// Room for the depth times the outputs, rounded up to whole vectors.
    pub(super) panel: *mut f32,
}

impl<I: DenseLanes, T: Element> Task for PackRows<'_, I, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, rows, panel } = self;
        let depth = rows.columns();
        sub_panels::<I>(rows.rows(), |first, vectors| {
            for vector in 0..vectors {
                let to = panel.wrapping_add(first * depth + vector * I::LANES);
                for at in (0..depth).step_by(STEP) {
                    let weights = load_step(isa, &rows, first + vector * I::LANES, at);
                    for (word, weights) in weights.into_iter().enumerate().take(depth - at) {
                        let to = to.wrapping_add((at + word) * vectors * I::LANES);
                        // SAFETY: the panel has room for `depth` rows of whole vectors of all outputs.
                        unsafe { isa.store(weights, to) };
                    }
                }
            }
        });
    }
}

/// Packs interleaved weights: a set of sixteen outputs is whole vectors already.
pub(super) struct PackInterleaved<'a, I, T> {
    pub(super) isa: I,
    /// Sets of sixteen outputs.
    pub(super) sets: Matrix<'a, T>,
    /// Room for the depth times the outputs, rounded up to whole vectors.
    pub(super) panel: *mut f32,
}

impl<I: DenseLanes, T: Element> Task for PackInterleaved<'_, I, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, sets, panel } = self;
        let depth = sets.columns() / INTERLEAVE;
        sub_panels::<I>(sets.rows() * INTERLEAVE, |first, vectors| {
            for vector in 0..vectors {
                let output = first + vector * I::LANES;
                let from = output / INTERLEAVE * sets.stride() + output % INTERLEAVE;
                let from = sets.as_ptr().wrapping_add(from);
                let to = panel.wrapping_add(first * depth + vector * I::LANES);
                for at in 0..depth {
                    // SAFETY: the set has `depth` vectors of sixteen; the panel has room for as many of all outputs.
                    unsafe {
                        let weights = T::load(isa, from.wrapping_add(at * INTERLEAVE));
                        isa.store(weights, to.wrapping_add(at * vectors * I::LANES));
                    }
                }
            }
        });
    }
}
