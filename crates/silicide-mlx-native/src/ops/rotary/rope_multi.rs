//! Rotations by several positions.

use super::{Rotation, base, contiguous_axis, interleaved_axis, positive, rotate, same_types};
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};
use silicide::ops::rope::RopeStyle;
use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

super::super::support::register!();

/// Which pairs turn by which position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeMultiMode {
    /// Sections that follow one another.
    Mrope = 8,
    /// Sections whose pairs are interleaved.
    Imrope = 40,
    /// Two sections, y and x, whose exponents begin at 0 each.
    Vision = 24,
}

/// Extents, base and sections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeMultiParams {
    /// Elements of a head.
    pub head_dim: u32,
    /// Elements that are rotated.
    pub rope_dim: u32,
    /// Heads.
    pub n_heads: u32,
    /// Tokens.
    pub seq_len: u32,
    /// The base of the frequencies.
    pub freq_base: f32,
    /// Which pairs turn by which position.
    pub mode: RopeMultiMode,
    /// Pairs of each section.
    pub sections: [u32; 4],
}

fn check(p: &RopeMultiParams) -> Result<()> {
    let what = "rope_multi";
    let [dim, rope_dim] = [p.head_dim, p.rope_dim].map(|extent| extent as usize);
    let extents = [("head_dim", dim), ("rope_dim", rope_dim), ("n_heads", p.n_heads as usize)];
    positive(what, &extents)?;
    positive(what, &[("seq_len", p.seq_len as usize)])?;
    if !dim.is_multiple_of(2) || !rope_dim.is_multiple_of(2) || rope_dim > dim {
        refuse!("{what}: head_dim = {dim} and rope_dim = {rope_dim} must be even, rope_dim at most head_dim");
    }
    let pairs = p.sections[0].checked_add(p.sections[1]);
    if p.mode == RopeMultiMode::Vision && (rope_dim != dim || pairs != Some(p.head_dim / 2)) {
        refuse!("{what}: vision needs rope_dim = head_dim and sections of head_dim / 2 pairs");
    }
    base(what, p.freq_base).map(|_| ())
}

/// Returns the buffers of parameters: base and extents, heads and mode, sections.
pub fn build_rope_multi_buffers(
    device: &MlxDevice,
    p: RopeMultiParams,
) -> Result<(MlxBuffer, MlxBuffer, MlxBuffer)> {
    check(&p)?;
    let floats = [p.freq_base, p.head_dim as f32, p.rope_dim as f32, 0.0];
    let words = [p.n_heads, p.mode as u32, p.seq_len, 0];
    Ok((
        device.upload_shared_bytes(bytemuck::cast_slice(&floats), DType::F32, vec![4])?,
        device.upload_shared_bytes(bytemuck::cast_slice(&words), DType::U32, vec![4])?,
        device.upload_shared_bytes(bytemuck::cast_slice(&p.sections), DType::U32, vec![4])?,
    ))
}

/// Encodes the rotation of elements `i` and `i + head_dim / 2` by the position of the pair's section. Positions are i32
/// `[4 * seq_len]`.
pub fn dispatch_rope_multi(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    input: &MlxBuffer,
    output: &MlxBuffer,
    positions: &MlxBuffer,
    _params_buf: &MlxBuffer,
    _rope_params_buf: &MlxBuffer,
    _sections_buf: &MlxBuffer,
    p: RopeMultiParams,
) -> Result<()> {
    check(&p)?;
    same_types("rope_multi", input, output, None)?;
    let [dim, rope_dim, heads, tokens] =
        [p.head_dim, p.rope_dim, p.n_heads, p.seq_len].map(|extent| extent as usize);
    let base = base("rope_multi", p.freq_base)?;
    let count = super::super::support::count("rope_multi", &[4, tokens])?;
    let positions = encoder.host_values::<i32>(positions, count)?;
    let cycle = p.sections.iter().fold(0u32, |sum, count| sum.saturating_add(*count)).max(1);
    let rotation = Rotation::new([tokens, heads, dim], RopeStyle::Halves, dim / 2, |token, pair| {
        if pair >= rope_dim / 2 {
            return 0.0;
        }
        let sector = (pair % cycle as usize) as u32;
        let (axis, exponent, of) = match p.mode {
            RopeMultiMode::Mrope => (contiguous_axis(sector, p.sections), pair, rope_dim),
            RopeMultiMode::Imrope => (interleaved_axis(sector, p.sections), pair, rope_dim),
            RopeMultiMode::Vision => {
                let first = p.sections[0] as usize;
                if pair < first { (0, pair, dim / 2) } else { (1, pair - first, dim / 2) }
            }
        };
        f64::from(positions[axis * tokens + token]) * base.powf(-2.0 * exponent as f64 / of as f64)
    })?;
    rotate(encoder, "rope_multi", [input, output], rotation)
}

/// The parameters that were used.
static SEEN: LazyLock<Mutex<HashSet<[u32; 10]>>> = LazyLock::new(Mutex::default);

/// [`dispatch_rope_multi`] without buffers of parameters.
pub fn dispatch_rope_multi_cached(
    encoder: &mut CommandEncoder,
    registry: &mut KernelRegistry,
    device: &MlxDevice,
    input: &MlxBuffer,
    output: &MlxBuffer,
    positions: &MlxBuffer,
    p: RopeMultiParams,
) -> Result<()> {
    let unused = positions;
    let metal = device.metal_device();
    dispatch_rope_multi(encoder, registry, metal, input, output, positions, unused, unused, unused, p)?;
    let [t, h, w, e] = p.sections;
    let key =
        [p.head_dim, p.rope_dim, p.n_heads, p.seq_len, p.freq_base.to_bits(), p.mode as u32, t, h, w, e];
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    Ok(())
}

/// Forgets which parameters were used.
pub fn clear_rope_pack_cache() {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Returns how many different parameters [`dispatch_rope_multi_cached`] has seen.
pub fn rope_pack_cache_len() -> usize {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).len()
}
