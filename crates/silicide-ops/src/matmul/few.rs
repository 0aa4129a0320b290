//! GEMV on GPUs: products of at most 8 rows, in which a team of invocations has a few columns. Weights are read by one of two texts:
//!
//! | text | weights |
//! |---|---|
//! | `few_sums.wgsl` | of every format, at any offset and depth |
//! | `few_codes.wgsl` | of formats whose codes are unpacked apart from their scales, at aligned offsets |

use super::gpu::{check, kernel, runs};
use super::{Matmul, Problem, gpu_needs};
use crate::weight;
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Program, Snippet, WgslKernel};
use silicide_quant::Encoding;

static BODY: Snippet = Snippet { name: "matmul.few.wgsl", text: include_str!("few.wgsl") };
static SHARED: Snippet = Snippet {
    name: "matmul few, shared",
    text: concat!(include_str!("few_shared.wgsl"), include_str!("main.wgsl")),
};
static SUBGROUP: Snippet = Snippet { name: "matmul few, subgroup", text: include_str!("few_subgroup.wgsl") };
/// Common code of the kernels for few rows; and where each of several rows begins.
pub(crate) static ROWS: Snippet = Snippet { name: "matmul few, rows", text: include_str!("few_rows.wgsl") };
pub(crate) static ROW_START: Snippet =
    Snippet { name: "matmul few, row start", text: include_str!("few_row_start.wgsl") };
static SUMS: Snippet = Snippet {
    name: "matmul few, sums",
    text: concat!(include_str!("few_add.wgsl"), include_str!("few_sums.wgsl")),
};
static CODES: Snippet = Snippet {
    name: "matmul few, codes",
    text: concat!(include_str!("few_add.wgsl"), include_str!("few_codes.wgsl")),
};

/// The most rows.
const MOST_ROWS: usize = 8;
/// Rows from which on a team has two columns: sums of more take too many registers.
const MANY_ROWS: usize = 5;
/// Invocations of a workgroup: whole subgroups of every size.
const WORKGROUP: u32 = 64;
/// Columns that a team has, at most.
const COLUMNS: usize = 4;
/// Invocations that share columns, at most.
pub(crate) const TEAM: u32 = 32;
/// Invocations that a launch should have at least, if more teams with fewer columns can do that: a thousand subgroups of 32.
const INVOCATIONS: usize = 32 << 10;
/// Alignment of activations that are read by vectors.
const VECTOR_BYTES: u32 = 16;

/// The kernel for few rows: a team of invocations for every few columns.
pub(super) struct Few {
    /// Whether teams add inside of subgroups, or through shared memory.
    subgroups: bool,
}

/// The kernel for few rows: with subgroups, and for every device.
pub(super) static FEW: [Few; 2] = [Few { subgroups: true }, Few { subgroups: false }];

/// A GEMV to plan.
#[derive(Clone, Copy)]
pub(crate) struct GemvShape {
    pub(crate) rows: usize,
    /// Columns of all products of the launch.
    pub(crate) columns: usize,
    pub(crate) k: usize,
    /// Whether teams add inside of subgroups.
    pub(crate) subgroups: bool,
    /// Whether all weights are read by codes.
    pub(crate) codes: bool,
}

/// The texts of a GEMV kernel, and how its invocations are divided.
pub(crate) struct Gemv {
    shape: GemvShape,
    adding: &'static Snippet,
    workgroup: u32,
    team: u32,
    /// Columns of a team.
    columns: usize,
    /// Invocations of the subgroups that the text is made for.
    subgroup: Option<u32>,
}

impl Gemv {
    /// Divides columns of `k` weights. Teams inside of a subgroup need no barrier.
    pub(crate) fn of(shape: GemvShape, on: &DeviceInfo) -> Gemv {
        let workgroup = WORKGROUP.min(wgsl::workgroup(on));
        let subgroup = on.features.preferred_subgroup().filter(|_| shape.subgroups);
        let (adding, most) = match shape.subgroups {
            true => (&SUBGROUP, subgroup.unwrap_or(on.features.subgroup_size.0)),
            false => (&SHARED, TEAM),
        };
        let team = team(shape.k, most.min(workgroup));
        Gemv { shape, adding, workgroup, team, columns: columns(&shape, team, on), subgroup }
    }

    /// Returns the parts that add and have the entry point; the sums of each weight are apart ([`sums`](Gemv::sums)).
    pub(crate) fn parts(&self) -> [Part; 2] {
        [&ROWS, self.adding].map(Part::plain)
    }

    /// Returns the text that sums over the weights of one binding.
    pub(crate) fn sums(&self) -> &'static Snippet {
        if self.shape.codes { &CODES } else { &SUMS }
    }

    /// Returns the workgroups for `columns` columns.
    pub(crate) fn groups(&self, columns: usize) -> usize {
        columns.div_ceil(self.columns).div_ceil((self.workgroup / self.team) as usize)
    }

    /// Returns the columns of all teams for `columns` columns.
    pub(crate) fn padded(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.columns)
    }

    /// Sets the `override` constants of a kernel for `rows` rows, and requires the subgroups that the text is made for. A driver
    /// that refuses them takes the text for every device.
    pub(crate) fn constants(&self, kernel: WgslKernel, rows: usize) -> WgslKernel {
        let kernel = match self.subgroup {
            Some(size) => kernel.with_subgroup(size).or_portable(&SUBGROUP, &SHARED),
            None => kernel,
        };
        let kernel = kernel
            .constant("WG", self.workgroup)
            .constant("TEAM", self.team)
            .constant("ROWS", rows.next_power_of_two() as u32)
            .constant("COLUMNS", self.columns as u32);
        match self.shape.codes {
            true => kernel,
            false => kernel.constant("TAIL", u32::from(!self.shape.k.is_multiple_of(16))),
        }
    }
}

/// Returns whether a GEMV over columns of `k` weights can read codes: the alignments of activations and of the weight allow it.
pub(crate) fn takes_codes(encoding: Encoding, k: usize, activations: u32, weight: u32) -> bool {
    let aligned = weight::gpu::codes_alignment(encoding).is_some_and(|alignment| weight >= alignment);
    aligned && activations >= VECTOR_BYTES && k.is_multiple_of(16)
}

/// Returns the alignment that activations need, and weights of an encoding, as facts of a program.
pub(crate) fn alignments(encoding: Encoding, codes: bool) -> [u32; 2] {
    let weight = weight::gpu::codes_alignment(encoding).unwrap_or(1);
    if codes { [VECTOR_BYTES, weight] } else { [1, 1] }
}

/// Returns the step of which depths are multiples: a lane reads sixteen elements of a row by codes.
pub(crate) fn step_of(codes: bool) -> usize {
    if codes { 16 } else { 1 }
}

/// Returns the columns of a team: as many as possible, since they share activations, while there are invocations for every unit of a
/// large GPU.
fn columns(shape: &GemvShape, team: u32, on: &DeviceInfo) -> usize {
    let most = if shape.rows >= MANY_ROWS { 2 } else { COLUMNS };
    let fits = |columns: usize| on.software || shape.columns / columns * team as usize >= INVOCATIONS;
    [4, 2].into_iter().find(|&columns| columns <= most && fits(columns)).unwrap_or(1)
}

/// Returns whether the workgroups are whole subgroups: of the size that the kernel requires, or of every size where the driver chooses.
pub(crate) fn has_subgroups(on: &DeviceInfo) -> bool {
    let (least, most) = match on.features.preferred_subgroup() {
        Some(size) => (size, size),
        None => on.features.subgroup_size,
    };
    on.features.subgroups && least > 1 && WORKGROUP.min(wgsl::workgroup(on)).is_multiple_of(most)
}

/// Returns the invocations that share a column of `k` weights, sixteen at a time: as many as there may be without leaving more than
/// an eighth of them idle on average.
pub(crate) fn team(k: usize, most: u32) -> u32 {
    let turns = k.div_ceil(16);
    let teams = (0..=TEAM.min(most).max(1).ilog2()).rev().map(|power| 1u32 << power);
    let idle = |team: u32| turns.next_multiple_of(team as usize) - turns;
    teams.into_iter().find(|&team| idle(team) <= turns / 8).unwrap_or(1)
}

/// [`check`] for the kernel for few rows.
pub(crate) fn check_few(problem: Option<Problem>, on: &DeviceInfo) -> Result<Problem, Decline> {
    let problem = check(problem, on)?;
    if problem.m > MOST_ROWS { Err(Decline("is for few rows")) } else { Ok(problem) }
}

/// The plan for few rows.
pub(crate) fn plan_few(
    problem: &Problem,
    weights: Encoding,
    on: &DeviceInfo,
    subgroups: bool,
    codes: bool,
) -> Plan {
    let mut plan = Plan::default();
    let Problem { batch, m, n, k } = *problem;
    let gemv = Gemv::of(GemvShape { rows: m, columns: batch * n, k, subgroups, codes }, on);
    let Some(mut kernel) = kernel(&[&BODY, &ROW_START], weights, on) else {
        return plan;
    };
    kernel.append(gemv.parts());
    kernel.append([Part::bound(gemv.sums(), "b", 1)]);
    let [code, step] = gpu_needs::facts(weights, step_of(codes));
    let [of_activations, of_weights] = alignments(weights, codes);
    for run in runs(problem, weights, on) {
        // Calls are cut by rows too.
        let kernel = gemv.constants(kernel.clone(), run.rows.len());
        // SAFETY: past the last row or column it is the last one's that is read, and nothing is stored; runs of sixteen lie in
        // the depth, and `needs` requires the alignment of what is read by vectors or by blocks of whole words.
        let kernel = unsafe { kernel.unchecked(gpu_needs::needs, &[code, step, of_activations, of_weights]) };
        // Teams of all batches follow each other.
        let columns = run.batches.len() * gemv.padded(run.columns.len());
        let (args, params) = (run.args(problem, weights), run.params(problem));
        plan.push(Program::Wgsl(kernel), &args, &params, wgsl::grid(gemv.groups(columns), on));
    }
    plan
}

impl Kernel for Few {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        if self.subgroups { "matmul.few.subgroup.wgsl" } else { BODY.name }
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        check_few(Problem::of(io), on)?;
        if self.subgroups && !has_subgroups(on) {
            return Err(Decline("needs subgroups that fill its workgroups"));
        }
        Ok(Cost::BEST)
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let Some(problem) = Problem::of(io) else { return Plan::default() };
        let weights = Encoding::from(io.input(1).dtype);
        let codes = takes_codes(weights, problem.k, io.input(0).alignment, io.input(1).alignment);
        plan_few(&problem, weights, on, self.subgroups, codes)
    }
}

#[cfg(test)]
mod tests;
