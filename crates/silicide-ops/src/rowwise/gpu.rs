//! Row-wise ops on GPUs: one skeleton for every [`RowShader`], one team of invocations per row, calls split by rows where an
//! argument exceeds a binding.
//!
//! The number of rows changes no bits: the size of a team follows from the length of the rows alone.
//!
//! A kernel is joined from these parts; binding `i` is slot `i` of the op, under the slot's name:
//!
//! ```text
//! struct Params       an offset per binding, rows, k, team, (first_row, other_rows,) the op's own words
//! load_NAME, store_NAME                  for each binding, by element type
//! team_row.wgsl       which row an invocation works on
//! element(at, i)      the value that is reduced: x, or combine(x, other)
//! NAME_or(i, absent)  for each column input
//! sum_pass.wgsl, max_pass.wgsl           sum_NAME and max_NAME for each pass of the op
//! the op's body       RowState, its terms, reduce_row, finish or write_result
//! per_element.wgsl or per_row.wgsl       main
//! ```

use super::RowOp;
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan, TensorInfo};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Declares snippets.
macro_rules! snippets {
    ($($name:ident = $text:expr;)*) => {$(
        static $name: Snippet = Snippet { name: concat!("rowwise.", stringify!($name)), text: $text };
    )*};
}

snippets! {
    PARAMS = "struct Params {";
    OFFSET = "    $NAME_offset: u32,";
    EXTENTS = "    rows: u32,\n    k: u32,\n    team: u32,";
    REPEATS = "    first_row: u32,\n    other_rows: u32,";
    WORD = "    $NAME: f32,";
    PARAMS_END = "}\nvar<immediate> p: Params;";
    TEAM_ROW = include_str!("team_row.wgsl");
    ELEMENT = "fn element(at: TeamRow, i: u32) -> f32 { return load_x(at.base + i); }";
    ELEMENT_WITH = "fn element(at: TeamRow, i: u32) -> f32 {
    return as_stored(combine(load_x(at.base + i), load_$NAME(at.base + i)));
}";
    ELEMENT_REPEATED = "fn element(at: TeamRow, i: u32) -> f32 {
    let row = (p.first_row + at.row) % p.other_rows;
    return as_stored(combine(load_x(at.base + i), load_$NAME(row * p.k + i)));
}";
    AS_STORED_F32 = "fn as_stored(v: f32) -> f32 { return v; }";
    AS_STORED_F16 = "fn as_stored(v: f32) -> f32 { return unpack2x16float(narrow_$NAME(v)).x; }";
    AS_STORED_BF16 = "fn as_stored(v: f32) -> f32 { return bitcast<f32>(narrow_$NAME(v) << 16u); }";
    ELEMENTS = "fn elements(at: TeamRow, i: u32) -> vec4<f32> { return four_x(at.base + i); }";
    ELEMENTS_WITH = "fn elements(at: TeamRow, i: u32) -> vec4<f32> {
    let x = four_x(at.base + i);
    let other = four_$NAME(at.base + i);
    return vec4<f32>(combine(x.x, other.x), combine(x.y, other.y), combine(x.z, other.z), combine(x.w, other.w));
}";
    ELEMENTS_REPEATED = "fn elements(at: TeamRow, i: u32) -> vec4<f32> {
    let x = four_x(at.base + i);
    let other = four_$NAME((p.first_row + at.row) % p.other_rows * p.k + i);
    return vec4<f32>(combine(x.x, other.x), combine(x.y, other.y), combine(x.z, other.z), combine(x.w, other.w));
}";
    STORE_FOUR_COMBINED = "fn store_four_combined(i: u32, v: vec4<f32>) { store_four_$NAME(i, v); }";
    STORE_FOUR_NOTHING = "fn store_four_combined(i: u32, v: vec4<f32>) {}";
    COLUMN_KEPT = "fn $NAME_or(i: u32, absent: f32) -> f32 { return four_$NAME(column)[i]; }";
    KEPT = include_str!("kept.wgsl");
    SUM_PASS_KEPT = include_str!("sum_pass_kept.wgsl");
    MAX_PASS_KEPT = include_str!("max_pass_kept.wgsl");
    PER_ELEMENT_KEPT = include_str!("per_element_kept.wgsl");
    PER_ROW_KEPT = include_str!("per_row_kept.wgsl");
    STORE_COMBINED = "fn store_combined(i: u32, v: f32) { store_$NAME(i, v); }";
    STORE_NOTHING = "fn store_combined(i: u32, v: f32) {}";
    COLUMN = "fn $NAME_or(i: u32, absent: f32) -> f32 { return load_$NAME(i); }";
    NO_COLUMN = "fn $NAME_or(i: u32, absent: f32) -> f32 { return absent; }";
    SUM_PASS = include_str!("sum_pass.wgsl");
    MAX_PASS = include_str!("max_pass.wgsl");
    PER_ELEMENT = include_str!("per_element.wgsl");
    PER_ROW = include_str!("per_row.wgsl");
}

/// A pass over a row that a body uses: a function of the body, applied to each value, and how results are joined.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowPass {
    /// `sum_NAME(at, row, lane)`: the sum of `NAME(v, row)`.
    Sum(&'static str),
    /// `max_NAME(at, row, least, lane)`: the largest `NAME(v, row)`.
    Max(&'static str),
}

/// The formula of a row-wise op in WGSL.
#[derive(Debug)]
pub(crate) struct RowShader {
    /// Declares `RowState`, `reduce_row(at, lane) -> RowState`, and `finish(v, i, row) -> f32` for results per element or
    /// `write_result(row, state)` for results per row; `combine(x, other)` where the op has another input. Parameters are
    /// `p.NAME`, inputs per column `NAME_or(i, absent)`.
    body: Snippet,
    /// The passes that the body uses.
    passes: &'static [RowPass],
    /// Whether the body has a `main` of its own.
    has_main: bool,
}

impl RowShader {
    /// A body for the skeleton.
    pub(crate) const fn new(name: &'static str, text: &'static str, passes: &'static [RowPass]) -> RowShader {
        RowShader { body: Snippet { name, text }, passes, has_main: false }
    }

    /// A body with a `main` of its own, over `team_row`, `element` and `store_y`.
    pub(crate) const fn with_main(name: &'static str, text: &'static str) -> RowShader {
        RowShader { body: Snippet { name, text }, passes: &[], has_main: true }
    }
}

/// The GPU kernel of a row-wise op.
pub(crate) struct GpuRows<O> {
    /// Its name: `l2_norm.rows.wgsl`.
    pub(crate) name: &'static str,
    /// Returns the shader of a call.
    pub(crate) shader: fn(&O) -> &'static RowShader,
}

impl<O: RowOp> Kernel for GpuRows<O> {
    type Op = O;

    fn name(&self) -> &'static str {
        self.name
    }

    /// On a GPU, every row within a binding, and everything that is bound whole.
    fn fits(&self, op: &O, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let x = io.input(0);
        let fits = |info: &TensorInfo| {
            let bound = if info.elements() == x.elements() { x.shape.last() } else { info.elements() };
            bound <= wgsl::most(info.dtype.size(), on)
        };
        if !on.is_gpu() {
            Err(Decline("runs on GPUs"))
        } else if op.is_quantized() {
            Err(Decline("gives no quantized rows"))
        } else if !io.inputs.iter().all(fits) {
            Err(Decline("a row, weight or mask exceeds the largest binding"))
        } else {
            Ok(Cost::GOOD)
        }
    }

    fn plan(&self, op: &O, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let Some(kernel) = self.kernel(op, io, on) else { return Plan::default() };
        plan(op, io, kernel, on)
    }
}

impl<O: RowOp> GpuRows<O> {
    /// Joins the kernel of a call; `None` for types that `infer` refuses.
    fn kernel(&self, op: &O, io: &Io<'_>, on: &DeviceInfo) -> Option<WgslKernel> {
        let (roles, shader, slots) = (O::ROLES, (self.shader)(op), op.slots());
        let mut parts: SmallVec<[Part; 32]> = smallvec![Part::plain(&PARAMS)];
        parts.extend(slots.iter().map(|slot| Part::bound(&OFFSET, slot.name, 0)));
        parts.push(Part::plain(&EXTENTS));
        let repeats = op.other().is_some_and(|i| repeats(io, i));
        let kept = if shader.passes.is_empty() { None } else { kept::<O>(io, on) };
        if repeats {
            parts.push(Part::plain(&REPEATS));
        }
        parts.extend(roles.words.iter().map(|word| Part::bound(&WORD, word, 0)));
        parts.push(Part::plain(&PARAMS_END));
        for (i, slot) in slots.iter().enumerate() {
            let output = i.checked_sub(io.inputs.len()).map(|i| io.output(i).dtype);
            let access = match output {
                None if kept.is_some() => wgsl::load_fours(),
                Some(_) if kept.is_some() && !roles.per_row => wgsl::store_fours(),
                None => wgsl::load(io.input(i).dtype)?,
                Some(DType::U32) => wgsl::store_bits(DType::U32, &on.features),
                Some(dtype) => wgsl::store(dtype, &on.features)?,
            };
            parts.push(Part::bound(access, slot.name, i as u32));
        }
        parts.extend([Part::plain(&wgsl::LINEAR), Part::plain(&TEAM_ROW)]);
        let combined = roles.combined.filter(|_| op.combined().is_some());
        match roles.other.filter(|_| op.other().is_some()) {
            None => {
                parts.push(Part::plain(&ELEMENT));
                parts.extend(kept.map(|_| Part::plain(&ELEMENTS)));
            }
            Some(other) => {
                let element = if repeats { &ELEMENT_REPEATED } else { &ELEMENT_WITH };
                parts.extend([Part::bound(element, other, 0), as_stored(combined, io.input(0).dtype)]);
                if kept.is_some() {
                    let elements = if repeats { &ELEMENTS_REPEATED } else { &ELEMENTS_WITH };
                    parts.push(Part::bound(elements, other, 0));
                }
            }
        }
        for column in roles.columns {
            let access = match op.slot(column) {
                Some(_) if kept.is_some() => &COLUMN_KEPT,
                Some(_) => &COLUMN,
                None => &NO_COLUMN,
            };
            parts.push(Part::bound(access, column, 0));
        }
        if !shader.passes.is_empty() {
            parts.push(Part::plain(&wgsl::REDUCE));
        }
        parts.extend(kept.map(|_| Part::plain(&KEPT)));
        parts.extend(shader.passes.iter().map(|pass| match (pass, kept) {
            (RowPass::Sum(term), None) => Part::bound(&SUM_PASS, term, 0),
            (RowPass::Max(term), None) => Part::bound(&MAX_PASS, term, 0),
            (RowPass::Sum(term), Some(_)) => Part::bound(&SUM_PASS_KEPT, term, 0),
            (RowPass::Max(term), Some(_)) => Part::bound(&MAX_PASS_KEPT, term, 0),
        }));
        parts.push(Part::plain(&shader.body));
        let (store, nothing, main) = match kept {
            None => (&STORE_COMBINED, &STORE_NOTHING, [&PER_ELEMENT, &PER_ROW]),
            Some(_) => (&STORE_FOUR_COMBINED, &STORE_FOUR_NOTHING, [&PER_ELEMENT_KEPT, &PER_ROW_KEPT]),
        };
        match (shader.has_main, roles.per_row) {
            (true, _) => {}
            (false, true) => parts.push(Part::plain(main[1])),
            (false, false) => {
                let store = combined.map_or(Part::plain(nothing), |to| Part::bound(store, to, 0));
                parts.extend([store, Part::plain(main[0])]);
            }
        }
        let words = EXTENT_WORDS + if repeats { REPEAT_WORDS } else { 0 } + roles.words.len();
        let written = slots.iter().zip(0..).filter(|(slot, _)| slot.access.writes());
        let written = written.fold(0, |bits, (_, i)| bits | 1u32 << i);
        let kernel = WgslKernel::new(self.name, &parts, slots.len() as u32, words as u32).writes(written);
        let kernel = kernel.constant("WG", wgsl::workgroup(on));
        let kernel = kept.map_or(kernel.clone(), |vectors| kernel.constant("KEPT", vectors));
        // SAFETY: a team has a row below their number, or none of its elements; it touches columns below `k` of that row, of the
        // inputs with one element per column, and of a row of the other input below its rows. Workgroups are whole teams. Vectors are read where
        // rows are whole vectors and all bindings begin at one, which `needs` requires.
        Some(unsafe { kernel.unchecked(needs, &self.facts(op, io, wgsl::workgroup(on), kept)) })
    }

    /// The workgroup size, the vectors of an invocation that keeps its row or 0, and for each binding what it holds ([`Holds`]), bytes of
    /// an element, and whether it is written.
    fn facts(&self, op: &O, io: &Io<'_>, workgroup: u32, kept: Option<u32>) -> SmallVec<[u32; 8]> {
        let columns = |i: usize| O::ROLES.columns.iter().any(|name| op.slot(name) == Some(i));
        let of = |(i, info): (usize, &TensorInfo)| {
            let is_output = i >= io.inputs.len();
            let holds = match () {
                () if op.other() == Some(i) && repeats(io, i) => REPEATED,
                () if columns(i) => ONE_ROW,
                () if is_output && O::ROLES.per_row => ONE_PER_ROW,
                () => ROWS,
            };
            holds | (info.dtype.size() as u32) << 8 | u32::from(is_output) << 16
        };
        let bindings = io.inputs.iter().chain(io.outputs).enumerate().map(of);
        [workgroup, kept.unwrap_or(0)].into_iter().chain(bindings).collect()
    }
}

/// The contents of a binding: all rows, one row for all, rows that repeat, or one element per row.
const ROWS: u32 = 0;
const ONE_ROW: u32 = 1;
const REPEATED: u32 = 2;
const ONE_PER_ROW: u32 = 3;

/// Facts: those of [`GpuRows::facts`]. Parameters: rows, `k`, invocations of a team, and where rows repeat the first row and how many
/// there are.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let ([workgroup, kept], bindings) = launch.facts.split_first_chunk()?;
    let [rows, k] = [0, 1].map(|i| launch.count(i));
    let (team, other_rows) = (launch.param(2), launch.count(4));
    if !team.is_power_of_two() || !workgroup.is_multiple_of(team) {
        return None;
    }
    // Vectors of four, as many for each invocation of a team as it keeps.
    if *kept > MOST_KEPT || *kept != 0 && (!k.0.is_multiple_of(4) || k > Count::from(team) * *kept * 4u32) {
        return None;
    }
    let mut needs = Needs::new();
    for fact in bindings {
        let (holds, size, is_output) = (fact & 0xff, fact >> 8 & 0xff, fact >> 16 != 0);
        let elements = match holds {
            ONE_ROW => k,
            REPEATED if other_rows == Count(0) => return None,
            REPEATED => other_rows * k,
            ONE_PER_ROW => rows,
            _ => rows * k,
        };
        // Outputs may be inputs: a team reads what it needs of its row before it writes.
        needs = match is_output {
            true => needs.write(elements * size, size as usize).over(same_size(bindings, size)),
            false => needs.read(elements * size, size as usize),
        };
        if *kept != 0 && holds != ONE_PER_ROW {
            needs = needs.aligned(wgsl::EIGHTS_ALIGNMENT);
        }
    }
    Some(needs)
}

/// The inputs with all rows, as bits, whose elements have as many bytes.
fn same_size(bindings: &[u32], size: u32) -> u32 {
    let same = bindings.iter().zip(0..).filter(|(fact, _)| **fact == ROWS | size << 8);
    same.fold(0, |bits, (_, i)| bits | 1u32 << i)
}

/// Words of [`EXTENTS`].
const EXTENT_WORDS: usize = 3;

/// Words of [`REPEATS`].
const REPEAT_WORDS: usize = 2;

/// `as_stored(v)`: a combined value as it is once stored in `to`, of this type. `narrow_NAME` comes with 16-bit stores.
fn as_stored(to: Option<&'static str>, dtype: DType) -> Part {
    match (to, dtype) {
        (Some(to), DType::F16) => Part::bound(&AS_STORED_F16, to, 0),
        (Some(to), DType::BF16) => Part::bound(&AS_STORED_BF16, to, 0),
        _ => Part::plain(&AS_STORED_F32),
    }
}

/// Whether input `i` has fewer rows than `x`, which repeat.
fn repeats(io: &Io<'_>, i: usize) -> bool {
    io.input(i).elements() != io.input(0).elements()
}

/// Invocations that share a row of `k` elements, a power of two: about four elements each, up to a workgroup.
fn team(k: usize, on: &DeviceInfo) -> u32 {
    let most = wgsl::workgroup(on);
    u32::try_from(k.div_ceil(4)).map_or(most, |wanted| wanted.min(most).next_power_of_two())
}

/// The most vectors of four that an invocation keeps, as in `kept.wgsl`.
const MOST_KEPT: u32 = 8;

/// Returns how many vectors of four each invocation of a team keeps, for rows of f32 that are whole vectors: all arguments with rows begin
/// at a vector. `None` for others, and for rows that are too long.
fn kept<O: RowOp>(io: &Io<'_>, on: &DeviceInfo) -> Option<u32> {
    let k = io.input(0).shape.last();
    let outputs = io.outputs.iter().filter(|_| !O::ROLES.per_row);
    let is_read = |info: &TensorInfo| info.dtype == DType::F32 && info.alignment >= wgsl::EIGHTS_ALIGNMENT;
    let vectors = u32::try_from(k / 4).ok()?.div_ceil(team(k, on));
    let fits = k > 0 && k.is_multiple_of(4) && vectors <= MOST_KEPT;
    (fits && io.inputs.iter().chain(outputs).all(is_read)).then_some(vectors)
}

/// One launch of `kernel` per run of rows.
fn plan<O: RowOp>(op: &O, io: &Io<'_>, kernel: WgslKernel, on: &DeviceInfo) -> Plan {
    let x = io.input(0);
    let (rows, k) = (x.shape.rows(), x.shape.last());
    let (team, workgroup) = (team(k, on), wgsl::workgroup(on));
    let other = op.other().filter(|&i| repeats(io, i));
    // What has the rows of the call is cut with it: bytes per row, or `None` for what is bound whole.
    let is_whole =
        |i: usize| other == Some(i) || O::ROLES.columns.iter().any(|name| op.slot(name) == Some(i));
    let row_bytes: SmallVec<[Option<usize>; 6]> = (io.inputs.iter().chain(io.outputs).enumerate())
        .map(|(i, info)| (!is_whole(i)).then(|| info.bytes() / rows.max(1)))
        .collect();
    let widest = row_bytes.iter().flatten().map(|bytes| bytes.div_ceil(k.max(1))).max();
    let mut plan = Plan::default();
    for run in wgsl::row_spans(rows, k, widest.unwrap_or(1), on).into_iter().flatten() {
        let args: SmallVec<[Arg; 6]> = (row_bytes.iter().enumerate())
            .map(|(i, bytes)| match bytes {
                Some(bytes) => Arg::slot(i as u8).window(run.start * bytes, run.len() * bytes),
                None => Arg::slot(i as u8),
            })
            .collect();
        let groups = run.len().div_ceil((workgroup / team).max(1) as usize);
        let mut words: SmallVec<[u32; 16]> = smallvec![run.len() as u32, k as u32, team];
        words.extend(other.into_iter().flat_map(|i| repeat_words(&run, io.input(i).elements() / k.max(1))));
        words.extend(op.words().iter().take(O::ROLES.words.len()).map(|word| word.to_bits()));
        plan.push(Program::Wgsl(kernel.clone()), &args, &words, wgsl::grid(groups, on));
    }
    plan
}

/// The words of [`REPEATS`]. Only the remainder of the first row matters, and it fits where the row's number may not.
fn repeat_words(run: &Range<usize>, other_rows: usize) -> [u32; REPEAT_WORDS] {
    [(run.start % other_rows.max(1)) as u32, other_rows as u32]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rms_norm::RmsNorm;
    use crate::softmax::Softmax;
    use silicide_core::kernel::{DynOp, Step};
    use silicide_hal::Backend;
    use silicide_quant::Shape;

    /// Every window of every argument of a plan, with the rows its launch says it has.
    fn windows(op: &dyn DynOp, inputs: &[TensorInfo], on: &DeviceInfo) -> Vec<(u32, Vec<(usize, usize)>)> {
        let outputs = op.infer(inputs).unwrap();
        let io = Io { inputs, outputs: &outputs };
        let kernel = (0..op.kernel_count()).find(|&i| op.kernel_fits(i, &io, on).is_ok()).unwrap();
        let launches = op.kernel_plan(kernel, &io, on).steps.into_iter().map(|step| match step {
            Step::Dispatch(launch) => (
                *launch.params.first().unwrap(),
                launch.args.iter().map(|arg| (arg.start, arg.bytes)).collect(),
            ),
            other => panic!("{other:?}"),
        });
        launches.collect()
    }

    #[test]
    fn calls_are_cut_by_rows() {
        let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        on.limits.max_binding = 4096;
        let info = |dtype, extents: &[usize]| TensorInfo::new(dtype, Shape::new(extents).unwrap());
        let (x, weight) = (info(DType::F16, &[5, 700]), info(DType::F32, &[700]));
        let op = RmsNorm::with_residual(1e-6, true);
        let whole = (0, usize::MAX);
        let cut = |start: usize, rows: usize| (start * 1400, rows * 1400);
        assert_eq!(
            windows(&op, &[x, x, weight], &on),
            [
                (2, vec![cut(0, 2), cut(0, 2), whole, cut(0, 2), cut(0, 2)]),
                (2, vec![cut(2, 2), cut(2, 2), whole, cut(2, 2), cut(2, 2)]),
                (1, vec![cut(4, 1), cut(4, 1), whole, cut(4, 1), cut(4, 1)]),
            ]
        );
        let op = Softmax { scale: 1.0, masked: true };
        let launches = windows(&op, &[x, x], &on);
        assert_eq!(launches[1], (2, vec![cut(2, 2), cut(2, 2), cut(2, 2)]));
        let launches = windows(&op, &[x, info(DType::F16, &[700])], &on);
        assert_eq!(launches[1], (2, vec![cut(2, 2), whole, cut(2, 2)]));
        on.limits.max_binding = 1400;
        assert!(gpu_declines(&op, &[x, x], &on));
    }

    fn gpu_declines(op: &dyn DynOp, inputs: &[TensorInfo], on: &DeviceInfo) -> bool {
        let outputs = op.infer(inputs).unwrap();
        let io = Io { inputs, outputs: &outputs };
        (0..op.kernel_count()).all(|i| op.kernel_fits(i, &io, on).is_err())
    }

    #[test]
    fn teams_follow_the_row_length() {
        let on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        for (k, size) in [(1, 1), (4, 1), (5, 2), (128, 32), (576, 256), (1 << 30, 256)] {
            assert_eq!(team(k, &on), size, "{k}");
        }
    }
}
