//! Matrix products of [silicide](https://docs.rs/silicide) on the CPU: `y = a . b^T`, with activations `a` in f32 and weights `b`
//! row by row, as files have them.
//!
//! | module | what |
//! |---|---|
//! | [`isa`] | instruction sets as types: AVX-512, AVX2, NEON, portable |
//! | [`f32`] | weights of f32, f16 and bf16 |
//! | [`q8`] | weights in block formats and affine codes of MLX, multiplied in integers with activations rounded to 8 bits |
//! | [`prefetch`] | software prefetch |
//!
//! Every output is summed in an order of its own, whatever is computed beside it; so tiles and threads do not change its bits.
//! Panels lie in memory that the caller gives, never in a frame.

pub mod f32;
pub mod isa;
pub mod prefetch;
pub mod q8;
