//! Attention on GPUs: one body, four queries and a run of keys to a workgroup, in two kernels.
//!
//! For few queries the keys are cut in runs, whose parts a second launch joins; otherwise a workgroup takes all keys of its
//! queries. No subgroup size is assumed, and every sum has a fixed order. A cache larger than a binding is read in windows
//! of whole heads.

use super::{Attend, Attention, Extents, MOST_DIM};
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
/// Keys of a run.
const KEYS: usize = 256;
/// Queries at most for which keys are cut in runs.
const FEW_TOKENS: usize = 8;
/// The furthest position, so that sums of positions stay within 32 bits.
const MOST_POSITIONS: u32 = 1 << 30;

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
    if extents.in_lanes {
        return Err(Decline("takes keys row by row"));
    }
    if extents.dim > MOST_DIM {
        return Err(Decline("takes keys of at most 512 elements"));
    }
    if op.rule.limit > MOST_POSITIONS || extents.capacity > MOST_POSITIONS as usize {
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

/// The runs of keys of a call, and the words of their parts.
fn parts(op: &Attend, extents: &Extents) -> (usize, usize) {
    let runs = op.rule.most_seen(extents.tokens, extents.capacity).div_ceil(KEYS).max(1);
    (runs, runs.saturating_mul(extents.tokens * extents.heads * (extents.value_dim + 2)))
}

/// Whether a call is causal, and whether it has sinks.
fn flags(op: &Attend) -> u32 {
    u32::from(op.rule.causal) | u32::from(op.sinks) << 1
}

/// The window, or 0; one as long as all positions hides nothing.
fn window(rule: &Attention) -> u32 {
    rule.window.filter(|&window| window < rule.limit).unwrap_or(0)
}

/// The outputs of the body: whole ones, or partial sums over ranges of keys.
struct Written {
    out: Arg,
    runs: Option<usize>,
}

/// Launches of the body, each over a window of heads.
fn push(plan: &mut Plan, op: &Attend, io: &Io<'_>, on: &DeviceInfo, written: Written) {
    let Written { out, runs } = written;
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
        Part::bound(wgsl::load_bits(DType::U32), "start", 3),
        Part::bound(single, "sinks", 4),
        Part::bound(store, "out", 5),
        Part::plain(if runs.is_some() { &PART } else { &WHOLE }),
        Part::plain(&ACTIVATION),
        Part::plain(&wgsl::WEIGHT),
        Part::plain(&wgsl::LINEAR),
    ];
    let name = if runs.is_some() { "attention.split.wgsl" } else { "attention.tiled.wgsl" };
    let kernel = WgslKernel::new(name, &parts, 6, 15)
        .constant("WG", WORKGROUP)
        .constant("DIM", dim as u32)
        .constant("COLUMNS", (value_dim as u32).div_ceil(WORKGROUP));
    let facts = [
        io.input(1).dtype.code(),
        io.input(2).dtype.code(),
        dim as u32,
        (value_dim as u32).div_ceil(WORKGROUP),
        u32::from(runs.is_some()),
    ];
    // SAFETY: rows past the last are the last one's, heads of keys past the last are left, and positions are taken modulo the
    // capacity; a query has `DIM` places in shared memory, and at most eight columns fit an invocation's totals.
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
            op.rule.limit - word(tokens),
            op.rule.scale.to_bits(),
            op.rule.softcap.unwrap_or(0.0).to_bits(),
            window(&op.rule),
            flags(op),
            word(span.start),
            word(span.len()),
            runs.map_or(op.rule.limit, |_| word(KEYS)),
            word(runs.unwrap_or(1)),
        ];
        let groups = span.len() * runs.unwrap_or(1) * (tokens * extents.group()).div_ceil(ROWS);
        plan.push(Program::Wgsl(kernel.clone()), &args, &params, wgsl::grid(groups, on));
    }
}

/// Facts: the types of keys and values, elements of a head of keys, columns of an invocation, whether parts are left.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, kv_heads, dim, value_dim, capacity, latest] =
        [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
    let [first, count, _, runs] = [11, 12, 13, 14].map(|i| launch.count(i));
    let (keys, values) = (dtype(launch.fact(0))?, dtype(launch.fact(1))?);
    let is_shared = kv_heads != Count(0) && heads.0.is_multiple_of(kv_heads.0) && first + count <= kv_heads;
    let is_there = [tokens, heads, capacity, runs].iter().all(|extent| *extent != Count(0));
    let fits = launch.param(3) == launch.fact(2) && launch.fact(3) <= 8;
    let is_bounded = latest + tokens <= Count::from(MOST_POSITIONS);
    if !is_shared || !is_there || !fits || !is_bounded {
        return None;
    }
    let sinks = if launch.param(10) & 2 == 0 { Count(0) } else { heads * 4u32 };
    let needs = Needs::new().read(tokens * heads * dim * 4u32, 4);
    let needs = needs.elements(Access::Read, keys, count * capacity * dim)?;
    let needs =
        needs.elements(Access::Read, values, count * capacity * value_dim)?.read(4u32, 4).read(sinks, 4);
    let is_part = launch.fact(4) != 0;
    let words = if is_part { runs * (value_dim + 2u32) } else { value_dim };
    (is_part || runs == Count(1)).then(|| needs.write(tokens * heads * words * 4u32, 4))
}

/// Parameters: tokens, heads, heads of keys, elements of a value, capacity, the latest start, window, flags, keys of a run.
fn join_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, kv_heads, value_dim, capacity, latest, window, _, keys] =
        [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|i| launch.count(i));
    let is_shared = kv_heads != Count(0) && heads.0.is_multiple_of(kv_heads.0);
    let total = latest + tokens;
    if !is_shared || heads == Count(0) || tokens == Count(0) || total > Count::from(MOST_POSITIONS) {
        return None;
    }
    let seen = if window == Count(0) { total } else { total.min(Count(window.0 + tokens.0 - 1)) };
    let runs = seen.min(capacity).div_ceil(keys)?;
    let sinks = if launch.param(7) & 2 == 0 { Count(0) } else { heads * 4u32 };
    let parts = runs * tokens * heads * (value_dim + 2u32) * 4u32;
    let needs = Needs::new().read(parts, 4).read(4u32, 4).read(sinks, 4);
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
        if extents.tokens > FEW_TOKENS {
            return Err(Decline("is for few queries"));
        }
        if parts(op, &extents).1 > wgsl::most(4, on) {
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
        let (runs, words) = parts(op, &extents);
        let scratch = plan.scratch(words * 4);
        let written = Written { out: Arg::scratch(scratch, Access::Write), runs: Some(runs) };
        push(&mut plan, op, io, on, written);
        let joined = [
            Part::plain(&JOIN),
            Part::bound(single, "parts", 0),
            Part::bound(wgsl::load_bits(DType::U32), "start", 1),
            Part::bound(single, "sinks", 2),
            Part::bound(store, "y", 3),
            Part::plain(&ACTIVATION),
            Part::plain(&wgsl::WEIGHT),
            Part::plain(&wgsl::LINEAR),
        ];
        let kernel = WgslKernel::new("attention.join.wgsl", &joined, 4, 9).constant("WG", WORKGROUP);
        // SAFETY: a workgroup has a row below their number, and reads the parts of as many runs as keys can be seen.
        let kernel = unsafe { kernel.unchecked(join_need, &[]) };
        let Extents { tokens, heads, kv_heads, value_dim, capacity, .. } = extents;
        let [count, heads_word, kv_word, value_word, capacity] =
            [tokens, heads, kv_heads, value_dim, capacity].map(|extent| extent as u32);
        let params = [
            count,
            heads_word,
            kv_word,
            value_word,
            capacity,
            op.rule.limit - count,
            window(&op.rule),
            flags(op),
            KEYS as u32,
        ];
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
        push(&mut plan, op, io, on, Written { out: output(op), runs: None });
        plan
    }
}
