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
//! | `scores`, `values` | for attention: queries times keys that lie in lanes, weighted sums of values |

mod element;
mod gemv;
mod interleave;
mod lanes;
mod microkernel;
mod pack;
mod product;
mod scores;
mod values;
mod weights;

pub use interleave::interleave;
pub use product::{CheckedDense, DenseGemm, DenseWorkspace, F32Kernels, GEMV_ROWS, KC, NC, gemv};
pub use scores::{KEY_LANES, key_scores, transpose_keys};
pub use values::{WeightedValues, fold_parts};
pub use weights::{DenseRows, DenseWeights};

/// The multiple to which rows of sums are padded: whole vectors of any instruction set.
pub const SUM_PADDING: usize = crate::isa::MAX_LANES;
