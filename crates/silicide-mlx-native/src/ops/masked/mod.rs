//! Attention under masks: causal ones of few queries, and those of callers.

mod prefill;

pub use prefill::{flash_attn_prefill, flash_attn_prefill_d512, flash_attn_prefill_mask};

use super::support::{cast_into, count, float, positive, shape, typed, wide};
use crate::MlxBuffer;
use crate::encoder::{CapturedOpKind, CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use silicide::ops::masked_attention::MaskedAttention;
use silicide::ops::permute::permute;
use silicide::{DType as Element, Recorder as _};

/// The order of tokens and heads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// `[heads, tokens, dim]`.
    Head,
    /// `[tokens, heads, dim]`.
    Token,
}

/// Extents of attention over keys and values `[batch, kv_heads, capacity, dim]`, of which the first `keys` are there.
struct Masked {
    batch: u32,
    heads: u32,
    kv_heads: u32,
    dim: u32,
    queries: u32,
    keys: u32,
    capacity: u32,
    scale: f32,
    queries_by: Layout,
    keys_by: Layout,
    result_by: Layout,
}

/// The longest mask that is made here, in bytes.
const MOST_MASK: usize = 1 << 30;

/// A mask, added to scores or of bytes.
enum Mask<'a> {
    /// Rows of the host, a byte for each key.
    Host(Vec<u8>),
    /// Rows of a buffer.
    Rows {
        buffer: &'a MlxBuffer,
        /// Sequences and heads, where these have rows of their own.
        heads: Option<(usize, usize)>,
        /// Rows of a plane, and the elements from one row to the next.
        rows: usize,
        stride: usize,
        /// The position of the first query, where later keys are hidden too.
        causal: Option<u32>,
    },
}

impl Masked {
    fn check(&self, what: &str) -> Result<()> {
        let Masked { batch, heads, kv_heads, dim, queries, keys, capacity, .. } = *self;
        let extents = [
            ("batch", batch),
            ("num_heads", heads),
            ("num_kv_heads", kv_heads),
            ("head_dim", dim),
            ("q_seq_len", queries),
            ("kv_seq_len", keys),
        ];
        positive(what, &extents.map(|(name, extent)| (name, extent as usize)))?;
        if !heads.is_multiple_of(kv_heads) {
            refuse!("{what}: num_heads ({heads}) must be divisible by num_kv_heads ({kv_heads})");
        }
        if capacity < keys {
            refuse!("{what}: kv_capacity ({capacity}) must be >= kv_seq_len ({keys})");
        }
        if !self.scale.is_finite() {
            refuse!("{what}: scale must be finite, got {}", self.scale);
        }
        Ok(())
    }

    /// The mask of queries that are the last keys.
    fn causal(&self, what: &str, window: Option<u32>) -> Result<Mask<'static>> {
        self.check(what)?;
        let Some(before) = self.keys.checked_sub(self.queries) else {
            refuse!("{what}: {} queries and {} keys do not fit", self.queries, self.keys)
        };
        self.rows(what, Some(before), window)
    }

    /// The mask of queries from position `causal` on; all keys are shown without it.
    fn hidden_after(&self, what: &str, causal: Option<u32>) -> Result<Mask<'static>> {
        self.rows(what, causal, None)
    }

    fn rows(&self, what: &str, causal: Option<u32>, window: Option<u32>) -> Result<Mask<'static>> {
        let (queries, keys) = (self.queries as usize, self.keys as usize);
        let window = window.map_or(usize::MAX, |window| window as usize);
        let shown = |at: usize| {
            let (query, key) = (at / keys, at % keys);
            causal.is_none_or(|before| {
                let position = before as usize + query;
                key <= position && position - key < window
            })
        };
        let elements = count(what, &[queries, keys])?;
        if elements > MOST_MASK {
            refuse!("{what}: {queries} queries and {keys} keys exceed masks of {MOST_MASK} bytes");
        }
        Ok(Mask::Host((0..elements).map(|at| u8::from(shown(at))).collect()))
    }

    /// Encodes attention. Sinks are f32, one for each head.
    fn encode(
        &self,
        encoder: &mut CommandEncoder,
        what: &str,
        [q, k, v]: [&MlxBuffer; 3],
        output: &MlxBuffer,
        mask: &Mask<'_>,
        sinks: Option<&MlxBuffer>,
    ) -> Result<()> {
        self.check(what)?;
        let (from, cached, to) = (float(what, "q", q)?, float(what, "k", k)?, float(what, "output", output)?);
        if v.dtype() != k.dtype() {
            refuse!("{what}: k.dtype ({:?}) must match v.dtype ({:?})", k.dtype(), v.dtype());
        }
        let [batch, heads, kv_heads, dim, queries, keys, capacity] =
            [self.batch, self.heads, self.kv_heads, self.dim, self.queries, self.keys, self.capacity]
                .map(|extent| extent as usize);
        let bytes = |dtype: Element, extents: &[usize]| -> Result<usize> {
            Ok(count(what, extents)?.saturating_mul(dtype.block_bytes()))
        };
        let (q_step, y_step) = (bytes(from, &[heads, queries, dim])?, bytes(to, &[heads, queries, dim])?);
        let kv_step = bytes(cached, &[kv_heads, capacity, dim])?;
        let of = |layout| match layout {
            Layout::Head => [heads, queries, dim],
            Layout::Token => [queries, heads, dim],
        };
        let of_cache = match self.keys_by {
            Layout::Head => [kv_heads, capacity, dim],
            Layout::Token => [capacity, kv_heads, dim],
        };
        let device = encoder.device().silicide().clone();
        let mut masks = Vec::new();
        let (mut strides, mut later) = (None, None);
        match mask {
            Mask::Host(rows) => masks.push(silicide::Buffer::from_slice(&device, [queries, keys], rows)?),
            Mask::Rows { buffer, heads, rows, stride, causal } => {
                let dtype = buffer.dtype().silicide();
                let (sequences, plane) = match heads {
                    Some((sequences, heads)) => (*sequences, vec![*heads, *rows, *stride]),
                    None => (1, vec![*rows, *stride]),
                };
                let bytes = count(what, &plane)?.saturating_mul(dtype.block_bytes());
                for i in 0..sequences {
                    masks.push(buffer.tensor_at(i.saturating_mul(bytes), dtype, &plane)?);
                }
                strides = (*stride != keys).then_some(*stride);
                if let (Some(_), Mask::Host(shown)) = (causal, self.hidden_after(what, *causal)?) {
                    let added: Vec<f32> =
                        shown.iter().map(|shown| if *shown != 0 { 0.0 } else { f32::NEG_INFINITY }).collect();
                    later = Some(silicide::Buffer::from_slice(&device, [queries, keys], &added)?);
                }
            }
        }
        let mut sequences = Vec::new();
        for i in 0..batch {
            sequences.push((
                q.tensor_at(i * q_step, from, &of(self.queries_by))?,
                k.tensor_at(i * kv_step, cached, &of_cache)?,
                v.tensor_at(i * kv_step, cached, &of_cache)?,
                output.tensor_at(i * y_step, to, &of(self.result_by))?,
            ));
        }
        let logits = match sinks {
            Some(sinks) => Some(sinks.tensor(float(what, "sinks", sinks)?, &[heads])?),
            None => None,
        };
        let mut reads = vec![q, k, v];
        reads.extend(sinks);
        if let Mask::Rows { buffer, .. } = mask {
            reads.push(buffer);
        }
        let op = MaskedAttention { scale: self.scale, sinks: sinks.is_some() };
        let (queries_by, keys_by, result_by) = (self.queries_by, self.keys_by, self.result_by);
        let dispatch =
            Dispatch::new(what, batch * heads * queries, &reads, &[output]).kind(CapturedOpKind::Sdpa);
        encoder.dispatch(dispatch, move |recorder| {
            let mut cut = Vec::new();
            for mask in &masks {
                let mut mask = mask.clone();
                if let Some(stride) = strides {
                    let layout = silicide::ops::strided_copy::Layout::new(0, &[stride, 1]);
                    let rows = shape(&[queries, keys])?;
                    mask = silicide::ops::strided_copy::strided_copy(recorder, &mask, rows, layout)?;
                }
                if let Some(later) = &later {
                    mask = additive(recorder, &mask)?;
                    mask = silicide::ops::add(recorder, &mask, later)?;
                }
                cut.push(mask);
            }
            let sinks = match &logits {
                Some(sinks) => Some(wide(recorder, sinks)?),
                None => None,
            };
            for (i, (q, k, v, y)) in sequences.iter().enumerate() {
                let mut q = wide(recorder, q)?;
                if queries_by == Layout::Head {
                    q = permute(recorder, &q, &[1, 0, 2])?;
                }
                let (mut k, mut v) = (k.clone(), v.clone());
                if keys_by == Layout::Token {
                    (k, v) = (permute(recorder, &k, &[1, 0, 2])?, permute(recorder, &v, &[1, 0, 2])?);
                }
                let Some(mask) = cut.get(i).or(cut.first()) else { continue };
                let inputs: Vec<&silicide::Buffer> = [&q, &k, &v, mask].into_iter().chain(&sinks).collect();
                let mut mixed = recorder.run_one(op, &inputs)?;
                if result_by == Layout::Head {
                    mixed = permute(recorder, &mixed, &[1, 0, 2])?;
                }
                cast_into(recorder, &mixed, y)?;
            }
            Ok(())
        })
    }
}

/// A mask as f32 that is added: bytes that are 0 become -infinity.
fn additive(
    recorder: &mut silicide::record::CommandEncoder,
    mask: &silicide::Buffer,
) -> std::result::Result<silicide::Buffer, silicide::Error> {
    let values = silicide::ops::cast(recorder, mask, Element::F32)?;
    // The logarithm of 0 is -infinity, that of 1 is 0.
    if mask.dtype() != Element::U8 {
        return Ok(values);
    }
    let one = silicide::Buffer::from_slice(recorder.device(), [1], &[1.0f32])?;
    let shown = recorder.run_one(silicide::ops::binary::Binary::Min, &[&values, &one])?;
    recorder.run_one(silicide::ops::unary::Unary::Log, &[&shown])
}

/// Attention under the mask of a tree.
pub mod tree_attention {
    use super::{Layout, Mask, Masked, typed};
    use crate::error::{Result, refuse};
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::support::register!();

    /// The mask of a key that a query does not see.
    pub const TREE_MASK_MASKED: f32 = -65504.0;
    /// The mask of a key that a query sees.
    pub const TREE_MASK_ATTENDED: f32 = 0.0;

    /// Extents and scale.
    #[derive(Clone, Copy, Debug)]
    pub struct TreeAttentionParams {
        /// Heads of queries.
        pub num_heads: u32,
        /// Heads of keys and values.
        pub num_kv_heads: u32,
        /// Elements of a head: 128, 256 or 512.
        pub head_dim: u32,
        /// Keys.
        pub kv_seq_len: u32,
        /// Rows of a head in the cache.
        pub kv_capacity: u32,
        /// The factor of scores.
        pub scale: f32,
        /// Queries.
        pub q_seq_len: u32,
        /// Elements from one row of the mask to the next.
        pub mask_stride: u32,
    }

    /// Returns the bytes of scratch memory that mlx-native's callers bring. It is not used.
    pub fn tmp_buffer_bytes(num_heads: u32, head_dim: u32, q_seq_len: u32) -> usize {
        let extents = [num_heads as usize, q_seq_len as usize, 32, (head_dim as usize).saturating_add(2), 4];
        extents.into_iter().fold(1, usize::saturating_mul)
    }

    /// Encodes attention of queries `[num_heads, q_seq_len, head_dim]` of f32 under `tree_mask`, f32 `[q_seq_len, mask_stride]`, which is added to
    /// scores, into `[q_seq_len, num_heads, head_dim]`. Keys and values are f32 or f16.
    pub fn tree_attention(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        tree_mask: &MlxBuffer,
        output: &MlxBuffer,
        tmp: &MlxBuffer,
        params: &TreeAttentionParams,
    ) -> Result<()> {
        let (what, p) = ("tree_attention", params);
        if !matches!(p.head_dim, 128 | 256 | 512) {
            refuse!("{what}: head_dim must be 128, 256, or 512, got {}", p.head_dim);
        }
        let masked = Masked {
            batch: 1,
            heads: p.num_heads,
            kv_heads: p.num_kv_heads,
            dim: p.head_dim,
            queries: p.q_seq_len,
            keys: p.kv_seq_len,
            capacity: p.kv_capacity,
            scale: p.scale,
            queries_by: Layout::Head,
            keys_by: Layout::Head,
            result_by: Layout::Token,
        };
        masked.check(what)?;
        if p.mask_stride < p.kv_seq_len {
            refuse!("{what}: mask_stride ({}) must be >= kv_seq_len ({})", p.mask_stride, p.kv_seq_len);
        }
        if q.dtype() != DType::F32 {
            refuse!("{what}: q dtype must be F32, got {:?}", q.dtype());
        }
        if k.dtype() != v.dtype() {
            refuse!("{what}: k.dtype ({:?}) must match v.dtype ({:?})", k.dtype(), v.dtype());
        }
        if !matches!(k.dtype(), DType::F32 | DType::F16) {
            refuse!("{what}: k/v dtype must be F32 or F16, got {:?}", k.dtype());
        }
        for (name, buffer) in [("tree_mask", tree_mask), ("output", output), ("tmp", tmp)] {
            typed(what, name, buffer, DType::F32)?;
        }
        let bytes = |name: &str, buffer: &MlxBuffer, extents: &[u32], size: usize| {
            let needed = extents.iter().fold(size, |bytes, extent| bytes.saturating_mul(*extent as usize));
            if buffer.data_byte_len() < needed {
                refuse!(
                    "{what}: {name} buffer too small: have {} bytes, need >= {needed}",
                    buffer.data_byte_len()
                );
            }
            Ok(())
        };
        let of_q = [p.num_heads, p.q_seq_len, p.head_dim];
        let of_k = [p.num_kv_heads, p.kv_capacity, p.head_dim];
        bytes("q", q, &of_q, 4)?;
        bytes("k", k, &of_k, k.dtype().size_of())?;
        bytes("v", v, &of_k, k.dtype().size_of())?;
        bytes("tree_mask", tree_mask, &[p.q_seq_len, p.mask_stride], 4)?;
        bytes("output", output, &of_q, 4)?;
        let (rows, stride) = (p.q_seq_len as usize, p.mask_stride as usize);
        let mask = Mask::Rows { buffer: tree_mask, heads: None, rows, stride, causal: None };
        masked.encode(encoder, what, [q, k, v], output, &mask, None)
    }
}

/// Attention of few queries.
pub mod flash_attn_vec {
    use super::{Layout, Masked};
    use crate::error::{Result, refuse};
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::support::register!();

    /// Extents, scale and mask.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct FlashAttnVecParams {
        /// Heads of queries.
        pub num_heads: u32,
        /// Heads of keys and values.
        pub num_kv_heads: u32,
        /// Elements of a head: 256 or 512.
        pub head_dim: u32,
        /// Keys.
        pub kv_seq_len: u32,
        /// Rows of a head in the cache.
        pub kv_capacity: u32,
        /// The factor of scores.
        pub scale: f32,
        /// 2: a window.
        pub mask_type: u32,
        /// Keys that a query sees back, its own included, if `mask_type` is 2.
        pub sliding_window: u32,
        /// Without effect, as in mlx-native.
        pub softcap: f32,
        /// Queries: the last keys.
        pub q_seq_len: u32,
    }

    impl FlashAttnVecParams {
        /// One query.
        pub const DEFAULT_Q_SEQ_LEN: u32 = 1;
    }

    /// Returns the bytes of scratch memory that mlx-native's callers bring. It is not used.
    pub fn tmp_buffer_bytes(num_heads: u32, head_dim: u32) -> usize {
        tmp_buffer_bytes_with_qL(num_heads, head_dim, 1)
    }

    /// [`tmp_buffer_bytes`] for several queries.
    #[allow(non_snake_case)]
    pub fn tmp_buffer_bytes_with_qL(num_heads: u32, head_dim: u32, q_seq_len: u32) -> usize {
        super::tree_attention::tmp_buffer_bytes(num_heads, head_dim, q_seq_len.max(1))
    }

    /// Encodes causal attention of queries `[num_heads, q_seq_len, head_dim]` of f32 over keys and values of f32 or f16, into
    /// `[q_seq_len, num_heads, head_dim]`.
    pub fn flash_attn_vec(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        output: &MlxBuffer,
        _tmp: &MlxBuffer,
        params: &FlashAttnVecParams,
    ) -> Result<()> {
        let p = params;
        if !matches!(p.head_dim, 256 | 512) {
            refuse!("flash_attn_vec: head_dim must be 256 or 512, got {}", p.head_dim);
        }
        let window = (p.mask_type == 2 && p.sliding_window > 0).then_some(p.sliding_window);
        let masked = Masked {
            batch: 1,
            heads: p.num_heads,
            kv_heads: p.num_kv_heads,
            dim: p.head_dim,
            queries: p.q_seq_len,
            keys: p.kv_seq_len,
            capacity: p.kv_capacity,
            scale: p.scale,
            queries_by: Layout::Head,
            keys_by: Layout::Head,
            result_by: Layout::Token,
        };
        let mask = masked.causal("flash_attn_vec", window)?;
        masked.encode(encoder, "flash_attn_vec", [q, k, v], output, &mask, None)
    }
}
