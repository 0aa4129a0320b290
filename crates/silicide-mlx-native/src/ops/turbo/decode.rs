//! Decoders: slots of caches as rows of f32 or f16, in the rotated domain.

use super::super::support::cast_into;
use super::{Format, codes_at, norms_at};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::{DType, MlxBuffer};
use silicide::ops;

/// Encodes the decoding of slots `first..first + count` of each head into `[kv_heads, count, dim]`.
fn decode(
    encoder: &mut CommandEncoder,
    what: &str,
    [packed, norms, dst]: [&MlxBuffer; 3],
    [kv_heads, capacity]: [u32; 2],
    [first, count]: [u32; 2],
    format: Format,
    to: DType,
) -> Result<()> {
    if dst.dtype() != to {
        refuse!("{what}: dst must be {to}, got {}", dst.dtype());
    }
    let end = u64::from(first) + u64::from(count);
    if end > u64::from(capacity) {
        refuse!("{what}: read_pos({first}) + {count} >= cache_capacity({capacity})");
    }
    let [kv_heads, capacity, first, count] = [kv_heads, capacity, first, count].map(|extent| extent as usize);
    let mut heads = Vec::new();
    for head in 0..kv_heads {
        let row = head * capacity + first;
        let start = super::byte_of(head * count, format.dim * to.size_of())?;
        heads.push((
            codes_at(packed, &format, row, count)?,
            norms_at(norms, &format, row, count)?,
            dst.tensor_at(start, to.silicide(), &[count, format.dim])?,
        ));
    }
    let dispatch = Dispatch::new(what, kv_heads * count, &[packed, norms], &[dst]);
    encoder.dispatch(dispatch, move |recorder| {
        for (codes, norms, to) in &heads {
            let rows = ops::codebook_decode(recorder, codes, norms, &format.levels, format.codebook)?;
            cast_into(recorder, &rows, to)?;
        }
        Ok(())
    })
}

/// Decoders of caches.
pub mod tq_dequantize_kv {
    use super::super::Format;
    use super::decode;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};

    super::super::super::support::register!();

    /// Encodes slot `read_pos` of a cache of 4 bits as `[num_kv_heads, head_dim]` of f32.
    pub fn dispatch_tq_dequantize_kv(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        dst: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        read_pos: u32,
        scale_factor_d512: f32,
    ) -> Result<()> {
        if num_kv_heads == 0 || head_dim == 0 {
            return Ok(());
        }
        let what = "tq_dequantize_kv";
        let format = Format::new(encoder.device().silicide(), what, head_dim, None, scale_factor_d512)?;
        let cache = [num_kv_heads, cache_capacity];
        decode(encoder, what, [packed, norms, dst], cache, [read_pos, 1], format, DType::F32)
    }

    /// Encodes slot `read_pos` of a cache of 5, 6 or 8 bits as `[num_kv_heads, head_dim]` of f32.
    pub fn dispatch_tq_dequantize_hb_kv(
        encoder: &mut CommandEncoder,
        registry: &mut KernelRegistry,
        device: &DeviceRef,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        dst: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        read_pos: u32,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        dispatch_tq_dequantize_hb_kv_seq(
            encoder,
            registry,
            device,
            packed,
            norms,
            dst,
            num_kv_heads,
            head_dim,
            cache_capacity,
            read_pos,
            1,
            scale_factor_d512,
            codebook_bits,
        )
    }

    /// Encodes slots from `start_pos` on as `[num_kv_heads, n_tokens, head_dim]` of f32.
    pub fn dispatch_tq_dequantize_hb_kv_seq(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        dst: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        start_pos: u32,
        n_tokens: u32,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        let what = "tq_dequantize_hb_kv_seq";
        let (cache, slots) = ([num_kv_heads, cache_capacity], [start_pos, n_tokens]);
        if [num_kv_heads, head_dim, n_tokens].contains(&0) {
            return Ok(());
        }
        let bits = Some(codebook_bits);
        let format = Format::new(encoder.device().silicide(), what, head_dim, bits, scale_factor_d512)?;
        decode(encoder, what, [packed, norms, dst], cache, slots, format, DType::F32)
    }

    /// As [`dispatch_tq_dequantize_hb_kv_seq`], of f16.
    pub fn dispatch_tq_dequantize_hb_kv_seq_f16(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        dst: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        start_pos: u32,
        n_tokens: u32,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        let what = "tq_dequantize_hb_kv_seq_f16";
        let (cache, slots) = ([num_kv_heads, cache_capacity], [start_pos, n_tokens]);
        if [num_kv_heads, head_dim, n_tokens].contains(&0) {
            return Ok(());
        }
        let bits = Some(codebook_bits);
        let format = Format::new(encoder.device().silicide(), what, head_dim, bits, scale_factor_d512)?;
        decode(encoder, what, [packed, norms, dst], cache, slots, format, DType::F16)
    }
}
