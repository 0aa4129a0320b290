//! Rotations by two coordinates.

use super::{Rotation, base, positive, rotate, same_types};
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};
use silicide::ops::rope::RopeStyle;

super::super::support::register!();

/// Returns the buffer of parameters: base, extents.
pub fn build_vision_2d_rope_params(
    device: &MlxDevice,
    theta: f32,
    head_dim: u32,
    n_heads: u32,
) -> Result<MlxBuffer> {
    let params = [theta, head_dim as f32, n_heads as f32, 0.0];
    device.upload_shared_bytes(bytemuck::cast_slice(&params), DType::F32, vec![4])
}

/// Encodes rotations in rows `[seq_len * n_heads, head_dim]`: the first half of a head turns by `pos_x`, the second by `pos_y`.
pub fn dispatch_vision_2d_rope(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    input: &MlxBuffer,
    output: &MlxBuffer,
    params_buf: &MlxBuffer,
    pos_x: &MlxBuffer,
    pos_y: &MlxBuffer,
    seq_len: u32,
    n_heads: u32,
    head_dim: u32,
) -> Result<()> {
    let what = "vision_2d_rope";
    let [tokens, heads, dim] = [seq_len, n_heads, head_dim].map(|extent| extent as usize);
    positive(what, &[("seq_len", tokens), ("n_heads", heads), ("head_dim", dim)])?;
    if !dim.is_multiple_of(4) {
        refuse!("{what}: head_dim = {dim} must be divisible by 4");
    }
    same_types(what, input, output, None)?;
    let base = base(what, encoder.host_values::<f32>(params_buf, 1)?[0])?;
    let x = encoder.host_values::<u32>(pos_x, tokens)?;
    let y = encoder.host_values::<u32>(pos_y, tokens)?;
    // Each half of a head is a row of its own.
    let rows = super::super::support::count(what, &[tokens, heads, 2])?;
    let shape = [rows, 1, dim / 2];
    let rotation = Rotation::new(shape, RopeStyle::Halves, dim / 4, |row, pair| {
        let token = row / 2 / heads;
        let position = if row % 2 == 0 { x[token] } else { y[token] };
        f64::from(position) * base.powf(-2.0 * pair as f64 / (dim / 2) as f64)
    })?;
    rotate(encoder, what, [input, output], rotation)
}
