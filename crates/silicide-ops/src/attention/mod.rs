//! Attention over a cache of keys and values: for each query, the mean of the values it sees, weighted by the softmax of
//! its products with their keys.
//!
//! The cache is a ring of `capacity` slots per head: the key of position `p` is in slot `p % capacity`, and a slot holds the
//! last position that fell on it. The queries of a call are at positions `start..start + tokens`, and their own keys are
//! in the cache already. `start` is read on the device, so that one recording serves many tokens: all that is known when
//! recording is that `start + tokens` is at most `limit`. A larger `start` counts as the largest allowed.
//!
//! A score is `scale * q · k`, then capped, `c * tanh(score / c)`, then masked: a causal query sees no later position, one
//! with a window only positions less than the window before its own. A sink is one more logit of the softmax, without
//! a value. A query that sees nothing gives zeros. Keys and values that a query does not see, NaN included, do not reach its result.
//!
//! Keys lie row by row, `[kv_heads, capacity, dim]`, or in lanes, `[kv_heads, capacity / 16, dim, 16]`: sets of sixteen slots, element
//! by element, as the CPU reads them ([`KEY_LANES`]). [`cache_write`](crate::cache_write()) writes either.
//!
//! On the CPU the bits of a result depend on the query and on the keys and values that it sees, with their positions, and on nothing else:
//! `docs/attention.md` has the definition.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::inputs;
use crate::quantize_q8;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};
use std::ops::Range;

/// The longest head of values.
pub const MOST_DIM: usize = 512;
/// The longest head of keys.
pub const MOST_KEY_DIM: usize = 576;
pub use silicide_gemm::f32::KEY_LANES;

/// How scores are made, and which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The factor of products of queries and keys; usually one over the square root of a head's length.
    pub scale: f32,
    /// Whether queries see no position after their own.
    pub causal: bool,
    /// How many positions, its own included, a query sees back.
    pub window: Option<u32>,
    /// The bound that scores are bent below.
    pub softcap: Option<f32>,
    /// The largest `start + tokens`.
    pub limit: u32,
}

/// The tensors of attention.
#[derive(Clone, Copy, Debug)]
pub struct AttentionInputs<'a, V> {
    /// Queries: f32 `[tokens, heads, dim]`.
    pub q: &'a V,
    /// Keys: `[kv_heads, capacity, dim]` of f32, f16, bf16 or a block format, or, in lanes, `[kv_heads, capacity / 16, dim, 16]` of f32,
    /// f16 or bf16.
    pub k: &'a V,
    /// Values: `[kv_heads, capacity, value_dim]` of f32, f16, bf16 or a block format.
    pub v: &'a V,
    /// The position of the first query: i32 or u32 `[1]`.
    pub start: &'a V,
    /// One more logit for each head: f32 `[heads]`.
    pub sinks: Option<&'a V>,
}

/// The op: an [`Attention`] with or without sinks. Inputs as in [`AttentionInputs`]; outputs: `y`, f32 `[tokens, heads,
/// value_dim]`, then the [quantized rows](crate::quantize_q8) of `y` as `[tokens, heads * value_dim]`, if it is
/// [`quantized`](Attend::quantized). Heads of queries share heads of keys and values evenly, neighbours together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attend {
    /// How scores are made.
    pub rule: Attention,
    /// Whether there are sinks.
    pub sinks: bool,
    /// Whether the outputs of each token are given quantized too.
    pub quantized: bool,
}

impl Attend {
    /// Without quantized rows.
    pub const fn new(rule: Attention, sinks: bool) -> Attend {
        Attend { rule, sinks, quantized: false }
    }
}

/// Extents of a checked call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extents {
    tokens: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    value_dim: usize,
    capacity: usize,
    /// Whether keys lie in lanes.
    in_lanes: bool,
}

impl Extents {
    fn of(io: &Io<'_>) -> Option<Extents> {
        let (q, k, v) = (io.input(0).shape, io.input(1).shape, io.input(2).shape);
        let CacheShape { heads: kv_heads, capacity, in_lanes, .. } = CacheShape::of(&k)?;
        match (q.axes(), v.axes()) {
            (&[tokens, heads, dim], &[_, _, value_dim]) => {
                Some(Extents { tokens, heads, kv_heads, dim, value_dim, capacity, in_lanes })
            }
            _ => None,
        }
    }

    /// Heads of queries that share a head of keys.
    fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }
}

impl Attention {
    /// The positions of the keys that queries at `first..=last` see between them, of `total` of which `capacity` are kept.
    fn seen(&self, first: usize, last: usize, total: usize, capacity: usize) -> Range<usize> {
        let kept = total.saturating_sub(capacity);
        let opens = self.window.map_or(0, |window| (first + 1).saturating_sub(window as usize));
        let closes = if self.causal { total.min(last + 1) } else { total };
        kept.max(opens)..closes
    }

    /// The most keys that the queries of a call see between them.
    fn most_seen(&self, tokens: usize, capacity: usize) -> usize {
        let window = self.window.map_or(usize::MAX, |window| (window as usize - 1).saturating_add(tokens));
        (self.limit as usize).min(capacity).min(window)
    }

    fn check(&self, tokens: usize) -> Result<()> {
        let refuse = |what: String| Err(Error::BadParameter { op: "attention", what });
        if !self.scale.is_finite() {
            return refuse(format!("scale must be finite, got {}", self.scale));
        }
        if self.window == Some(0) {
            return refuse("a window of 0 positions shows nothing; leave it out for all".to_owned());
        }
        if self.softcap.is_some_and(|cap| !(cap.is_finite() && cap > 0.0)) {
            return refuse(format!("softcap must be finite and above 0, got {:?}", self.softcap));
        }
        if (self.limit as usize) < tokens {
            let limit = self.limit;
            return refuse(format!("limit must be at least the number of queries, {tokens}, got {limit}"));
        }
        Ok(())
    }
}

/// The shape of a cache: rows of `dim` elements for each head and slot, `[heads, capacity, dim]`, or in lanes, `[heads, capacity / 16, dim,
/// 16]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheShape {
    pub(crate) heads: usize,
    pub(crate) capacity: usize,
    pub(crate) dim: usize,
    pub(crate) in_lanes: bool,
}

impl CacheShape {
    pub(crate) fn of(shape: &Shape) -> Option<CacheShape> {
        match *shape.axes() {
            [heads, capacity, dim] => Some(CacheShape { heads, capacity, dim, in_lanes: false }),
            [heads, sets, dim, KEY_LANES] => {
                let capacity = sets.checked_mul(KEY_LANES)?;
                Some(CacheShape { heads, capacity, dim, in_lanes: true })
            }
            _ => None,
        }
    }

    /// Returns where element `at` of a slot lies, in elements.
    pub(crate) fn element(&self, head: usize, slot: usize, at: usize) -> usize {
        let row = head * self.capacity + slot;
        if self.in_lanes {
            (row / KEY_LANES * self.dim + at) * KEY_LANES + row % KEY_LANES
        } else {
            row * self.dim + at
        }
    }
}

/// Checks keys or values.
fn check_cache(slot: &'static str, info: &TensorInfo, most: usize) -> Result<CacheShape> {
    let op = "attention";
    if !matches!(info.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::Block(_)) {
        let expected = "f32, f16, bf16 or a block format".to_owned();
        return Err(Error::DTypeMismatch { op, slot, expected, got: info.dtype });
    }
    match CacheShape::of(&info.shape) {
        Some(shape) if shape.in_lanes && (slot == "v" || info.dtype.is_block()) => {
            let expected = "[kv_heads, capacity, dim]: lanes are for keys of f32, f16 or bf16".to_owned();
            Err(Error::Shape { op, slot, expected, got: info.shape })
        }
        Some(shape) if shape.dim.is_multiple_of(8) && shape.dim <= most => Ok(shape),
        _ => {
            let expected = format!("[kv_heads, capacity, a multiple of 8 up to {most}]");
            Err(Error::Shape { op, slot, expected, got: info.shape })
        }
    }
}

impl Op for Attend {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn slots(&self) -> &'static [Slot] {
        const PLAIN: [Slot; 5] =
            [Slot::input("q"), Slot::input("k"), Slot::input("v"), Slot::input("start"), Slot::output("y")];
        const SINKS: [Slot; 6] = {
            let [q, k, v, start, y] = PLAIN;
            [q, k, v, start, Slot::input("sinks"), y]
        };
        const PLAIN_QUANTIZED: [Slot; 6] = {
            let [q, k, v, start, y] = PLAIN;
            [q, k, v, start, y, quantize_q8::Q]
        };
        const SINKS_QUANTIZED: [Slot; 7] = {
            let [q, k, v, start, sinks, y] = SINKS;
            [q, k, v, start, sinks, y, quantize_q8::Q]
        };
        match (self.sinks, self.quantized) {
            (false, false) => &PLAIN,
            (true, false) => &SINKS,
            (false, true) => &PLAIN_QUANTIZED,
            (true, true) => &SINKS_QUANTIZED,
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "attention";
        let [q, k, v, start] = if self.sinks {
            let [q, k, v, start, sinks] = inputs(op, self.slots(), given)?;
            if sinks.dtype != DType::F32 {
                let expected = "f32".to_owned();
                return Err(Error::DTypeMismatch { op, slot: "sinks", expected, got: sinks.dtype });
            }
            if q.shape.axes().get(1..2) != Some(sinks.shape.axes()) {
                let expected = format!("[heads] of q {}", q.shape);
                return Err(Error::Shape { op, slot: "sinks", expected, got: sinks.shape });
            }
            [q, k, v, start]
        } else {
            inputs(op, self.slots(), given)?
        };
        if q.dtype != DType::F32 {
            return Err(Error::DTypeMismatch { op, slot: "q", expected: "f32".to_owned(), got: q.dtype });
        }
        if !matches!(start.dtype, DType::I32 | DType::U32) {
            let expected = "i32 or u32".to_owned();
            return Err(Error::DTypeMismatch { op, slot: "start", expected, got: start.dtype });
        }
        if start.elements() != 1 {
            return Err(Error::Shape { op, slot: "start", expected: "[1]".to_owned(), got: start.shape });
        }
        let CacheShape { heads: kv_heads, capacity, dim, .. } = check_cache("k", &k, MOST_KEY_DIM)?;
        let CacheShape { dim: value_dim, .. } = check_cache("v", &v, MOST_DIM)?;
        if v.shape.axes().get(..2) != Some([kv_heads, capacity].as_slice()) {
            let expected = format!("[{kv_heads}, {capacity}, value_dim], as k");
            return Err(Error::Shape { op, slot: "v", expected, got: v.shape });
        }
        let (tokens, heads) = match *q.shape.axes() {
            [tokens, heads, q_dim] if q_dim == dim && heads.is_multiple_of(kv_heads) => (tokens, heads),
            _ => {
                let expected = format!("[tokens, a multiple of {kv_heads}, {dim}] for k {}", k.shape);
                return Err(Error::Shape { op, slot: "q", expected, got: q.shape });
            }
        };
        self.rule.check(tokens)?;
        let shape = Shape::new(&[tokens, heads, value_dim]).map_err(|source| Error::bad_shape(op, source))?;
        let mut outputs = Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]);
        if self.quantized {
            let rows = Shape::new(&[tokens, heads.saturating_mul(value_dim)])
                .map_err(|source| Error::bad_shape(op, source))?;
            outputs.push(quantize_q8::infer_quantized(op, "v", &TensorInfo::new(DType::F32, rows))?);
        }
        Ok(outputs)
    }

    /// Keys that the cache keeps follow from the last row.
    fn ignores_later_rows(&self) -> bool {
        false
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([q, k, v, start, sinks @ ..], [y, quantized @ ..]) = (inputs, outputs) else { return };
        let infos: Vec<TensorInfo> =
            inputs.iter().map(|host| TensorInfo::new(host.dtype, host.shape)).collect();
        let Some(extents) = Extents::of(&Io { inputs: &infos, outputs: &[] }) else { return };
        let Some(keys) = CacheShape::of(&k.shape) else { return };
        let Extents { tokens, heads, dim, value_dim, capacity, .. } = extents;
        let latest = (self.rule.limit as usize - tokens) as f64;
        let given = start.values.first().copied().unwrap_or(0.0);
        let start = if given < 0.0 { latest } else { given.min(latest) } as usize;
        for (row, (q, y)) in q.values.chunks_exact(dim).zip(y.values.chunks_exact_mut(value_dim)).enumerate()
        {
            let (position, head) = (start + row / heads, row % heads);
            let kv_head = head / extents.group();
            let mut scores = Vec::new();
            for at in self.rule.seen(position, position, start + tokens, capacity) {
                let slot = kv_head * capacity + at % capacity;
                let key = |at_element: usize| {
                    let index = keys.element(kv_head, at % capacity, at_element);
                    k.values.get(index).copied().unwrap_or(0.0)
                };
                let product: f64 = q.iter().enumerate().map(|(i, q)| q * key(i)).sum();
                let score = f64::from(self.rule.scale) * product;
                let cap = self.rule.softcap.map(f64::from);
                scores.push((slot, cap.map_or(score, |cap| cap * (score / cap).tanh())));
            }
            let sink = sinks.first().and_then(|sinks| sinks.values.get(head));
            let logits = scores.iter().map(|(_, score)| score).chain(sink);
            let largest = logits.clone().fold(f64::MIN, |largest, logit| largest.max(*logit));
            let sum: f64 = logits.map(|logit| (logit - largest).exp()).sum();
            y.fill(0.0);
            for (slot, score) in scores {
                let weight = (score - largest).exp() / sum;
                let value = v.values.chunks_exact(value_dim).nth(slot).unwrap_or(&[]);
                y.iter_mut().zip(value).for_each(|(y, v)| *y += weight * v);
            }
        }
        if let [quantized] = quantized {
            quantized.values = quantize_q8::quantized_bytes(&y.values, heads * value_dim);
        }
    }

    fn decode_output(&self, io: &Io<'_>, i: usize, bytes: &[u8]) -> Option<Vec<f64>> {
        let k: usize = io.output(0).shape.axes().iter().skip(1).product();
        (i == 1).then(|| quantize_q8::quantized_values(bytes, k))
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        if output.dtype == DType::U8 {
            return quantize_q8::TOLERANCE;
        }
        // A score is rounded in f32, and its exponential by as much relative to itself as the score absolutely.
        Tolerance { nmse: 1e-10, max: 3e-5 }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let Some(extents) = Extents::of(io) else { return Work::default() };
        let Extents { tokens, heads, kv_heads, dim, value_dim, capacity, .. } = extents;
        let keys = self.rule.most_seen(tokens, capacity);
        let row = |info: TensorInfo, dim: usize| dim / info.dtype.block_len().max(1) * info.dtype.size();
        let cache = kv_heads * keys * (row(io.input(1), dim) + row(io.input(2), value_dim));
        let bytes = io.input(0).bytes() + io.output(0).bytes() + cache;
        // Of the keys up to its own, a causal query among many sees half on average.
        let hidden = if self.rule.causal { tokens.saturating_sub(1).min(keys) / 2 } else { 0 };
        let flops = 2 * tokens * heads * (keys - hidden) * (dim + value_dim);
        Work { bytes: bytes as u64, flops: flops as u64 }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Split, &cpu::Tiled, &gpu::Split, &gpu::Tiled]
    }
}

/// Attention of queries over a cache.
pub fn attention<R: Recorder>(
    recorder: &mut R,
    rule: Attention,
    inputs: &AttentionInputs<'_, R::Value>,
) -> Result<R::Value> {
    let AttentionInputs { q, k, v, start, sinks } = *inputs;
    match sinks {
        Some(sinks) => recorder.run_one(Attend::new(rule, true), &[q, k, v, start, sinks]),
        None => recorder.run_one(Attend::new(rule, false), &[q, k, v, start]),
    }
}

/// [`attention`] into `y`, f32 `[tokens, heads, value_dim]`.
pub fn attention_into<R: Recorder>(
    recorder: &mut R,
    rule: Attention,
    inputs: &AttentionInputs<'_, R::Value>,
    y: &R::Value,
) -> Result<()> {
    let AttentionInputs { q, k, v, start, sinks } = *inputs;
    match sinks {
        Some(sinks) => recorder.run_into(Attend::new(rule, true), &[q, k, v, start, sinks], &[y]),
        None => recorder.run_into(Attend::new(rule, false), &[q, k, v, start], &[y]),
    }
}
