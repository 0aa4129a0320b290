//! Attention over a cache of keys and values: for each query, the mean of the values it sees, weighted by the softmax of
//! its products with their keys.
//!
//! The cache is a ring of `capacity` slots per head: the key of position `p` is in slot `p % capacity`, and a slot holds the
//! last position that fell on it. The keys of a call's own queries are in the cache already. A [work list](WorkList) has the positions that
//! each query sees. It is read on the device, so that one recording serves all positions and depths.
//!
//! A score is `scale * q · k`, then capped, `c * tanh(score / c)`. A sink is one more logit of the softmax, without
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
mod matrix;
mod rows;
mod work;

use crate::elementwise::{inputs, is_float};
use crate::quantize_q8;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};
pub use work::{ENTRY_WORDS, ITEM_QUERIES, MOST_POSITIONS, Visibility, WorkList};
use work::{Entries, SeenKeys, keys_of};

/// The longest head of values.
pub const MOST_DIM: usize = 512;
/// The longest head of keys.
pub const MOST_KEY_DIM: usize = 576;
pub use silicide_gemm::f32::KEY_LANES;

/// How scores are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The factor of products of queries and keys; usually one over the square root of a head's length.
    pub scale: f32,
    /// The bound that scores are bent below.
    pub softcap: Option<f32>,
}

/// The tensors of attention.
#[derive(Clone, Copy, Debug)]
pub struct AttentionInputs<'a, V> {
    /// Queries: f32 `[tokens, heads, dim]`.
    pub q: &'a V,
    /// Keys: `[kv_heads, capacity, dim]` of f32, f16, bf16, a block format or one of TurboQuant, or, in lanes, `[kv_heads, capacity / 16, dim, 16]` of f32,
    /// f16 or bf16.
    pub k: &'a V,
    /// Values: `[kv_heads, capacity, value_dim]` of f32, f16, bf16, a block format or one of TurboQuant.
    pub v: &'a V,
    /// The [work list](WorkList): u32 `[entries, 4]`, at least an entry for each query.
    pub work: &'a V,
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
    /// Items of the work list; 0 for more than [`ITEM_QUERIES`] queries.
    items: usize,
    /// Whether keys lie in lanes.
    in_lanes: bool,
}

impl Extents {
    fn of(io: &Io<'_>) -> Option<Extents> {
        let (q, k, v) = (io.input(0).shape, io.input(1).shape, io.input(2).shape);
        let CacheShape { heads: kv_heads, capacity, in_lanes, .. } = CacheShape::of(&k)?;
        match (q.axes(), v.axes(), io.input(3).shape.axes()) {
            (&[tokens, heads, dim], &[_, _, value_dim], &[entries, _]) => {
                let items = if tokens > ITEM_QUERIES { 0 } else { entries.saturating_sub(tokens) };
                Some(Extents { tokens, heads, kv_heads, dim, value_dim, capacity, items, in_lanes })
            }
            _ => None,
        }
    }

    /// Heads of queries that share a head of keys.
    fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }

    /// Returns the work of a call whose queries see these keys.
    fn work(&self, io: &Io<'_>, SeenKeys { read, seen }: SeenKeys) -> Work {
        let Extents { heads, kv_heads, dim, value_dim, .. } = *self;
        let row = |info: TensorInfo, dim: usize| dim / info.dtype.block_len().max(1) * info.dtype.size();
        let cache = kv_heads * read * (row(io.input(1), dim) + row(io.input(2), value_dim));
        let bytes = io.input(0).bytes() + io.output(0).bytes() + cache;
        Work { bytes: bytes as u64, flops: (2 * heads * seen * (dim + value_dim)) as u64 }
    }
}

impl Attention {
    fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::BadParameter { op: "attention", what });
        if !self.scale.is_finite() {
            return refuse(format!("scale must be finite, got {}", self.scale));
        }
        if self.softcap.is_some_and(|cap| !(cap.is_finite() && cap > 0.0)) {
            return refuse(format!("softcap must be finite and above 0, got {:?}", self.softcap));
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
    if !is_float(info.dtype) && !info.dtype.is_compressed() {
        let expected = "f32, f16, bf16, a block format or one of TurboQuant".to_owned();
        return Err(Error::DTypeMismatch { op, slot, expected, got: info.dtype });
    }
    match CacheShape::of(&info.shape) {
        Some(shape) if shape.in_lanes && (slot == "v" || info.dtype.is_compressed()) => {
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
            [Slot::input("q"), Slot::input("k"), Slot::input("v"), Slot::input("work"), Slot::output("y")];
        const SINKS: [Slot; 6] = {
            let [q, k, v, work, y] = PLAIN;
            [q, k, v, work, Slot::input("sinks"), y]
        };
        const PLAIN_QUANTIZED: [Slot; 6] = {
            let [q, k, v, work, y] = PLAIN;
            [q, k, v, work, y, quantize_q8::Q]
        };
        const SINKS_QUANTIZED: [Slot; 7] = {
            let [q, k, v, work, sinks, y] = SINKS;
            [q, k, v, work, sinks, y, quantize_q8::Q]
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
        let [q, k, v, work] = if self.sinks {
            let [q, k, v, work, sinks] = inputs(op, self.slots(), given)?;
            if sinks.dtype != DType::F32 {
                let expected = "f32".to_owned();
                return Err(Error::DTypeMismatch { op, slot: "sinks", expected, got: sinks.dtype });
            }
            if q.shape.axes().get(1..2) != Some(sinks.shape.axes()) {
                let expected = format!("[heads] of q {}", q.shape);
                return Err(Error::Shape { op, slot: "sinks", expected, got: sinks.shape });
            }
            [q, k, v, work]
        } else {
            inputs(op, self.slots(), given)?
        };
        if q.dtype != DType::F32 {
            return Err(Error::DTypeMismatch { op, slot: "q", expected: "f32".to_owned(), got: q.dtype });
        }
        if work.dtype != DType::U32 {
            return Err(Error::DTypeMismatch {
                op,
                slot: "work",
                expected: "u32".to_owned(),
                got: work.dtype,
            });
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
        // Kernels refuse fewer entries than queries. Here a graph infers outputs at single values of its live extents.
        if !matches!(*work.shape.axes(), [_, ENTRY_WORDS]) {
            let expected = format!("[entries, {ENTRY_WORDS}], an entry for each query");
            return Err(Error::Shape { op, slot: "work", expected, got: work.shape });
        }
        self.rule.check()?;
        let shape = Shape::new(&[tokens, heads, value_dim]).map_err(|source| Error::bad_shape(op, source))?;
        let mut outputs = Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]);
        if self.quantized {
            let rows = Shape::new(&[tokens, heads.saturating_mul(value_dim)])
                .map_err(|source| Error::bad_shape(op, source))?;
            outputs.push(quantize_q8::infer_quantized(op, "v", &TensorInfo::new(DType::F32, rows))?);
        }
        Ok(outputs)
    }

    /// Items of the work list follow the last row.
    fn ignores_later_rows(&self) -> bool {
        false
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([q, k, v, work, sinks @ ..], [y, quantized @ ..]) = (inputs, outputs) else { return };
        let infos: Vec<TensorInfo> =
            inputs.iter().map(|host| TensorInfo::new(host.dtype, host.shape)).collect();
        let Some(extents) = Extents::of(&Io { inputs: &infos, outputs: &[] }) else { return };
        let Some(keys) = CacheShape::of(&k.shape) else { return };
        let Extents { tokens, heads, dim, value_dim, capacity, .. } = extents;
        let words: Vec<u32> = work.values.iter().map(|word| *word as u32).collect();
        let entries = Entries::new(&words, tokens, capacity);
        for (row, (q, y)) in q.values.chunks_exact(dim).zip(y.values.chunks_exact_mut(value_dim)).enumerate()
        {
            let (token, head) = (row / heads, row % heads);
            let kv_head = head / extents.group();
            let mut scores = Vec::new();
            for at in entries.range(token) {
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
        let Extents { tokens, capacity, items, .. } = extents;
        let read = if items == 0 { capacity } else { keys_of(items).min(capacity) };
        // Of the keys up to its own, a query among many sees half on average.
        let hidden = tokens.saturating_sub(1).min(read) / 2;
        extents.work(io, SeenKeys { read, seen: tokens * (read - hidden) })
    }

    fn work_of<'a>(&self, io: &Io<'_>, words: &dyn Fn(usize) -> Option<&'a [u32]>) -> Work {
        match Extents::of(io).zip(words(3)) {
            Some((extents, words)) => {
                extents.work(io, Entries::new(words, extents.tokens, extents.capacity).seen())
            }
            None => self.work(io),
        }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[
            &cpu::Split,
            &cpu::Tiled,
            &gpu::Split::<1>,
            &gpu::Split::<2>,
            &gpu::Split::<3>,
            &gpu::Split::<4>,
            &gpu::Tiled,
            &gpu::Prompt,
            matrix::MATRIX[0],
            matrix::MATRIX[1],
            matrix::MATRIX[2],
        ]
    }
}

/// Attention of queries over a cache.
pub fn attention<R: Recorder>(
    recorder: &mut R,
    rule: Attention,
    inputs: &AttentionInputs<'_, R::Value>,
) -> Result<R::Value> {
    let AttentionInputs { q, k, v, work, sinks } = *inputs;
    check_entries(recorder, q, work)?;
    match sinks {
        Some(sinks) => recorder.run_one(Attend::new(rule, true), &[q, k, v, work, sinks]),
        None => recorder.run_one(Attend::new(rule, false), &[q, k, v, work]),
    }
}

/// [`attention`] into `y`, f32 `[tokens, heads, value_dim]`.
pub fn attention_into<R: Recorder>(
    recorder: &mut R,
    rule: Attention,
    inputs: &AttentionInputs<'_, R::Value>,
    y: &R::Value,
) -> Result<()> {
    let AttentionInputs { q, k, v, work, sinks } = *inputs;
    check_entries(recorder, q, work)?;
    match sinks {
        Some(sinks) => recorder.run_into(Attend::new(rule, true), &[q, k, v, work, sinks], &[y]),
        None => recorder.run_into(Attend::new(rule, false), &[q, k, v, work], &[y]),
    }
}

/// Refuses a work list with fewer entries than queries.
fn check_entries<R: Recorder>(recorder: &R, q: &R::Value, work: &R::Value) -> Result<()> {
    let (q, work) = (recorder.info(q), recorder.info(work));
    if let (&[tokens, ..], &[entries, ..]) = (q.shape.axes(), work.shape.axes())
        && entries < tokens
    {
        let expected = format!("an entry for each of {tokens} queries");
        return Err(Error::Shape { op: "attention", slot: "work", expected, got: work.shape });
    }
    Ok(())
}
