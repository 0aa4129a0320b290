//! Products of dense weights through views: extents are checked, and each function is compiled once for each instruction set.
//!
//! ```text
//! gemv, gemm:    out[i][j] = sum over l of lhs[i][l] * rhs[j][l]
//! weighted_sum:  sums[i][l] += sum over r of weights[i][r] * rows[r][l]
//! ```
//!
//! `gemv` reads the RHS once, in memory order; `gemm` packs panels of it. The two differ in the last places of an output.

use super::few::{self, Rows};
use super::pack::{self, Columns, Weight};
use super::tile::Block;
use super::vector::Unit;
use super::weighted::{self, Weighted};
use crate::isa::{Simd, Task};
use crate::view::{GemmError, Matrix, MatrixMut};
use silicide_quant::{bf16, f16};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// NC: the outputs of a panel. 1 x 48, 3 x 16 or 6 x 8 in register tiles.
pub const NC: usize = 48;
/// KC: words of depth in a panel.
pub const KC: usize = 1024;
/// What rows of sums are padded to: whole vectors of any instruction set.
pub const SUM_PADDING: usize = super::vector::MAX_LANES;

/// Workspace: a panel of packed weights, 192 KiB, to stay in L2 beside the activations that pass.
#[repr(C, align(64))]
pub struct PackedPanel([MaybeUninit<f32>; NC * KC]);

impl std::fmt::Debug for PackedPanel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PackedPanel")
    }
}

impl PackedPanel {
    /// Returns a panel on the heap.
    pub fn new() -> Box<PackedPanel> {
        // SAFETY: all fields are `MaybeUninit`.
        unsafe { Box::new_uninit().assume_init() }
    }
}

/// Rows of f32, f16 or bf16.
#[derive(Clone, Copy, Debug)]
pub enum DenseRows<'a> {
    /// Rows of f32.
    F32(Matrix<'a, f32>),
    /// Rows of f16.
    F16(Matrix<'a, f16>),
    /// Rows of bf16.
    BF16(Matrix<'a, bf16>),
}

impl DenseRows<'_> {
    /// Rows, elements of a row, and elements from one row to the next.
    fn extents(&self) -> [usize; 3] {
        match self {
            DenseRows::F32(rows) => [rows.rows(), rows.columns(), rows.stride()],
            DenseRows::F16(rows) => [rows.rows(), rows.columns(), rows.stride()],
            DenseRows::BF16(rows) => [rows.rows(), rows.columns(), rows.stride()],
        }
    }
}

/// Refuses an extent that is not the expected one.
fn same(argument: &'static str, what: &'static str, expected: usize, got: usize) -> Result<(), GemmError> {
    if expected == got { Ok(()) } else { Err(GemmError::Extent { argument, what, expected, got }) }
}

/// Checks `out = lhs . rhs^T`.
fn check(lhs: &Matrix<'_, f32>, rhs: &DenseRows<'_>, out: &MatrixMut<'_, f32>) -> Result<(), GemmError> {
    let [n, k, _] = rhs.extents();
    same("lhs", "columns", k, lhs.columns())?;
    same("out", "rows", lhs.rows(), out.rows())?;
    same("out", "columns", n, out.columns())
}

/// Computes `out = lhs . rhs^T` for few rows: reads the RHS once, and packs nothing.
pub fn gemv<I: F32Kernels>(
    isa: I,
    lhs: Matrix<'_, f32>,
    rhs: DenseRows<'_>,
    out: MatrixMut<'_, f32>,
) -> Result<(), GemmError> {
    check(&lhs, &rhs, &out)?;
    isa.compute(CheckedDense(DenseCall::Gemv { lhs, rhs, out }));
    Ok(())
}

/// Computes `out = lhs . rhs^T` for many rows: packs panels of the RHS in `panel`.
pub fn gemm<I: F32Kernels>(
    isa: I,
    lhs: Matrix<'_, f32>,
    rhs: DenseRows<'_>,
    out: MatrixMut<'_, f32>,
    panel: &mut PackedPanel,
) -> Result<(), GemmError> {
    check(&lhs, &rhs, &out)?;
    isa.compute(CheckedDense(DenseCall::Gemm { lhs, rhs, out, panel }));
    Ok(())
}

/// Adds rows to sums: `sums[i][l] += weights[i][r] * rows[r][l]` for every row `r`. Rows follow each other without gaps; rows of `sums`
/// are padded to [`SUM_PADDING`], and the padding is written too.
pub fn weighted_sum<I: F32Kernels>(
    isa: I,
    weights: Matrix<'_, f32>,
    rows: DenseRows<'_>,
    sums: MatrixMut<'_, f32>,
) -> Result<(), GemmError> {
    let [count, dim, stride] = rows.extents();
    same("rows", "stride", dim, stride)?;
    same("weights", "columns", count, weights.columns())?;
    same("sums", "rows", weights.rows(), sums.rows())?;
    same("sums", "columns", dim.next_multiple_of(SUM_PADDING), sums.columns())?;
    isa.compute(CheckedDense(DenseCall::WeightedSum { weights, rows, sums }));
    Ok(())
}

/// A product whose extents were checked.
#[derive(Debug)]
pub struct CheckedDense<'a>(DenseCall<'a>);

/// The products.
#[derive(Debug)]
enum DenseCall<'a> {
    Gemv { lhs: Matrix<'a, f32>, rhs: DenseRows<'a>, out: MatrixMut<'a, f32> },
    Gemm { lhs: Matrix<'a, f32>, rhs: DenseRows<'a>, out: MatrixMut<'a, f32>, panel: &'a mut PackedPanel },
    WeightedSum { weights: Matrix<'a, f32>, rows: DenseRows<'a>, sums: MatrixMut<'a, f32> },
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
                self.run(Compute::<Self>(call, PhantomData));
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

/// The task of a product. `U` is an instruction set whose token runs the task.
struct Compute<'a, U>(CheckedDense<'a>, PhantomData<U>);

impl<U: Unit> Task for Compute<'_, U> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        /// Calls a function with the type of elements and their address.
        macro_rules! by_element {
            ($rows:expr, $call:ident($($argument:expr),*)) => {
                // SAFETY: `check` and `weighted_sum` have compared the extents of the views; this runs on the token of `U`.
                unsafe {
                    match $rows {
                        DenseRows::F32(rows) => $call::<U, pack::F32>(rows.as_ptr(), rows.stride() $(, $argument)*),
                        DenseRows::F16(rows) => {
                            $call::<U, pack::F16>(rows.as_ptr().cast(), rows.stride() $(, $argument)*)
                        }
                        DenseRows::BF16(rows) => {
                            $call::<U, pack::BF16>(rows.as_ptr().cast(), rows.stride() $(, $argument)*)
                        }
                    }
                }
            };
        }
        match self.0.0 {
            DenseCall::Gemv { lhs, rhs, out } => by_element!(rhs, gemv_rows(lhs, out)),
            DenseCall::Gemm { lhs, rhs, out, panel } => by_element!(rhs, gemm_rows(lhs, out, panel)),
            DenseCall::WeightedSum { weights, rows, sums } => {
                let [_, dim, _] = rows.extents();
                by_element!(rows, add_rows(weights, dim, sums));
            }
        }
    }
}

/// See [`gemv`].
///
/// # Safety
/// The CPU has `U`; RHS has a row of `stride` elements for each column of `out`, of which `lhs.columns()` are read.
#[inline(always)]
unsafe fn gemv_rows<U: Unit, W: Weight>(
    rhs: *const W::Stored,
    stride: usize,
    lhs: Matrix<'_, f32>,
    mut out: MatrixMut<'_, f32>,
) {
    let rows = Rows {
        a: lhs.as_ptr(),
        b: rhs,
        y: out.as_mut_ptr(),
        depth: lhs.columns(),
        a_stride: lhs.stride(),
        b_stride: stride,
        y_stride: out.stride(),
        rows: lhs.rows(),
        columns: out.columns(),
        accumulate: false,
        ahead: Some(few::ahead::<W>(lhs.columns())),
    };
    // SAFETY: the caller vouches for the RHS; `lhs` and `out` are views of these extents.
    unsafe { few::multiply::<U, W>(&rows) }
}

/// See [`gemm`].
///
/// # Safety
/// As for [`gemv_rows`].
#[inline(always)]
unsafe fn gemm_rows<U: Unit, W: Weight>(
    rhs: *const W::Stored,
    stride: usize,
    lhs: Matrix<'_, f32>,
    mut out: MatrixMut<'_, f32>,
    panel: &mut PackedPanel,
) {
    let panel = panel.0.as_mut_ptr().cast::<f32>();
    for output in (0..out.columns()).step_by(NC) {
        let count = NC.min(out.columns() - output);
        for depth in (0..lhs.columns()).step_by(KC) {
            let panel_depth = KC.min(lhs.columns() - depth);
            let start = rhs.wrapping_add(output * stride + depth);
            let columns = Columns { start, stride, count, elements: panel_depth, panel_depth, at: 0 };
            let block = Block {
                a: lhs.as_ptr().wrapping_add(depth),
                a_stride: lhs.stride(),
                panel,
                depth: panel_depth,
                y: out.as_mut_ptr().wrapping_add(output),
                y_stride: out.stride(),
                rows: lhs.rows(),
                columns: count,
                accumulate: depth > 0,
            };
            // SAFETY: the caller vouches for the RHS; the panel has room for NC x KC words, a multiple of every vector; `lhs` and
            // `out` are views of these extents, and what is multiplied was packed.
            unsafe {
                pack::pack::<U, W>(&columns, panel);
                U::multiply(&block);
            }
        }
    }
}

/// See [`weighted_sum`].
///
/// # Safety
/// The CPU has `U`; there is a row of `dim` elements for each column of `weights`.
#[inline(always)]
unsafe fn add_rows<U: Unit, W: Weight>(
    rows: *const W::Stored,
    _: usize,
    weights: Matrix<'_, f32>,
    dim: usize,
    mut sums: MatrixMut<'_, f32>,
) {
    let all = Weighted {
        rows,
        dim,
        count: weights.columns(),
        weights: weights.as_ptr(),
        stride: weights.stride(),
        sums: sums.as_mut_ptr(),
        apart: sums.stride(),
        wanted: weights.rows(),
        ahead: None,
    };
    // SAFETY: the caller vouches for the rows; `sums` has whole vectors of `dim` elements, and `weights` one for each row.
    unsafe { weighted::add::<U, W>(&all) }
}
