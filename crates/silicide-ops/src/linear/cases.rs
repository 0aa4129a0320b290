//! Cases of `linear`: every encoding, exact and not, in every ending, mixed encodings, for one row, few and many, round every tile.

use super::{Linear, Product};
use crate::case::{Case, Data, Input};
use crate::glu::Activation;
use crate::interleave::TOGETHER;
use crate::mlx;
use crate::product::integer;
use crate::quantize_q8::cases::quantized_input;
use crate::weight::cases::{interleaved, planes};
use silicide_gemm::q8::GROUP;
use silicide_quant::{DType, Encoding, Format, MlxFormat, RowEncoding};

/// A weight to try: its encoding, and its planes.
type TestWeight = (Encoding, Vec<Input>);

/// Columns of a weight that is multiplied with, and their length.
type Extents = [usize; 2];

/// Weights of one size, as those of models are: where outputs differ by orders of magnitude, the error of a product of two is
/// that of a few of them. Any bits in every format are for the cases of `matmul`, whose programs these are.
fn plain(dtype: DType, extents: Extents) -> TestWeight {
    (Encoding::from(dtype), vec![Input::of(dtype, &extents, Data::Gaussian { scale: 0.3 })])
}

fn any(encoding: Encoding, extents: Extents) -> TestWeight {
    (encoding, planes(encoding, extents))
}

/// A call with some weights.
#[derive(Clone, Copy)]
struct Call<'a> {
    /// Rows, and their length.
    m: &'a [usize],
    k: usize,
    /// The bits of those that have a bias.
    biases: u32,
    gate: Option<Activation>,
    exact: bool,
}

impl Call<'_> {
    fn case(self, label: &str, weights: &[TestWeight]) -> Case {
        let Call { m, k, biases, gate, exact } = self;
        let has_bias = |i: usize| biases >> i & 1 == 1;
        let products = weights.iter().enumerate();
        let products =
            products.map(|(i, (encoding, _))| Product { encoding: *encoding, bias: has_bias(i) }).collect();
        let mut inputs = vec![Input::gaussian(DType::F32, &[m, &[k]].concat())];
        inputs.extend(weights.iter().flat_map(|(_, inputs)| inputs.clone()));
        for (_, (_, weight)) in weights.iter().enumerate().filter(|(i, _)| has_bias(*i)) {
            let n = weight.first().and_then(|weight| weight.shape.axes().first().copied()).unwrap_or(1);
            inputs.push(Input::gaussian(DType::F32, &[n]));
        }
        let how = if exact { "exact" } else { "any" };
        let label = format!("{label}, {m:?} rows of {k}, biases {biases:03b}, {gate:?}, {how}");
        Case::new(label, Linear { products, gate, exact, ..Linear::default() }, inputs)
    }
}

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let silu = Some(Activation::Silu);
    let call = |m, k, biases, gate| Call { m, k, biases, gate, exact: false };
    // Every format, gated for one row. What other calls add to it is the same for all.
    for dtype in Format::ALL.into_iter().map(DType::from).chain([DType::F32, DType::BF16]) {
        let k = if dtype.block_len() >= 128 { 768 } else { 576 / dtype.block_len() * dtype.block_len() };
        cases
            .push(call(&[1], k, 0, silu).case(dtype.name(), &[plain(dtype, [37, k]), plain(dtype, [37, k])]));
    }
    common(&mut cases);
    for encoding in interleaved() {
        let len = encoding.group_len();
        let k = if len >= 128 { 1280 } else { 576 / len * len };
        let weight = |groups: usize| any(encoding, [groups * TOGETHER, k]);
        let name = encoding.to_string();
        cases.push(call(&[1], k, 2, silu).case(&name, &[weight(5), weight(5)]));
        cases.push(call(&[3], k, 5, None).case(&name, &[weight(6), weight(2), weight(1)]));
        cases.push(call(&[20], k, 0, silu).case(&name, &[weight(3), weight(3)]));
        if encoding.takes_rows(1) {
            let weight = || any(encoding, [69, k]);
            let name = format!("{name}, rows after the last set");
            cases.push(call(&[1], k, 2, silu).case(&name, &[weight(), weight()]));
        }
    }
    let q4k = Encoding::Interleaved { of: RowEncoding::Block(Format::Q4K), rows: TOGETHER };
    let mixed = [any(q4k, [96, 512]), plain(Format::Q6K.into(), [40, 512]), plain(DType::F16, [17, 512])];
    cases.push(call(&[1], 512, 0, None).case("mixed", &mixed));
    cases.push(call(&[20], 512, 7, None).case("mixed", &mixed));
    cases.push(Call { exact: true, ..call(&[3], 512, 7, None) }.case("mixed", &mixed));
    let mixed = [plain(Format::Q4K.into(), [33, 512]), plain(Format::Q6K.into(), [18, 512])];
    cases.push(call(&[2], 512, 0, None).case("mixed", &mixed));
    for (i, format) in mlx::cases::some().into_iter().enumerate().filter(|(i, _)| i % 3 == 0) {
        let k = 2 * format.group().max(64);
        let weight = || any(Encoding::Planes(format), [35, k]);
        let gate = (i % 2 == 0).then_some(Activation::GeluTanh);
        let rows = [1 + i % 4];
        let call = Call { m: &rows, k, biases: 1, gate, exact: false };
        cases.push(call.case(&format.to_string(), &[weight(), weight()]));
    }
    // A bias alone, and gates whose weights are cut differently.
    if let Some(format) = MlxFormat::all().first() {
        let k = 2 * format.group();
        cases.push(call(&[3], k, 1, None).case("planes", &[any(Encoding::Planes(*format), [35, k])]));
    }
    let gates = [plain(Format::Q2K.into(), [4096, 256]), plain(Format::Q8_0.into(), [4096, 256])];
    cases.push(call(&[1], 256, 3, silu).case("gates of two formats", &gates));
    one_product(&mut cases);
    rounded(&mut cases);
    let quantized: Vec<Case> = cases.iter().filter_map(quantized).collect();
    cases.extend(quantized);
    bf16(&mut cases);
    cases
}

/// Rows of bf16, and outputs of bf16: products in integers, dense and decoded ones, with biases and gates, round every tile.
fn bf16(cases: &mut Vec<Case>) {
    let silu = Some(Activation::Silu);
    let call = |m, biases, gate| Call { m, k: 288, biases, gate, exact: false };
    let add = |cases: &mut Vec<Case>, call: Call<'_>, weights: &[TestWeight]| {
        for (x, y) in [(DType::BF16, false), (DType::BF16, true), (DType::F32, true)] {
            let name =
                format!("x {x}, y bf16 {y}, {}", weights.first().map_or(String::new(), |w| w.0.to_string()));
            let mut case = call.case(&name, weights);
            let Some(op) = case.op.as_any().downcast_ref::<Linear>().cloned() else { continue };
            case.inputs.iter_mut().take(1).for_each(|input| input.dtype = x);
            cases.push(Case::new(case.label, Linear { bf16: y, ..op }, case.inputs));
        }
    };
    for dtype in
        [DType::F32, DType::F16, DType::BF16, Format::Q4_0.into(), Format::Q8_0.into(), Format::Iq4Nl.into()]
    {
        let weight = |n: usize| plain(dtype, [n, 288]);
        add(cases, call(&[1], 0, None), &[weight(37)]);
        add(cases, call(&[2, 9], 1, None), &[weight(67)]);
        add(cases, call(&[33], 2, silu), &[weight(50), weight(50)]);
        add(cases, call(&[3], 5, None), &[weight(33), weight(16), weight(70)]);
        add(cases, Call { exact: true, ..call(&[5], 0, None) }, &[weight(40)]);
    }
    let k = 512;
    let wide = |m| Call { m, k, biases: 0, gate: None, exact: false };
    add(cases, wide(&[7]), &[plain(Format::Q6K.into(), [41, k])]);
    if let Some(format) = mlx::cases::some().into_iter().find(|format| k.is_multiple_of(format.group())) {
        add(cases, wide(&[2]), &[any(Encoding::Planes(format), [35, k])]);
    }
}

/// A case with quantized rows as `x`, if all its products are in integers; and as another output, if it is gated.
fn quantized(case: &Case) -> Option<Case> {
    let op = case.op.as_any().downcast_ref::<Linear>().filter(|op| !op.exact)?;
    let [x, others @ ..] = case.inputs.as_slice() else { return None };
    let k = x.shape.last();
    let ns = Vec::from_iter(op.calls().map(|(product, place)| {
        let n = others.get(place.weight.start - 1).and_then(|plane| plane.shape.axes().first().copied());
        (product.encoding, n.unwrap_or(0))
    }));
    if !ns.iter().all(|(encoding, n)| integer::takes(*encoding, [*n, k])) {
        return None;
    }
    let inputs = std::iter::once(quantized_input(x.shape.axes())).chain(others.iter().cloned()).collect();
    // Outputs are quantized by products whose gate is cut like them.
    if op.gate.is_some() && ns.iter().any(|(encoding, _)| *encoding != ns[0].0) {
        return None;
    }
    let whole = ns.iter().all(|(_, n)| n.is_multiple_of(GROUP));
    let op = Linear { quantized: op.gate.is_some() && whole, ..op.clone() };
    Some(Case::new(format!("{}, quantized", case.label), op, inputs))
}

/// One product without a bias: every encoding, exact and not, for one row, few and many.
fn one_product(cases: &mut Vec<Case>) {
    let mut add = |encoding: Encoding, m: &[usize], n: usize, groups: usize, exact: bool| {
        let k = groups * encoding.group_len();
        let call = Call { m, k, biases: 0, gate: None, exact };
        cases.push(call.case(&format!("one, {encoding}, {n} columns"), &[any(encoding, [n, k])]));
    };
    for dtype in [DType::F32, DType::F16, DType::BF16, Format::Q4_0.into(), Format::Iq1S.into()] {
        for m in [1, 5, 20] {
            add(Encoding::from(dtype), &[m], 37, 1024 / dtype.block_len(), false);
        }
        add(Encoding::from(dtype), &[2], 37, 1024 / dtype.block_len(), true);
    }
    for encoding in interleaved() {
        let blocks = 544usize.div_ceil(encoding.group_len());
        add(encoding, &[1], 3 * TOGETHER, blocks, false);
        add(encoding, &[3], 2 * TOGETHER, blocks, true);
        add(encoding, &[11], TOGETHER, blocks, false);
        add(encoding, &[20], 3 * TOGETHER, blocks, false);
        if encoding.takes_rows(1) {
            // Rows after the last whole set: beside sets in a tile, and alone in one.
            for (m, n) in [(1, 67), (5, 65), (20, 53), (9, 17), (2, 15), (1, 4097)] {
                add(encoding, &[m], n, 45, false);
            }
        }
    }
    let interleaved = |format| Encoding::Interleaved { of: RowEncoding::Block(format), rows: TOGETHER };
    add(interleaved(Format::Q4_0), &[], 2 * TOGETHER, 1, false);
    add(interleaved(Format::Q4_0), &[2, 2], 5 * TOGETHER, 70, false);
    add(interleaved(Format::Q8_0), &[130], 9 * TOGETHER, 33, false);
    add(interleaved(Format::Q8_0), &[20], 3 * TOGETHER, 33, true);
    add(interleaved(Format::Q6K), &[70], 5 * TOGETHER, 9, false);
    // More than fits registers' sums.
    add(interleaved(Format::Q4_0), &[1], TOGETHER, 1030, false);
    let formats = mlx::cases::some();
    for &format in &formats {
        add(Encoding::Planes(format), &[1], 37, 5, false);
        add(Encoding::Planes(format), &[11], 33, 2, format.bits() % 2 == 0);
        add(Encoding::Planes(format), &[20], 49, 3, false);
    }
    if let [first, .., last] = formats[..] {
        add(Encoding::Planes(first), &[], 5, 1, false);
        add(Encoding::Planes(first), &[2, 3], 67, 17, false);
        add(Encoding::Planes(last), &[130], 131, 9, false);
    }
}

/// Activations and weights that f16 cannot hold, or holds as subnormal numbers, infinity or NaN: kernels may round both to f16.
fn rounded(cases: &mut Vec<Case>) {
    let mut add = |label: &str, exact: bool, x: Data, weights: &[TestWeight], gate: Option<Activation>| {
        let call = Call { m: &[45], k: 256, biases: 0, gate, exact };
        let mut case = call.case(label, weights);
        if let Some(first) = case.inputs.first_mut() {
            first.data = x;
        }
        cases.push(case);
    };
    let gaussian = |scale: f64| Data::Gaussian { scale };
    let with = |dtype: DType, scale: f64| (dtype.into(), vec![Input::of(dtype, &[43, 256], gaussian(scale))]);
    // A row of each: larger than the largest f16, smaller than the smallest, not finite, and others.
    let row = |i: usize| (0..256).map(move |at| ((at * 7 + i) % 11) as f64 - 5.0);
    let rows = |values: &[f64]| {
        let special = |(i, value): (usize, &f64)| {
            let mut row = Vec::from_iter(row(i));
            row[37 * i % 256] = *value;
            row
        };
        Data::Values(values.iter().enumerate().flat_map(special).collect())
    };
    for dtype in [DType::F16, DType::BF16, Format::Q4_0.into(), Format::Q8_0.into(), Format::Q4K.into()] {
        let name = dtype.name();
        add(&format!("{name}, activations past f16"), false, gaussian(4e4), &[plain(dtype, [43, 256])], None);
        let large = [65504.0, 65519.0, 65520.0, -7e4, 1.0, 3e8];
        add(&format!("{name}, few past f16"), false, rows(&large), &[plain(dtype, [43, 256])], None);
        let infinite = [f64::INFINITY, 2.0, f64::NEG_INFINITY, 6e-8, 1e-39, 2e-45, f64::NAN];
        add(&format!("{name}, not finite"), true, rows(&infinite), &[plain(dtype, [43, 256])], None);
        if !crate::weight::has_integer_product(dtype.into()) {
            add(&format!("{name}, not finite"), false, rows(&infinite), &[plain(dtype, [43, 256])], None);
        }
    }
    for dtype in [DType::BF16, Format::Q8_0.into()] {
        let name = format!("{}, weights past f16", dtype.name());
        add(&name, false, gaussian(1.0), &[with(dtype, 4e4)], None);
        let pair = [with(dtype, 4e4), with(dtype, 0.1)];
        add(&name, false, gaussian(1.0), &pair, Some(Activation::Silu));
    }
    let subnormal = [with(DType::F16, 1e-6)];
    add("f16, subnormal weights", false, gaussian(1.0), &subnormal, None);
}

/// Formats that models have: every number of projections and ending, round every tile.
fn common(cases: &mut Vec<Case>) {
    let call = |m, k, biases, gate| Call { m, k, biases, gate, exact: false };
    for dtype in [Format::Q4_0, Format::Q8_0, Format::Q4K, Format::Q6K]
        .map(DType::from)
        .into_iter()
        .chain([DType::F16])
    {
        let name = dtype.name();
        let k = if dtype.block_len() > 32 { 512 } else { 576 };
        let weight = |n: usize| plain(dtype, [n, k]);
        cases.push(call(&[1], k, 0, None).case(name, &[weight(192), weight(64), weight(65)]));
        cases.push(call(&[1], k, 7, None).case(name, &[weight(33), weight(16), weight(70)]));
        cases.push(call(&[5], k, 1, None).case(name, &[weight(67)]));
        cases.push(call(&[2, 4], k, 2, None).case(name, &[weight(20), weight(31), weight(7)]));
        cases.push(call(&[40], k, 6, None).case(name, &[weight(67), weight(33), weight(5)]));
        cases.push(call(&[3], k, 3, Some(Activation::GeluErf)).case(name, &[weight(70), weight(70)]));
        cases.push(call(&[50], k, 0, Some(Activation::GeluTanh)).case(name, &[weight(70), weight(70)]));
    }
    let single = |dtype: DType, n: usize, k: usize| plain(dtype, [n, k]);
    for (dtype, k) in [(DType::F32, 31), (DType::BF16, 100), (DType::F16, 33)] {
        let name = dtype.name();
        cases.push(call(&[], k, 1, None).case(name, &[single(dtype, 1, k)]));
        cases.push(call(&[3], k, 1, None).case(name, &[single(dtype, 3, k), single(dtype, 130, k)]));
        cases.push(
            call(&[33], k, 2, Some(Activation::Sigmoid))
                .case(name, &[single(dtype, 50, k), single(dtype, 50, k)]),
        );
    }
    // Two products of one type and other numbers of outputs.
    cases.push(
        call(&[33], 130, 0, None).case("bf16", &[single(DType::BF16, 50, 130), single(DType::BF16, 9, 130)]),
    );
}
