//! Products with weights of single elements: `dst = src1 * src0ᵀ`, summed in f32, with activations as they are.

use super::support::{float, positive, typed};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::{DType, MlxBuffer};
use silicide::ops::matmul::Matmul;
use silicide::{DType as Element, Recorder};

/// Extents of a product in batches.
struct Batches {
    m: usize,
    n: usize,
    k: usize,
    src0: usize,
    src1: usize,
    least_k: usize,
    multiple_k: usize,
}

fn product(
    encoder: &mut CommandEncoder,
    what: &str,
    [src0, src1, dst]: [&MlxBuffer; 3],
    dtype: DType,
    batches: &Batches,
) -> Result<()> {
    let Batches { m, n, k, src0: of_src0, src1: of_src1, least_k, multiple_k } = *batches;
    positive(what, &[("M", m), ("N", n), ("K", k), ("src0_batch", of_src0), ("src1_batch", of_src1)])?;
    if k < least_k {
        refuse!("{what}: K = {k} must be at least {least_k}");
    }
    if !k.is_multiple_of(multiple_k) {
        refuse!("{what}: K = {k} must be divisible by {multiple_k}");
    }
    if !of_src1.is_multiple_of(of_src0) || of_src1 / of_src0 > 32767 {
        refuse!(
            "{what}: src1_batch = {of_src1} must be a multiple of src0_batch = {of_src0}, at most 32767 times it"
        );
    }
    typed(what, "src0", src0, dtype)?;
    typed(what, "src1", src1, DType::F32)?;
    typed(what, "dst", dst, DType::F32)?;
    let w = src0.tensor(dtype.silicide(), &[of_src0, n, k])?;
    let (x, y) = (src1.tensor(Element::F32, &[of_src1, m, k])?, dst.tensor(Element::F32, &[of_src1, m, n])?);
    let op = Matmul { exact: true };
    let dispatch = Dispatch::new(what, of_src1 * m * n, &[src0, src1], &[dst]);
    encoder.dispatch(dispatch, move |recorder| recorder.run_into(op, &[&x, &w], &[&y]))
}

/// Declares a module with products under one kind of weight.
macro_rules! dense_products {
    ($($(#[$doc:meta])* $module:ident: $params:ident, $type:ident, $least_k:literal, [$($function:ident % $multiple_k:literal),+];)*) => {$(
        $(#[$doc])*
        pub mod $module {
            use crate::error::Result;
            use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};

            super::super::support::register!();

            /// Extents. Batch `i` of `src1` meets batch `i / (src1_batch / src0_batch)` of `src0`.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $params {
                /// Rows of activations.
                pub m: u32,
                /// Rows of weights.
                pub n: u32,
                /// Depth.
                pub k: u32,
                /// Batches of weights.
                pub src0_batch: u32,
                /// Batches of activations.
                pub src1_batch: u32,
            }

            $(
                /// Encodes `dst[b, m, n] = src1[b, m, k] * src0[b, n, k]ᵀ`.
                pub fn $function(
                    encoder: &mut CommandEncoder,
                    _registry: &mut KernelRegistry,
                    _device: &MlxDevice,
                    src0: &MlxBuffer,
                    src1: &MlxBuffer,
                    dst: &MlxBuffer,
                    params: &$params,
                ) -> Result<()> {
                    let $params { m, n, k, src0_batch, src1_batch } = *params;
                    let [m, n, k, of_src0, of_src1] =
                        [m, n, k, src0_batch, src1_batch].map(|extent| extent as usize);
                    let (least_k, multiple_k) = ($least_k, $multiple_k);
                    let batches =
                        super::Batches { m, n, k, src0: of_src0, src1: of_src1, least_k, multiple_k };
                    super::product(encoder, stringify!($function), [src0, src1, dst], DType::$type, &batches)
                }
            )+
        }
    )*};
}

dense_products! {
    /// Weights of bf16.
    dense_mm_bf16: DenseMmBf16F32Params, BF16, 1,
        [dense_matmul_bf16_f32_tensor % 1, dense_gemv_bf16_f32 % 4, dense_gemv_bf16_f32_tiled4 % 4];
    /// Weights of f16.
    dense_mm_f16: DenseMmF16F32Params, F16, 32, [dense_matmul_f16_f32_tensor % 1];
    /// Weights of f32.
    dense_mm_f32_f32: DenseMmF32F32Params, F32, 32, [dense_matmul_f32_f32_tensor % 1];
}

/// Few rows by weights of bf16. The forms have the same bits.
pub mod dense_gemv_bf16 {
    pub use super::dense_mm_bf16::{
        DenseMmBf16F32Params, dense_gemv_bf16_f32, dense_gemv_bf16_f32_tiled4, register,
    };
}

/// Products of two matrices of f16, and of a vector of f32.
pub mod dense_gemm {
    use super::{DType, Dispatch, Element, Matmul, Recorder, float, positive, typed};
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};

    super::super::support::register!();

    /// Extents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DenseGemmF16Params {
        /// Rows of `a`.
        pub m: u32,
        /// Rows of `b`.
        pub n: u32,
        /// Depth.
        pub k: u32,
    }

    fn product(
        encoder: &mut CommandEncoder,
        what: &str,
        [a, b, output]: [&MlxBuffer; 3],
        dtype: DType,
        params: &DenseGemmF16Params,
    ) -> Result<()> {
        let [m, n, k] = [params.m, params.n, params.k].map(|extent| extent as usize);
        positive(what, &[("M", m), ("N", n), ("K", k)])?;
        for (name, buffer) in [("a", a), ("b", b), ("output", output)] {
            typed(what, name, buffer, dtype)?;
        }
        let dtype = float(what, "a", a)?;
        let (x, w) = (a.tensor(dtype, &[m, k])?, b.tensor(dtype, &[n, k])?);
        let y = output.tensor(dtype, &[m, n])?;
        let op = Matmul { exact: true };
        let dispatch = Dispatch::new(what, m * n, &[a, b], &[output]);
        encoder.dispatch(dispatch, move |recorder| {
            if dtype == Element::F32 {
                return recorder.run_into(op, &[&x, &w], &[&y]);
            }
            let x = silicide::ops::cast(recorder, &x, Element::F32)?;
            let wide = recorder.run_one(op, &[&x, &w])?;
            super::super::support::cast_into(recorder, &wide, &y)
        })
    }

    /// Encodes `output = a * bᵀ` of f16.
    pub fn dispatch_dense_gemm_f16(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        a: &MlxBuffer,
        b: &MlxBuffer,
        output: &MlxBuffer,
        params: &DenseGemmF16Params,
    ) -> Result<()> {
        product(encoder, "dense_gemm_f16", [a, b, output], DType::F16, params)
    }

    /// Encodes `output = a * bᵀ` of f32.
    pub fn dispatch_dense_matvec_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        a: &MlxBuffer,
        b: &MlxBuffer,
        output: &MlxBuffer,
        params: &DenseGemmF16Params,
    ) -> Result<()> {
        product(encoder, "dense_matvec_f32", [a, b, output], DType::F32, params)
    }
}
