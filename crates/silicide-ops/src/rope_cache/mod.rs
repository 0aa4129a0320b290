//! What attention does between its projections and its look at the cache, in one command: queries and keys are turned
//! ([`rope`](crate::rope)), keys and values are written to their slots ([`cache_write`](crate::cache_write())).
//!
//! Heads of caches that take them [rotated](crate::hadamard()) are rotated on the way. It computes what those ops compute, and is what a graph
//! puts in their place for few tokens.

pub mod cases;
mod cpu;
mod gpu;

use crate::attention::CacheShape;
use crate::cache_write::CacheWrite;
use crate::elementwise::inputs;
use crate::hadamard::Hadamard;
use crate::rope::{Rope, RopeStyle};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Recorder, Result};

/// The rotation of heads.
const ROTATION: Hadamard = Hadamard { inverse: false };

/// The op. Inputs: `q` of f32 `[tokens, heads, dim]`, `k` `[tokens, kv_heads, dim]`, `v` `[tokens, kv_heads, value_dim]`, the
/// `table` of angles `[tokens, pairs, 2]`, and `slots` of i32 or u32 `[tokens]`. Outputs: `queries`, like `q`, which it may be;
/// and, updated, `keys` and `values`, `[kv_heads, capacity, dim]` or in lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RopeCache {
    /// Which elements make a pair.
    pub style: RopeStyle,
    /// Whether queries and keys, and whether values, are rotated as [`Hadamard`] does.
    pub rotated: [bool; 2],
}

impl RopeCache {
    /// Without rotations.
    pub const fn new(style: RopeStyle) -> RopeCache {
        RopeCache { style, rotated: [false; 2] }
    }
}

/// Extents of a checked call.
#[derive(Clone, Copy, Debug)]
struct RopeCacheExtents {
    tokens: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    value_dim: usize,
    pairs: usize,
    /// Slots of the keys, and of the values.
    capacities: [usize; 2],
    /// Whether they lie in lanes.
    in_lanes: [bool; 2],
}

impl RopeCacheExtents {
    fn of(io: &Io<'_>) -> Option<RopeCacheExtents> {
        let (&[tokens, heads, dim], &[_, kv_heads, _], &[_, _, value_dim], &[_, pairs, _]) = (
            io.input(0).shape.axes(),
            io.input(1).shape.axes(),
            io.input(2).shape.axes(),
            io.input(3).shape.axes(),
        ) else {
            return None;
        };
        let [keys, values] = [1, 2].map(|output| CacheShape::of(&io.output(output).shape));
        let (keys, values) = (keys?, values?);
        let capacities = [keys.capacity, values.capacity];
        let in_lanes = [keys.in_lanes, values.in_lanes];
        let arguments = io.inputs.iter().chain(io.outputs);
        let counted = arguments.into_iter().all(|info| info.elements() <= u32::MAX as usize);
        counted.then_some(RopeCacheExtents {
            tokens,
            heads,
            kv_heads,
            dim,
            value_dim,
            pairs,
            capacities,
            in_lanes,
        })
    }

    /// Slots that exist: as a number without sign, a negative one is beyond all of these.
    fn limits(&self, io: &Io<'_>) -> [usize; 2] {
        let signed = io.input(4).dtype == silicide_quant::DType::I32;
        self.capacities.map(|capacity| if signed { capacity.min(1 << 31) } else { capacity })
    }
}

impl Op for RopeCache {
    fn name(&self) -> &'static str {
        "rope_cache"
    }

    fn slots(&self) -> &'static [Slot] {
        const {
            &[
                Slot::input("q"),
                Slot::input("k"),
                Slot::input("v"),
                Slot::input("table"),
                Slot::input("slots"),
                Slot::output_over("queries", 0b1),
                Slot::update("keys"),
                Slot::update("values"),
            ]
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let [q, k, v, table, slots] = inputs("rope_cache", self.slots(), given)?;
        // What its parts refuse, it refuses.
        let rope = Rope { style: self.style };
        let queries = rope.infer(&[q, table])?;
        let turned = rope.infer(&[k, table])?;
        let mut outputs = queries;
        for (rows, is_rotated) in turned.into_iter().chain([v]).zip(self.rotated) {
            if is_rotated {
                ROTATION.infer(&[rows])?;
            }
            outputs.extend(CacheWrite.infer(&[rows, slots])?);
        }
        Ok(outputs)
    }

    fn check_outputs(&self, inferred: &[TensorInfo], given: &[TensorInfo]) -> Result<()> {
        let part = |infos: &[TensorInfo], i: usize| infos.get(i..i + 1).unwrap_or(&[]).to_vec();
        let rope = Rope { style: self.style };
        rope.check_outputs(&part(inferred, 0), &part(given, 0))?;
        (1..3).try_for_each(|i| CacheWrite.check_outputs(&part(inferred, i), &part(given, i)))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([q, k, v, table, slots, ..], [queries, keys, values, ..]) = (inputs, outputs) else { return };
        let rope = Rope { style: self.style };
        let rotated = |rows: Host, is_rotated: bool| {
            let mut rotated = [rows.clone()];
            if is_rotated {
                ROTATION.reference(&[rows], &mut rotated);
            }
            rotated
        };
        let turned = |rows: &Host| {
            let mut turned = [rows.clone()];
            rope.reference(&[rows.clone(), table.clone()], &mut turned);
            let [turned] = turned;
            rotated(turned, self.rotated[0])
        };
        let ([q], [k], [v]) = (turned(q), turned(k), rotated(v.clone(), self.rotated[1]));
        queries.values = q.values;
        CacheWrite.reference(&[k, slots.clone()], std::slice::from_mut(keys));
        CacheWrite.reference(&[v, slots.clone()], std::slice::from_mut(values));
    }

    fn tolerance(&self, io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        // Keys are turned in f32 before they are rounded to what the cache holds.
        if output.dtype.is_compressed() {
            CacheWrite.tolerance(io, output)
        } else {
            Tolerance::rounding(output.dtype)
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let stored = |input: usize, output: usize| {
            let dtype = io.output(output).dtype;
            io.input(input).elements() / dtype.block_len().max(1) * dtype.size()
        };
        let read: usize = io.inputs.iter().map(TensorInfo::bytes).sum();
        let bytes = read + io.output(0).bytes() + stored(1, 1) + stored(2, 2);
        Work { bytes: bytes as u64, flops: (io.input(0).elements() + io.input(1).elements()) as u64 * 3 }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuRopeCache, &gpu::GpuRopeCache]
    }
}

/// New keys and values of a layer, their slots, and the caches that take them.
#[derive(Clone, Copy, Debug)]
pub struct CacheRows<'a, V> {
    /// Keys, `[tokens, kv_heads, dim]`, not turned yet.
    pub k: &'a V,
    /// Values, `[tokens, kv_heads, value_dim]`.
    pub v: &'a V,
    /// The slot of each token.
    pub slots: &'a V,
    /// The cache of keys.
    pub keys: &'a V,
    /// The cache of values.
    pub values: &'a V,
}

/// Turns `q` in its place by the angles of `table`, and stores turned keys and values in their caches.
pub fn rope_cache<R: Recorder>(
    recorder: &mut R,
    q: &R::Value,
    table: &R::Value,
    style: RopeStyle,
    rows: &CacheRows<'_, R::Value>,
) -> Result<()> {
    let CacheRows { k, v, slots, keys, values } = rows;
    recorder.run_into(RopeCache::new(style), &[q, k, v, table, slots], &[q, keys, values])
}
