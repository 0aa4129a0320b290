//! `linear` on GPUs. One product is a launch of a kernel of `matmul`. Several are its kernels with a text for each product, over
//! bindings of its own; workgroups of all products are one grid. Formats may differ. Where two products are gated, a workgroup has the
//! same columns of both.

use super::{Linear, MAX_PRODUCTS};
use crate::elementwise::activation::ACTIVATION;
use crate::matmul::Problem;
use crate::matmul::few::{self, Gemv, GemvShape};
use crate::matmul::gpu as matmul;
use crate::matmul::matrix::{
    self, Factors, HALVES_8, HALVES_16, MATRIX_MAIN, MATRIX_SQUARE, Matrices, SINGLES_8,
};
use crate::matmul::tiled::{self, FILL_COLUMNS, FILL_ROWS, TILED_CELLS, TILED_SQUARE, TileShape, plan_tiled};
use crate::mlx::gpu::{WeightNames, weight_names};
use crate::weight;
use crate::wgsl::{self, words};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::{DType, Encoding};
use smallvec::{SmallVec, smallvec};

static PARAMS_HEAD: Snippet = Snippet { name: "linear params", text: "struct Params {" };
/// Words: extents; the code of the activation, where two products are gated; columns of each product; the first workgroups of
/// the second product and of the third.
static PARAMS: Snippet = Snippet {
    name: "linear params, own",
    text: words!("rows" "k" "kind" "columns_one" "columns_two" "columns_three" "first_two" "first_three"),
};
static OFFSET: Snippet = Snippet { name: "linear offset", text: "    $NAME_offset: u32," };
static FEW: Snippet = Snippet { name: "linear few", text: include_str!("few.wgsl") };
static TILED: Snippet = Snippet { name: "linear tiled", text: include_str!("tiled.wgsl") };
static MATRIX_TEXT: Snippet = Snippet { name: "linear matrix", text: include_str!("matrix.wgsl") };
static KEEP: Snippet = Snippet { name: "linear keep", text: include_str!("keep.wgsl") };
static GATED: Snippet = Snippet { name: "linear gated", text: include_str!("gated.wgsl") };
/// Which product a workgroup belongs to: workgroups of one product, then those of the next.
macro_rules! which {
    ($name:literal: $($body:literal)*) => {
        Snippet { name: $name, text: concat!("fn multiply(group: u32, lane: u32) {\n", $("    ", $body, "\n",)* "}") }
    };
}
static WHICH: [Snippet; MAX_PRODUCTS] = [
    which!("linear one": "product_one(group, lane);"),
    which!("linear two":
        "if group < p.first_two { product_one(group, lane); }"
        "else { product_two(group - p.first_two, lane); }"),
    which!("linear three":
        "if group < p.first_two { product_one(group, lane); }"
        "else if group < p.first_three { product_two(group - p.first_two, lane); }"
        "else { product_three(group - p.first_three, lane); }"),
];
static BIASED: Snippet = Snippet {
    name: "linear biased",
    text: "fn biased_$NAME(column: u32, value: f32) -> f32 { return value + load_bias_$NAME(column); }",
};
static UNBIASED: Snippet = Snippet {
    name: "linear unbiased",
    text: "fn biased_$NAME(column: u32, value: f32) -> f32 { return value; }",
};

/// The names of the products, their outputs and their biases in texts.
const NAMES: [&str; MAX_PRODUCTS] = ["one", "two", "three"];
static WEIGHTS: [WeightNames; MAX_PRODUCTS] =
    [weight_names!("one"), weight_names!("two"), weight_names!("three")];
const OUTPUTS: [&str; MAX_PRODUCTS] = ["y_one", "y_two", "y_three"];
const BIASES: [&str; MAX_PRODUCTS] = ["bias_one", "bias_two", "bias_three"];
/// Parameter words.
const WORDS: u32 = 8;
/// How the weights of a program are read: element by element or by eights, by codes ([`few`]), or sixteen in a row ([`matrix`]).
const ELEMENTS: u32 = 0;
const CODES: u32 = 1;
const RUNS: u32 = 2;

/// The kernel for few rows.
pub(super) struct Few {
    /// Whether teams add inside of subgroups, or through shared memory.
    pub(super) subgroups: bool,
}

/// The kernel for many rows.
pub(super) struct TiledLinear;

/// The kernel for many rows in matrices of subgroups.
pub(super) struct MatrixLinear(&'static Matrices);

/// The kernels for many rows in matrices of subgroups.
pub(super) const MATRIX: [&dyn Kernel<Op = Linear>; 3] =
    [&MatrixLinear(&HALVES_16), &MatrixLinear(&HALVES_8), &MatrixLinear(&SINGLES_8)];

/// A product as kernels see it.
struct BoundProduct {
    problem: Problem,
    encoding: Encoding,
    /// The input that is its bias.
    bias: Option<usize>,
}

/// Declines quantized rows, which are for the CPU.
fn check_rows(op: &Linear, io: &Io<'_>) -> Result<(), Decline> {
    let is_plain = io.input(0).dtype == DType::F32 && !op.quantized && !op.bf16;
    if is_plain { Ok(()) } else { Err(Decline("takes and gives rows of f32")) }
}

/// The encoding and the problem of one product.
fn single(op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Option<Result<(Encoding, Problem), Decline>> {
    let encoding = op.single()?;
    let checked = check_rows(op, io).and_then(|()| weight::gpu::check(encoding));
    let checked = checked.and_then(|()| matmul::check(op.problem(io, 0), on));
    Some(checked.map(|problem| (encoding, problem)))
}

/// The products of a call that fits the device's bindings.
fn products(
    op: &Linear,
    io: &Io<'_>,
    on: &DeviceInfo,
) -> Result<SmallVec<[BoundProduct; MAX_PRODUCTS]>, Decline> {
    check_rows(op, io)?;
    let mut products = SmallVec::new();
    for (i, (product, place)) in op.calls().enumerate() {
        let problem = matmul::check(op.problem(io, i), on)?;
        weight::gpu::check(product.encoding)?;
        if !matmul::is_one_run(&problem, product.encoding, on) {
            return Err(Decline("an argument exceeds the largest binding"));
        }
        products.push(BoundProduct { problem, encoding: product.encoding, bias: place.bias });
    }
    Ok(products)
}

/// Returns whether the weight whose first plane is input `slot` can be read by codes.
fn takes_codes(encoding: Encoding, k: usize, io: &Io<'_>, slot: usize) -> bool {
    few::takes_codes(encoding, k, io.input(0).alignment, io.input(slot).alignment)
}

/// Returns whether `takes` holds for all products, by the encoding of each and the input with its first plane: a binding has one type in
/// a kernel, and all products have one text.
fn all_take(op: &Linear, products: &[BoundProduct], takes: impl Fn(Encoding, usize) -> bool) -> bool {
    let slots = op.places().into_iter().map(|place| place.weight.start);
    products.iter().zip(slots).all(|(product, slot)| takes(product.encoding, slot))
}

/// A kernel and its arguments, in the making.
struct Making {
    parts: SmallVec<[Part; 6]>,
    /// Parts that name the offsets.
    offsets: SmallVec<[Part; 6]>,
    args: SmallVec<[Arg; 6]>,
}

impl Making {
    /// Binds an argument and adds the snippet that reads or writes it.
    fn bind(&mut self, slot: usize, snippet: &'static Snippet, name: &'static str) {
        let binding = self.args.len() as u32;
        self.args.push(Arg::slot(slot as u8));
        self.offsets.push(Part::bound(&OFFSET, name, 0));
        self.parts.push(Part::bound(snippet, name, binding));
    }
}

/// The name of a kernel, and its texts for each product.
struct KernelTexts<'a> {
    name: &'static str,
    each: &'a [&'static Snippet],
}

/// A kernel and its arguments.
struct BoundKernel {
    kernel: WgslKernel,
    args: SmallVec<[Arg; 6]>,
}

/// The kernel of products with these texts.
fn make(
    op: &Linear,
    io: &Io<'_>,
    products: &[BoundProduct],
    texts: &KernelTexts<'_>,
    on: &DeviceInfo,
) -> Option<BoundKernel> {
    let KernelTexts { name, each } = *texts;
    let mut making = Making { parts: smallvec![], offsets: smallvec![], args: smallvec![] };
    making.bind(0, wgsl::load(DType::F32)?, "a");
    let places = op.places();
    for ((product, place), names) in products.iter().zip(&places).zip(&WEIGHTS) {
        let texts = weight::gpu::snippets(product.encoding)?;
        for ((slot, text), name) in place.weight.clone().zip(texts).zip(names.planes) {
            making.bind(slot, text, name);
        }
    }
    let store = wgsl::store(DType::F32, &on.features)?;
    for (output, name) in (0..op.outputs()).zip(OUTPUTS) {
        making.bind(io.inputs.len() + output, store, name);
    }
    for ((product, name), bias_name) in products.iter().zip(NAMES).zip(BIASES) {
        if let Some(bias) = product.bias {
            making.bind(bias, wgsl::load(DType::F32)?, bias_name);
        }
        making.parts.push(Part::bound(if product.bias.is_some() { &BIASED } else { &UNBIASED }, name, 0));
    }
    let Making { mut parts, offsets, mut args } = making;
    parts.push(Part::plain(&PARAMS_HEAD));
    parts.extend(offsets);
    parts.extend([Part::plain(&PARAMS), Part::plain(&wgsl::LINEAR)]);
    for (_, name) in products.iter().zip(NAMES) {
        parts.push(Part::bound(&KEEP, name, 0));
        parts.extend(each.iter().map(|text| Part::bound(text, name, 0)));
    }
    match op.gate {
        Some(_) => parts.extend([Part::plain(&ACTIVATION), Part::plain(&GATED)]),
        None => parts.push(Part::plain(WHICH.get(products.len().checked_sub(1)?)?)),
    }
    let outputs = ((1u32 << op.outputs()) - 1) << (1 + op.counts().0);
    let mut kernel = WgslKernel::new(name, &parts, args.len() as u32, WORDS).writes(outputs);
    for (product, names) in products.iter().zip(&WEIGHTS) {
        kernel = weight::gpu::finish_named(kernel, product.encoding, names);
        args = weight::gpu::bind(&args, product.encoding);
    }
    Some(BoundKernel { kernel, args })
}

/// Facts: the number of products, whether they are gated, which have a bias, the step of the depth, how weights are
/// read, and their encodings.
fn facts(op: &Linear, products: &[BoundProduct], step: usize, reading: u32) -> SmallVec<[u32; 8]> {
    let biased = products.iter().zip(0..).filter(|(product, _)| product.bias.is_some());
    let biased = biased.fold(0, |bits, (_, i)| bits | 1u32 << i);
    let mut facts: SmallVec<[u32; 8]> =
        smallvec![products.len() as u32, u32::from(op.gate.is_some()), biased, step as u32, reading];
    facts.extend(products.iter().map(|product| weight::code(product.encoding).unwrap_or(u32::MAX)));
    facts
}

/// Parameters: rows, depth, activation, columns of each product. Bindings: activations, weights, outputs, biases, tables.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [count, gated, biased, step, reading] = [0, 1, 2, 3, 4].map(|i| launch.fact(i));
    let (rows, k) = (launch.count(0), launch.count(1));
    let columns = |i: usize| launch.count(3 + i);
    let products = 0..count as usize;
    let encodings: Option<SmallVec<[Encoding; MAX_PRODUCTS]>> =
        products.clone().map(|i| weight::from_code(launch.fact(5 + i))).collect();
    let encodings = encodings?;
    let is_whole = launch.param(1).is_multiple_of(step.max(1))
        && encodings.iter().all(|encoding| k.0.is_multiple_of(encoding.group_len() as u64));
    let is_there = rows != Count(0) && products.clone().all(|i| columns(i) != Count(0));
    // Both products that are gated are stored in one output.
    let is_same = gated == 0 || (count == 2 && columns(0) == columns(1));
    if !is_whole || !is_there || !is_same {
        return None;
    }
    let mut needs = Needs::new().read(rows * k * 4u32, 4);
    for (i, encoding) in encodings.iter().enumerate() {
        let [of_activations, of_weights] = match reading {
            RUNS => [1, matrix::runs_alignment(*encoding, true)],
            other => few::alignments(*encoding, other == CODES),
        };
        if i == 0 {
            needs = needs.aligned(of_activations);
        }
        needs = weight::gpu::read_planes(needs, *encoding, columns(i) * k)?.aligned(of_weights);
    }
    let outputs = if gated == 0 { count as usize } else { 1 };
    needs = (0..outputs).fold(needs, |needs, i| needs.write(rows * columns(i) * 4u32, 4));
    let with_bias = products.filter(|i| biased & 1 << i != 0);
    needs = with_bias.fold(needs, |needs, i| needs.read(columns(i) * 4u32, 4));
    Some(encodings.iter().fold(needs, |needs, encoding| weight::gpu::read_table(needs, *encoding)))
}

/// Returns the plan of a kernel, with the workgroups of each product.
fn launch(
    op: &Linear,
    products: &[BoundProduct],
    bound: BoundKernel,
    groups: &[usize],
    on: &DeviceInfo,
) -> Plan {
    let Some(Problem { m, k, .. }) = products.first().map(|product| product.problem) else {
        return Plan::default();
    };
    let of = |i: usize| products.get(i).map_or(0, |product| product.problem.n);
    let first = |i: usize| groups.iter().take(i).sum::<usize>();
    let all = if op.gate.is_some() { first(1) } else { first(groups.len()) };
    let kind = op.gate.map_or(0, |gate| gate.code());
    let extents = [m, k, kind as usize, of(0), of(1), of(2), first(1), first(2)];
    let BoundKernel { kernel, args } = bound;
    Plan::launch(Program::Wgsl(kernel), &args, &extents.map(|extent| extent as u32), wgsl::grid(all, on))
}

/// Whether a device has as many bindings and words.
fn check_limits(products: &[BoundProduct], op: &Linear, on: &DeviceInfo) -> Result<(), Decline> {
    let biases = products.iter().filter(|product| product.bias.is_some()).count();
    let tables = products.iter().filter(|product| weight::gpu::has_table(product.encoding)).count();
    let bound = 1 + op.counts().0 + op.outputs() + biases;
    let words = bound as u32 + WORDS;
    if bound + tables > on.limits.max_bindings as usize || words as usize * 4 > on.limits.max_param_bytes {
        return Err(Decline("takes too many bindings"));
    }
    Ok(())
}

impl Kernel for Few {
    type Op = Linear;

    fn name(&self) -> &'static str {
        if self.subgroups { "linear.few.subgroup.wgsl" } else { "linear.few.wgsl" }
    }

    fn fits(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        few::check_few(op.problem(io, 0), on)?;
        if self.subgroups && !few::has_subgroups(on) {
            return Err(Decline("needs subgroups that fill its workgroups"));
        }
        if let Some(one) = single(op, io, on) {
            return one.map(|_| Cost::BEST);
        }
        let products = products(op, io, on)?;
        check_limits(&products, op, on).map(|()| Cost::BEST)
    }

    fn plan(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        if let Some(Ok((encoding, problem))) = single(op, io, on) {
            let codes = takes_codes(encoding, problem.k, io, 1);
            return few::plan_few(&problem, encoding, on, self.subgroups, codes);
        }
        let Ok(products) = products(op, io, on) else { return Plan::default() };
        let Some(Problem { m, k, .. }) = products.first().map(|product| product.problem) else {
            return Plan::default();
        };
        let columns = products.iter().map(|product| product.problem.n).sum();
        let codes = all_take(op, &products, |encoding, slot| takes_codes(encoding, k, io, slot));
        let gemv = Gemv::of(GemvShape { rows: m, columns, k, subgroups: self.subgroups, codes }, on);
        let each = [gemv.sums(), &FEW];
        let texts = KernelTexts { name: self.name(), each: &each };
        let Some(BoundKernel { mut kernel, args }) = make(op, io, &products, &texts, on) else {
            return Plan::default();
        };
        kernel.append(gemv.parts());
        kernel.append([Part::plain(&few::ROW_START)]);
        let kernel = gemv.constants(kernel, m);
        // SAFETY: as for the kernels of `matmul`, for each product over its own bindings; what is gated is read where the same
        // invocation stored it. `needs` requires the alignment of what is read by codes.
        let kernel = unsafe {
            kernel.unchecked(
                needs,
                &facts(op, &products, few::step_of(codes), if codes { CODES } else { ELEMENTS }),
            )
        };
        let groups: SmallVec<[usize; MAX_PRODUCTS]> =
            products.iter().map(|product| gemv.groups(product.problem.n)).collect();
        launch(op, &products, BoundKernel { kernel, args }, &groups, on)
    }
}

impl Kernel for TiledLinear {
    type Op = Linear;

    fn name(&self) -> &'static str {
        "linear.tiled.wgsl"
    }

    fn fits(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if let Some(one) = single(op, io, on) {
            return one.map(|_| Cost::GOOD);
        }
        let products = products(op, io, on)?;
        check_limits(&products, op, on).map(|()| Cost::GOOD)
    }

    fn plan(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        if let Some(Ok((encoding, problem))) = single(op, io, on) {
            return plan_tiled(&problem, encoding, on);
        }
        let Ok(products) = products(op, io, on) else { return Plan::default() };
        let Some(Problem { m, k, .. }) = products.first().map(|product| product.problem) else {
            return Plan::default();
        };
        let fill = tiled::fill(k);
        let each = [&FILL_COLUMNS, fill.columns, &TILED_SQUARE, &TILED];
        let texts = KernelTexts { name: self.name(), each: &each };
        let Some(BoundKernel { mut kernel, args }) = make(op, io, &products, &texts, on) else {
            return Plan::default();
        };
        kernel.append([&TILED_CELLS, &matmul::MAIN].map(Part::plain));
        kernel.append([&FILL_ROWS, fill.rows].map(Part::plain));
        let widest = products.iter().map(|product| product.problem.n).max().unwrap_or(0);
        let tile = TileShape::of(m, widest);
        // SAFETY: as for few rows.
        let kernel =
            unsafe { tile.constants(kernel).unchecked(needs, &facts(op, &products, fill.step, ELEMENTS)) };
        let groups: SmallVec<[usize; MAX_PRODUCTS]> =
            products.iter().map(|product| tile.count(m, product.problem.n)).collect();
        launch(op, &products, BoundKernel { kernel, args }, &groups, on)
    }
}

impl Kernel for MatrixLinear {
    type Op = Linear;

    fn name(&self) -> &'static str {
        self.0.names[1]
    }

    fn fits(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let factors =
            op.products.iter().map(|product| Factors { weights: product.encoding, exact: op.exact });
        self.0.check(&SmallVec::<[Factors; MAX_PRODUCTS]>::from_iter(factors), on)?;
        let cost = |rows, columns| self.0.cost(Matrices::is_worth(rows, columns), Cost::GOOD);
        if let Some(one) = single(op, io, on) {
            return one.map(|(_, problem)| cost(problem.m, problem.n));
        }
        let products = products(op, io, on)?;
        check_limits(&products, op, on)?;
        let widest = products.iter().map(|product| product.problem.n).max().unwrap_or(0);
        let rows = products.first().map_or(0, |product| product.problem.m);
        Ok(cost(rows, widest))
    }

    fn plan(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let matrices = self.0;
        if let Some(Ok((encoding, problem))) = single(op, io, on) {
            let runs = matrix::takes_runs(encoding, io.input(1).alignment);
            return matrix::plan(matrices, &problem, encoding, runs, on);
        }
        let Ok(products) = products(op, io, on) else { return Plan::default() };
        let Some(Problem { m, k, .. }) = products.first().map(|product| product.problem) else {
            return Plan::default();
        };
        let runs =
            all_take(op, &products, |encoding, slot| matrix::takes_runs(encoding, io.input(slot).alignment));
        let fill = matrix::fill(k, runs);
        let each = [&FILL_COLUMNS, fill.columns, &MATRIX_SQUARE, &MATRIX_TEXT];
        let texts = KernelTexts { name: self.name(), each: &each };
        let Some(BoundKernel { mut kernel, args }) = make(op, io, &products, &texts, on) else {
            return Plan::default();
        };
        kernel.append(matrices.common(fill));
        kernel.append([&FILL_ROWS, &MATRIX_MAIN].map(Part::plain));
        // SAFETY: as for few rows.
        let kernel = unsafe {
            matrices
                .constants(kernel, on)
                .unchecked(needs, &facts(op, &products, fill.step, if runs { RUNS } else { ELEMENTS }))
        };
        let groups: SmallVec<[usize; MAX_PRODUCTS]> =
            products.iter().map(|product| matrices.count(m, product.problem.n)).collect();
        launch(op, &products, BoundKernel { kernel, args }, &groups, on)
    }
}
