//! The operations of silicide: matrix products, attention, norms, elementwise ops and more.
//!
//! The functions at the root record one op on any [`Recorder`](silicide_core::Recorder): a command encoder runs it, a
//! graph builder captures it. Arguments come in the order recorder, tensors, parameters. Functions that end in `_into`
//! write to a given tensor. Each op has a module of its own, with its type, shape rule and f64 reference; [`fuse`] has the
//! fusions of graphs.
//!
//! ```
//! # mod silicide { pub use silicide_core::*; pub use silicide_ops as ops; }
//! use silicide::{Buffer, CommandEncoder, Device, ops};
//!
//! let device = Device::cpu()?;
//! let x = Buffer::from_slice(&device, [2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
//! let weights = Buffer::from_slice(&device, [1, 2], &[10.0f32, 1.0])?;
//! let mut encoder = CommandEncoder::new(&device);
//! let y = ops::linear(&mut encoder, &x, &weights, None)?; // y = x * weights^T
//! encoder.submit()?.wait()?;
//! assert_eq!(y.to_vec::<f32>()?, [12.0, 34.0]);
//! # Ok::<(), silicide::Error>(())
//! ```

pub mod argmax;
pub mod attention;
pub mod binary;
pub mod cache_write;
pub mod case;
pub mod cast;
pub mod causal_conv;
pub mod causal_decay;
pub mod codebook_decode;
pub mod codebook_encode;
mod cpu;
pub mod cumsum;
pub mod delta_net;
pub mod dequantize;
mod elementwise;
pub mod expert_linear;
pub mod fill;
pub mod fuse;
pub mod gather_rows;
pub mod glu;
pub mod group_by_expert;
pub mod hadamard;
pub mod interleave;
pub mod l2_norm;
pub mod layer_norm;
pub mod linear;
pub mod masked_attention;
pub mod matmul;
mod mlx;
mod needs;
pub mod permute;
mod product;
pub mod quantize_q8;
pub mod reduce;
pub mod rms_norm;
pub mod rope;
pub mod rope_cache;
pub mod route;
mod rowwise;
pub mod softmax;
pub mod strided_copy;
pub mod top_k;
pub mod tri_solve;
pub mod unary;
mod weight;
pub mod weighted_sum;
mod wgsl;

pub use case::{Case, Data, Input};

/// Calls the macro `$callback` with the names of all ops, in the order of the support table.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_op {
    ($callback:ident) => {
        $callback! {
            cast,
            dequantize,
            fill,
            strided_copy,
            permute,
            gather_rows,
            unary,
            binary,
            glu,
            rms_norm,
            layer_norm,
            l2_norm,
            softmax,
            reduce,
            argmax,
            top_k,
            cumsum,
            causal_conv,
            delta_net,
            causal_decay,
            tri_solve,
            matmul,
            interleave,
            quantize_q8,
            route,
            group_by_expert,
            expert_linear,
            weighted_sum,
            linear,
            rope,
            hadamard,
            cache_write,
            rope_cache,
            attention,
            masked_attention,
            codebook_encode,
            codebook_decode,
        }
    };
}

/// Defines the list of ops with their cases.
macro_rules! ops {
    ($($name:ident),* $(,)?) => {
        /// Returns the name and the cases of each op, in the order of the support table.
        pub fn all() -> Vec<(&'static str, Vec<Case>)> {
            vec![$((stringify!($name), $name::cases::cases())),*]
        }
    };
}

for_each_op!(ops);

/// Whether an op arranges things for the CPU, so that it has no use on other devices.
pub fn is_for_cpu(op: &str) -> bool {
    matches!(op, "interleave" | "quantize_q8" | "group_by_expert")
}

// The functions that callers use most, without the way to their op. Functions whose names several ops share
// (`reduce::max`, `binary::max`) and those that take an op's value are found in the op's module.
pub use argmax::argmax;
pub use attention::{attention, attention_into};
pub use binary::{add, div, mul, sub};
pub use cache_write::cache_write;
pub use cast::cast;
pub use causal_conv::causal_conv;
pub use causal_decay::causal_decay;
pub use codebook_decode::codebook_decode;
pub use codebook_encode::codebook_encode;
pub use cumsum::cumsum;
pub use delta_net::delta_net;
pub use dequantize::dequantize;
pub use expert_linear::{expert_linear, expert_linear_padded};
pub use gather_rows::gather_rows;
pub use glu::{glu, glu_into};
pub use group_by_expert::group_by_expert;
pub use hadamard::{hadamard, hadamard_inverse};
pub use interleave::{interleave, interleave_into};
pub use l2_norm::l2_norm;
pub use layer_norm::layer_norm;
pub use linear::{linear, linear_exact, linear_gated, linear_input, linear_shared};
pub use masked_attention::masked_attention;
pub use matmul::{matmul, matmul_into};
pub use quantize_q8::quantize_q8;
pub use rms_norm::{add_rms_norm, rms_norm, rms_norm_into};
pub use rope::rope;
pub use rope_cache::rope_cache;
pub use route::route;
pub use softmax::{softmax, softmax_into};
pub use top_k::top_k;
pub use tri_solve::tri_solve;
pub use unary::{gelu_erf, gelu_tanh, relu, sigmoid, silu, softcap, tanh};
pub use weighted_sum::weighted_sum;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
