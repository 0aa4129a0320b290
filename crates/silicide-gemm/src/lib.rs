//! Matrix products of [silicide](https://docs.rs/silicide) on the CPU: `out = lhs . rhs^T`, with activations (LHS) of `m` rows and
//! weights (RHS) of `n` rows, both `k` deep, as files store weights. A row of the RHS is an output.
//!
//! ```text
//! for i in 0..m, for j in 0..n:
//!     out[i][j] = sum over l in 0..k of lhs[i][l] * rhs[j][l]
//! ```
//!
//! | module | RHS | LHS |
//! |---|---|---|
//! | [`f32`] | f32, f16, bf16 ([`f32::DenseWeights`]) | f32 |
//! | [`q8`] | block formats of GGML, affine codes of MLX ([`q8::Q8Weights`]) | quantized to 8 bits under a scale per 32 ([`q8::quantize`]) |
//! | [`isa`] | | the instruction sets, as tokens |
//! | [`prefetch`] | | software prefetch |
//!
//! # The contract
//!
//! 1. **A token is the proof of an instruction set** ([`isa::Simd`]). Entry points take one; kernels are compiled once for each.
//! 2. **Views are the proof of memory** ([`Matrix`], [`MatrixMut`]). Constructors from slices check lengths, strides, alignment and
//!    overflow. Entry points compare extents. Both return a [`GemmError`] that names the argument, in every build.
//! 3. **The order of sums is fixed**: an output has the same bits whatever rows, outputs and tiles are computed beside it, for every
//!    number of rows and every layout of the weights.
//! 4. **Nothing is allocated, and no thread is started.** Panels lie in a workspace that the caller owns, never in a frame. A caller
//!    cuts the outputs among threads as it likes.
//!
//! How a product runs, in BLIS's words. MR x NR is the register tile, KC and NC are the depth and the outputs of packed panels; all of
//! them belong to the instruction set or are given by the caller:
//!
//! ```text
//! few rows (GEMV):   for LANES outputs: stream their weights once, multiply with all rows in registers
//! many rows (GEMM):  for NC outputs: for KC of the depth:
//!                        pack (unpack, if quantized) NC x KC weights to panels of NR
//!                        for MR rows: for each panel: microkernel
//! ```
//!
//! # Example
//!
//! ```
//! use silicide_gemm::isa::{Portable, Simd};
//! use silicide_gemm::{Matrix, MatrixMut, f32};
//!
//! let isa = Portable::detect().ok_or("every CPU has it")?;
//! let x = [1.0, 2.0, 3.0];
//! let weights = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0];
//! let mut y = [0.0; 2];
//! let rhs = f32::DenseRows::F32(Matrix::new("rhs", &weights, [2, 3], 3)?);
//! f32::gemv(isa, Matrix::new("lhs", &x, [1, 3], 3)?, rhs.into(), MatrixMut::new("out", &mut y, [1, 2], 2)?)?;
//! assert_eq!(y, [1.0, 5.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod f32;
pub mod isa;
pub mod prefetch;
pub mod q8;
mod view;

pub use view::{GemmError, Matrix, MatrixMut};

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
