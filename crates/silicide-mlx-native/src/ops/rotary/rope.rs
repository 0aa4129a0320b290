//! Rotations of neighbours, and of halves.

use super::{Rotation, base, positive, rotate, same_types};
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
use silicide::ops::rope::RopeStyle;

super::super::support::register!();

/// Encodes the rotation of neighbours in rows `[seq_len, head_dim]`. `params_buf` begins with the base; positions are u32.
pub fn dispatch_rope(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    input: &MlxBuffer,
    output: &MlxBuffer,
    params_buf: &MlxBuffer,
    positions_buf: &MlxBuffer,
    seq_len: u32,
    head_dim: u32,
) -> Result<()> {
    let (tokens, dim) = (seq_len as usize, head_dim as usize);
    positive("rope", &[("seq_len", tokens), ("head_dim", dim)])?;
    same_types("rope", input, output, None)?;
    if !dim.is_multiple_of(2) {
        refuse!("rope: head_dim = {dim} must be even");
    }
    let base = base("rope", encoder.host_values::<f32>(params_buf, 1)?[0])?;
    let positions = encoder.host_values::<u32>(positions_buf, tokens)?;
    let frequency = |pair: usize| base.powf(-2.0 * pair as f64 / dim as f64);
    let rotation = Rotation::new([tokens, 1, dim], RopeStyle::Interleaved, dim / 2, |token, pair| {
        f64::from(positions[token]) * frequency(pair)
    })?;
    rotate(encoder, "rope", [input, output], rotation)
}

fn neox(
    encoder: &mut CommandEncoder,
    what: &str,
    [input, output, params, positions]: [&MlxBuffer; 4],
    factors: Option<&MlxBuffer>,
    [tokens, heads, dim, rope_dim]: [u32; 4],
) -> Result<()> {
    let [tokens, heads, dim, rope_dim] = [tokens, heads, dim, rope_dim].map(|extent| extent as usize);
    positive(what, &[("seq_len", tokens), ("n_heads", heads), ("head_dim", dim), ("rope_dim", rope_dim)])?;
    if !dim.is_multiple_of(2) || !rope_dim.is_multiple_of(2) || rope_dim > dim {
        refuse!("{what}: head_dim = {dim} and rope_dim = {rope_dim} must be even, rope_dim at most head_dim");
    }
    let base = base(what, encoder.host_values::<f32>(params, 1)?[0])?;
    let positions = encoder.host_values::<u32>(positions, tokens)?;
    let factors = match factors {
        Some(factors) => encoder.host_values::<f32>(factors, rope_dim / 2)?,
        None => vec![1.0; rope_dim / 2],
    };
    // Pairs reach over half of the head, not of the rotated part; the others are not turned.
    let rotation = Rotation::new([tokens, heads, dim], RopeStyle::Halves, dim / 2, |token, pair| {
        let factor = factors.get(pair).map_or(f64::INFINITY, |factor| f64::from(*factor));
        f64::from(positions[token]) * base.powf(-2.0 * pair as f64 / dim as f64) / factor
    })?;
    rotate(encoder, what, [input, output], rotation)
}

/// Encodes the rotation of elements `i` and `i + head_dim / 2` for `i < rope_dim / 2`, in rows `[seq_len * n_heads, head_dim]` of bf16.
pub fn dispatch_rope_neox_bf16(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    input: &MlxBuffer,
    output: &MlxBuffer,
    params_buf: &MlxBuffer,
    positions_buf: &MlxBuffer,
    seq_len: u32,
    n_heads: u32,
    head_dim: u32,
    rope_dim: u32,
) -> Result<()> {
    same_types("rope_neox_bf16", input, output, Some(DType::BF16))?;
    let buffers = [input, output, params_buf, positions_buf];
    neox(encoder, "rope_neox_bf16", buffers, None, [seq_len, n_heads, head_dim, rope_dim])
}

/// As [`dispatch_rope_neox_bf16`] in f32, with factors that divide the frequencies.
pub fn dispatch_rope_neox_f32(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    input: &MlxBuffer,
    output: &MlxBuffer,
    params_buf: &MlxBuffer,
    positions_buf: &MlxBuffer,
    freq_factors: Option<&MlxBuffer>,
    seq_len: u32,
    n_heads: u32,
    head_dim: u32,
    rope_dim: u32,
) -> Result<()> {
    same_types("rope_neox_f32", input, output, Some(DType::F32))?;
    let buffers = [input, output, params_buf, positions_buf];
    neox(encoder, "rope_neox_f32", buffers, freq_factors, [seq_len, n_heads, head_dim, rope_dim])
}
