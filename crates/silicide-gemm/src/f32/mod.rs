//! Dense weights: f32, f16 and bf16, multiplied in f32.
//!
//! | file | what |
//! |---|---|
//! | `dense` | the safe entry points: views, checked extents |
//! | `few` | few rows: weights are read once, in memory order, and nothing is packed |
//! | `pack` | weights of f32, f16 and bf16, packed into panels |
//! | `tile` | many rows times a packed panel |
//! | `weighted` | weighted sums of stored rows |
//! | `vector` | the operations on vectors that the others need, and their portable form; `x86` has the others |

mod dense;
pub mod few;
pub mod pack;
#[cfg(test)]
mod tests;
pub mod tile;
pub mod vector;
pub mod weighted;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use dense::{
    CheckedDense, DenseRows, F32Kernels, KC, NC, PackedPanel, SUM_PADDING, gemm, gemv, weighted_sum,
};
