//! Attention on GPUs: one body, one to four queries that share keys to a workgroup, in two kernels.
//!
//! For few queries a workgroup takes the keys of an item of the work list, and a second launch joins the parts; otherwise it takes all keys
//! of its queries. The number of queries, the heads' sizes and the size of subgroups are constants of a program. A cache larger than a
//! binding is read in windows of whole heads.

use super::rows::{MOST_ROWS, ROWS, rows_of_workgroup};
use super::{Attend, ENTRY_WORDS, Extents, ITEM_QUERIES, MOST_DIM, MOST_POSITIONS};
use crate::elementwise::activation::ACTIVATION;
use crate::needs::TypedNeeds;
use crate::wgsl::{self, row_spans};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;
use smallvec::SmallVec;
use std::ops::Range;

/// Declares snippets.
macro_rules! snippets {
    ($($name:ident = $file:literal;)*) => {$(
        pub(super) static $name: Snippet = Snippet { name: concat!("attention ", $file), text: include_str!($file) };
    )*};
}

snippets! {
    COMMON = "common.wgsl";
    FEW = "attend.wgsl";
    PROMPT = "prompt.wgsl";
    PROMPT_ROWS = "prompt_rows.wgsl";
    PART = "part.wgsl";
    WHOLE = "whole.wgsl";
    BEGIN_WHOLE = "begin_whole.wgsl";
    ACROSS_SUBGROUP = "across_subgroup.wgsl";
    ACROSS_SHARED = "across_shared.wgsl";
    JOIN = "join.wgsl";
}

/// Invocations of a workgroup.
const WORKGROUP: u32 = 64;
/// Keys that it weighs at a time.
const BLOCK: u32 = 128;

/// Few queries, some of them in a workgroup. A kernel for each number: a plan for fewer live rows has the same program.
pub(super) struct Split<const QUERIES: usize>;

/// Any number of queries.
pub(super) struct Tiled;

/// Many queries.
pub(super) struct Prompt;

/// Workgroups of many queries that occupy a GPU.
pub(super) const MANY_WORKGROUPS: usize = 64;
/// Queries that share a head of keys, from which a workgroup of many is well filled.
const MANY_ROWS: usize = 24;

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

pub(super) fn check(op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Extents, Decline> {
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
pub(super) struct Written {
    pub(super) out: Arg,
    pub(super) items: Option<usize>,
}

/// Returns the subgroups that workgroups consist of, where the device takes a size.
fn subgroup_size(on: &DeviceInfo) -> Option<u32> {
    on.features.preferred_subgroup().filter(|size| WORKGROUP.is_multiple_of(*size))
}

/// What a kernel adds to the common text.
pub(super) struct Body {
    pub(super) name: &'static str,
    pub(super) parts: SmallVec<[&'static Snippet; 4]>,
    pub(super) constants: SmallVec<[(&'static str, u32); 8]>,
    /// Invocations of a workgroup.
    pub(super) workgroup: u32,
    /// Queries of a workgroup.
    pub(super) rows: usize,
    /// Invocations of the subgroups that the text is made for.
    pub(super) subgroup: Option<u32>,
    /// The part that needs these subgroups, and the part in its place on drivers that refuse it.
    pub(super) portable: Option<[&'static Snippet; 2]>,
}

impl Body {
    /// One to four queries of a workgroup.
    fn few(extents: &Extents, rows: usize, is_part: bool, on: &DeviceInfo) -> Option<Body> {
        let (dim, value_dim) = (extents.dim as u32, extents.value_dim as u32);
        let subgroup = subgroup_size(on);
        let team = (value_dim / 8).max(1);
        let teams = WORKGROUP / team;
        let mut parts: SmallVec<[&'static Snippet; 4]> = SmallVec::from_slice(&[
            ROWS.get(rows.checked_sub(1)?)?,
            &FEW,
            if subgroup.is_some() { &ACROSS_SUBGROUP } else { &ACROSS_SHARED },
        ]);
        match is_part {
            true => parts.push(&PART),
            false => parts.extend([&WHOLE, &BEGIN_WHOLE]),
        }
        let cells = (dim + BLOCK).max(teams * value_dim);
        let mut constants: SmallVec<[_; 8]> =
            SmallVec::from_slice(&[("TEAM", team), ("TEAMS", teams), ("CELLS", cells)]);
        constants.extend(subgroup.map(|size| ("SUBGROUP", size)));
        let portable = subgroup.map(|_| [&ACROSS_SUBGROUP, &ACROSS_SHARED]);
        let name = if is_part { "attention.split.wgsl" } else { "attention.tiled.wgsl" };
        Some(Body { name, parts, constants, workgroup: WORKGROUP, rows, subgroup, portable })
    }

    /// Many queries of a workgroup: four teams with eight each, or two where values are long.
    fn many(op: &Attend, extents: &Extents, on: &DeviceInfo) -> Body {
        let (dim, value_dim) = (extents.dim as u32, extents.value_dim as u32);
        let teams = if value_dim > 128 { 2 } else { 4 };
        let lanes = WORKGROUP / teams;
        let (rows, keys) = (teams * 8, lanes * 4);
        let depth = if dim.is_multiple_of(16) { 16 } else { 8 };
        let columns = value_dim.div_ceil(lanes * 4);
        let cells = ((keys + rows) * (depth / 4 + 1)).max(keys * rows / 4 + 8 * columns * lanes);
        debug_assert!((depth / 8 * keys).is_multiple_of(WORKGROUP) && rows <= WORKGROUP);
        let constants = [
            ("TEAMS", teams),
            ("LANES", lanes),
            ("ROWS", rows),
            ("KEYS", keys),
            ("DEPTH", depth),
            ("COLUMNS", columns),
            ("CELLS", cells),
            ("CAPPED", u32::from(op.rule.softcap.is_some())),
        ];
        Body {
            name: "attention.prompt.wgsl",
            parts: SmallVec::from_slice(&[&PROMPT_ROWS, &PROMPT, &WHOLE]),
            constants: SmallVec::from_slice(&constants),
            workgroup: WORKGROUP,
            rows: rows as usize,
            // The text is made for any: smaller subgroups have more registers.
            subgroup: subgroup_size(on),
            portable: subgroup_size(on).map(|_| [&PROMPT, &PROMPT]),
        }
    }

    /// Returns the bytes of shared memory of a body for many queries.
    fn shared_bytes(&self) -> usize {
        let of = |name| {
            self.constants.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value as usize)
        };
        (of("CELLS") + 2 * WORKGROUP as usize + of("ROWS")) * 16 + (of("KEYS") + of("ROWS")) * 4 + 16
    }

    /// Returns the workgroups for the queries that share a head of keys.
    pub(super) fn chunks(&self, extents: &Extents) -> usize {
        (extents.tokens * extents.group()).div_ceil(self.rows)
    }
}

/// Launches of a body, each over a window of heads.
pub(super) fn push(
    plan: &mut Plan,
    op: &Attend,
    io: &Io<'_>,
    on: &DeviceInfo,
    written: &Written,
    body: &Body,
) -> Option<()> {
    let &Written { out, items } = written;
    let extents = Extents::of(io)?;
    let Extents { tokens, heads, kv_heads, dim, value_dim, capacity, .. } = extents;
    // Windows of heads are whole eights, of 16 bytes or more.
    let aligned = [0, 1, 2]
        .map(|i| !io.input(i).dtype.is_compressed() && io.input(i).alignment >= wgsl::EIGHTS_ALIGNMENT);
    let (Some(single), Some(store), Some(keys), Some(values), Some(windows)) = (
        wgsl::load(DType::F32),
        wgsl::store(DType::F32, &on.features),
        wgsl::load_eights(io.input(1).dtype, aligned[1]),
        wgsl::load_eights(io.input(2).dtype, aligned[2]),
        windows(io, &extents, on),
    ) else {
        return None;
    };
    let queries = wgsl::load_eights(DType::F32, aligned[0])?;
    let mut parts: SmallVec<[Part; 16]> = SmallVec::from_slice(&[
        Part::plain(&COMMON),
        Part::bound(queries, "q", 0),
        Part::bound(keys, "k", 1),
        Part::bound(values, "v", 2),
        Part::bound(wgsl::load_bits(DType::U32), "work", 3),
        Part::bound(single, "sinks", 4),
        Part::bound(store, "out", 5),
        Part::plain(&ACTIVATION),
        Part::plain(&wgsl::WEIGHT),
        Part::plain(&wgsl::LINEAR),
    ]);
    parts.extend(body.parts.iter().map(|part| Part::plain(part)));
    let mut kernel = WgslKernel::new(body.name, &parts, 6, 12)
        .constant("WG", body.workgroup)
        .constant("DIM", dim as u32)
        .constant("VALUES", value_dim as u32);
    kernel = body.constants.iter().fold(kernel, |kernel, &(name, value)| kernel.constant(name, value));
    if let Some(size) = body.subgroup {
        kernel = kernel.with_subgroup(size);
    }
    if let Some([part, portable]) = body.portable {
        kernel = kernel.or_portable(part, portable);
    }
    let facts = [
        io.input(1).dtype.code(),
        io.input(2).dtype.code(),
        dim as u32,
        value_dim as u32,
        u32::from(items.is_some()),
        u32::from(aligned[0]),
        u32::from(aligned[1]),
        u32::from(aligned[2]),
    ];
    // SAFETY: rows past the last are the last one's, heads of keys past the last are left, words of the work list are cut to the
    // queries of the call, and a slot is a position modulo the capacity, as the positions of a range are at most the capacity; queries and the
    // weights of a block have `DIM + BLOCK` cells, and a team has at most the workgroup's invocations. Of many queries, all invocations
    // put `DEPTH / 8 * KEYS` eights of keys in whole turns (asserted in `Body::many`) into `CELLS` vectors. In matrices, `CELLS` elements hold
    // the keys of a block, or its values in whole matrices (`matrix::PromptLayout`).
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
        let chunks = body.chunks(&extents);
        let grid = match items {
            Some(items) => [chunks, span.len(), items].map(|extent| extent as u32),
            None => wgsl::grid(span.len() * chunks, on),
        };
        plan.push(Program::Wgsl(kernel.clone()), &args, &params, grid);
    }
    Some(())
}

/// Facts: the types of keys and values, elements of a head of both, whether parts are left, whether queries, keys and
/// values are read as vectors.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [tokens, heads, kv_heads, dim, value_dim, capacity, items] =
        [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
    let [first, count] = [10, 11].map(|i| launch.count(i));
    let (keys, values) = (DType::from_code(launch.fact(0))?, DType::from_code(launch.fact(1))?);
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
    let mut needs = Needs::new().read(tokens * heads * dim * 4u32, 4);
    if launch.fact(5) != 0 {
        needs = needs.aligned(wgsl::EIGHTS_ALIGNMENT);
    }
    for (dtype, elements, fact) in [(keys, dim, 6), (values, value_dim, 7)] {
        needs = needs.elements(Access::Read, dtype, count * capacity * elements)?;
        if launch.fact(fact) != 0 {
            needs = needs.aligned(wgsl::EIGHTS_ALIGNMENT);
        }
    }
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
pub(super) fn output(op: &Attend) -> Arg {
    Arg::slot(4 + u8::from(op.sinks))
}

impl<const QUERIES: usize> Kernel for Split<QUERIES> {
    type Op = Attend;

    fn name(&self) -> &'static str {
        match QUERIES {
            1 => "attention.split.1.wgsl",
            2 => "attention.split.2.wgsl",
            3 => "attention.split.3.wgsl",
            _ => "attention.split.4.wgsl",
        }
    }

    fn fits(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let extents = check(op, io, on)?;
        if extents.items == 0 {
            return Err(Decline("is for work lists with items"));
        }
        if parts(&extents) > wgsl::most(4, on) {
            return Err(Decline("the parts are larger than a binding"));
        }
        let most = on.limits.max_grid.map(|axis| axis as usize);
        let grid = [extents.tokens * extents.group(), extents.kv_heads, extents.items];
        if grid.iter().zip(most).any(|(extent, most)| *extent > most) {
            return Err(Decline("a grid of an item for each is larger than the device takes"));
        }
        // Any number is right: a graph plans the kernel again at fewer live rows, and then has no other program.
        let is_best = QUERIES == rows_of_workgroup(extents.tokens * extents.group());
        Ok(if is_best { Cost::BEST } else { Cost::GOOD })
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
        let Some(body) = Body::few(&extents, QUERIES, true, on) else { return plan };
        push(&mut plan, op, io, on, &written, &body);
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
        let Some(extents) = Extents::of(io) else { return plan };
        if let Some(body) = Body::few(&extents, MOST_ROWS, false, on) {
            push(&mut plan, op, io, on, &Written { out: output(op), items: None }, &body);
        }
        plan
    }
}

impl Kernel for Prompt {
    type Op = Attend;

    fn name(&self) -> &'static str {
        "attention.prompt.wgsl"
    }

    fn fits(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let extents = check(op, io, on)?;
        let workgroups = Body::many(op, &extents, on).chunks(&extents) * extents.kv_heads;
        // Processors without work cost more than keys that are read again.
        if Body::many(op, &extents, on).shared_bytes() > on.limits.max_workgroup_bytes {
            return Err(Decline("needs more shared memory than the device has"));
        }
        let is_wide = on.software || workgroups >= MANY_WORKGROUPS;
        let is_filled = extents.tokens * extents.group() >= MANY_ROWS;
        Ok(if is_wide && is_filled { Cost::BEST } else { Cost::FALLBACK })
    }

    fn plan(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let Some(extents) = Extents::of(io) else { return plan };
        push(&mut plan, op, io, on, &Written { out: output(op), items: None }, &Body::many(op, &extents, on));
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
            let facts = [DType::F32.code(), DType::F32.code(), dim, value_dim, 0, 0, 0, 0];
            needs(&LaunchShape { params: &params, grid: [1; 3], bound: &[], facts: &facts })
        };
        assert!(of(16, 8).is_some() && of(512, 512).is_some());
        for (dim, value_dim) in [(0, 16), (12, 16), (520, 16), (16, 0), (16, 4), (16, 12), (16, 520)] {
            assert!(of(dim, value_dim).is_none(), "{dim} and {value_dim}");
        }
    }
}
