//! Several products of one input in one dispatch. Results have the bits of the products one by one.

use super::support::{apart, positive, typed};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::Result;
use crate::gguf::{GgmlType, check_block_weight};
use crate::{DType, MlxBuffer};
use silicide::ops::glu::Activation;
use silicide::ops::linear::Linear;
use silicide::quant::Encoding;
use silicide::{Buffer, DType as Element, Recorder};

/// The input and both weights of a checked call.
fn operands(
    what: &str,
    ggml: GgmlType,
    [input, first, second]: [&MlxBuffer; 3],
    [m, n, k]: [usize; 3],
) -> Result<[Buffer; 3]> {
    positive(what, &[("m", m), ("output_size", n), ("hidden_size", k)])?;
    typed(what, "input", input, DType::F32)?;
    for weight in [first, second] {
        check_block_weight(what, weight.dtype(), ggml, k)?;
    }
    let dtype = ggml.silicide();
    Ok([input.tensor(Element::F32, &[m, k])?, first.tensor(dtype, &[n, k])?, second.tensor(dtype, &[n, k])?])
}

fn exact(weight: &Buffer) -> Linear {
    Linear { exact: true, ..Linear::from(Encoding::from(weight.dtype())) }
}

fn gated(
    encoder: &mut CommandEncoder,
    what: &str,
    ggml: GgmlType,
    [gate_w, up_w, input, output]: [&MlxBuffer; 4],
    extents: [usize; 3],
) -> Result<()> {
    let [x, gate, up] = operands(what, ggml, [input, gate_w, up_w], extents)?;
    typed(what, "output", output, DType::F32)?;
    let y = output.tensor(Element::F32, &extents[..2])?;
    let dispatch = Dispatch::new(what, y.elements(), &[gate_w, up_w, input], &[output]);
    encoder.dispatch(dispatch, move |recorder| {
        let g = recorder.run_one(exact(&gate), &[&x, &gate])?;
        let u = recorder.run_one(exact(&up), &[&x, &up])?;
        silicide::ops::glu_into(recorder, Activation::Silu, &g, &u, &y)
    })
}

/// Declares a module with a gated layer under one block type.
macro_rules! gated_layers {
    ($($module:ident, $function:ident, $args:ident, $type:ident;)*) => {$(
        /// Gated layers of one block type.
        #[allow(non_snake_case)]
        pub mod $module {
            use crate::error::Result;
            use crate::gguf::GgmlType;
            use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

            super::super::support::register!();

            /// Extents.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[allow(non_camel_case_types)]
            pub struct $args {
                /// Rows of activations.
                pub m: u32,
                /// Rows of each weight.
                pub intermediate_size: u32,
                /// Depth.
                pub hidden_size: u32,
            }

            /// Encodes `silu(input * gate_wᵀ) * (input * up_wᵀ)`.
            #[allow(non_snake_case)]
            pub fn $function(
                encoder: &mut CommandEncoder,
                _registry: &mut KernelRegistry,
                _device: &MlxDevice,
                gate_w: &MlxBuffer,
                up_w: &MlxBuffer,
                input: &MlxBuffer,
                output: &MlxBuffer,
                args: $args,
            ) -> Result<()> {
                let extents = [args.m, args.intermediate_size, args.hidden_size].map(|extent| extent as usize);
                let buffers = [gate_w, up_w, input, output];
                super::gated(encoder, stringify!($module), GgmlType::$type, buffers, extents)
            }
        }
    )*};
}

gated_layers! {
    fused_gate_up_silu_iq4_nl, dispatch_fused_gate_up_silu_iq4_nl, FusedGateUpSiluIq4NlArgs, IQ4_NL;
    fused_gate_up_silu_q4_K, dispatch_fused_gate_up_silu_q4_K, FusedGateUpSiluQ4_KArgs, Q4_K;
    fused_gate_up_silu_q6_K, dispatch_fused_gate_up_silu_q6_K, FusedGateUpSiluQ6_KArgs, Q6_K;
    fused_gate_up_silu_q8_0, dispatch_fused_gate_up_silu_q8_0, FusedGateUpSiluQ8_0Args, Q8_0;
}

/// Two products with blocks of Q4_0.
pub mod fused_dual_proj_q4_0 {
    use super::{Dispatch, Element, Recorder, apart, exact, operands, typed};
    use crate::error::Result;
    use crate::gguf::GgmlType;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::support::register!();

    /// Extents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FusedDualProjQ4_0Args {
        /// Rows of activations.
        pub m: u32,
        /// Rows of each weight.
        pub output_size: u32,
        /// Depth.
        pub hidden_size: u32,
    }

    /// Encodes `dst_a = input * weight_aᵀ` and `dst_b = input * weight_bᵀ`.
    pub fn dispatch_fused_dual_proj_q4_0(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        weight_a: &MlxBuffer,
        weight_b: &MlxBuffer,
        input: &MlxBuffer,
        dst_a: &MlxBuffer,
        dst_b: &MlxBuffer,
        args: FusedDualProjQ4_0Args,
    ) -> Result<()> {
        let what = "fused_dual_proj_q4_0";
        let extents = [args.m, args.output_size, args.hidden_size].map(|extent| extent as usize);
        let [x, a, b] = operands(what, GgmlType::Q4_0, [input, weight_a, weight_b], extents)?;
        apart(what, dst_a, &[("the other output", dst_b)])?;
        typed(what, "dst_a", dst_a, DType::F32)?;
        typed(what, "dst_b", dst_b, DType::F32)?;
        let to = |buffer: &MlxBuffer| buffer.tensor(Element::F32, &extents[..2]);
        let (y, z) = (to(dst_a)?, to(dst_b)?);
        let dispatch = Dispatch::new(what, 2 * y.elements(), &[weight_a, weight_b, input], &[dst_a, dst_b]);
        encoder.dispatch(dispatch, move |recorder| {
            recorder.run_into(exact(&a), &[&x, &a], &[&y])?;
            recorder.run_into(exact(&b), &[&x, &b], &[&z])
        })
    }
}
