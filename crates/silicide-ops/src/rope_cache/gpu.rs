//! `rope_cache` on GPUs: a workgroup for some items of one token, which are pairs or elements of its queries, keys and values. It checks once
//! whether a later token has the same slot.

use super::{RopeCache, RopeCacheExtents};
use crate::rope::RopeStyle;
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "rope_cache", text: include_str!("rope_cache.wgsl") };

/// Items of an invocation.
const EACH: u32 = 4;

/// Bindings.
const BINDINGS: u32 = 8;

/// A workgroup for some items of a token.
pub(super) struct GpuRopeCache;

impl Kernel for GpuRopeCache {
    type Op = RopeCache;

    fn name(&self) -> &'static str {
        "rope_cache.items.wgsl"
    }

    fn fits(&self, op: &RopeCache, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs only"));
        }
        if op.rotated != [false; 2] {
            return Err(Decline("rotates no heads"));
        }
        let extents = RopeCacheExtents::of(io).ok_or(Decline("takes extents of at most 32 bits"))?;
        if extents.in_lanes != [false; 2] {
            return Err(Decline("writes row by row"));
        }
        if on.limits.max_bindings < BINDINGS {
            return Err(Decline("needs eight bindings"));
        }
        let stores = |output: usize| wgsl::store(io.output(output).dtype, &on.features).is_some();
        if !stores(1) || !stores(2) {
            return Err(Decline("has no WGSL that encodes this format"));
        }
        let mut arguments = io.inputs.iter().chain(io.outputs);
        if !arguments.all(|info| info.elements() <= wgsl::most(info.dtype.size(), on)) {
            return Err(Decline("an argument is larger than a binding"));
        }
        Ok(Cost::GOOD)
    }

    fn plan(&self, op: &RopeCache, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let store = |dtype: DType| wgsl::store(dtype, &on.features);
        let (Some(extents), Some(load), Some(queries), Some(keys), Some(values)) = (
            RopeCacheExtents::of(io),
            wgsl::load(DType::F32),
            store(DType::F32),
            store(io.output(1).dtype),
            store(io.output(2).dtype),
        ) else {
            return plan;
        };
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "q", 0),
            Part::bound(load, "k", 1),
            Part::bound(load, "v", 2),
            Part::bound(load, "table", 3),
            Part::bound(wgsl::load_bits(DType::U32), "slots", 4),
            Part::bound(queries, "queries", 5),
            Part::bound(keys, "keys", 6),
            Part::bound(values, "values", 7),
            Part::plain(&wgsl::LINEAR),
        ];
        let kernel = WgslKernel::new(self.name(), &parts, BINDINGS, 5).writes(0b1110_0000);
        let sizes = [1, 2].map(|output| io.output(output).dtype.size() as u32);
        let workgroup = wgsl::workgroup(on);
        let RopeCacheExtents { tokens, heads, kv_heads, dim, value_dim, pairs, capacities, .. } = extents;
        let items = (heads + kv_heads) * (dim - pairs) + kv_heads * value_dim;
        let chunks = items.div_ceil((workgroup * EACH) as usize).max(1);
        let halves = usize::from(op.style == RopeStyle::Halves);
        let shape = [chunks, heads, kv_heads, dim, pairs, value_dim, halves].map(|extent| extent as u32);
        let names = ["CHUNKS", "HEADS", "KV_HEADS", "DIM", "PAIRS", "VALUES", "HALVES"];
        let kernel = kernel.constant("WG", workgroup).constant("EACH", workgroup * EACH);
        let kernel =
            names.into_iter().zip(shape).fold(kernel, |kernel, (name, value)| kernel.constant(name, value));
        let facts: smallvec::SmallVec<[u32; 12]> = sizes.into_iter().chain(shape).collect();
        // SAFETY: items of a token are of its heads of queries, keys and values in turn; pairs lie in their head. A slot is
        // checked against the limit, which is at most the capacity, before it is used.
        let kernel = unsafe { kernel.unchecked(needs, &facts) };
        let [key_limit, value_limit] = extents.limits(io);
        let [key_capacity, value_capacity] = capacities;
        let params = [tokens, key_capacity, value_capacity, key_limit, value_limit];
        let args: smallvec::SmallVec<[Arg; 8]> = (0..8).map(Arg::slot).collect();
        let grid = wgsl::grid(tokens * chunks, on);
        plan.push(Program::Wgsl(kernel), &args, &params.map(|word| word as u32), grid);
        plan
    }
}

/// Facts: bytes of an element of keys and of values, then the constants of the program from `CHUNKS` on.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, key_capacity, value_capacity, key_limit, value_limit] =
        [0, 1, 2, 3, 4].map(|i| launch.count(i));
    let [chunks, heads, kv_heads, dim, pairs, value_dim] =
        [2, 3, 4, 5, 6, 7].map(|i| Count::from(launch.fact(i)));
    let is_inside = key_limit <= key_capacity && value_limit <= value_capacity && pairs * 2u32 <= dim;
    let divides = [heads, kv_heads, chunks, value_dim].iter().all(|extent| *extent != Count(0));
    if !is_inside || !divides {
        return None;
    }
    let values = tokens * kv_heads * value_dim;
    let [key, value] = [0, 1].map(|i| launch.fact(i));
    let q = tokens * heads * dim * 4u32;
    let needs = Needs::new()
        .read(q, 4)
        .read(tokens * kv_heads * dim * 4u32, 4)
        .read(values * 4u32, 4)
        .read(tokens * pairs * 8u32, 4)
        .read(tokens * 4u32, 4)
        .write(q, 4)
        .over(0b1)
        .write(kv_heads * key_capacity * dim * key, key as usize)
        .write(kv_heads * value_capacity * value_dim * value, value as usize);
    Some(needs)
}
