//! Rotations of heads for compressed caches, which this crate does not have: the functions return errors.

use super::support::register;
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{CommandEncoder, KernelRegistry, MlxBuffer};

register!();

/// Returns an error: the sign masks of mlx-native are not here.
pub fn dispatch_fwht_sign_premult_f32(
    _encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    _data: &MlxBuffer,
    _num_heads: u32,
    _head_dim: u32,
) -> Result<()> {
    refuse!("fwht_sign_premult_f32 is not available; silicide's compressed caches rotate by themselves")
}

/// Returns an error: the sign masks of mlx-native are not here.
pub fn dispatch_fwht_sign_undo_f32(
    _encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    _data: &MlxBuffer,
    _num_heads: u32,
    _head_dim: u32,
) -> Result<()> {
    refuse!("fwht_sign_undo_f32 is not available; silicide's compressed caches rotate by themselves")
}
