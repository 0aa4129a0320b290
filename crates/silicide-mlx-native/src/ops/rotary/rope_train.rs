//! Rotations and their gradients.

use super::{Rotation, base, interleaved_axis, positive, rotate, same_types};
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};
use silicide::ops::rope::RopeStyle;

super::super::support::register!();

/// Extents, base and sections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeTrainParams {
    /// Sequences.
    pub batch: u32,
    /// Heads.
    pub n_heads: u32,
    /// Tokens of a sequence.
    pub seq_len: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Elements that are rotated.
    pub rope_dim: u32,
    /// The base of the frequencies.
    pub theta_base: f32,
    /// Pairs of each section; sections are interleaved.
    pub sections: [u32; 4],
}

fn turn(
    encoder: &mut CommandEncoder,
    [input, positions, output]: [&MlxBuffer; 3],
    params: &RopeTrainParams,
    dtype: DType,
    sign: f64,
) -> Result<()> {
    let what = "rope_train";
    let RopeTrainParams { batch, n_heads, seq_len, head_dim, rope_dim, theta_base, sections } = *params;
    let [batch, heads, seq, dim, rope_dim] =
        [batch, n_heads, seq_len, head_dim, rope_dim].map(|extent| extent as usize);
    positive(what, &[("batch", batch), ("n_heads", heads), ("seq_len", seq)])?;
    positive(what, &[("head_dim", dim), ("rope_dim", rope_dim)])?;
    if !dim.is_multiple_of(2) || !rope_dim.is_multiple_of(2) || rope_dim > dim {
        refuse!("{what}: head_dim = {dim} and rope_dim = {rope_dim} must be even, rope_dim at most head_dim");
    }
    same_types(what, input, output, Some(dtype))?;
    let base = base(what, theta_base)?;
    let tokens = super::super::support::count(what, &[batch, seq])?;
    let positions =
        encoder.host_values::<i32>(positions, super::super::support::count(what, &[4, tokens])?)?;
    let cycle = sections.iter().fold(0u32, |sum, count| sum.saturating_add(*count)).max(1);
    let rotation = Rotation::new([tokens, heads, dim], RopeStyle::Halves, dim / 2, |token, pair| {
        if pair >= rope_dim / 2 {
            return 0.0;
        }
        let axis = interleaved_axis((pair % cycle as usize) as u32, sections);
        let position = sign * f64::from(positions[axis * tokens + token]);
        position * base.powf(-2.0 * pair as f64 / rope_dim as f64)
    })?;
    rotate(encoder, what, [input, output], rotation)
}

/// Declares a rotation, forth or back.
macro_rules! turns {
    ($($(#[$doc:meta])* $name:ident($from:ident, $to:ident), $type:ident, $sign:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name(
            encoder: &mut CommandEncoder,
            _registry: &mut KernelRegistry,
            _device: &DeviceRef,
            _mlx_device: &MlxDevice,
            $from: &MlxBuffer,
            pos_buf: &MlxBuffer,
            $to: &MlxBuffer,
            params: &RopeTrainParams,
        ) -> Result<()> {
            turn(encoder, [$from, pos_buf, $to], params, DType::$type, $sign)
        }
    )*};
}

turns! {
    /// Encodes the rotation of `[batch, seq, heads, dim]` in bf16. Positions are i32 `[4 * batch * seq]`.
    dispatch_rope_forward_bf16(in_buf, out_buf), BF16, 1.0;
    /// Encodes the rotation of `[batch, seq, heads, dim]` in f32.
    dispatch_rope_forward_f32(in_buf, out_buf), F32, 1.0;
    /// Encodes the gradient of the rotation in bf16: the rotation back.
    dispatch_rope_backward_bf16(grad_out_buf, grad_in_buf), BF16, -1.0;
    /// Encodes the gradient of the rotation in f32: the rotation back.
    dispatch_rope_backward_f32(grad_out_buf, grad_in_buf), F32, -1.0;
}
