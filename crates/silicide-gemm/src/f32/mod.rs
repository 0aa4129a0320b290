//! Dense weights: f32, f16 and bf16, multiplied in f32.
//!
//! ```text
//! for row i, for output j:
//!     sum = accumulate ? out[i][j] : 0
//!     for l in 0..k: sum = fma(lhs[i][l], rhs[j][l], sum)         # portable code of x86-64 rounds the product too
//!     out[i][j] = sum
//! ```
//!
//! Every kernel sums the depth in this order, with lanes as outputs. So the bits of an output depend neither on the number of rows, nor
//! on the layout of the weights, nor on tiles, panels and threads.
//!
//! | file | what |
//! |---|---|
//! | `product` | the safe entry points: checked extents, GEMV or GEMM |
//! | `weights` | the RHS: rows in place, or sixteen interleaved |
//! | `interleave` | rows in place to interleaved ones |
//! | `gemv` | few rows: weights are read once, and nothing is packed |
//! | `pack` | weights widened and packed to panels |
//! | `microkernel` | the register tile: MR rows times a panel |
//! | `lanes` | shapes of register tiles by instruction set; outputs |
//! | `element` | f32, f16 and bf16 as f32; transposition in registers |
//! | `dot`, `weighted` | for attention: dot products along the depth, weighted sums of rows |

mod dot;
mod element;
mod gemv;
mod interleave;
mod lanes;
mod microkernel;
mod pack;
mod product;
mod weighted;
mod weights;

pub use dot::dot_products;
pub use interleave::interleave;
pub use pack::{PackedPanel, panel_len};
pub use product::{
    CheckedDense, DenseGemm, DenseWorkspace, F32Kernels, GEMV_ROWS, KC, NC, gemv, pack_depth, pack_rows,
};
pub use weighted::weighted_sum;
pub use weights::{DenseRows, DenseWeights};

/// The multiple to which rows of sums, and outputs of panels, are padded: whole vectors of any instruction set.
pub const SUM_PADDING: usize = crate::isa::MAX_LANES;
