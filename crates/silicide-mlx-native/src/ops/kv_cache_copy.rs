//! Copies of new keys or values into a cache.
//!
//! A cache is `[capacity, row_size]`, or head by head `[n_heads, capacity, head_dim]`. A sequence that reaches the end goes on at the
//! start.

use super::support::{count, positive, register, reshaped, shape};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{DType, KernelRegistry, MlxBuffer};
use silicide::Recorder;
use silicide::ops::strided_copy::{Layout, StridedCopy};

register!();

/// New rows and where they go. Counted in elements.
struct Rows {
    heads: usize,
    dim: usize,
    capacity: usize,
    tokens: usize,
    /// The first row of the source, of `source_tokens`.
    from: usize,
    source_tokens: usize,
    /// The first position in the cache.
    position: usize,
    /// Whether the source is `[heads, tokens, dim]`; otherwise `[tokens, heads, dim]`.
    head_major: bool,
}

impl Rows {
    /// Rows that end before the next one at the start of the cache: first token and how many.
    fn runs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (capacity, tokens, position) = (self.capacity, self.tokens, self.position);
        let mut token = 0;
        std::iter::from_fn(move || {
            let left = tokens.checked_sub(token).filter(|left| *left > 0)?;
            let run = left.min(capacity - (position + token) % capacity);
            token += run;
            Some((token - run, run))
        })
    }
}

/// Encodes copies from each source to its cache, as one dispatch.
fn copy_rows(
    encoder: &mut CommandEncoder,
    what: &str,
    pairs: &[(&MlxBuffer, &MlxBuffer)],
    [from, to]: [DType; 2],
    rows: Rows,
) -> Result<()> {
    let Rows { heads, dim, capacity, source_tokens, head_major, .. } = rows;
    positive(what, &[("n_heads", heads), ("head_dim", dim), ("capacity", capacity)])?;
    if rows.tokens == 0 {
        return Ok(());
    }
    let end = rows.from.checked_add(rows.tokens).filter(|end| *end <= source_tokens);
    if end.is_none() || rows.position.checked_add(rows.tokens).is_none() {
        refuse!("{what}: {} rows from {} on are not in the source", rows.tokens, rows.from);
    }
    // Of rows that share a place in the cache the last would have to win.
    if rows.tokens > capacity {
        refuse!("{what}: {} rows exceed the capacity of {capacity}", rows.tokens);
    }
    let mut buffers = Vec::new();
    for (source, cache) in pairs {
        if source.dtype() != from {
            refuse!("{what}: src must be {}, got {}", from.name().to_uppercase(), source.dtype());
        }
        if cache.dtype() != to {
            refuse!("{what}: cache must be {}, got {}", to.name().to_uppercase(), cache.dtype());
        }
        let x = source.tensor(from.silicide(), &[count(what, &[source_tokens, heads, dim])?])?;
        buffers.push((x, cache.tensor(to.silicide(), &[count(what, &[heads, capacity, dim])?])?));
    }
    let (reads, writes): (Vec<&MlxBuffer>, Vec<&MlxBuffer>) = pairs.iter().copied().unzip();
    let of_token = if head_major { dim } else { heads * dim };
    let of_head = if head_major { source_tokens * dim } else { dim };
    let dispatch = Dispatch::new(what, rows.tokens * heads * dim, &reads, &writes).annotated();
    encoder.dispatch(dispatch, move |recorder| {
        for (x, cache) in &buffers {
            for (token, run) in rows.runs() {
                let block = shape(&[heads, run, dim])?;
                let layout = Layout::new((rows.from + token) * of_token, &[of_head, of_token, 1]);
                let place = (rows.position + token) % capacity * dim;
                let target = Layout::new(place, &[capacity * dim, dim, 1]);
                if from == to {
                    let op = StridedCopy { shape: block, from: layout, to: Some(target) };
                    recorder.run_into(op, &[x], &[cache])?;
                    continue;
                }
                let dense = recorder.run_one(StridedCopy { shape: block, from: layout, to: None }, &[x])?;
                let dense = silicide::ops::cast(recorder, &dense, cache.dtype())?;
                let dense = reshaped(&dense, &[heads * run * dim])?;
                let layout = Layout::new(0, &[run * dim, dim, 1]);
                let op = StridedCopy { shape: block, from: layout, to: Some(target) };
                recorder.run_into(op, &[&dense], &[cache])?;
            }
        }
        Ok(())
    })
}

/// Encodes `cache[write_pos + i] = src[i]` for rows of bf16; sliding caches go on at their start, others refuse rows past their end.
pub fn dispatch_kv_cache_copy(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    src: &MlxBuffer,
    cache: &MlxBuffer,
    write_pos: u32,
    row_size: u32,
    n_new: u32,
    cache_cap: u32,
    is_sliding: bool,
) -> Result<()> {
    let what = "kv_cache_copy";
    let [position, dim, tokens, capacity] =
        [write_pos, row_size, n_new, cache_cap].map(|extent| extent as usize);
    if tokens == 0 || dim == 0 {
        return Ok(());
    }
    if !is_sliding && position + tokens > capacity {
        refuse!("{what}: rows {position}..{} exceed the capacity of {capacity}", position + tokens);
    }
    // Of more rows than the cache keeps, the last stay.
    let kept = tokens.min(capacity);
    let rows = Rows {
        heads: 1,
        dim,
        capacity,
        tokens: kept,
        from: tokens - kept,
        source_tokens: tokens,
        position: position + (tokens - kept),
        head_major: false,
    };
    copy_rows(encoder, what, &[(src, cache)], [DType::BF16, DType::BF16], rows)
}

/// One row for each head at one position.
fn at_position(heads: u32, dim: u32, capacity: u32, position: u32) -> Result<Rows> {
    if position >= capacity {
        refuse!("kv_cache_copy_batch: position {position} exceeds the capacity of {capacity}");
    }
    let [heads, dim, capacity, position] = [heads, dim, capacity, position].map(|extent| extent as usize);
    Ok(Rows { heads, dim, capacity, tokens: 1, from: 0, source_tokens: 1, position, head_major: false })
}

/// Declares copies of one row for each head.
macro_rules! batch_copies {
    ($($(#[$doc:meta])* $name:ident -> $to:ident, ($($source:ident => $cache:ident),+);)*) => {$(
        $(#[$doc])*
        pub fn $name(
            encoder: &mut CommandEncoder,
            _registry: &mut KernelRegistry,
            _device: &DeviceRef,
            $($source: &MlxBuffer,)+
            $($cache: &MlxBuffer,)+
            n_heads: u32,
            head_dim: u32,
            capacity: u32,
            seq_pos: u32,
        ) -> Result<()> {
            let rows = at_position(n_heads, head_dim, capacity, seq_pos)?;
            let pairs = [$(($source, $cache)),+];
            copy_rows(encoder, stringify!($name), &pairs, [DType::F32, DType::$to], rows)
        }
    )*};
}

batch_copies! {
    /// Encodes `cache[h, seq_pos] = src[h]` in f32.
    dispatch_kv_cache_copy_batch_f32 -> F32, (src => cache);
    /// Encodes `cache[h, seq_pos] = src[h]`, from f32 to f16.
    dispatch_kv_cache_copy_batch_f32_to_f16 -> F16, (src => cache);
    /// [`dispatch_kv_cache_copy_batch_f32`] for keys and values.
    dispatch_kv_cache_copy_batch_f32_kv_dual -> F32, (src_k => cache_k, src_v => cache_v);
    /// [`dispatch_kv_cache_copy_batch_f32_to_f16`] for keys and values.
    dispatch_kv_cache_copy_batch_f32_to_f16_kv_dual -> F16, (src_k => cache_k, src_v => cache_v);
}

/// Declares copies of several tokens, `[tokens, heads, dim]`.
macro_rules! sequence_copies {
    ($($(#[$doc:meta])* $name:ident: $from:ident -> $to:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(
            encoder: &mut CommandEncoder,
            _registry: &mut KernelRegistry,
            _device: &DeviceRef,
            src: &MlxBuffer,
            cache: &MlxBuffer,
            n_heads: u32,
            head_dim: u32,
            capacity: u32,
            seq_pos_start: u32,
            n_tokens: u32,
            src_tok_offset: u32,
        ) -> Result<()> {
            let [heads, dim, capacity, position, tokens, from] =
                [n_heads, head_dim, capacity, seq_pos_start, n_tokens, src_tok_offset]
                    .map(|extent| extent as usize);
            let source_tokens = from + tokens;
            let rows = Rows { heads, dim, capacity, tokens, from, source_tokens, position, head_major: false };
            copy_rows(encoder, stringify!($name), &[(src, cache)], [DType::$from, DType::$to], rows)
        }
    )*};
}

sequence_copies! {
    /// Encodes `cache[h, (seq_pos_start + t) % capacity] = src[src_tok_offset + t, h]` in f32.
    dispatch_kv_cache_copy_seq_f32: F32 -> F32;
}

/// Encodes `cache[h, (seq_pos_start + t) % capacity] = src[src_tok_offset + t, h]`, from bf16 to a cache of f32 or bf16.
pub fn dispatch_kv_cache_copy_seq_bf16(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    src: &MlxBuffer,
    cache: &MlxBuffer,
    n_heads: u32,
    head_dim: u32,
    capacity: u32,
    seq_pos_start: u32,
    n_tokens: u32,
    src_tok_offset: u32,
) -> Result<()> {
    let [heads, dim, capacity, position, tokens, from] =
        [n_heads, head_dim, capacity, seq_pos_start, n_tokens, src_tok_offset].map(|extent| extent as usize);
    if !matches!(cache.dtype(), DType::F32 | DType::BF16) {
        refuse!("kv_cache_copy_seq_bf16: cache must be F32 or BF16, got {}", cache.dtype());
    }
    let source_tokens = from + tokens;
    let rows = Rows { heads, dim, capacity, tokens, from, source_tokens, position, head_major: false };
    copy_rows(encoder, "kv_cache_copy_seq_bf16", &[(src, cache)], [DType::BF16, cache.dtype()], rows)
}

/// Encodes `cache[h, (seq_pos_start + t) % capacity] = src[h, src_tok_offset + t]` in bf16, where `src` is `[n_heads, src_seq_len, head_dim]`.
pub fn dispatch_kv_cache_copy_seq_bf16_to_bf16_head_major(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    src: &MlxBuffer,
    cache: &MlxBuffer,
    n_heads: u32,
    head_dim: u32,
    capacity: u32,
    seq_pos_start: u32,
    n_tokens: u32,
    src_tok_offset: u32,
    src_seq_len: u32,
) -> Result<()> {
    let [heads, dim, capacity, position] =
        [n_heads, head_dim, capacity, seq_pos_start].map(|extent| extent as usize);
    let [tokens, from, source_tokens] = [n_tokens, src_tok_offset, src_seq_len].map(|extent| extent as usize);
    let rows = Rows { heads, dim, capacity, tokens, from, source_tokens, position, head_major: true };
    let types = [DType::BF16, DType::BF16];
    copy_rows(encoder, "kv_cache_copy_seq_bf16_to_bf16_head_major", &[(src, cache)], types, rows)
}
