//! Rotations of heads.

use super::super::support::Recorded;
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::turboquant::{TBQ_SIGNS_256, TBQ_SIGNS_512, is_negated};
use crate::{DType, MlxBuffer};
use silicide::ops::matmul::Matmul;
use silicide::record::CommandEncoder as Recorder;
use silicide::{Buffer, Device, Recorder as _};

/// Which rotation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rotation {
    /// The transform.
    Plain,
    /// Signs, then the transform.
    Forward,
    /// The transform, then signs: undoes `Forward`.
    Back,
}

/// The rows of a rotation: `y = rows x`, where `H[i][j] = -1` if `i & j` has an odd number of bits.
pub(super) fn matrix(device: &Device, dim: usize, rotation: Rotation) -> Result<Buffer> {
    let signs: &[u8] = if dim == 512 { &TBQ_SIGNS_512 } else { &TBQ_SIGNS_256 };
    let unit = 1.0 / (dim as f32).sqrt();
    let element = |i: usize, j: usize| {
        let odd = (i & j).count_ones() % 2 == 1;
        let negated = match rotation {
            Rotation::Plain => false,
            Rotation::Forward => is_negated(signs, j),
            Rotation::Back => is_negated(signs, i),
        };
        if odd != negated { -unit } else { unit }
    };
    let values: Vec<f32> = (0..dim * dim).map(|at| element(at / dim, at % dim)).collect();
    Ok(Buffer::from_slice(device, [dim, dim], &values)?)
}

/// Records the rotation of the rows of `x`.
pub(super) fn rotated(
    recorder: &mut Recorder,
    x: &Buffer,
    matrix: &Buffer,
) -> std::result::Result<Buffer, silicide::Error> {
    recorder.run_one(Matmul { exact: true }, &[x, matrix])
}

/// Encodes the rotation of `rows` heads in place.
fn in_place(
    encoder: &mut CommandEncoder,
    what: &str,
    data: &MlxBuffer,
    [rows, dim]: [u32; 2],
    rotation: Rotation,
) -> Result<()> {
    if rows == 0 || dim == 0 {
        return Ok(());
    }
    if data.dtype() != DType::F32 {
        refuse!("{what}: data must be f32, got {}", data.dtype());
    }
    let (rows, dim) = (rows as usize, dim as usize);
    let x = data.tensor(silicide::DType::F32, &[rows, dim])?;
    let matrix = matrix(encoder.device().silicide(), dim, rotation)?;
    encoder.dispatch(Dispatch::new(what, rows * 32, &[data], &[data]), move |recorder| -> Recorded {
        let y = rotated(recorder, &x, &matrix)?;
        recorder.copy(&y, &x)
    })
}

/// The Walsh-Hadamard transform.
pub mod hadamard {
    use super::{Rotation, in_place};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};

    super::super::super::support::register!();

    /// The longest heads.
    const MOST_DIM: u32 = 8192;

    /// Encodes the normalized transform of `num_heads` heads of f32 in place. `head_dim` is a power of two.
    pub fn dispatch_hadamard_transform(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        data: &MlxBuffer,
        head_dim: u32,
        num_heads: u32,
    ) -> Result<()> {
        if head_dim != 0 && (!head_dim.is_power_of_two() || head_dim > MOST_DIM) {
            refuse!("hadamard_transform: head_dim must be a power of two up to {MOST_DIM}, got {head_dim}");
        }
        in_place(encoder, "hadamard_transform", data, [num_heads, head_dim], Rotation::Plain)
    }
}

/// Rotations of heads of 256 and 512 elements.
pub mod fwht_standalone {
    use super::super::wide_heads;
    use super::{Rotation, in_place};
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};

    super::super::super::support::register!();

    /// Encodes the normalized transform in place.
    pub fn dispatch_fwht_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        data: &MlxBuffer,
        num_heads: u32,
        head_dim: u32,
    ) -> Result<()> {
        wide_heads("fwht_standalone", head_dim)?;
        in_place(encoder, "fwht_standalone_f32", data, [num_heads, head_dim], Rotation::Plain)
    }

    /// Encodes signs and then the transform, in place.
    pub fn dispatch_fwht_sign_premult_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        data: &MlxBuffer,
        num_heads: u32,
        head_dim: u32,
    ) -> Result<()> {
        wide_heads("fwht_sign_premult", head_dim)?;
        in_place(encoder, "fwht_sign_premult_f32", data, [num_heads, head_dim], Rotation::Forward)
    }

    /// Encodes the transform and then signs, in place: undoes [`dispatch_fwht_sign_premult_f32`].
    pub fn dispatch_fwht_sign_undo_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        data: &MlxBuffer,
        num_heads: u32,
        head_dim: u32,
    ) -> Result<()> {
        wide_heads("fwht_sign_undo", head_dim)?;
        in_place(encoder, "fwht_sign_undo_f32", data, [num_heads, head_dim], Rotation::Back)
    }
}
