//! Quantized weights: activations are quantized to 8 bits, and dot products of 32 codes are exact in 32 bits.
//!
//! `y[i][j] = sum over groups g of 32: dot(x[i][g], w[j][g] - zero) * w_scale[j][g] * x_scale[i][g] + w_minimum[j][g] * x_sum[i][g]`
//!
//! ```text
//! for row i of the activations, for output j (a row of the weights):
//!     sum = 0
//!     for group g of 32 weights:                       # or each half of it, where halves have scales of their own
//!         dot = sum of x_code[i][32 * g + l] * (w_code[j][32 * g + l] - zero), l = 0..32     # i32, exact
//!         sum = fma(dot * w_scale[j][g], x_scale[i][g], sum)
//!         if the format has minimums:
//!             sum = fma(w_minimum[j][g], x_scale[i][g] * sum of x_code[i][32 * g + l], sum)
//!     y[i][j] = sum
//! ```
//!
//! Every kernel adds the groups of an output in this order. So its bits do not depend on the number of rows, the tile, the size of
//! panels, the layout of the weights or the kernel.
//!
//! | file | what |
//! |---|---|
//! | `quantize` | quantizes activations to i8 under a scale per group of 32 |
//! | `weights` | the RHS: format, layout and extents, checked |
//! | `formats/` | block formats: how codes, scales and minimums of a vector of weight rows are unpacked |
//! | `layout` | where blocks are in memory: row after row, or interleaved |
//! | `interleave` | interleaves the blocks of sixteen weight rows |
//! | `gemv` | up to four rows, with AVX-512 up to sixteen: codes go from memory to registers and are multiplied there |
//! | `codebook_gemv/` | the same for code-book formats and affine codes, with AVX-512 VBMI |
//! | `gemm` | more rows: unpacks panels of weights and multiplies them |
//! | `microkernel` | the register tile: MR rows times a panel of NR outputs |
//!
//! Error of quantizing: an activation moves by at most 1/254 of the largest of its group. A NaN or an infinity in a group makes the
//! outputs of its row NaN.

#[cfg(target_arch = "x86_64")]
mod codebook_gemv;
mod formats;
mod gemm;
mod gemv;
mod interleave;
mod layout;
mod microkernel;
mod quantize;
mod weights;

pub use formats::{GROUP, MAX_KC};
pub use gemm::{Blocking, MAX_NC, PANEL_OUTPUT_BYTES, Q8Workspace};
pub use interleave::{CodeOrder, InterleavedBlock, interleave_plane};
pub use layout::INTERLEAVE;
pub use microkernel::MAX_MR;
pub use quantize::{QuantizedRows, QuantizedRowsMut, quantize, quantized_row_bytes};
pub use weights::Q8Weights;

use crate::isa::{IntLanes, MAX_LANES, Simd};
use crate::view::{GemmError, MatrixMut};
use formats::{affine, panel_layout, unpack};
use gemm::Q8Product;
pub(crate) use microkernel::NR_VECTORS;
use silicide_quant::Format;
use std::ops::Range;
use weights::WeightEncoding;

/// The most rows of a GEMV.
const GEMV_ROWS: usize = 4;
/// KC, in groups, for few rows: a panel stays in L1.
const GEMV_KC: usize = 16;
/// NR of the widest vectors; a multiple of that of every instruction set.
pub const NR: usize = NR_VECTORS * MAX_LANES;
/// The fewest rows of weights: a vector of them.
pub const MIN_OUTPUTS: usize = MAX_LANES;

/// Returns whether there are integer products of a format.
pub fn supports(format: Format) -> bool {
    panel_layout(format).is_some()
}

/// A product of quantized rows with some outputs of quantized weights.
#[derive(Clone, Debug)]
pub struct Q8Gemm<'a> {
    /// The LHS.
    pub lhs: QuantizedRows<'a>,
    /// The RHS.
    pub rhs: Q8Weights<'a>,
    /// Which outputs are computed: rows of the RHS.
    pub outputs: Range<usize>,
    /// Block sizes, if there is no GEMV for the product.
    pub blocking: Blocking,
}

impl Q8Gemm<'_> {
    /// Computes the outputs: row `i`, column `j` of `out` is row `i` of the LHS times row `outputs.start + j` of the RHS.
    #[inline(always)]
    pub fn compute<I: Q8Kernels>(
        &self,
        isa: I,
        mut out: MatrixMut<'_, f32>,
        workspace: &mut Q8Workspace,
    ) -> Result<(), GemmError> {
        self.check([out.rows(), out.columns()])?;
        let product = Q8Product {
            lhs: self.lhs,
            weights: self.rhs.rows,
            blocking: self.blocking,
            y: out.as_mut_ptr().wrapping_sub(self.outputs.start),
            y_stride: out.stride(),
            workspace,
        };
        isa.multiply(&CheckedProduct { encoding: self.rhs.encoding, product, outputs: self.outputs.clone() });
        Ok(())
    }

    /// Checks that extents agree.
    #[inline(always)]
    fn check(&self, [rows, columns]: [usize; 2]) -> Result<(), GemmError> {
        let extent = |argument, what, expected, got| Err(GemmError::Extent { argument, what, expected, got });
        let Range { start, end } = self.outputs;
        if self.lhs.rows() == 0 || start >= end {
            let argument = if start >= end { "outputs" } else { "lhs" };
            return Err(GemmError::Empty { argument, what: "rows" });
        }
        if self.lhs.groups() != self.rhs.groups {
            return extent("lhs", "groups", self.rhs.groups, self.lhs.groups());
        }
        // A vector that is not whole begins before the range, but not before the weights.
        let (least, most) = (MIN_OUTPUTS, self.rhs.n);
        if !(least..=most).contains(&end) {
            return Err(GemmError::Bounds { argument: "outputs", what: "end", least, most, got: end });
        }
        if self.rhs.rows.interleaved.is_some() {
            for (what, got) in [("start", start), ("end", end)] {
                if !got.is_multiple_of(INTERLEAVE) {
                    return Err(GemmError::Multiple { argument: "outputs", what, of: INTERLEAVE, got });
                }
            }
        }
        if rows != self.lhs.rows() {
            return extent("out", "rows", self.lhs.rows(), rows);
        }
        if columns != end - start {
            return extent("out", "columns", end - start, columns);
        }
        let (Blocking { nc, kc }, argument) = (self.blocking, "blocking");
        for (what, got, of, most) in [("nc", nc, NR, MAX_NC), ("kc", kc, self.rhs.encoding.groups(), MAX_KC)]
        {
            if !(1..=most).contains(&got) {
                return Err(GemmError::Bounds { argument, what, least: 1, most, got });
            }
            if !got.is_multiple_of(of) {
                return Err(GemmError::Multiple { argument, what, of, got });
            }
        }
        Ok(())
    }
}

/// A product whose extents were checked.
#[derive(Clone)]
pub struct CheckedProduct<'a> {
    encoding: WeightEncoding,
    product: Q8Product<'a>,
    outputs: Range<usize>,
}

impl std::fmt::Debug for CheckedProduct<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckedProduct").field("outputs", &self.outputs).finish_non_exhaustive()
    }
}

/// Interleaves sixteen weight rows of `format`, which follow each other in `from`. `to` has as many bytes.
#[inline(always)]
pub fn interleave<I: Q8Kernels>(isa: I, format: Format, from: &[u8], to: &mut [u8]) -> Result<(), GemmError> {
    isa.interleave(format, from, to)
}

/// An instruction set with integer products. Each function is compiled once for it, in this crate.
pub trait Q8Kernels: Simd {
    /// Computes a product: a GEMV where there is one, else by panels.
    #[doc(hidden)]
    fn multiply(self, product: &CheckedProduct<'_>);
    /// See [`interleave`](interleave()).
    #[doc(hidden)]
    fn interleave(self, format: Format, from: &[u8], to: &mut [u8]) -> Result<(), GemmError>;
}

/// Implements [`Q8Kernels`], with the GEMVs that the instruction set has: in order, the first that takes the product computes it.
macro_rules! q8_kernels {
    ($(#[$meta:meta])* $name:ident, [$($gemv:path),*]) => {
        $(#[$meta])*
        impl Q8Kernels for crate::isa::$name {
            fn multiply(self, product: &CheckedProduct<'_>) {
                multiply(self, product, &[$($gemv),*]);
            }

            fn interleave(self, format: Format, from: &[u8], to: &mut [u8]) -> Result<(), GemmError> {
                interleave::interleave(self.unpacker(), format, from, to)
            }
        }
    };
}

q8_kernels!(
    #[cfg(target_arch = "x86_64")]
    Avx512,
    [gemv::gemv, codebook_gemv::gemv, codebook_gemv::affine::gemv]
);
q8_kernels!(
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    [gemv::gemv]
);
q8_kernels!(
    #[cfg(target_arch = "x86_64")]
    Avx2,
    [gemv::gemv]
);
q8_kernels!(
    #[cfg(target_arch = "aarch64")]
    Neon,
    [gemv::gemv]
);
// Instructions are the limit and not memory: panels do as well.
q8_kernels!(Portable, []);

/// A GEMV: returns whether it computed the outputs.
///
/// # Safety
/// As for [`Q8Product::multiply`]; weights are in this encoding.
type GemvFn<I> = unsafe fn(I, WeightEncoding, &Q8Product<'_>, Range<usize>) -> bool;

/// Computes a product: by a GEMV, or by panels.
#[inline(always)]
fn multiply<I: IntLanes>(isa: I, checked: &CheckedProduct<'_>, gemvs: &[GemvFn<I>]) {
    let CheckedProduct { encoding, product, outputs } = checked;
    // SAFETY: `Q8Gemm::check` has compared the extents: weights have the outputs and groups, at least a vector of rows, and `out` the
    // outputs of all rows; views vouch for their memory, and the workspace is borrowed.
    unsafe {
        if gemvs.iter().any(|gemv| gemv(isa, *encoding, product, outputs.clone())) {
            return;
        }
        match *encoding {
            WeightEncoding::Block(format) => {
                let Some(layout) = panel_layout(format) else { return };
                product.multiply(isa, outputs.clone(), layout, |part, next| unpack(isa, format, part, next));
            }
            WeightEncoding::Affine(format) => {
                let layout = affine::panel_layout(format);
                product.multiply(isa, outputs.clone(), layout, |part, next| {
                    affine::unpack(isa, format, part, next)
                });
            }
        }
    }
}
