//! `expert_linear` on GPUs: pair by pair where few go to one expert, and otherwise in squares of pairs that were grouped by expert,
//! through shared memory. The text of an encoding reads the weights, from one binding or from planes. Calls whose arguments exceed
//! a binding are cut by rows, and by experts or their outputs.

use super::{ExpertLinear, Problem};
use crate::matmul::few::{self, Gemv as Teams, GemvShape};
use crate::matmul::matrix::{
    self, Factors, HALVES_8, HALVES_16, MATRIX_MAIN, MATRIX_SQUARE, Matrices, SINGLES_8,
};
use crate::matmul::tiled::{self, FILL_COLUMNS, LARGE, TILED_CELLS, TILED_SQUARE, TileShape};
use crate::weight;
use crate::wgsl::{self, params, spans};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::{DType, Encoding};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// The parameters: an offset for each binding, then the same words for all encodings.
///
/// | word | what |
/// |---|---|
/// | `pairs` | pairs of the launch |
/// | `sharing` | pairs that share a row of activations |
/// | `columns` | outputs that the launch sees |
/// | `k` | depth |
/// | `first`, `seen`, `experts` | the first expert that the launch sees, how many it sees, and how many there are |
/// | `y_stride`, `y_column` | elements from one pair to the next, and the first output of the launch |
/// | `blank` | the bits of NaN, the outputs of an id without an expert |
/// | `most` | the most strips there can be |
/// | `pitch` | weight rows from one expert to the next |
macro_rules! params_of {
    ($name:literal, $($plane:literal)*) => {
        Snippet {
            name: $name,
            text: concat!(
                params!(["a" $($plane)* "places" "y"] ["pairs" "sharing" "columns" "k" "first" "seen" "experts" "y_stride" "y_column" "blank" "most" "pitch"]),
                include_str!("experts.wgsl"),
            ),
        }
    };
}

static PARAMS_ONE: Snippet = params_of!("expert_linear params", "b");
static PARAMS_TWO: Snippet = params_of!("expert_linear params, scales", "b" "b_scales");
static PARAMS_THREE: Snippet = params_of!("expert_linear params, biases", "b" "b_scales" "b_biases");
static GEMV_BODY: Snippet = Snippet { name: "expert_linear.gemv.wgsl", text: include_str!("gemv.wgsl") };
static GEMM_BODY: Snippet = Snippet { name: "expert_linear.gemm.wgsl", text: include_str!("gemm.wgsl") };
static MATRIX_BODY: Snippet =
    Snippet { name: "expert_linear.matrix.wgsl", text: include_str!("matrix.wgsl") };
static GROUP_BODY: Snippet = Snippet { name: "expert_linear.group.wgsl", text: include_str!("group.wgsl") };

/// Pairs of a strip and columns of a square, as in `gemm.wgsl`.
const SQUARE: usize = 32;
/// Parameter words of both kernels.
const WORDS: u32 = 12;
/// The most experts that are grouped: a word of shared memory for each, and one.
const MOST_EXPERTS: usize = super::super::route::MOST;
/// Pairs to an expert, about, from which on grouping pays.
const ENOUGH: usize = 4;

/// Pair by pair.
pub(super) struct Gemv;
/// In squares.
pub(super) struct Gemm;

/// In matrices of subgroups.
pub(super) struct Matrix(&'static Matrices);

/// The kernels for many pairs in matrices of subgroups.
pub(super) static MATRIX: [Matrix; 3] = [Matrix(&HALVES_16), Matrix(&HALVES_8), Matrix(&SINGLES_8)];
/// The kernel for few pairs.
pub(super) static GEMV: Gemv = Gemv;
/// The kernel for many pairs.
pub(super) static GEMM: Gemm = Gemm;

/// Experts, and columns of theirs, whose weights fit a binding.
struct BoundPart {
    experts: Range<usize>,
    columns: Range<usize>,
}

/// A call, cut so that its arguments fit bindings.
struct Cut<'a> {
    problem: &'a Problem,
    encoding: Encoding,
    on: &'a DeviceInfo,
}

impl Cut<'_> {
    /// Runs of rows of ids.
    fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        let Problem { pairs, used, n, k, .. } = *self.problem;
        spans(pairs / used, used * k.max(n) * 4, self.on)
    }

    /// The weights, in parts.
    fn seen(&self) -> Vec<BoundPart> {
        let Problem { experts, n, pitch, k, .. } = *self.problem;
        let row = weight::gpu::room(self.encoding, k);
        if n.saturating_mul(row) <= wgsl::most(1, self.on) {
            return spans(experts, pitch.saturating_mul(row), self.on)
                .map(|experts| BoundPart { experts, columns: 0..n })
                .collect();
        }
        let of_one = |expert| {
            spans(n, row, self.on).map(move |columns| BoundPart { experts: expert..expert + 1, columns })
        };
        (0..experts).flat_map(of_one).collect()
    }

    /// Arguments of a launch; `places` are the ids or the groups.
    fn args(&self, rows: &Range<usize>, seen: &BoundPart, places: Arg) -> SmallVec<[Arg; 6]> {
        let Problem { used, sharing, n, pitch, k, .. } = *self.problem;
        let own = used / sharing;
        let (experts, columns) = (&seen.experts, &seen.columns);
        let first = experts.start * pitch + columns.start;
        let count = experts.len().saturating_sub(1) * pitch + columns.len();
        let mut args: SmallVec<[Arg; 6]> =
            smallvec![Arg::slot(0).window(rows.start * own * k * 4, rows.len() * own * k * 4)];
        args.extend(weight::gpu::windows(self.encoding, k, first..first + count, 1));
        let y = Arg::slot(args.len() as u8 + 1);
        args.push(places);
        args.push(y.window(rows.start * used * n * 4, rows.len() * used * n * 4));
        weight::gpu::bind(&args, self.encoding)
    }

    /// Parameters of a launch.
    fn params(&self, rows: &Range<usize>, seen: &BoundPart, strips: usize) -> [u32; WORDS as usize] {
        let Problem { used, sharing, experts, n, pitch, k, .. } = *self.problem;
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
            pitch,
        ]
        .map(|word| word as u32)
    }

    /// The ids of some rows.
    fn ids(&self, rows: &Range<usize>) -> Arg {
        let ids = Arg::slot(self.encoding.planes() as u8 + 1);
        ids.window(rows.start * self.problem.used * 4, rows.len() * self.problem.used * 4)
    }

    /// A kernel of the given bodies.
    fn kernel(&self, bodies: &[&'static Snippet]) -> Option<WgslKernel> {
        let mut parts = weight::gpu::parts(self.encoding, 1)?;
        let planes = parts.len() as u32;
        let params = match planes {
            1 => &PARAMS_ONE,
            2 => &PARAMS_TWO,
            _ => &PARAMS_THREE,
        };
        parts.extend([
            Part::bound(wgsl::load(DType::F32)?, "a", 0),
            Part::bound(wgsl::load_bits(DType::U32), "places", planes + 1),
            Part::bound(wgsl::store(DType::F32, &self.on.features)?, "y", planes + 2),
            Part::plain(params),
            Part::plain(&wgsl::LINEAR),
        ]);
        parts.extend(bodies.iter().map(|body| Part::plain(body)));
        let kernel = WgslKernel::new(bodies.first()?.name, &parts, planes + 3, WORDS);
        Some(weight::gpu::finish(kernel, self.encoding))
    }
}

/// The problem, if a GPU kernel can run it.
fn check(op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Problem, Decline> {
    weight::gpu::check(op.encoding)?;
    if !on.is_gpu() {
        return Err(Decline("runs on GPUs"));
    }
    if op.gate.is_some() {
        return Err(Decline("is for products without a gate"));
    }
    if io.input(0).dtype != DType::F32 || op.bf16 || op.grouped {
        return Err(Decline("takes and gives rows of f32, and groups ids itself"));
    }
    let problem = Problem::of(op, io).ok_or(Decline("takes extents of at most 32 bits"))?;
    let Problem { used, n, k, .. } = problem;
    if used.saturating_mul(k.max(n)).saturating_mul(4) > wgsl::most(1, on) {
        return Err(Decline("a row exceeds the largest binding"));
    }
    Ok(problem)
}

/// Facts of a program: the code of the encoding, and the depth that passes through shared memory at a time, where depths must be whole
/// steps of it.
fn facts(encoding: Encoding, step: u32) -> [u32; 2] {
    [weight::code(encoding).unwrap_or(u32::MAX), step]
}

/// Whether enough pairs go to an expert for grouping.
fn is_worth_grouping(problem: &Problem) -> bool {
    problem.pairs / problem.experts >= ENOUGH && problem.pairs > problem.used
}

impl Kernel for Gemv {
    type Op = ExpertLinear;

    fn name(&self) -> &'static str {
        GEMV_BODY.name
    }

    fn fits(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = check(op, io, on)?;
        Ok(if is_worth_grouping(&problem) { Cost::FALLBACK } else { Cost::BEST })
    }

    fn plan(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let Ok(problem) = check(op, io, on) else { return plan };
        let cut = Cut { problem: &problem, encoding: op.encoding, on };
        let Problem { pairs, n, k, .. } = problem;
        let codes = few::takes_codes(op.encoding, k, io.input(0).alignment, io.input(1).alignment);
        let columns = pairs.saturating_mul(n);
        let teams =
            Teams::of(GemvShape { rows: 1, columns, k, subgroups: few::has_subgroups(on), codes }, on);
        let Some(mut kernel) = cut.kernel(&[&GEMV_BODY]) else { return plan };
        kernel.append(teams.parts());
        kernel.append([Part::bound(teams.sums(), "b", 1)]);
        let kernel = teams.constants(kernel, 1);
        let [code, step] = facts(op.encoding, few::step_of(codes) as u32);
        let [of_activations, of_weights] = few::alignments(op.encoding, codes);
        // SAFETY: a team has a pair below the number of pairs, whose expert is checked against those that the launch sees before
        // weights are read; past the last column it is the last one's. `gemv_need` requires the alignment of what is read by codes.
        let kernel = unsafe { kernel.unchecked(gemv_need, &[code, step, of_activations, of_weights]) };
        for rows in cut.rows() {
            for seen in cut.seen() {
                // Teams of all pairs follow each other.
                let columns = rows.len() * problem.used * teams.padded(seen.columns.len());
                let groups = teams.groups(columns);
                let args = cut.args(&rows, &seen, cut.ids(&rows));
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
    type Op = ExpertLinear;

    fn name(&self) -> &'static str {
        GEMM_BODY.name
    }

    fn fits(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = check(op, io, on)?;
        if problem.experts > MOST_EXPERTS {
            return Err(Decline("groups at most 1024 experts"));
        }
        Ok(if is_worth_grouping(&problem) { Cost::BEST } else { Cost::FALLBACK })
    }

    fn plan(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let Ok(problem) = check(op, io, on) else { return plan };
        let cut = Cut { problem: &problem, encoding: op.encoding, on };
        let Some(mut kernel) = cut.kernel(&[&GEMM_BODY, &TILED_CELLS]) else { return plan };
        let fill = tiled::fill(problem.k);
        kernel.append([Part::plain(fill.rows)]);
        kernel.append([&FILL_COLUMNS, fill.columns, &TILED_SQUARE].map(|text| Part::bound(text, "b", 1)));
        // Tiles of 4 x 4 outputs in an invocation.
        let kernel = TileShape::SMALL.constants(kernel);
        // SAFETY: what the groups say is bounded by the number of strips and of pairs, and an expert is checked against those that
        // the launch sees, before anything is read or stored; `gemm_need` requires depths of whole steps where they are not
        // looked at one by one.
        let kernel = unsafe { kernel.unchecked(gemm_need, &facts(op.encoding, fill.step as u32)) };
        plan_strips(&mut plan, &cut, &kernel, [SQUARE; 2]);
        plan
    }
}

/// Adds the launches that group pairs, and those of `kernel`, whose workgroups have a tile of pairs and columns.
fn plan_strips(plan: &mut Plan, cut: &Cut<'_>, kernel: &WgslKernel, [strip, width]: [usize; 2]) {
    let (problem, on) = (cut.problem, cut.on);
    for rows in cut.rows() {
        let pairs = rows.len() * problem.used;
        let strips = pairs.min(problem.experts + 1) + pairs / strip;
        let groups = plan.scratch((1 + 3 * strips + pairs) * 4);
        plan.push(
            Program::Wgsl(group_kernel(problem, strip, on)),
            &[cut.ids(&rows), Arg::scratch(groups, Access::Write)],
            &[pairs, problem.experts, strips].map(|word| word as u32),
            [1, 1, 1],
        );
        for seen in cut.seen() {
            let tiles = strips * seen.columns.len().div_ceil(width);
            let args = cut.args(&rows, &seen, Arg::scratch(groups, Access::Read));
            let params = cut.params(&rows, &seen, strips);
            plan.push(Program::Wgsl(kernel.clone()), &args, &params, wgsl::grid(tiles, on));
        }
    }
}

impl Kernel for Matrix {
    type Op = ExpertLinear;

    fn name(&self) -> &'static str {
        self.0.names[2]
    }

    fn fits(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = check(op, io, on)?;
        self.0.check(&[Factors { weights: op.encoding, exact: op.exact }], on)?;
        if problem.experts > MOST_EXPERTS {
            return Err(Decline("groups at most 1024 experts"));
        }
        // A quarter of a tile in matrices costs as much as its pairs in smaller tiles.
        let is_worth = is_worth_grouping(&problem) && problem.pairs / problem.experts >= self.0.tile() / 4;
        Ok(self.0.cost(is_worth && problem.n > LARGE, Cost::FALLBACK))
    }

    fn plan(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let Ok(problem) = check(op, io, on) else { return plan };
        let cut = Cut { problem: &problem, encoding: op.encoding, on };
        let runs = matrix::takes_runs(op.encoding, io.input(1).alignment);
        let fill = matrix::fill(problem.k, runs);
        let Some(mut kernel) = cut.kernel(&[&MATRIX_BODY, &MATRIX_MAIN]) else { return plan };
        kernel.append(self.0.common(fill));
        kernel.append([&FILL_COLUMNS, fill.columns, &MATRIX_SQUARE].map(|text| Part::bound(text, "b", 1)));
        let kernel = self.0.constants(kernel, on);
        let [code, step] = facts(op.encoding, fill.step as u32);
        let facts = [code, step, 1, matrix::runs_alignment(op.encoding, runs)];
        // SAFETY: as for tiles of pairs; a strip has no more pairs than the tile has rows. `gemm_need` requires the alignment of weights
        // that are read sixteen in a row.
        let kernel = unsafe { kernel.unchecked(gemm_need, &facts) };
        plan_strips(&mut plan, &cut, &kernel, [self.0.tile(); 2]);
        plan
    }
}

/// Returns the kernel that groups pairs.
fn group_kernel(problem: &Problem, strip: usize, on: &DeviceInfo) -> WgslKernel {
    let parts = [
        Part::plain(&GROUP_BODY),
        Part::bound(wgsl::load_bits(DType::U32), "ids", 0),
        Part::bound(wgsl::store_bits(DType::U32, &on.features), "groups", 1),
    ];
    let room = (problem.experts + 1).next_power_of_two() as u32;
    let kernel = WgslKernel::new(GROUP_BODY.name, &parts, 2, 3)
        .constant("WG", wgsl::workgroup(on))
        .constant("ROOM", room)
        .constant("STRIP", strip as u32);
    // SAFETY: there are `ROOM` groups in shared memory. Ids past the experts are of the last group; so all groups together have
    // as many pairs and at most as many strips as `group_need` states.
    unsafe { kernel.unchecked(group_need, &[room, strip as u32]) }
}

/// Words of the groups: the number of strips, three for each strip, one for each pair.
fn group_words(strips: Count, pairs: Count) -> Count {
    strips * 3u32 + pairs + 1u32
}

/// Facts: places for groups in shared memory, the most pairs of a strip. Parameters: pairs, experts, the most strips.
fn group_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [pairs, experts, most] = [0, 1, 2].map(|i| launch.count(i));
    let strips = pairs.min(experts + 1u32) + Count(pairs.0 / u64::from(launch.fact(1).max(1)));
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

/// Facts: those of [`facts`], and alignments as for `matmul`. Parameters: those of [`Cut::params`].
fn multiply_need(launch: &LaunchShape<'_>, places: Count) -> Option<Needs> {
    let [pairs, sharing, columns, k, _, seen, _, stride, first, pitch] =
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 11].map(|i| launch.count(i));
    let (encoding, step) = (weight::from_code(launch.fact(0))?, launch.fact(1));
    let is_whole = launch.param(3).is_multiple_of(step.max(1));
    let is_apart = seen == Count(1) || pitch >= columns;
    if pairs == Count(0) || columns == Count(0) || first + columns > stride || !is_whole || !is_apart {
        return None;
    }
    // Of the last expert, padding is not read.
    let rows = Count(seen.0.saturating_sub(1)) * pitch + columns;
    let needs = Needs::new().read(pairs.div_ceil(sharing)? * k * 4u32, 4).aligned(launch.fact(2));
    // Weight rows are whole groups.
    k.0.is_multiple_of(encoding.group_len() as u64).then_some(())?;
    let needs = weight::gpu::read_planes(needs, encoding, rows * k)?.aligned(launch.fact(3));
    let needs = needs.read(places * 4u32, 4);
    Some(weight::gpu::read_table(needs.write(pairs * stride * 4u32, 4), encoding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_core::kernel::{Op, Step, TensorInfo};
    use silicide_hal::Backend;
    use silicide_quant::{MlxFormat, MlxMode, Shape};

    #[test]
    fn calls_larger_than_a_binding_are_cut_to_fit() {
        let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        on.limits.binding_alignment = 16;
        let affine = MlxFormat::new(MlxMode::Affine, 4, 32, DType::F16).unwrap();
        for encoding in [Encoding::Element(DType::F16), Encoding::Planes(affine)] {
            for (max_binding, experts) in [(16 << 20, 5), (8192, 5), (1500, 3)] {
                on.limits.max_binding = max_binding;
                cut_calls(encoding, experts, &on);
            }
        }
    }

    fn cut_calls(encoding: Encoding, experts: usize, on: &DeviceInfo) {
        let info = |dtype, axes: &[usize]| TensorInfo::new(dtype, Shape::new(axes).unwrap());
        let weight = Shape::new(&[experts, 100, 32]).unwrap();
        let mut inputs = vec![info(DType::F32, &[40, 32])];
        for i in 0..encoding.planes() {
            let plane = encoding.plane(i, &weight).unwrap();
            inputs.push(TensorInfo::new(plane.dtype, plane.shape));
        }
        inputs.push(info(DType::I32, &[40, 2]));
        let op = ExpertLinear::new(encoding);
        let outputs = op.infer(&inputs).unwrap();
        let io = Io { inputs: &inputs, outputs: &outputs };
        for kernel in [&GEMV as &dyn Kernel<Op = ExpertLinear>, &GEMM] {
            assert!(kernel.fits(&op, &io, on).is_ok());
            // Every pair meets every output of every expert once.
            let mut met = 0;
            for step in &kernel.plan(&op, &io, on).steps {
                let Step::Dispatch(launch) = step else { panic!("{step:?}") };
                let room = on.limits.max_binding - 20;
                assert!(launch.args.iter().all(|arg| arg.bytes == usize::MAX || arg.bytes <= room));
                if let [pairs, _, columns, _, _, seen, ..] = launch.params[..]
                    && launch.params.len() == WORDS as usize
                {
                    met += (pairs * columns * seen) as usize;
                }
            }
            assert_eq!(met, 80 * 100 * experts, "{encoding}");
        }
    }
}
