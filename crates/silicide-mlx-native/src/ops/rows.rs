//! Functions of rows and of elements: one op of silicide each.

/// Root-mean-square normalisation.
pub mod rms_norm {
    use super::super::support::{count, float, positive, register, wide};
    use crate::encoder::{CapturedOpKind, Dispatch};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::Recorder;
    use silicide::ops::rms_norm::RmsNorm;

    pub use super::super::fused_norms::{
        dispatch_fused_moe_wsum_post_ff_norm2_endlayer_f32_v2, dispatch_fused_post_attn_triple_norm_f32,
        dispatch_fused_post_ff_norm2_endlayer_f32,
    };

    register!();

    /// Encodes `input / sqrt(mean(input²) + eps) * weight` for each row. `params_buf` begins with eps; rows are f32, f16 or bf16.
    pub fn dispatch_rms_norm(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        weight: &MlxBuffer,
        output: &MlxBuffer,
        params_buf: &MlxBuffer,
        rows: u32,
        dim: u32,
    ) -> Result<()> {
        let operands = NormOperands { input, weight: Some(weight), output, params: params_buf };
        norm(encoder, "rms_norm", operands, [rows, dim])
    }

    /// As [`dispatch_rms_norm`], without a weight.
    pub fn dispatch_rms_norm_no_scale_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        params_buf: &MlxBuffer,
        rows: u32,
        dim: u32,
    ) -> Result<()> {
        if input.dtype() != crate::DType::F32 {
            refuse!("rms_norm_no_scale_f32: input must be f32, got {}", input.dtype());
        }
        let operands = NormOperands { input, weight: None, output, params: params_buf };
        norm(encoder, "rms_norm_no_scale_f32", operands, [rows, dim])
    }

    /// Buffers of a norm.
    struct NormOperands<'a> {
        input: &'a MlxBuffer,
        weight: Option<&'a MlxBuffer>,
        output: &'a MlxBuffer,
        params: &'a MlxBuffer,
    }

    fn norm(
        encoder: &mut CommandEncoder,
        what: &str,
        NormOperands { input, weight, output, params }: NormOperands<'_>,
        [rows, dim]: [u32; 2],
    ) -> Result<()> {
        let (rows, dim) = (rows as usize, dim as usize);
        positive(what, &[("rows", rows), ("dim", dim)])?;
        let dtype = float(what, "input", input)?;
        if output.dtype() != input.dtype() {
            refuse!("{what}: output must be {}, got {}", input.dtype(), output.dtype());
        }
        let elements = count(what, &[rows, dim])?;
        if input.element_count() != elements || output.element_count() != elements {
            refuse!("{what}: input and output must have {rows} * {dim} elements");
        }
        let eps = encoder.host_values::<f32>(params, 1)?[0];
        let (x, y) = (input.tensor(dtype, &[rows, dim])?, output.tensor(dtype, &[rows, dim])?);
        let w = match weight {
            Some(weight) => Some(weight.tensor(float(what, "weight", weight)?, &[dim])?),
            None => None,
        };
        let suffix = input.dtype();
        let kernel = if weight.is_some() { format!("{what}_{suffix}") } else { what.to_owned() };
        let op = RmsNorm::new(eps, w.is_some());
        let reads: Vec<&MlxBuffer> = [input].into_iter().chain(weight).collect();
        let dispatch = Dispatch::new(&kernel, elements, &reads, &[output]).kind(CapturedOpKind::RmsNorm);
        encoder.dispatch(dispatch, move |recorder| match &w {
            Some(w) => {
                let w = wide(recorder, w)?;
                recorder.run_into(op, &[&x, &w], &[&y])
            }
            None => recorder.run_into(op, &[&x], &[&y]),
        })
    }
}

/// Euclidean normalisation.
pub mod l2_norm {
    use super::super::support::{float, positive, register, reshaped};
    use crate::encoder::Dispatch;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::ops::{rms_norm::RmsNorm, unary};
    use silicide::{DType, Recorder};

    register!();

    /// Encodes `input / sqrt(sum(input²) + eps)` for each row. `params_buf` begins with eps.
    pub fn dispatch_l2_norm(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        params_buf: &MlxBuffer,
        rows: u32,
        dim: u32,
    ) -> Result<()> {
        let eps = encoder.host_values::<f32>(params_buf, 1)?[0];
        norm(encoder, [input, output], [rows, dim], [eps, 1.0])
    }

    /// As [`dispatch_l2_norm`], times a scale. `params_buf` is `[eps, dim, scale]`.
    pub fn dispatch_l2_norm_scale_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        params_buf: &MlxBuffer,
        rows: u32,
        dim: u32,
    ) -> Result<()> {
        let params = encoder.host_values::<f32>(params_buf, 3)?;
        norm(encoder, [input, output], [rows, dim], [params[0], params[2]])
    }

    /// `x / sqrt(sum + eps)` is `x / sqrt(mean + eps / dim)`, divided by `sqrt(dim)`.
    fn norm(
        encoder: &mut CommandEncoder,
        [input, output]: [&MlxBuffer; 2],
        [rows, dim]: [u32; 2],
        [eps, scale]: [f32; 2],
    ) -> Result<()> {
        let (rows, dim) = (rows as usize, dim as usize);
        positive("l2_norm", &[("rows", rows), ("dim", dim)])?;
        let dtype = float("l2_norm", "input", input)?;
        let (x, y) = (input.tensor(dtype, &[rows, dim])?, output.tensor(dtype, &[rows, dim])?);
        let (op, factor) = (RmsNorm::new(eps / dim as f32, false), scale / (dim as f32).sqrt());
        let dispatch = Dispatch::new("l2_norm_f32", rows * dim, &[input], &[output]);
        encoder.dispatch(dispatch, move |recorder| {
            let wide = silicide::ops::cast(recorder, &x, DType::F32)?;
            let normed = recorder.run_one(op, &[&wide])?;
            let scaled = unary::scale(recorder, &normed, factor)?;
            let scaled = reshaped(&scaled, y.shape().axes())?;
            super::super::support::cast_into(recorder, &scaled, &y)
        })
    }
}

/// Softmax.
pub mod softmax {
    use super::super::support::{float, positive, register};
    use crate::encoder::{CapturedOpKind, Dispatch};
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::Recorder;
    use silicide::ops::softmax::Softmax;

    register!();

    /// Encodes the softmax of each row of f32, f16 or bf16.
    pub fn dispatch_softmax(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        _params_buf: &MlxBuffer,
        rows: u32,
        cols: u32,
    ) -> Result<()> {
        let (rows, cols) = (rows as usize, cols as usize);
        positive("softmax", &[("rows", rows), ("cols", cols)])?;
        let dtype = float("softmax", "input", input)?;
        let (x, y) = (input.tensor(dtype, &[rows, cols])?, output.tensor(dtype, &[rows, cols])?);
        let kernel = format!("softmax_{}", input.dtype());
        let dispatch = Dispatch::new(&kernel, rows * cols, &[input], &[output]).kind(CapturedOpKind::Softmax);
        let op = Softmax { scale: 1.0, masked: false };
        encoder.dispatch(dispatch, move |recorder| recorder.run_into(op, &[&x], &[&y]))
    }
}

/// Softmax of scaled and masked scores.
pub mod scale_mask_softmax {
    use super::super::support::{positive, register, typed};
    use crate::encoder::{CapturedOpKind, Dispatch};
    use crate::error::{Result, refuse};
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};
    use silicide::Recorder;
    use silicide::ops::softmax::Softmax;

    register!();

    /// Extents and scale.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ScaleMaskSoftmaxParams {
        /// Rows of scores: a multiple of `seq_q`.
        pub rows: u32,
        /// Scores of a row.
        pub cols: u32,
        /// Rows of the mask.
        pub seq_q: u32,
        /// The factor of scores.
        pub scale: f32,
    }

    /// Encodes `softmax(scale * input + mask[row % seq_q])` for each row of f32, under a mask of bf16.
    pub fn dispatch_scale_mask_softmax_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        input: &MlxBuffer,
        output: &MlxBuffer,
        mask_bf16: &MlxBuffer,
        params: &ScaleMaskSoftmaxParams,
    ) -> Result<()> {
        let what = "scale_mask_softmax_f32";
        let (rows, cols, queries) = (params.rows as usize, params.cols as usize, params.seq_q as usize);
        positive(what, &[("rows", rows), ("cols", cols), ("seq_q", queries)])?;
        typed(what, "input", input, DType::F32)?;
        typed(what, "output", output, DType::F32)?;
        typed(what, "mask", mask_bf16, DType::BF16)?;
        if !rows.is_multiple_of(queries) {
            refuse!("{what}: rows = {rows} must be a multiple of seq_q = {queries}");
        }
        let shape = [rows / queries, queries, cols];
        let (x, y) =
            (input.tensor(silicide::DType::F32, &shape)?, output.tensor(silicide::DType::F32, &shape)?);
        let mask = mask_bf16.tensor(silicide::DType::BF16, &shape[1..])?;
        let op = Softmax { scale: params.scale, masked: true };
        let dispatch =
            Dispatch::new(what, rows * cols, &[input, mask_bf16], &[output]).kind(CapturedOpKind::Softmax);
        encoder.dispatch(dispatch, move |recorder| {
            let mask = super::super::support::wide(recorder, &mask)?;
            recorder.run_into(op, &[&x, &mask], &[&y])
        })
    }
}

/// Running sums.
pub mod cumsum {
    use super::super::support::{count, positive, register};
    use crate::encoder::Dispatch;
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
    use silicide::Recorder;
    use silicide::ops::cumsum::Cumsum;

    /// The longest row: the limit of mlx-native, which programs rely on as an error.
    const MOST: usize = 8192;

    register!();

    /// Encodes the inclusive running sum of each row of f32 or bf16, of at most 8192 elements.
    pub fn dispatch_cumsum(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        _params_buf: &MlxBuffer,
        rows: u32,
        dim: u32,
    ) -> Result<()> {
        let (rows, dim) = (rows as usize, dim as usize);
        positive("cumsum", &[("rows", rows), ("dim", dim)])?;
        if dim > MOST {
            refuse!("cumsum: dim = {dim} exceeds {MOST}");
        }
        if !matches!(input.dtype(), DType::F32 | DType::BF16) || output.dtype() != input.dtype() {
            refuse!("cumsum: unsupported dtypes {} and {}", input.dtype(), output.dtype());
        }
        let elements = count("cumsum", &[rows, dim])?;
        if input.element_count() != elements || output.element_count() != elements {
            refuse!("cumsum: input and output must have {rows} * {dim} elements");
        }
        let dtype = input.dtype().silicide();
        let (x, y) = (input.tensor(dtype, &[rows, dim])?, output.tensor(dtype, &[rows, dim])?);
        let kernel = format!("cumsum_{}", input.dtype());
        let dispatch = Dispatch::new(&kernel, elements, &[input], &[output]);
        encoder.dispatch(dispatch, move |recorder| recorder.run_into(Cumsum, &[&x], &[&y]))
    }
}
