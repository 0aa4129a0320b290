//! Cases of `project`: every format in every ending, mixed formats, for one row, few and many, round every tile.

use super::{Factor, Project, Projection};
use crate::case::{Case, Data, Input};
use crate::glu::Activation;
use crate::interleave::cases::interleaved_input;
use crate::interleave::{InterleavedBlock, TOGETHER};
use crate::interleaved_matmul::InterleavedMatmul;
use crate::matmul::Matmul;
use crate::mlx;
use crate::mlx_matmul::MlxMatmul;
use silicide_quant::{DType, Format};

/// A weight to try: how it is multiplied, and its arguments.
type Weight = (Factor, Vec<Input>);

/// Columns of a weight that is multiplied with, and their length.
type Extents = [usize; 2];

/// Weights of one size, as those of models are: where outputs differ by orders of magnitude, the error of a product of two is
/// that of a few of them. Any bits in every format are for the cases of `matmul`, whose programs these are.
fn plain(dtype: DType, extents: Extents) -> Weight {
    let data = Data::Gaussian { scale: 0.3 };
    (Factor::Plain(Matmul::default()), vec![Input::of(dtype, &extents, data)])
}

fn interleaved(format: Format, extents: Extents) -> Weight {
    (Factor::Interleaved(InterleavedMatmul { format }), vec![interleaved_input(format, &extents)])
}

/// What is done with weights.
#[derive(Clone, Copy)]
struct Call<'a> {
    /// Rows, and their length.
    m: &'a [usize],
    k: usize,
    /// The bits of those that have a bias.
    biases: u32,
    gate: Option<Activation>,
}

impl Call<'_> {
    fn case(self, label: &str, weights: &[Weight]) -> Case {
        let Call { m, k, biases, gate } = self;
        let has_bias = |i: usize| biases >> i & 1 == 1;
        let projections = weights.iter().enumerate();
        let projections =
            projections.map(|(i, (factor, _))| Projection { factor: *factor, bias: has_bias(i) }).collect();
        let mut inputs = vec![Input::gaussian(DType::F32, &[m, &[k]].concat())];
        inputs.extend(weights.iter().flat_map(|(_, inputs)| inputs.clone()));
        for (_, (_, weight)) in weights.iter().enumerate().filter(|(i, _)| has_bias(*i)) {
            let n = weight.first().and_then(|weight| weight.shape.axes().first().copied()).unwrap_or(1);
            inputs.push(Input::gaussian(DType::F32, &[n]));
        }
        let label = format!("{label}, {m:?} rows of {k}, biases {biases:03b}, {gate:?}");
        Case::new(label, Project { projections, gate }, inputs)
    }
}

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let silu = Some(Activation::Silu);
    let call = |m, k, biases, gate| Call { m, k, biases, gate };
    // Every format, gated for one row. What other calls add to it is the same for all.
    for dtype in Format::ALL.into_iter().map(DType::from).chain([DType::F32, DType::BF16]) {
        let k = if dtype.block_len() >= 128 { 768 } else { 576 / dtype.block_len() * dtype.block_len() };
        cases
            .push(call(&[1], k, 0, silu).case(dtype.name(), &[plain(dtype, [37, k]), plain(dtype, [37, k])]));
    }
    common(&mut cases);
    for format in Format::ALL.into_iter().filter(|format| InterleavedBlock::of(*format).is_some()) {
        let k = if format.block_len() >= 128 { 1280 } else { 576 / format.block_len() * format.block_len() };
        let weight = |groups: usize| interleaved(format, [groups * TOGETHER, k]);
        let name = format!("interleaved {format}");
        cases.push(call(&[1], k, 2, silu).case(&name, &[weight(5), weight(5)]));
        cases.push(call(&[3], k, 5, None).case(&name, &[weight(6), weight(2), weight(1)]));
        cases.push(call(&[20], k, 0, silu).case(&name, &[weight(3), weight(3)]));
    }
    let mixed = [
        interleaved(Format::Q4K, [96, 512]),
        plain(Format::Q6K.into(), [40, 512]),
        plain(DType::F16, [17, 512]),
    ];
    cases.push(call(&[1], 512, 0, None).case("mixed", &mixed));
    cases.push(call(&[20], 512, 7, None).case("mixed", &mixed));
    let mixed = [plain(Format::Q4K.into(), [33, 512]), plain(Format::Q6K.into(), [18, 512])];
    cases.push(call(&[2], 512, 0, None).case("mixed", &mixed));
    for (i, format) in mlx::cases::some().into_iter().enumerate().filter(|(i, _)| i % 3 == 0) {
        let k = 2 * format.group().max(64);
        let planes = |n: usize| (Factor::Planes(MlxMatmul { format }), mlx::cases::inputs(format, n, k));
        let gate = (i % 2 == 0).then_some(Activation::GeluTanh);
        let rows = [1 + i % 4];
        cases
            .push(Call { m: &rows, k, biases: 1, gate }.case(&format.to_string(), &[planes(35), planes(35)]));
    }
    cases
}

/// Formats that models have: every number of projections and ending, round every tile.
fn common(cases: &mut Vec<Case>) {
    let call = |m, k, biases, gate| Call { m, k, biases, gate };
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
    // Activations are rounded to bf16 once for both, where there is a unit for it.
    cases.push(
        call(&[33], 130, 0, None).case("bf16", &[single(DType::BF16, 50, 130), single(DType::BF16, 9, 130)]),
    );
}
