//! Products of dense weights through views: extents are checked, and each function is compiled once for each instruction set.
//!
//! ```text
//! for NC outputs:                         # few rows: a GEMV over all outputs instead, nothing is packed
//!     for KC of the depth:
//!         pack NC x KC weights to a panel     # in L2
//!         for MR rows: for NR outputs: microkernel
//! ```

use super::element::Element;
use super::gemv::GemvPart;
use super::interleave::InterleaveElements;
use super::lanes::{DenseLanes, OutputTile};
use super::microkernel::MultiplyPanel;
use super::pack::{PackInterleaved, PackRows, PackedPanel};
use super::scores::{ScoreTask, TransposeKeys};
use super::values::{FoldParts, ValueTask, WeightedValues};
use super::weights::{DenseRows, DenseWeights, by_element};
use crate::isa::{CodeLanes, IntLanes, Simd};
use crate::q8::INTERLEAVE;
use crate::view::{GemmError, Matrix, MatrixMut};
use std::mem::MaybeUninit;
use std::ops::Range;

/// NC: the outputs of a panel. 6 x 8, 3 x 16 or 1 x 48 of the register tiles.
pub const NC: usize = 48;
/// KC: the depth of a panel.
pub const KC: usize = 1024;
/// Up to this many rows a product is a GEMV: packing a panel does not pay.
pub const GEMV_ROWS: usize = 8;

/// Workspace: memory for a panel of packed weights, 192 KiB, to stay in L2 beside the activations that pass. Its contents are
/// unspecified.
#[repr(C, align(64))]
pub struct DenseWorkspace([MaybeUninit<f32>; NC * KC]);

impl std::fmt::Debug for DenseWorkspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DenseWorkspace")
    }
}

impl DenseWorkspace {
    /// Returns a workspace on the heap.
    pub fn new() -> Box<DenseWorkspace> {
        // SAFETY: all fields are `MaybeUninit`.
        unsafe { Box::new_uninit().assume_init() }
    }

    /// Returns memory as a workspace.
    #[inline(always)]
    pub fn from_uninit(memory: &mut MaybeUninit<DenseWorkspace>) -> &mut DenseWorkspace {
        // SAFETY: all fields are `MaybeUninit`.
        unsafe { memory.assume_init_mut() }
    }
}

/// Refuses an extent that is not the expected one.
#[inline(always)]
pub(super) fn same(
    argument: &'static str,
    what: &'static str,
    expected: usize,
    got: usize,
) -> Result<(), GemmError> {
    if expected == got { Ok(()) } else { Err(GemmError::Extent { argument, what, expected, got }) }
}

/// A product of rows of f32 with some outputs of dense weights.
///
/// An output is `fma(x[l], w[l], sum)` over the depth `l` in sequence, from zero, or from what `out` has if `accumulate`. So its bits
/// depend neither on the number of rows, nor on the layout of the weights, nor on the outputs that are computed beside it, nor on where a
/// caller cuts the depth.
#[derive(Clone, Debug)]
pub struct DenseGemm<'a> {
    /// The LHS.
    pub lhs: Matrix<'a, f32>,
    /// The RHS.
    pub rhs: DenseWeights<'a>,
    /// Which outputs are computed: rows of the RHS. Of those that are interleaved, whole sets of sixteen.
    pub outputs: Range<usize>,
    /// Whether sums start from what `out` has, rather than from zero.
    pub accumulate: bool,
}

impl DenseGemm<'_> {
    /// Computes the outputs: row `i`, column `j` of `out` is row `i` of the LHS times row `outputs.start + j` of the RHS.
    #[inline(always)]
    pub fn compute<I: F32Kernels>(
        &self,
        isa: I,
        mut out: MatrixMut<'_, f32>,
        workspace: &mut DenseWorkspace,
    ) -> Result<(), GemmError> {
        let rhs = self.check([out.rows(), out.columns()])?;
        let out = OutputTile { start: out.as_mut_ptr(), stride: out.stride(), accumulate: self.accumulate };
        isa.compute(CheckedDense(DenseCall::Gemm { lhs: self.lhs, rhs, out, workspace }));
        Ok(())
    }

    /// Checks that extents agree; returns the weights of the outputs.
    #[inline(always)]
    fn check(&self, [rows, columns]: [usize; 2]) -> Result<DenseWeights<'_>, GemmError> {
        let (Range { start, end }, [n, k]) = (self.outputs.clone(), self.rhs.extents());
        if start >= end {
            return Err(GemmError::Empty { argument: "outputs", what: "rows" });
        }
        if end > n {
            return Err(GemmError::Length { argument: "outputs", needed: end, got: n });
        }
        same("lhs", "columns", k, self.lhs.columns())?;
        same("out", "rows", self.lhs.rows(), rows)?;
        same("out", "columns", end - start, columns)?;
        // The range is inside, so only sets can be cut.
        let got = if start.is_multiple_of(INTERLEAVE) { end } else { start };
        let cut = GemmError::Multiple { argument: "outputs", what: "bounds", of: INTERLEAVE, got };
        self.rhs.tile(start..end, 0..k).ok_or(cut)
    }
}

/// Computes `out = lhs . rhs^T` for few rows: reads the RHS once, and packs nothing. Outputs are those of [`DenseGemm`], to the last bit.
pub fn gemv<I: F32Kernels>(
    isa: I,
    lhs: Matrix<'_, f32>,
    rhs: DenseWeights<'_>,
    mut out: MatrixMut<'_, f32>,
) -> Result<(), GemmError> {
    let outputs = 0..rhs.extents()[0];
    let product = DenseGemm { lhs, rhs, outputs, accumulate: false };
    let rhs = product.check([out.rows(), out.columns()])?;
    let out = OutputTile { start: out.as_mut_ptr(), stride: out.stride(), accumulate: false };
    isa.compute(CheckedDense(DenseCall::Gemv { lhs, rhs, out }));
    Ok(())
}

/// A product whose extents were checked.
#[derive(Debug)]
pub struct CheckedDense<'a>(pub(super) DenseCall<'a>);

/// The products.
#[derive(Debug)]
pub(super) enum DenseCall<'a> {
    Gemm { lhs: Matrix<'a, f32>, rhs: DenseWeights<'a>, out: OutputTile, workspace: &'a mut DenseWorkspace },
    Gemv { lhs: Matrix<'a, f32>, rhs: DenseWeights<'a>, out: OutputTile },
    Interleave { size: usize, from: &'a [u8], to: &'a mut [u8] },
    KeyScores { lhs: Matrix<'a, f32>, sets: DenseRows<'a>, out: OutputTile, ahead: Option<usize> },
    TransposeKeys { rows: DenseRows<'a>, set: &'a mut [f32] },
    FoldValues { call: WeightedValues<'a>, sums: OutputTile },
    FoldParts { sum: &'a mut [f32], parts: Matrix<'a, f32>, factors: &'a [[f32; 2]] },
}

/// An instruction set with products of dense weights. The function is compiled once for it, in this crate.
pub trait F32Kernels: Simd {
    /// Computes a product.
    #[doc(hidden)]
    fn compute(self, call: CheckedDense<'_>);
}

/// Implements [`F32Kernels`].
macro_rules! f32_kernels {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        impl F32Kernels for crate::isa::$name {
            fn compute(self, call: CheckedDense<'_>) {
                compute(self, call.0);
            }
        }
    };
}

f32_kernels!(
    #[cfg(target_arch = "x86_64")]
    Avx512
);
f32_kernels!(
    #[cfg(target_arch = "x86_64")]
    Avx2
);
f32_kernels!(
    #[cfg(target_arch = "aarch64")]
    Neon
);
f32_kernels!(Portable);

/// Computes a call. Tasks are functions of their own: inside larger ones, registers run short.
#[inline(always)]
fn compute<I: DenseLanes + IntLanes>(isa: I, call: DenseCall<'_>) {
    match call {
        DenseCall::Gemm { lhs, rhs, out, workspace } => {
            for (rows, interleaved, first) in rhs.parts() {
                let out = out.skip(0, first);
                by_element!(rows, rhs => {
                    if lhs.rows() <= GEMV_ROWS {
                        gemv_part(isa, GemvPart { lhs, rhs, out }, interleaved);
                    } else {
                        gemm_panels(isa, GemvPart { lhs, rhs, out }, interleaved, workspace);
                    }
                });
            }
        }
        DenseCall::Gemv { lhs, rhs, out } => {
            for (rows, interleaved, first) in rhs.parts() {
                let out = out.skip(0, first);
                by_element!(rows, rhs => gemv_part(isa, GemvPart { lhs, rhs, out }, interleaved));
            }
        }
        DenseCall::Interleave { size: 4, from, to } => {
            let isa = isa.unpacker();
            isa.run_task(InterleaveElements::<_, 4> { isa, from, to });
        }
        DenseCall::Interleave { from, to, .. } => {
            let isa = isa.unpacker();
            isa.run_task(InterleaveElements::<_, 2> { isa, from, to });
        }
        DenseCall::KeyScores { lhs, sets, out, ahead } => {
            by_element!(sets, sets => ScoreTask { isa, lhs, sets, out, ahead }.by_strips());
        }
        DenseCall::TransposeKeys { rows, set } => {
            by_element!(rows, rows => isa.run(TransposeKeys { isa, rows, set }))
        }
        DenseCall::FoldValues { call, sums } => {
            by_element!(call.values, values => ValueTask { isa, call, values, sums }.by_strips());
        }
        DenseCall::FoldParts { sum, parts, factors } => isa.run(FoldParts { isa, sum, parts, factors }),
    }
}

/// Computes a GEMV in either layout.
#[inline(always)]
fn gemv_part<I: DenseLanes, T: Element>(isa: I, part: GemvPart<'_, T>, interleaved: bool) {
    if interleaved { isa.gemv_interleaved(part) } else { isa.gemv_in_place(part) }
}

/// Computes a GEMM by panels.
#[inline(always)]
fn gemm_panels<I: DenseLanes, T: Element>(
    isa: I,
    part: GemvPart<'_, T>,
    interleaved: bool,
    workspace: &mut DenseWorkspace,
) {
    const { assert!(NC.is_multiple_of(INTERLEAVE) && NC.is_multiple_of(super::SUM_PADDING)) };
    let GemvPart { lhs, rhs, out } = part;
    let (panel, together) =
        (workspace.0.as_mut_ptr().cast::<f32>(), if interleaved { INTERLEAVE } else { 1 });
    let n = rhs.rows() * together;
    for output in (0..n).step_by(NC) {
        let outputs = NC.min(n - output);
        for first in (0..lhs.columns()).step_by(KC) {
            let depth = KC.min(lhs.columns() - first);
            let weights = rhs.tile(
                output / together..(output + outputs) / together,
                first * together..(first + depth) * together,
            );
            let (Some(weights), Some(lhs)) = (weights, lhs.tile(0..lhs.rows(), first..first + depth)) else {
                return;
            };
            if interleaved {
                isa.run(PackInterleaved { isa, sets: weights, panel });
            } else {
                isa.run(PackRows { isa, rows: weights, panel });
            }
            // SAFETY: the task has packed these extents; the workspace has room for NC x KC, whole vectors of every instruction set.
            let panel = unsafe { PackedPanel::from_packed(panel, [outputs, depth]) };
            let accumulate = out.accumulate || first > 0;
            let out = OutputTile { accumulate, ..out.skip(0, output) };
            isa.run(MultiplyPanel { isa, lhs, panel, out });
        }
    }
}
