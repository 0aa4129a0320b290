//! Encoders: rows of heads into caches.

use super::super::support::{reshaped, typed};
use super::rotate::{Rotation, matrix, rotated};
use super::{Format, codes_at, norms_at};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::{DType, MlxBuffer};
use silicide::Buffer;
use silicide::ops::{self, permute::permute};

/// Where tokens go.
#[derive(Clone, Copy)]
struct Target {
    /// The first row of the cache: `[kv_heads, capacity]` rows begin there.
    row: usize,
    capacity: usize,
    /// The position of the first token.
    position: usize,
    ring: bool,
}

/// One stream of heads: `[tokens, kv_heads, dim]` of f32 from token `first` of `src` on, into a cache.
struct Stream<'a> {
    src: &'a MlxBuffer,
    first: usize,
    packed: &'a MlxBuffer,
    norms: &'a MlxBuffer,
}

/// A run of tokens that are neighbours in the cache: rows of the encoded heads, codes and norms.
type Run = (usize, usize, Buffer, Buffer);

/// Encodes a stream.
fn encode(
    encoder: &mut CommandEncoder,
    what: &str,
    stream: &Stream<'_>,
    [kv_heads, tokens]: [usize; 2],
    target: Target,
    format: &Format,
    rotation: Option<Rotation>,
) -> Result<()> {
    let Stream { src, first, packed, norms } = *stream;
    typed(what, "src", src, DType::F32)?;
    typed(what, "norms", norms, DType::F32)?;
    let Target { row, capacity, position, ring } = target;
    if capacity == 0 {
        refuse!("{what}: cache_capacity must be greater than zero");
    }
    let end = position.saturating_add(tokens);
    if !ring && end > capacity {
        refuse!("{what}: global cache write_pos({}) >= cache_capacity({capacity})", end - 1);
    }
    let dim = format.dim;
    let heads = super::super::support::count(what, &[kv_heads, dim, 4])?;
    let from = src.tensor_at(first.saturating_mul(heads), silicide::DType::F32, &[tokens * kv_heads, dim])?;
    // Of more tokens than a ring has, the last stay.
    let skipped = if ring { tokens.saturating_sub(capacity) } else { 0 };
    let mut runs: Vec<Run> = Vec::new();
    for head in 0..kv_heads {
        let mut token = skipped;
        while token < tokens {
            let slot = (position + token) % capacity;
            let count = (tokens - token).min(capacity - slot);
            let at = row.saturating_add(head * capacity + slot);
            let places = (codes_at(packed, format, at, count)?, norms_at(norms, format, at, count)?);
            runs.push((head * tokens + token, count, places.0, places.1));
            token += count;
        }
    }
    let rotation = match rotation {
        Some(rotation) => Some(matrix(encoder.device().silicide(), dim, rotation)?),
        None => None,
    };
    let format = format.clone();
    let dispatch = Dispatch::new(what, kv_heads * tokens * 32, &[src], &[packed, norms]);
    encoder.dispatch(dispatch, move |recorder| {
        let heads = match &rotation {
            Some(matrix) => rotated(recorder, &from, matrix)?,
            None => from.clone(),
        };
        let by_head = reshaped(&heads, &[tokens, kv_heads, dim])?;
        let by_head = permute(recorder, &by_head, &[1, 0, 2])?;
        let rows = reshaped(&by_head, &[kv_heads * tokens, dim])?;
        let (codes, norms) =
            ops::codebook_encode::codebook_encode(recorder, &rows, &format.levels, format.codebook)?;
        for (first, count, to_codes, to_norms) in &runs {
            for (from, to) in [(&codes, to_codes), (&norms, to_norms)] {
                let row = from.shape().last();
                let rows = from.slice(first * row..(first + count) * row)?;
                recorder.copy(&reshaped(&rows, &[*count, row])?, to)?;
            }
        }
        Ok(())
    })
}

/// Encoders of keys and values.
pub mod hadamard_quantize_kv {
    use super::super::{Format, wide_heads};
    use super::{Stream, Target, encode};
    use crate::error::{MlxError, Result, refuse};
    use crate::metal::DeviceRef;
    use crate::ops::support::typed;
    use crate::ops::turbo::rotate::Rotation;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};

    super::super::super::support::register!();

    /// The rotation and the format of 4 bits. Heads of other lengths than 256 and 512 have no signs.
    fn narrow(
        encoder: &CommandEncoder,
        what: &str,
        dim: u32,
        scale: Option<f32>,
    ) -> Result<(Format, Rotation)> {
        if !dim.is_power_of_two() || !(2..=4096).contains(&dim) {
            refuse!("{what}: head_dim must be a power of two from 2 to 4096, got {dim}");
        }
        let format = Format::new(encoder.device().silicide(), what, dim, None, scale.unwrap_or(1.0))?;
        let rotation = if matches!(dim, 256 | 512) { Rotation::Forward } else { Rotation::Plain };
        Ok((format, rotation))
    }

    /// The format of 5, 6 or 8 bits.
    fn wide(encoder: &CommandEncoder, what: &str, dim: u32, scale: f32, bits: u32) -> Result<Format> {
        let format = Format::new(encoder.device().silicide(), what, dim, Some(bits), scale)?;
        wide_heads(what, dim)?;
        Ok(format)
    }

    fn target(capacity: u32, position: u32, ring: bool) -> Target {
        Target { row: 0, capacity: capacity as usize, position: position as usize, ring }
    }

    /// Encodes a token's heads, `[num_kv_heads, head_dim]` of f32, as codes of 4 bits. `rms_scratch` is not written.
    pub fn dispatch_hadamard_quantize_kv(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        src: &MlxBuffer,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        write_pos: u32,
        is_sliding: bool,
        scale_factor_d512: Option<f32>,
        _rms_scratch: Option<&MlxBuffer>,
    ) -> Result<()> {
        if num_kv_heads == 0 || head_dim == 0 {
            return Ok(());
        }
        let what = "hadamard_quantize_kv";
        let (format, rotation) = narrow(encoder, what, head_dim, scale_factor_d512)?;
        let stream = Stream { src, first: 0, packed, norms };
        let to = target(cache_capacity, write_pos, is_sliding);
        encode(encoder, what, &stream, [num_kv_heads as usize, 1], to, &format, Some(rotation))
    }

    /// As [`dispatch_hadamard_quantize_kv`], for `n_tokens` tokens from token `src_tok_offset` of `src` on.
    pub fn dispatch_hadamard_quantize_kv_seq(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        src: &MlxBuffer,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        write_pos_start: u32,
        n_tokens: u32,
        src_tok_offset: u32,
        is_sliding: bool,
        scale_factor_d512: Option<f32>,
    ) -> Result<()> {
        if n_tokens == 0 || num_kv_heads == 0 || head_dim == 0 {
            return Ok(());
        }
        let what = "hadamard_quantize_kv_seq";
        let (format, rotation) = narrow(encoder, what, head_dim, scale_factor_d512)?;
        let stream = Stream { src, first: src_tok_offset as usize, packed, norms };
        let to = target(cache_capacity, write_pos_start, is_sliding);
        let extents = [num_kv_heads as usize, n_tokens as usize];
        encode(encoder, what, &stream, extents, to, &format, Some(rotation))
    }

    /// As [`dispatch_hadamard_quantize_kv`], for keys and values of 256 or 512 elements.
    pub fn dispatch_hadamard_quantize_kv_fast_dual(
        encoder: &mut CommandEncoder,
        registry: &mut KernelRegistry,
        device: &DeviceRef,
        src_k: &MlxBuffer,
        src_v: &MlxBuffer,
        packed_k: &MlxBuffer,
        packed_v: &MlxBuffer,
        norms_k: &MlxBuffer,
        norms_v: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        write_pos: u32,
        is_sliding: bool,
        scale_factor_d512: Option<f32>,
    ) -> Result<()> {
        if num_kv_heads == 0 || head_dim == 0 {
            return Ok(());
        }
        wide_heads("hadamard_quantize_kv_fast_dual", head_dim)?;
        for (src, packed, norms) in [(src_k, packed_k, norms_k), (src_v, packed_v, norms_v)] {
            dispatch_hadamard_quantize_kv(
                encoder,
                registry,
                device,
                src,
                packed,
                norms,
                num_kv_heads,
                head_dim,
                cache_capacity,
                write_pos,
                is_sliding,
                scale_factor_d512,
                None,
            )?;
        }
        Ok(())
    }

    /// Encodes a token's heads as codes of 5, 6 or 8 bits, a byte each.
    pub fn dispatch_hadamard_quantize_kv_hb(
        encoder: &mut CommandEncoder,
        registry: &mut KernelRegistry,
        device: &DeviceRef,
        src: &MlxBuffer,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        write_pos: u32,
        is_sliding: bool,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        if num_kv_heads == 0 || head_dim == 0 {
            return Ok(());
        }
        dispatch_hadamard_quantize_kv_hb_seq(
            encoder,
            registry,
            device,
            src,
            packed,
            norms,
            num_kv_heads,
            head_dim,
            cache_capacity,
            write_pos,
            1,
            0,
            is_sliding,
            scale_factor_d512,
            codebook_bits,
        )
    }

    /// As [`dispatch_hadamard_quantize_kv_hb`], for `n_tokens` tokens from token `src_tok_offset` of `src` on.
    pub fn dispatch_hadamard_quantize_kv_hb_seq(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        src: &MlxBuffer,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        write_pos_start: u32,
        n_tokens: u32,
        src_tok_offset: u32,
        is_sliding: bool,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        if n_tokens == 0 {
            return Ok(());
        }
        let what = "hadamard_quantize_kv_hb_seq";
        if num_kv_heads == 0 {
            refuse!("{what}: num_kv_heads must be greater than zero");
        }
        let format = wide(encoder, what, head_dim, scale_factor_d512, codebook_bits)?;
        let stream = Stream { src, first: src_tok_offset as usize, packed, norms };
        let to = target(cache_capacity, write_pos_start, is_sliding);
        let extents = [num_kv_heads as usize, n_tokens as usize];
        encode(encoder, what, &stream, extents, to, &format, Some(Rotation::Forward))
    }

    /// As [`dispatch_hadamard_quantize_kv_hb`], for keys and values.
    pub fn dispatch_hadamard_quantize_kv_hb_dual(
        encoder: &mut CommandEncoder,
        registry: &mut KernelRegistry,
        device: &DeviceRef,
        src_k: &MlxBuffer,
        src_v: &MlxBuffer,
        packed_k: &MlxBuffer,
        packed_v: &MlxBuffer,
        norms_k: &MlxBuffer,
        norms_v: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        write_pos: u32,
        is_sliding: bool,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        for (src, packed, norms) in [(src_k, packed_k, norms_k), (src_v, packed_v, norms_v)] {
            dispatch_hadamard_quantize_kv_hb(
                encoder,
                registry,
                device,
                src,
                packed,
                norms,
                num_kv_heads,
                head_dim,
                cache_capacity,
                write_pos,
                is_sliding,
                scale_factor_d512,
                codebook_bits,
            )?;
        }
        Ok(())
    }

    /// As [`dispatch_hadamard_quantize_kv_hb`], for a token of each of `n_queries` sequences: `slot_id` and `seq_pos` are u32, read while
    /// encoding. A position past a cache that is no ring is skipped.
    pub fn dispatch_hadamard_quantize_kv_hb_batched(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        src: &MlxBuffer,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        slot_id: &MlxBuffer,
        seq_pos: &MlxBuffer,
        n_queries: u32,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        is_sliding: bool,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        if num_kv_heads == 0 || head_dim == 0 || n_queries == 0 {
            return Ok(());
        }
        let what = "dispatch_hadamard_quantize_kv_hb_batched";
        let format = wide(encoder, what, head_dim, scale_factor_d512, codebook_bits)?;
        let slots = encoder.host_values::<u32>(slot_id, n_queries as usize)?;
        let positions = encoder.host_values::<u32>(seq_pos, n_queries as usize)?;
        for (query, (slot, position)) in slots.into_iter().zip(positions).enumerate() {
            if !is_sliding && position >= cache_capacity {
                continue;
            }
            let row = (slot as usize).saturating_mul(num_kv_heads as usize * cache_capacity as usize);
            let to = Target { row, ..target(cache_capacity, position, is_sliding) };
            let stream = Stream { src, first: query, packed, norms };
            let heads = [num_kv_heads as usize, 1];
            encode(encoder, what, &stream, heads, to, &format, Some(Rotation::Forward))?;
        }
        Ok(())
    }

    /// As [`dispatch_hadamard_quantize_kv_hb_batched`], for caches of different capacities in one arena of `arena_token_capacity` rows.
    pub fn dispatch_hadamard_quantize_kv_hb_banked(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        src: &MlxBuffer,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        base_token_rows: &MlxBuffer,
        capacities: &MlxBuffer,
        seq_pos: &MlxBuffer,
        n_queries: u32,
        num_kv_heads: u32,
        head_dim: u32,
        arena_token_capacity: u32,
        is_sliding: bool,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        let what = "dispatch_hadamard_quantize_kv_hb_banked";
        if n_queries == 0 {
            return Ok(());
        }
        if num_kv_heads == 0 || arena_token_capacity == 0 {
            refuse!("{what}: num_kv_heads and arena_token_capacity must be greater than zero");
        }
        wide_heads(what, head_dim)?;
        let format = wide(encoder, what, head_dim, scale_factor_d512, codebook_bits)?;
        typed(what, "packed", packed, DType::U8)?;
        for (name, buffer) in
            [("base_token_rows", base_token_rows), ("capacities", capacities), ("seq_pos", seq_pos)]
        {
            typed(what, name, buffer, DType::U32)?;
        }
        // All of the arena is there.
        super::codes_at(packed, &format, 0, arena_token_capacity as usize)?;
        super::norms_at(norms, &format, 0, arena_token_capacity as usize)?;
        let read = |encoder: &mut CommandEncoder, buffer: &MlxBuffer| {
            encoder.host_values::<u32>(buffer, n_queries as usize)
        };
        let (rows, sizes) = (read(encoder, base_token_rows)?, read(encoder, capacities)?);
        let positions = read(encoder, seq_pos)?;
        for (query, ((row, capacity), position)) in rows.into_iter().zip(sizes).zip(positions).enumerate() {
            let end = u64::from(row) + u64::from(num_kv_heads) * u64::from(capacity);
            let fits = capacity != 0 && end <= u64::from(arena_token_capacity);
            if !fits || (!is_sliding && position >= capacity) {
                continue;
            }
            let to = Target { row: row as usize, ..target(capacity, position, is_sliding) };
            let stream = Stream { src, first: query, packed, norms };
            let heads = [num_kv_heads as usize, 1];
            encode(encoder, what, &stream, heads, to, &format, Some(Rotation::Forward))?;
        }
        Ok(())
    }

    /// Returns the offsets of a slot's codes and norms in bytes, in an arena.
    pub fn banked_tq_hb_byte_offsets(
        base_token_row: u32,
        kv_head: u32,
        capacity_tokens: u32,
        position: u32,
        head_dim: u32,
    ) -> Result<(u64, u64)> {
        let what = "banked_tq_hb_byte_offsets";
        if capacity_tokens == 0 || position >= capacity_tokens {
            refuse!("{what}: position {position} is outside capacity {capacity_tokens}");
        }
        if !matches!(head_dim, 256 | 512) {
            refuse!("{what}: head_dim must be 256 or 512, got {head_dim}");
        }
        let offsets = || {
            let row = u64::from(kv_head).checked_mul(u64::from(capacity_tokens))?;
            let row = row.checked_add(u64::from(base_token_row))?.checked_add(u64::from(position))?;
            Some((row.checked_mul(u64::from(head_dim))?, row.checked_mul(u64::from(head_dim / 256) * 4)?))
        };
        offsets().ok_or_else(|| MlxError::argument(format!("{what}: row offset overflow")))
    }

    /// Encodes a token's values as codes of 5, 6 or 8 bits, without a rotation.
    pub fn dispatch_kv_quantize_v_no_fwht(
        encoder: &mut CommandEncoder,
        registry: &mut KernelRegistry,
        device: &DeviceRef,
        src: &MlxBuffer,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        write_pos: u32,
        is_sliding: bool,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        dispatch_kv_quantize_v_no_fwht_seq(
            encoder,
            registry,
            device,
            src,
            packed,
            norms,
            num_kv_heads,
            head_dim,
            cache_capacity,
            write_pos,
            1,
            0,
            is_sliding,
            scale_factor_d512,
            codebook_bits,
        )
    }

    /// As [`dispatch_kv_quantize_v_no_fwht`], for `n_tokens` tokens from token `src_tok_offset` of `src` on.
    pub fn dispatch_kv_quantize_v_no_fwht_seq(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        src: &MlxBuffer,
        packed: &MlxBuffer,
        norms: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        write_pos_start: u32,
        n_tokens: u32,
        src_tok_offset: u32,
        is_sliding: bool,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        if n_tokens == 0 || num_kv_heads == 0 || head_dim == 0 {
            return Ok(());
        }
        let what = "dispatch_kv_quantize_v_no_fwht";
        let format = wide(encoder, what, head_dim, scale_factor_d512, codebook_bits)?;
        let stream = Stream { src, first: src_tok_offset as usize, packed, norms };
        let to = target(cache_capacity, write_pos_start, is_sliding);
        encode(encoder, what, &stream, [num_kv_heads as usize, n_tokens as usize], to, &format, None)
    }

    /// Copies a token's keys to a cache of f16, `[num_kv_heads, cache_capacity, head_dim]`, and encodes its values as
    /// [`dispatch_kv_quantize_v_no_fwht`] does.
    pub fn dispatch_kv_copy_kf16_quantize_v_no_fwht(
        encoder: &mut CommandEncoder,
        registry: &mut KernelRegistry,
        device: &DeviceRef,
        src_k: &MlxBuffer,
        src_v: &MlxBuffer,
        cache_k: &MlxBuffer,
        packed_v: &MlxBuffer,
        norms_v: &MlxBuffer,
        num_kv_heads: u32,
        head_dim: u32,
        cache_capacity: u32,
        write_pos: u32,
        is_sliding: bool,
        scale_factor_d512: f32,
        codebook_bits: u32,
    ) -> Result<()> {
        if num_kv_heads == 0 || head_dim == 0 {
            return Ok(());
        }
        let what = "dispatch_kv_copy_kf16_quantize_v_no_fwht";
        typed(what, "cache_k", cache_k, DType::F16)?;
        typed(what, "src_k", src_k, DType::F32)?;
        wide(encoder, what, head_dim, scale_factor_d512, codebook_bits)?;
        if cache_capacity == 0 || (!is_sliding && write_pos >= cache_capacity) {
            refuse!("{what}: global cache write_pos({write_pos}) >= cache_capacity({cache_capacity})");
        }
        let (heads, dim) = (num_kv_heads as usize, head_dim as usize);
        let mut copies = Vec::new();
        for head in 0..heads {
            let row = head * cache_capacity as usize + (write_pos % cache_capacity) as usize;
            let to = super::super::byte_of(row, dim * 2)?;
            copies.push((
                src_k.tensor_at(head * dim * 4, silicide::DType::F32, &[dim])?,
                cache_k.tensor_at(to, silicide::DType::F16, &[dim])?,
            ));
        }
        // Values first: what refuses them leaves the keys alone.
        dispatch_kv_quantize_v_no_fwht(
            encoder,
            registry,
            device,
            src_v,
            packed_v,
            norms_v,
            num_kv_heads,
            head_dim,
            cache_capacity,
            write_pos,
            is_sliding,
            scale_factor_d512,
            codebook_bits,
        )?;
        let dispatch = crate::encoder::Dispatch::new(what, heads * dim, &[src_k], &[cache_k]);
        encoder.dispatch(dispatch, move |recorder| {
            copies.iter().try_for_each(|(from, to)| crate::ops::support::cast_into(recorder, from, to))
        })
    }
}
