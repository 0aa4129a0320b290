//! Rotations of the last elements of each head.

use super::{Rotation, positive, rotate};
use crate::error::{Result, refuse};
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};
use silicide::ops::rope::RopeStyle;

super::super::support::register!();

/// Extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeepSeekTailRopeParams {
    /// Sequences.
    pub batch: u32,
    /// Tokens of a sequence.
    pub seq_len: u32,
    /// Heads.
    pub heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Elements at its end that are rotated.
    pub rope_dim: u32,
    /// Not 0: turns back.
    pub inverse: u32,
}

fn turn(
    encoder: &mut CommandEncoder,
    from: DType,
    [input, positions, frequencies, output]: [&MlxBuffer; 4],
    params: &DeepSeekTailRopeParams,
) -> Result<()> {
    let what = "deepseek_tail_rope";
    let DeepSeekTailRopeParams { batch, seq_len, heads, head_dim, rope_dim, inverse } = *params;
    let [batch, seq, heads, dim, turned] =
        [batch, seq_len, heads, head_dim, rope_dim].map(|extent| extent as usize);
    positive(what, &[("batch", batch), ("seq_len", seq), ("heads", heads)])?;
    positive(what, &[("head_dim", dim), ("rope_dim", turned)])?;
    if !dim.is_multiple_of(2) || !turned.is_multiple_of(2) || turned > dim {
        refuse!("{what}: head_dim = {dim} and rope_dim = {turned} must be even, rope_dim at most head_dim");
    }
    if input.dtype() != from || output.dtype() != DType::BF16 {
        refuse!("{what}: unsupported dtypes {} and {}", input.dtype(), output.dtype());
    }
    let tokens = super::super::support::count(what, &[batch, seq])?;
    let count = if positions.element_count() >= tokens { tokens } else { seq };
    let positions = encoder.host_values::<i32>(positions, count)?;
    let frequencies = encoder.host_values::<f32>(frequencies, turned / 2)?;
    let sign = if inverse == 0 { 1.0 } else { -1.0 };
    let still = (dim - turned) / 2;
    let rotation = Rotation::new([tokens, heads, dim], RopeStyle::Interleaved, dim / 2, |token, pair| {
        let frequency = pair.checked_sub(still).map_or(0.0, |pair| f64::from(frequencies[pair]));
        sign * f64::from(positions[token % count]) * frequency
    })?;
    rotate(encoder, what, [input, output], rotation)
}

/// Encodes the rotation of neighbours in the last `rope_dim` elements of each head, in bf16.
pub fn dispatch_deepseek_tail_rope_bf16(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    positions: &MlxBuffer,
    frequencies: &MlxBuffer,
    output: &MlxBuffer,
    params: &DeepSeekTailRopeParams,
) -> Result<()> {
    turn(encoder, DType::BF16, [input, positions, frequencies, output], params)
}

/// As [`dispatch_deepseek_tail_rope_bf16`], from f32.
pub fn dispatch_deepseek_tail_rope_f32_to_bf16(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    positions: &MlxBuffer,
    frequencies: &MlxBuffer,
    output: &MlxBuffer,
    params: &DeepSeekTailRopeParams,
) -> Result<()> {
    turn(encoder, DType::F32, [input, positions, frequencies, output], params)
}
