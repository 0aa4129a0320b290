//! Dense weights: f32, f16 and bf16, multiplied in f32.
//!
//! | file | what |
//! |---|---|
//! | `few` | few rows: weights are read once, in memory order, and nothing is packed |
//! | `pack` | weights of f32, f16 and bf16, packed into panels |
//! | `tile` | many rows times a packed panel |
//! | `weighted` | weighted sums of stored rows |
//! | `vector` | the operations on vectors that the others need, and their portable form; `x86` has the others |

pub mod few;
pub mod pack;
pub mod tile;
pub mod vector;
pub mod weighted;
#[cfg(target_arch = "x86_64")]
mod x86;
