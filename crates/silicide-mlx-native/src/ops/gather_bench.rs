//! Lookups that mlx-native compares with reads of a plain cache.

use super::support::{cast_into, count, positive, register, reshaped, typed};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{DType, KernelRegistry, MlxBuffer};
use silicide::ops::binary::Binary;
use silicide::ops::{cast, gather_rows, unary};
use silicide::{Buffer, DType as Element, Recorder};

register!();

/// Encodes `out[p, c] = centroids[code(p, c), c]`, where two codes of 4 bits share a byte of `packed`, the first in its low half.
pub fn dispatch_gather_nibble(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    packed: &MlxBuffer,
    centroids: &MlxBuffer,
    out: &MlxBuffer,
    capacity: u32,
    head_dim: u32,
) -> Result<()> {
    const CODES: usize = 16;
    let what = "gather_nibble";
    let (rows, dim) = (capacity as usize, head_dim as usize);
    positive(what, &[("capacity", rows), ("head_dim", dim)])?;
    typed(what, "packed", packed, DType::U8)?;
    typed(what, "centroids", centroids, DType::F32)?;
    typed(what, "out", out, DType::F32)?;
    // Places in the table are counted in f32.
    if !dim.is_multiple_of(2) || dim > 1 << 19 {
        refuse!("{what}: head_dim = {dim} must be even and at most 2^19");
    }
    let bytes = count(what, &[rows, dim / 2])?;
    let codes = packed.tensor(Element::U8, &[bytes])?;
    let table = centroids.tensor(Element::F32, &[CODES * dim, 1])?;
    let y = out.tensor(Element::F32, &[count(what, &[rows, dim])?, 1])?;
    let columns: Vec<f32> = (0..dim).map(|column| column as f32).collect();
    let columns = Buffer::from_slice(encoder.device().silicide(), [dim / 2, 2], &columns)?;
    let dispatch = Dispatch::new(what, rows * dim, &[packed, centroids], &[out]);
    encoder.dispatch(dispatch, move |recorder| {
        let byte = cast(recorder, &codes, Element::F32)?;
        let high = unary::scale(recorder, &byte, 1.0 / CODES as f32)?;
        let high = cast(recorder, &high, Element::U32)?;
        let high = cast(recorder, &high, Element::F32)?;
        let without = unary::scale(recorder, &high, CODES as f32)?;
        let low = recorder.run_one(Binary::Sub, &[&byte, &without])?;
        // Codes side by side: [rows, dim / 2, 2] of a low and a high one.
        let pairs =
            silicide::ops::fill::fill(recorder, Element::F32, super::support::shape(&[2, bytes])?, 0.0)?;
        let (first, second) = (pairs.slice(0..bytes)?, pairs.slice(bytes..2 * bytes)?);
        cast_into(recorder, &low, &first)?;
        cast_into(recorder, &high, &second)?;
        let codes = silicide::ops::permute::permute(recorder, &pairs, &[1, 0])?;
        let start = unary::scale(recorder, &codes, dim as f32)?;
        let start = reshaped(&start, &[rows, dim / 2, 2])?;
        let place = recorder.run_one(Binary::Add, &[&start, &columns])?;
        let place = cast(recorder, &place, Element::U32)?;
        let place = reshaped(&place, &[rows * dim])?;
        let values = gather_rows(recorder, &table, &place, Element::F32)?;
        cast_into(recorder, &values, &y)
    })
}

/// Encodes the conversion of `[capacity, head_dim]` from f16 to f32.
pub fn dispatch_gather_f16_seq(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    cache: &MlxBuffer,
    out: &MlxBuffer,
    capacity: u32,
    head_dim: u32,
) -> Result<()> {
    let what = "gather_f16_seq";
    let (rows, dim) = (capacity as usize, head_dim as usize);
    positive(what, &[("capacity", rows), ("head_dim", dim)])?;
    typed(what, "cache", cache, DType::F16)?;
    typed(what, "out", out, DType::F32)?;
    let n = count(what, &[rows, dim])?;
    let (x, y) = (cache.tensor(Element::F16, &[n])?, out.tensor(Element::F32, &[n])?);
    let dispatch = Dispatch::new(what, n, &[cache], &[out]);
    encoder.dispatch(dispatch, move |recorder| cast_into(recorder, &x, &y))
}
