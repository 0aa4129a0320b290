//! Norms and rotations of heads.

use super::super::support::wide;
use super::{Element, Recorder, Rope, RopeStyle, Rotation, base, cast_into, positive};
use crate::encoder::Dispatch;
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
use silicide::Buffer;
use silicide::ops::rms_norm::RmsNorm;

super::super::support::register!();

/// The norm of a head.
struct HeadNorm<'a> {
    weight: Option<&'a MlxBuffer>,
    eps: f32,
}

fn norm_and_turn(
    encoder: &mut CommandEncoder,
    what: &str,
    [input, output]: [&MlxBuffer; 2],
    HeadNorm { weight, eps }: HeadNorm<'_>,
    rotation: Rotation,
) -> Result<()> {
    if input.dtype() != DType::BF16 || output.dtype() != DType::BF16 {
        refuse!("{what}: unsupported dtypes {} and {}", input.dtype(), output.dtype());
    }
    let shape = [rotation.tokens, rotation.heads, rotation.dim];
    let (x, y) = (input.tensor(Element::BF16, &shape)?, output.tensor(Element::BF16, &shape)?);
    let w = weight.map(|weight| weight.tensor(weight.dtype().silicide(), &[rotation.dim])).transpose()?;
    let table = Buffer::from_slice(
        encoder.device().silicide(),
        [rotation.tokens, rotation.pairs(), 2],
        &rotation.table,
    )?;
    let style = rotation.style;
    let reads: Vec<&MlxBuffer> = [input].into_iter().chain(weight).collect();
    encoder.dispatch(Dispatch::new(what, x.elements(), &reads, &[output]), move |recorder| {
        let x = wide(recorder, &x)?;
        let norm = RmsNorm::new(eps, w.is_some());
        let normed = match &w {
            Some(w) => {
                let w = wide(recorder, w)?;
                recorder.run_one(norm, &[&x, &w])?
            }
            None => recorder.run_one(norm, &[&x])?,
        };
        let turned = recorder.run_one(Rope { style }, &[&normed, &table])?;
        cast_into(recorder, &turned, &y)
    })
}

fn check(what: &str, tokens: u32, heads: u32, dim: u32, half: u32) -> Result<[usize; 3]> {
    let [tokens, heads, dim, half] = [tokens, heads, dim, half].map(|extent| extent as usize);
    positive(what, &[("seq_len", tokens), ("n_heads", heads), ("head_dim", dim)])?;
    if !dim.is_multiple_of(2) || half > dim / 2 {
        refuse!("{what}: head_dim = {dim} must be even and have room for 2 * {half} elements");
    }
    Ok([tokens, heads, dim])
}

/// Encodes the norm of each head and the rotation of its first `2 * half_rope_dim` elements, in bf16. Angles are positions times
/// `theta` to the power of `-2 i / head_dim`, divided by the pair's factor.
pub fn dispatch_fused_head_norm_rope_batch_bf16(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    input: &MlxBuffer,
    output: &MlxBuffer,
    norm_weight: Option<&MlxBuffer>,
    positions_buf: &MlxBuffer,
    freq_factors: Option<&MlxBuffer>,
    n_heads: u32,
    head_dim: u32,
    half_rope_dim: u32,
    seq_len: u32,
    eps: f32,
    theta: f32,
) -> Result<()> {
    let what = "fused_head_norm_rope_batch_bf16";
    let [tokens, heads, dim] = check(what, seq_len, n_heads, head_dim, half_rope_dim)?;
    let pairs = half_rope_dim as usize;
    let base = base(what, theta)?;
    let positions = encoder.host_values::<u32>(positions_buf, tokens)?;
    let factors = match freq_factors {
        Some(factors) => encoder.host_values::<f32>(factors, pairs)?,
        None => vec![1.0; pairs],
    };
    let shape = [tokens, heads, dim];
    let rotation = Rotation::new(shape, RopeStyle::Halves, dim / 2, |token, pair| {
        let factor = factors.get(pair).map_or(f64::INFINITY, |factor| f64::from(*factor));
        f64::from(positions[token]) * base.powf(-2.0 * pair as f64 / dim as f64) / factor
    })?;
    norm_and_turn(encoder, what, [input, output], HeadNorm { weight: norm_weight, eps }, rotation)
}

/// As [`dispatch_fused_head_norm_rope_batch_bf16`] for one token, with cosines and sines of f32 that the caller gives.
pub fn dispatch_fused_head_norm_rope_bf16(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    input: &MlxBuffer,
    output: &MlxBuffer,
    norm_weight: Option<&MlxBuffer>,
    cos_cache: &MlxBuffer,
    sin_cache: &MlxBuffer,
    n_heads: u32,
    head_dim: u32,
    half_rope_dim: u32,
    eps: f32,
) -> Result<()> {
    let what = "fused_head_norm_rope_bf16";
    let shape = check(what, 1, n_heads, head_dim, half_rope_dim)?;
    let pairs = half_rope_dim as usize;
    let cosines = encoder.host_values::<f32>(cos_cache, pairs)?;
    let sines = encoder.host_values::<f32>(sin_cache, pairs)?;
    let mut rotation = Rotation::new(shape, RopeStyle::Halves, shape[2] / 2, |_, _| 0.0)?;
    for (entry, (cosine, sine)) in rotation.table.chunks_exact_mut(2).zip(cosines.into_iter().zip(sines)) {
        entry.copy_from_slice(&[cosine, sine]);
    }
    norm_and_turn(encoder, what, [input, output], HeadNorm { weight: norm_weight, eps }, rotation)
}
