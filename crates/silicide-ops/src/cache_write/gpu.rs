//! `cache_write` on GPUs: a workgroup per token, which first checks whether a later token has the same slot. A cache larger than
//! a binding is written in windows of whole heads.

use super::{CacheWrite, CacheWriteExtents};
use crate::needs::TypedNeeds;
use crate::wgsl::{self, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Access, DeviceInfo, Features, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::turbo::TurboFormat;
use silicide_quant::{DType, Format};
use smallvec::{SmallVec, smallvec};
use std::sync::LazyLock;

static BODY: Snippet = Snippet { name: "cache_write", text: include_str!("cache_write.wgsl") };
static ELEMENTS: Snippet = Snippet {
    name: "cache_write elements",
    text: "const ITEM: u32 = 1u;\nfn put_item(to: u32, source: u32) { store_cache(to, load_rows(source)); }",
};

/// An encoder of blocks: lines of constants, and files.
macro_rules! encoder {
    ($name:literal, [$($constant:literal),*], $file:literal) => {
        Snippet {
            name: concat!("cache_write ", $name),
            text: concat!(
                $($constant,)*
                include_str!($file),
                include_str!("blocks.wgsl"),
                include_str!("../wgsl/element/narrow_f16.wgsl"),
            ),
        }
    };
}

static Q4_0: Snippet =
    encoder!("q4_0", ["const BITS: u32 = 4u;\n", "const HAS_MINIMUM: u32 = 0u;\n"], "legacy.wgsl");
static Q4_1: Snippet =
    encoder!("q4_1", ["const BITS: u32 = 4u;\n", "const HAS_MINIMUM: u32 = 1u;\n"], "legacy.wgsl");
static Q5_0: Snippet =
    encoder!("q5_0", ["const BITS: u32 = 5u;\n", "const HAS_MINIMUM: u32 = 0u;\n"], "legacy.wgsl");
static Q5_1: Snippet =
    encoder!("q5_1", ["const BITS: u32 = 5u;\n", "const HAS_MINIMUM: u32 = 1u;\n"], "legacy.wgsl");
static Q8_0: Snippet = encoder!("q8_0", [], "q8_0.wgsl");
static IQ4_NL: Snippet = encoder!("iq4_nl", [], "iq4_nl.wgsl");
static TURBO: Snippet = encoder!("turbo", [], "turbo.wgsl");

/// The constants and levels of compressed types, in the order of [`TurboFormat::ALL`].
static LEVELS: LazyLock<Vec<Snippet>> = LazyLock::new(|| {
    let snippet = |format: TurboFormat| Snippet { name: format.name(), text: format.wgsl_levels() };
    TurboFormat::ALL.into_iter().map(snippet).collect()
});

/// A workgroup per token.
pub(super) struct GpuCacheWrite;

/// Parts that define `put_item` and `ITEM`, the elements that it writes.
fn items(dtype: DType, features: &Features) -> Option<SmallVec<[Part; 2]>> {
    let cache = |snippet| Part::bound(snippet, "cache", 2);
    match dtype {
        DType::Block(Format::Q4_0) => Some(smallvec![cache(&Q4_0)]),
        DType::Block(Format::Q4_1) => Some(smallvec![cache(&Q4_1)]),
        DType::Block(Format::Q5_0) => Some(smallvec![cache(&Q5_0)]),
        DType::Block(Format::Q5_1) => Some(smallvec![cache(&Q5_1)]),
        DType::Block(Format::Q8_0) => Some(smallvec![cache(&Q8_0)]),
        DType::Block(Format::Iq4Nl) => Some(smallvec![cache(&IQ4_NL)]),
        DType::Block(_) => None,
        DType::Turbo(format) => {
            let levels = LEVELS.get(format.number())?;
            Some(smallvec![cache(&TURBO), Part::bound(levels, "cache", 2)])
        }
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
    let cache = DType::from_code(launch.fact(0))?;
    let [tokens, heads, dim, capacity, limit, first, count] = [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
    let is_inside =
        limit <= capacity && first + count <= heads && dim.0.is_multiple_of(cache.block_len() as u64);
    let needs = Needs::new().read(tokens * heads * dim * 4u32, 4).read(tokens * 4u32, 4);
    let needs = needs.elements(Access::Write, cache, count * capacity * dim)?;
    is_inside.then_some(needs)
}
