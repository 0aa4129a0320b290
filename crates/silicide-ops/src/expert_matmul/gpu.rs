//! How experts are multiplied on GPUs: pair by pair where few go to one expert, and otherwise in squares of pairs that were grouped
//! by expert, through shared memory. Calls whose arguments exceed a binding are cut by rows, and by experts or their columns.

use super::{ExpertMatmul, Problem};
use crate::matmul::gpu::{
    FEW_SHARED, FEW_SUBGROUP, FEW_WORKGROUP, FILL_COLUMNS, STEP, TEAM, TILED_CELLS, TILED_SQUARE, fill,
    has_subgroups, team, tiled_constants,
};
use crate::needs::{TypedNeeds, dtype};
use crate::wgsl::{self, spans};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Launch, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;
use smallvec::smallvec;
use std::ops::Range;

static PARAMS: Snippet = Snippet { name: "expert_matmul params", text: include_str!("params.wgsl") };
static GEMV_BODY: Snippet = Snippet { name: "expert_matmul.gemv.wgsl", text: include_str!("gemv.wgsl") };
static GEMM_BODY: Snippet = Snippet { name: "expert_matmul.gemm.wgsl", text: include_str!("gemm.wgsl") };
static GROUP_BODY: Snippet = Snippet { name: "expert_matmul.group.wgsl", text: include_str!("group.wgsl") };

/// Columns that a team of invocations has, as in `gemv.wgsl`.
const COLUMNS: usize = 4;
/// Pairs of a strip and columns of a square, as in `gemm.wgsl` and `group.wgsl`.
const SQUARE: usize = 32;
/// Parameter words of both kernels.
const WORDS: u32 = 11;
/// The most experts that are grouped: a word of shared memory for each, and one.
const MOST_EXPERTS: usize = super::super::route::MOST;
/// Pairs to an expert, about, from which on grouping pays.
const ENOUGH: usize = 4;

/// Pair by pair.
pub(super) struct Gemv;
/// In squares.
pub(super) struct Gemm;

/// The kernel for few pairs.
pub(super) static GEMV: Gemv = Gemv;
/// The kernel for many pairs.
pub(super) static GEMM: Gemm = Gemm;

/// Experts, and columns of theirs, whose weights fit a binding.
struct Seen {
    experts: Range<usize>,
    columns: Range<usize>,
}

/// A call, cut so that its arguments fit bindings.
struct Cut<'a> {
    problem: &'a Problem,
    dtype: DType,
    on: &'a DeviceInfo,
}

impl Cut<'_> {
    /// Bytes of a column.
    fn column(&self) -> usize {
        self.problem.k / self.dtype.block_len() * self.dtype.block_bytes()
    }

    /// Runs of rows of ids.
    fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        let Problem { pairs, used, n, k, .. } = *self.problem;
        spans(pairs / used, used * k.max(n) * 4, self.on)
    }

    /// The weights, in parts.
    fn seen(&self) -> Vec<Seen> {
        let Problem { experts, n, k, .. } = *self.problem;
        // At least a byte per weight, as weights too are counted in 32 bits.
        let column = self.column().max(k);
        if n.saturating_mul(column) <= wgsl::most(1, self.on) {
            return spans(experts, n * column, self.on)
                .map(|experts| Seen { experts, columns: 0..n })
                .collect();
        }
        let of_one = |expert| {
            spans(n, column, self.on).map(move |columns| Seen { experts: expert..expert + 1, columns })
        };
        (0..experts).flat_map(of_one).collect()
    }

    /// Arguments of a launch; `places` are the ids or the groups.
    fn args(&self, rows: &Range<usize>, seen: &Seen, places: Arg) -> [Arg; 4] {
        let Problem { used, sharing, n, k, .. } = *self.problem;
        let own = used / sharing;
        let (experts, columns) = (&seen.experts, &seen.columns);
        let first = (experts.start * n + columns.start) * self.column();
        [
            Arg::slot(0).window(rows.start * own * k * 4, rows.len() * own * k * 4),
            Arg::slot(1).window(first, experts.len() * columns.len() * self.column()),
            places,
            Arg::slot(3).window(rows.start * used * n * 4, rows.len() * used * n * 4),
        ]
    }

    /// Parameters of a launch.
    fn params(&self, rows: &Range<usize>, seen: &Seen, strips: usize) -> [u32; WORDS as usize] {
        let Problem { used, sharing, experts, n, k, .. } = *self.problem;
        let (pairs, first, blank) = (rows.len() * used, seen.experts.start, f32::NAN.to_bits() as usize);
        [
            pairs,
            sharing,
            seen.columns.len(),
            k,
            first,
            seen.experts.len(),
            experts,
            n,
            seen.columns.start,
            blank,
            strips,
        ]
        .map(|word| word as u32)
    }

    /// The ids of some rows.
    fn ids(&self, rows: &Range<usize>) -> Arg {
        Arg::slot(2).window(rows.start * self.problem.used * 4, rows.len() * self.problem.used * 4)
    }

    /// A kernel of the given bodies.
    fn kernel(&self, bodies: &[&'static Snippet]) -> Option<WgslKernel> {
        let load = wgsl::load(DType::F32)?;
        let mut parts = vec![
            Part::plain(&PARAMS),
            Part::bound(load, "a", 0),
            Part::bound(wgsl::load(self.dtype)?, "b", 1),
            Part::bound(wgsl::load_bits(DType::U32), "places", 2),
            Part::bound(wgsl::store(DType::F32, &self.on.features)?, "y", 3),
            Part::plain(&wgsl::LINEAR),
        ];
        parts.extend(bodies.iter().map(|body| Part::plain(body)));
        let kernel = WgslKernel::new(bodies.first()?.name, &parts, 4, WORDS);
        Some(wgsl::with_table(kernel, self.dtype, "b"))
    }
}

/// The problem, if a GPU kernel can run it.
fn check(io: &Io<'_>, on: &DeviceInfo) -> Result<Problem, Decline> {
    if io.input(1).dtype == DType::U8 {
        return Err(Decline("takes no interleaved weights"));
    }
    if !on.is_gpu() {
        return Err(Decline("runs on GPUs"));
    }
    let problem = Problem::of(io).ok_or(Decline("takes extents of at most 32 bits"))?;
    let Problem { used, n, k, .. } = problem;
    if used.saturating_mul(k.max(n)).saturating_mul(4) > wgsl::most(1, on) {
        return Err(Decline("a row exceeds the largest binding"));
    }
    Ok(problem)
}

/// Whether enough pairs go to an expert for grouping.
fn is_worth_grouping(problem: &Problem) -> bool {
    problem.pairs / problem.experts >= ENOUGH && problem.pairs > problem.used
}

impl Kernel for Gemv {
    type Op = ExpertMatmul;

    fn name(&self) -> &'static str {
        GEMV_BODY.name
    }

    fn fits(&self, _: &ExpertMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = check(io, on)?;
        Ok(if is_worth_grouping(&problem) { Cost::FALLBACK } else { Cost::BEST })
    }

    fn plan(&self, _: &ExpertMatmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let Some(problem) = Problem::of(io) else { return plan };
        let cut = Cut { problem: &problem, dtype: io.input(1).dtype, on };
        let workgroup = FEW_WORKGROUP.min(wgsl::workgroup(on));
        // Teams inside of a subgroup need no barrier.
        let (adding, most) = match has_subgroups(on) {
            true => (&FEW_SUBGROUP, on.features.subgroup_size.0),
            false => (&FEW_SHARED, TEAM),
        };
        let Some(kernel) = cut.kernel(&[&GEMV_BODY, adding]) else { return plan };
        let team = team(problem.k, most.min(workgroup));
        let kernel = kernel.constant("WG", workgroup).constant("TEAM", team);
        // SAFETY: a team has a pair below the number of pairs, whose expert is checked against those that the launch sees before
        // weights are read; past the last column it is the last one's.
        let kernel = unsafe { kernel.unchecked(gemv_need, &[cut.dtype.code(), 1]) };
        for rows in cut.rows() {
            for seen in cut.seen() {
                let teams = rows.len() * problem.used * seen.columns.len().div_ceil(COLUMNS);
                let groups = teams.div_ceil((workgroup / team) as usize);
                let args = wgsl::bind(&cut.args(&rows, &seen, cut.ids(&rows)), cut.dtype);
                plan.push(
                    Program::Wgsl(kernel.clone()),
                    &args,
                    &cut.params(&rows, &seen, 0),
                    wgsl::grid(groups, on),
                );
            }
        }
        plan
    }
}

impl Kernel for Gemm {
    type Op = ExpertMatmul;

    fn name(&self) -> &'static str {
        GEMM_BODY.name
    }

    fn fits(&self, _: &ExpertMatmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = check(io, on)?;
        if problem.experts > MOST_EXPERTS {
            return Err(Decline("groups at most 1024 experts"));
        }
        Ok(if is_worth_grouping(&problem) { Cost::BEST } else { Cost::FALLBACK })
    }

    fn plan(&self, _: &ExpertMatmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let Some(problem) = Problem::of(io) else { return plan };
        let cut = Cut { problem: &problem, dtype: io.input(1).dtype, on };
        let Some(mut kernel) = cut.kernel(&[&GEMM_BODY, &TILED_CELLS]) else { return plan };
        let fill = fill(problem.k, STEP);
        kernel.append([Part::bound(fill, "a", 0)]);
        kernel.append([&FILL_COLUMNS, fill, &TILED_SQUARE].map(|text| Part::bound(text, "b", 1)));
        // Squares of 4 x 4 outputs in an invocation.
        let (kernel, _) = tiled_constants(kernel, SQUARE, SQUARE);
        let step = if problem.k.is_multiple_of(STEP) { STEP as u32 } else { 1 };
        // SAFETY: what the groups say is bounded by the number of strips and of pairs, and an expert is checked against those that
        // the launch sees, before anything is read or stored; `gemm_need` requires depths of whole steps where they are not
        // looked at one by one.
        let kernel = unsafe { kernel.unchecked(gemm_need, &[cut.dtype.code(), step]) };
        for rows in cut.rows() {
            let pairs = rows.len() * problem.used;
            let strips = pairs.min(problem.experts + 1) + pairs / SQUARE;
            let group = Launch {
                program: Program::Wgsl(group_kernel(&problem, on)),
                args: smallvec![cut.ids(&rows)],
                params: [pairs, problem.experts, strips].into_iter().map(|word| word as u32).collect(),
                grid: [1, 1, 1],
            };
            let groups = plan.derive((1 + 3 * strips + pairs) * 4, group);
            for seen in cut.seen() {
                let squares = strips * seen.columns.len().div_ceil(SQUARE);
                let args = cut.args(&rows, &seen, Arg::scratch(groups, Access::Read));
                let params = cut.params(&rows, &seen, strips);
                let args = wgsl::bind(&args, cut.dtype);
                plan.push(Program::Wgsl(kernel.clone()), &args, &params, wgsl::grid(squares, on));
            }
        }
        plan
    }
}

/// What groups pairs.
fn group_kernel(problem: &Problem, on: &DeviceInfo) -> WgslKernel {
    let parts = [
        Part::plain(&GROUP_BODY),
        Part::bound(wgsl::load_bits(DType::U32), "ids", 0),
        Part::bound(wgsl::store_bits(DType::U32, &on.features), "groups", 1),
    ];
    let room = (problem.experts + 1).next_power_of_two() as u32;
    let kernel = WgslKernel::new(GROUP_BODY.name, &parts, 2, 3)
        .constant("WG", wgsl::workgroup(on))
        .constant("ROOM", room);
    // SAFETY: there are `ROOM` groups in shared memory. Ids past the experts are of the last group; so all groups together have
    // as many pairs and at most as many strips as `group_need` states.
    unsafe { kernel.unchecked(group_need, &[room]) }
}

/// Words of the groups: the number of strips, three for each strip, one for each pair.
fn group_words(strips: Count, pairs: Count) -> Count {
    strips * 3u32 + pairs + 1u32
}

/// Facts: places for groups in shared memory. Parameters: pairs, experts, the most strips.
fn group_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [pairs, experts, most] = [0, 1, 2].map(|i| launch.count(i));
    let strips = pairs.min(experts + 1u32) + Count(pairs.0 / SQUARE as u64);
    let needs = Needs::new().read(pairs * 4u32, 4).write(group_words(most, pairs) * 4u32, 4);
    let fits = experts < Count::from(launch.fact(0)) && strips <= most;
    fits.then_some(needs)
}

/// `places` are the ids.
fn gemv_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    multiply_need(launch, launch.count(0))
}

/// `places` are the groups.
fn gemm_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    multiply_need(launch, group_words(launch.count(10), launch.count(0)))
}

/// Facts: the type of weights, and the step of the depth. Parameters: those of [`Cut::params`].
fn multiply_need(launch: &LaunchShape<'_>, places: Count) -> Option<Needs> {
    let [pairs, sharing, columns, k, _, seen, _, stride, first] =
        [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|i| launch.count(i));
    let (dtype, step) = (dtype(launch.fact(0))?, launch.fact(1));
    let is_whole =
        launch.param(3).is_multiple_of(step.max(1)) && k.0.is_multiple_of(dtype.block_len() as u64);
    if pairs == Count(0) || columns == Count(0) || first + columns > stride || !is_whole {
        return None;
    }
    let needs = Needs::new().read(pairs.div_ceil(sharing)? * k * 4u32, 4);
    let needs = needs.elements(Access::Read, dtype, seen * columns * k)?.read(places * 4u32, 4);
    Some(needs.write(pairs * stride * 4u32, 4).table(dtype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_core::kernel::{Op, Step, TensorInfo};
    use silicide_hal::Backend;
    use silicide_quant::Shape;

    #[test]
    fn calls_larger_than_a_binding_are_cut_to_fit() {
        let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        on.limits.binding_alignment = 16;
        let info = |dtype, axes: &[usize]| TensorInfo::new(dtype, Shape::new(axes).unwrap());
        for (max_binding, experts) in [(16 << 20, 5), (4096, 5), (1500, 3)] {
            on.limits.max_binding = max_binding;
            let inputs = [
                info(DType::F32, &[40, 8]),
                info(DType::F16, &[experts, 100, 8]),
                info(DType::I32, &[40, 2]),
            ];
            let op = ExpertMatmul::default();
            let outputs = op.infer(&inputs).unwrap();
            let io = Io { inputs: &inputs, outputs: &outputs };
            for kernel in [&GEMV as &dyn Kernel<Op = ExpertMatmul>, &GEMM] {
                assert!(kernel.fits(&op, &io, &on).is_ok());
                // Every pair meets every column of every expert once.
                let mut met = 0;
                for step in &kernel.plan(&op, &io, &on).steps {
                    let Step::Dispatch(launch) = step else { panic!("{step:?}") };
                    assert!(
                        launch
                            .args
                            .iter()
                            .all(|arg| arg.bytes == usize::MAX || arg.bytes <= max_binding - 20)
                    );
                    if let [pairs, _, columns, _, _, seen, ..] = launch.params[..]
                        && launch.params.len() == WORDS as usize
                    {
                        met += (pairs * columns * seen) as usize;
                    }
                }
                assert_eq!(met, 80 * 100 * experts);
            }
        }
    }
}
