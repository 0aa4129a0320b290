//! Matrix products of [silicide](https://docs.rs/silicide) on the CPU. This page is the contract.
//!
//! A product is `out = lhs . rhs^T`. The LHS has `m` rows of activations. The RHS has `n` rows of weights, as files store them: a row of
//! the RHS is an output. Both are `k` deep.
//!
//! ```text
//! for i in 0..m, for j in 0..n:
//!     out[i][j] = sum over l in 0..k of lhs[i][l] * rhs[j][l]
//! ```
//!
//! | module | RHS | LHS |
//! |---|---|---|
//! | [`f32`] | f32, f16, bf16 ([`f32::DenseWeights`]) | f32 |
//! | [`q8`] | block formats of GGML, affine codes of MLX ([`q8::Q8Weights`]) | 8 bits under a scale per 32 ([`q8::quantize`]) |
//! | [`isa`] | | the instruction sets, as tokens |
//! | [`prefetch`] | | software prefetch |
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | token | a value that proves an instruction set ([`isa::Simd`]). Entry points take one, and kernels are compiled once for each. |
//! | lane | a 32-bit element of a vector. In most kernels lane `j` is output `j`, so nothing is summed across lanes. |
//! | group | 32 codes of a row. They share a scale, or each half has one. |
//! | pack, unpack | copy weights to a panel, in the order in which the microkernel reads them. Quantized weights are unpacked to bytes. |
//! | panel | NR outputs of packed weights, KC deep |
//! | microkernel | MR rows times one panel. Its MR x NR sums stay in registers. |
//! | MR, NR | rows and outputs of the microkernel |
//! | KC, NC | depth and outputs that are packed at a time |
//! | interleaved | stored with [`q8::INTERLEAVE`] rows of the RHS side by side, four bytes (in [`f32`] an element) of each in turn |
//! | workspace | memory of one thread for panels ([`q8::Q8Workspace`], [`f32::DenseWorkspace`]) |
//!
//! # How a product runs
//!
//! GEMV, for few rows: weights pass once, from memory to registers.
//!
//! ```text
//! for j in outputs, by LANES:
//!     sum[i] = 0
//!     for group g:
//!         w = codes of group g of LANES rows of the RHS       # unpacked in registers
//!         prefetch what comes next
//!         sum[i] += x[i][g] . w                               # for all rows i
//!     out[i][j] = sum[i]
//! ```
//!
//! GEMM, for more rows: panels are packed once and read by every strip of MR rows.
//!
//! ```text
//! for outputs, by NC:
//!     for depth, by KC:
//!         pack NC outputs, KC deep, to NC / NR panels         # in the workspace, to stay in L2
//!         for rows, by MR:                                    # their activations stay in L1
//!             for panels: microkernel                         # adds to `out`, from the second KC on
//! ```
//!
//! | token | lanes | MR x NR of [`q8`] |
//! |---|--:|--:|
//! | `Avx512` | 16 | 6 x 32 |
//! | `AvxVnni` | 8 | 6 x 16 |
//! | `Avx2` | 8 | 6 x 16, of signed codes 5 x 16 |
//! | `Neon` | 8 | 3 x 16 |
//! | `Portable` | 8 | 2 x 16 |
//!
//! MR, NR, KC and NC are constants of the instruction set. [`q8::Blocking`] may choose a smaller KC and NC; KC is whole groups.
//!
//! # The contract
//!
//! 1. **The order of sums is fixed.** An output has the same bits whatever rows, outputs and tiles are computed beside it, for every
//!    number of rows, every KC and NC, and every layout of the weights: its terms are added in the order of the depth, by every kernel.
//!    In [`q8`] the terms are groups, whose dot products of codes are exact in 32 bits.
//! 2. **Views are the proof of memory** ([`Matrix`], [`MatrixMut`], [`q8::QuantizedRows`], [`q8::Q8Weights`]). Constructors from slices
//!    check lengths, strides, alignment and overflow; extents of 0 are refused. Entry points compare extents. All return a [`GemmError`]
//!    that names the argument, in every build, before anything is written.
//! 3. **Outputs overlap nothing.** A view to write borrows its slice mutably, and its stride is at least its columns. What the same
//!    product reads cannot be in it: see [`MatrixMut`].
//! 4. **Any bytes are weights and activations.** Codes, scales and indices of code books that no encoder makes decode to some numbers, or NaN.
//! 5. **Nothing is allocated, and no thread is started.** The caller cuts outputs and rows among threads.
//! 6. **Panels lie in a workspace that the thread owns, never in a frame.** No frame has 32 KiB or more.
//!
//! # Benches
//!
//! `cargo bench -p silicide-gemm [-- FORMAT...]` shows products on one thread, by instruction set, with weights in the caches.
//! `cargo run --release -p bench -- rows` shows whole ops, with weights in memory, against the limits of the machine.
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

// Targets with the portable token only have no GEMV.
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, unused_imports, unused_macros)
)]

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
