//! `cache_write` on GPUs: a workgroup per token, which first checks whether a later token has the same slot. A cache larger than
//! a binding is written in windows of whole heads.

use super::{CacheWrite, CacheWriteExtents};
use crate::needs::{TypedNeeds, dtype};
use crate::wgsl::{self, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Access, DeviceInfo, Features, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::{DType, Format};
use smallvec::{SmallVec, smallvec};

static BODY: Snippet = Snippet { name: "cache_write", text: include_str!("cache_write.wgsl") };
static ELEMENTS: Snippet = Snippet {
    name: "cache_write elements",
    text: "const ITEM: u32 = 1u;\nfn put_item(to: u32, source: u32) { store_cache(to, load_rows(source)); }",
};
static Q8_0: Snippet = Snippet {
    name: "cache_write q8_0",
    text: concat!(include_str!("q8_0.wgsl"), include_str!("../wgsl/element/write_f16.wgsl")),
};

/// A workgroup per token.
pub(super) struct GpuCacheWrite;

/// Parts that define `put_item` and `ITEM`, the elements that it writes.
fn items(dtype: DType, features: &Features) -> Option<SmallVec<[Part; 2]>> {
    let cache = |snippet| Part::bound(snippet, "cache", 2);
    match dtype {
        DType::Block(Format::Q8_0) => Some(smallvec![cache(&Q8_0)]),
        DType::Block(_) => None,
        plain => wgsl::store(plain, features).map(|store| smallvec![cache(store), Part::plain(&ELEMENTS)]),
    }
}

/// Windows of heads: how many bytes one has, and which heads each launch sees.
fn windows(
    io: &Io<'_>,
    on: &DeviceInfo,
) -> Option<(usize, impl Iterator<Item = std::ops::Range<usize>> + use<>)> {
    let CacheWriteExtents { heads, dim, capacity, .. } = CacheWriteExtents::of(io)?;
    let dtype = io.output(0).dtype;
    let blocks = capacity * dim / dtype.block_len().max(1);
    row_spans(heads, blocks, dtype.size(), on).map(|spans| (blocks * dtype.size(), spans))
}

impl Kernel for GpuCacheWrite {
    type Op = CacheWrite;

    fn name(&self) -> &'static str {
        "cache_write.tokens.wgsl"
    }

    fn fits(&self, _op: &CacheWrite, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs only"));
        }
        if CacheWriteExtents::of(io).is_some_and(|extents| extents.in_lanes) {
            return Err(Decline("writes row by row"));
        }
        if items(io.output(0).dtype, &on.features).is_none() {
            return Err(Decline("has no WGSL that encodes this format"));
        }
        if io.input(0).elements() > wgsl::most(4, on) {
            return Err(Decline("the rows are larger than a binding"));
        }
        windows(io, on).map(|_| Cost::GOOD).ok_or(Decline("a head of the cache is larger than a binding"))
    }

    fn plan(&self, _op: &CacheWrite, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let (Some(extents), Some((bytes, windows))) = (CacheWriteExtents::of(io), windows(io, on)) else {
            return plan;
        };
        let (Some(mut parts), Some(load)) = (items(io.output(0).dtype, &on.features), wgsl::load(DType::F32))
        else {
            return plan;
        };
        parts.extend([
            Part::plain(&BODY),
            Part::bound(load, "rows", 0),
            Part::bound(wgsl::load_bits(DType::U32), "slots", 1),
            Part::plain(&wgsl::LINEAR),
        ]);
        let kernel = WgslKernel::new(self.name(), &parts, 3, 7).constant("WG", wgsl::workgroup(on));
        // SAFETY: a slot is checked against the limit, which is at most the capacity, before it is used; a workgroup writes
        // items of its token's slot in the heads that the launch sees.
        let kernel = unsafe { kernel.unchecked(needs, &[io.output(0).dtype.code()]) };
        let CacheWriteExtents { tokens, heads, dim, capacity, .. } = extents;
        // A negative slot, as a number without sign, is none below this.
        let limit = if io.input(1).dtype == DType::I32 { capacity.min(1 << 31) } else { capacity };
        for span in windows {
            let cache = Arg::slot(2).window(span.start * bytes, span.len() * bytes);
            let params =
                [tokens, heads, dim, capacity, limit, span.start, span.len()].map(|word| word as u32);
            let program = Program::Wgsl(kernel.clone());
            plan.push(program, &[Arg::slot(0), Arg::slot(1), cache], &params, wgsl::grid(tokens, on));
        }
        plan
    }
}

/// Facts: the code of the cache's type.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let cache = dtype(launch.fact(0))?;
    let [tokens, heads, dim, capacity, limit, first, count] = [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
    let is_inside =
        limit <= capacity && first + count <= heads && dim.0.is_multiple_of(cache.block_len() as u64);
    let needs = Needs::new().read(tokens * heads * dim * 4u32, 4).read(tokens * 4u32, 4);
    let needs = needs.elements(Access::Write, cache, count * capacity * dim)?;
    is_inside.then_some(needs)
}
