//! Attention on GPUs: one body, four queries to a workgroup, in two kernels.
//!
//! For few queries a workgroup takes the keys of an item of the work list, and a second launch joins the parts; otherwise it takes all keys
//! of its queries. No subgroup size is assumed, and every sum has a fixed order. A cache larger than a binding is read in windows
//! of whole heads.

use super::{Attend, ENTRY_WORDS, Extents, ITEM_QUERIES, MOST_DIM, MOST_POSITIONS};
use crate::elementwise::activation::ACTIVATION;
use crate::needs::{TypedNeeds, dtype};
use crate::wgsl::{self, row_spans};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;
use std::ops::Range;

/// The function that the body calls with the results of a query.
macro_rules! begin_row {
    ($function:literal) => {
        concat!(
            "fn begin_row(work: Work, i: u32, mine: Mine, lane: u32) -> Target { return ",
            $function,
            "(work, i, mine, lane); }"
        )
    };
}

static BODY: Snippet = Snippet { name: "attention", text: include_str!("attend.wgsl") };
static PART: Snippet = Snippet { name: "attention part", text: begin_row!("begin_part") };
static WHOLE: Snippet = Snippet { name: "attention whole", text: begin_row!("begin_whole") };
static JOIN: Snippet = Snippet { name: "attention join", text: include_str!("join.wgsl") };

/// Invocations of a workgroup, and keys that it weighs at a time.
const WORKGROUP: u32 = 64;
/// Queries of a workgroup.
const ROWS: usize = 4;

/// Few queries.
pub(super) struct Split;

/// Any number of queries.
pub(super) struct Tiled;

/// Bytes of one head of keys and of values.
fn head_bytes(io: &Io<'_>, extents: &Extents) -> [usize; 2] {
    [1, 2].map(|i| io.input(i).bytes() / extents.kv_heads.max(1))
}

/// Which heads each launch sees.
fn windows(
    io: &Io<'_>,
    extents: &Extents,
    on: &DeviceInfo,
) -> Option<impl Iterator<Item = Range<usize>> + use<>> {
    let longest = extents.capacity * extents.dim.max(extents.value_dim);
    let [k, v] = head_bytes(io, extents);
    // Neither bytes nor elements of a window may be too many.
    row_spans(extents.kv_heads, longest.max(k).max(v), 1, on)
}

fn check(op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Extents, Decline> {
    if !on.is_gpu() {
        return Err(Decline("runs on GPUs only"));
    }
    if op.quantized {
        return Err(Decline("gives no quantized rows"));
    }
    let extents = Extents::of(io).ok_or(Decline("takes three axes"))?;
    if io.input(3).shape.axes().first().is_none_or(|&entries| entries < extents.tokens) {
        return Err(Decline("takes a work list with an entry for each query"));
    }
    if extents.in_lanes {
        return Err(Decline("takes keys row by row"));
    }
    if [extents.dim, extents.value_dim].iter().any(|&dim| dim == 0 || dim % 8 != 0 || dim > MOST_DIM) {
        return Err(Decline("takes heads of 8 to 512 elements, in eights"));
    }
    if [1, 2].iter().any(|&i| wgsl::has_table(io.input(i).dtype)) {
        return Err(Decline("takes no types that are read with a table"));
    }
    if extents.capacity > MOST_POSITIONS {
        return Err(Decline("takes positions of at most 30 bits"));
    }
    if io.input(0).elements().max(io.output(0).elements()) > wgsl::most(4, on) {
        return Err(Decline("the queries are larger than a binding"));
    }
    if windows(io, &extents, on).is_none() {
        return Err(Decline("a head of the cache is larger than a binding"));
    }
    Ok(extents)
}

/// The words of the parts of a call.
fn parts(extents: &Extents) -> usize {
    extents.items.saturating_mul(extents.tokens * extents.heads * (extents.value_dim + 2))
}

/// Whether a call has sinks.
fn flags(op: &Attend) -> u32 {
    u32::from(op.sinks) << 1
}

/// The outputs of the body: whole ones, or parts of items.
struct Written {
    out: Arg,
    items: Option<usize>,
}

/// Launches of the body, each over a window of heads.
fn push(plan: &mut Plan, op: &Attend, io: &Io<'_>, on: &DeviceInfo, written: Written) {
    let Written { out, items } = written;
    let Some(extents) = Extents::of(io) else { return };
    let Extents { tokens, heads, kv_heads, dim, value_dim, capacity, .. } = extents;
    let (Some(single), Some(store), Some(keys), Some(values), Some(windows)) = (
        wgsl::load(DType::F32),
        wgsl::store(DType::F32, &on.features),
        wgsl::load(io.input(1).dtype),
        wgsl::load(io.input(2).dtype),
        windows(io, &extents, on),
    ) else {
        return;
    };
    let parts = [
        Part::plain(&BODY),
        Part::bound(single, "q", 0),
        Part::bound(keys, "k", 1),
        Part::bound(values, "v", 2),
        Part::bound(wgsl::load_bits(DType::U32), "work", 3),
        Part::bound(single, "sinks", 4),
        Part::bound(store, "out", 5),
        Part::plain(if items.is_some() { &PART } else { &WHOLE }),
        Part::plain(&ACTIVATION),
        Part::plain(&wgsl::WEIGHT),
        Part::plain(&wgsl::LINEAR),
    ];
    let name = if items.is_some() { "attention.split.wgsl" } else { "attention.tiled.wgsl" };
    let team = (value_dim as u32 / 8).max(1);
    let kernel = WgslKernel::new(name, &parts, 6, 12)
        .constant("DIM", dim as u32)
        .constant("VALUES", value_dim as u32)
        .constant("TEAM", team)
        .constant("TEAMS", WORKGROUP / team);
    let facts = [
        io.input(1).dtype.code(),
        io.input(2).dtype.code(),
        dim as u32,
        value_dim as u32,
        u32::from(items.is_some()),
    ];
    // SAFETY: rows past the last are the last one's, heads of keys past the last are left, words of the work list are cut to the
    // queries of the call, and positions are taken modulo the capacity; a query has `DIM` places in shared memory, and a team has at most
    // the workgroup's invocations.
    let kernel = unsafe { kernel.unchecked(needs, &facts) };
    let [k_bytes, v_bytes] = head_bytes(io, &extents);
    let sinks = if op.sinks { Arg::slot(4) } else { Arg::slot(0) };
    for span in windows {
        let cache = |slot, bytes: usize| Arg::slot(slot).window(span.start * bytes, span.len() * bytes);
        let args = [Arg::slot(0), cache(1, k_bytes), cache(2, v_bytes), Arg::slot(3), sinks, out];
        let word = |extent: usize| extent as u32;
        let params = [
            word(tokens),
            word(heads),
            word(kv_heads),
            word(dim),
            word(value_dim),
            word(capacity),
            word(items.unwrap_or(0)),
            op.rule.scale.to_bits(),
            op.rule.softcap.unwrap_or(0.0).to_bits(),
            flags(op),
            word(span.start),
            word(span.len()),
        ];
        let groups = span.len() * items.unwrap_or(1) * (tokens * extents.group()).div_ceil(ROWS);
        plan.push(Program::Wgsl(kernel.clone()), &args, &params, wgsl::grid(groups, on));
    }
}

/// Facts: the types of keys and values, elements of a head of keys, columns of an invocation, whether parts are left.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, kv_heads, dim, value_dim, capacity, items] =
        [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
    let [first, count] = [10, 11].map(|i| launch.count(i));
    let (keys, values) = (dtype(launch.fact(0))?, dtype(launch.fact(1))?);
    let is_shared = kv_heads != Count(0) && heads.0.is_multiple_of(kv_heads.0) && first + count <= kv_heads;
    let is_part = launch.fact(4) != 0;
    let is_there = [tokens, heads, capacity].iter().all(|extent| *extent != Count(0));
    let is_sized = dim == launch.fact(2).into() && value_dim == launch.fact(3).into();
    // The body reads heads eight elements at a time.
    let is_head =
        |extent: Count| extent != Count(0) && extent.0.is_multiple_of(8) && extent <= Count::from(MOST_DIM);
    let fits = is_sized && is_head(dim) && is_head(value_dim);
    let is_bounded = tokens.max(capacity) <= Count::from(MOST_POSITIONS);
    let is_listed =
        if is_part { tokens <= Count::from(ITEM_QUERIES) && items != Count(0) } else { items == Count(0) };
    if !is_shared || !is_there || !fits || !is_bounded || !is_listed {
        return None;
    }
    let sinks = if launch.param(9) & 2 == 0 { Count(0) } else { heads * 4u32 };
    let needs = Needs::new().read(tokens * heads * dim * 4u32, 4);
    let needs = needs.elements(Access::Read, keys, count * capacity * dim)?;
    let needs = needs.elements(Access::Read, values, count * capacity * value_dim)?;
    let needs = needs.read((tokens + items) * (ENTRY_WORDS * 4), 4).read(sinks, 4);
    let words = if is_part { items * (value_dim + 2u32) } else { value_dim };
    Some(needs.write(tokens * heads * words * 4u32, 4))
}

/// Parameters: tokens, heads, heads of keys, elements of a value, items, flags, NaN.
fn join_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, kv_heads, value_dim, items] = [0, 1, 2, 3, 4].map(|i| launch.count(i));
    let is_shared = kv_heads != Count(0) && heads.0.is_multiple_of(kv_heads.0);
    let fits = value_dim.div_ceil(WORKGROUP)? == launch.fact(0).into() && launch.fact(0) <= 8;
    if !is_shared || !fits || heads == Count(0) || tokens == Count(0) || tokens > Count::from(ITEM_QUERIES) {
        return None;
    }
    let sinks = if launch.param(5) & 2 == 0 { Count(0) } else { heads * 4u32 };
    let parts = items * tokens * heads * (value_dim + 2u32) * 4u32;
    let needs = Needs::new().read(parts, 4).read((tokens + items) * (ENTRY_WORDS * 4), 4).read(sinks, 4);
    Some(needs.write(tokens * heads * value_dim * 4u32, 4))
}

/// The output's slot.
fn output(op: &Attend) -> Arg {
    Arg::slot(4 + u8::from(op.sinks))
}

impl Kernel for Split {
    type Op = Attend;

    fn name(&self) -> &'static str {
        "attention.split.wgsl"
    }

    fn fits(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let extents = check(op, io, on)?;
        if extents.items == 0 {
            return Err(Decline("is for work lists with items"));
        }
        if parts(&extents) > wgsl::most(4, on) {
            return Err(Decline("the parts are larger than a binding"));
        }
        Ok(Cost::BEST)
    }

    fn plan(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let (Some(extents), Some(single), Some(store)) =
            (Extents::of(io), wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let scratch = plan.scratch(parts(&extents) * 4);
        let written = Written { out: Arg::scratch(scratch, Access::Write), items: Some(extents.items) };
        push(&mut plan, op, io, on, written);
        let joined = [
            Part::plain(&JOIN),
            Part::bound(single, "parts", 0),
            Part::bound(wgsl::load_bits(DType::U32), "work", 1),
            Part::bound(single, "sinks", 2),
            Part::bound(store, "y", 3),
            Part::plain(&ACTIVATION),
            Part::plain(&wgsl::WEIGHT),
            Part::plain(&wgsl::LINEAR),
        ];
        let kernel = WgslKernel::new("attention.join.wgsl", &joined, 4, 7)
            .constant("COLUMNS", (extents.value_dim as u32).div_ceil(WORKGROUP));
        // SAFETY: a workgroup has a row below their number, and reads the parts of items below their number.
        let kernel =
            unsafe { kernel.unchecked(join_need, &[(extents.value_dim as u32).div_ceil(WORKGROUP)]) };
        let Extents { tokens, heads, kv_heads, value_dim, items, .. } = extents;
        let [count, query_heads, key_heads, length, items] =
            [tokens, heads, kv_heads, value_dim, items].map(|extent| extent as u32);
        let params = [count, query_heads, key_heads, length, items, flags(op), f32::NAN.to_bits()];
        let sinks = if op.sinks { Arg::slot(4) } else { Arg::slot(0) };
        let args = [Arg::scratch(scratch, Access::Read), Arg::slot(3), sinks, output(op)];
        plan.push(Program::Wgsl(kernel), &args, &params, wgsl::grid(tokens * heads, on));
        plan
    }
}

impl Kernel for Tiled {
    type Op = Attend;

    fn name(&self) -> &'static str {
        "attention.tiled.wgsl"
    }

    fn fits(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        check(op, io, on).map(|_| Cost::GOOD)
    }

    fn plan(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        push(&mut plan, op, io, on, Written { out: output(op), items: None });
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_refuse_heads_that_are_not_in_eights() {
        let of = |dim: u32, value_dim: u32| {
            let params = [1, 1, 1, dim, value_dim, 64, 0, 0, 0, 0, 0, 1];
            let facts = [DType::F32.code(), DType::F32.code(), dim, value_dim, 0];
            needs(&LaunchShape { params: &params, grid: [1; 3], bound: &[], facts: &facts })
        };
        assert!(of(16, 8).is_some() && of(512, 512).is_some());
        for (dim, value_dim) in [(0, 16), (12, 16), (520, 16), (16, 0), (16, 4), (16, 12), (16, 520)] {
            assert!(of(dim, value_dim).is_none(), "{dim} and {value_dim}");
        }
    }
}
