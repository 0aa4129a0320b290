//! The kernels that language models launch, as the device prefers them.

use conformance::Call;
use silicide_core::kernel::Step;
use silicide_hal::wgsl::SpirvTarget;
use silicide_hal::{DeviceInfo, Program, WgslKernel};
use silicide_ops::attention::{Attend, Attention, ENTRY_WORDS, ITEM_QUERIES};
use silicide_ops::expert_linear::ExpertLinear;
use silicide_ops::gather_rows::GatherRows;
use silicide_ops::glu::Activation;
use silicide_ops::linear::{Linear, Product};
use silicide_ops::rms_norm::RmsNorm;
use silicide_ops::rope::{Rope, RopeStyle};
use silicide_ops::rope_cache::RopeCache;
use silicide_ops::{Case, Data, Input};
use silicide_quant::{DType, Encoding, Format, MlxFormat, MlxMode, Shape};

/// Rows of weights, and their length.
const N: usize = 4096;
const K: usize = 4096;
/// Heads of queries and of keys, and elements of a head.
const HEADS: usize = 32;
const KV_HEADS: usize = 8;
const DIM: usize = 128;
/// Positions of a KV cache.
const CAPACITY: usize = 4096;
/// Experts, and how many a row has.
const EXPERTS: usize = 8;
const USED: usize = 2;

/// A kernel to compile.
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) program: WgslKernel,
    pub(crate) target: SpirvTarget,
    /// Weights that a lane multiplies in a pass of the hot loop, for products of few rows; otherwise 0.
    pub(crate) weights: u32,
}

/// A call by the name in tables.
struct NamedCall {
    name: String,
    case: Case,
}

/// The encodings that files of models use most.
pub(crate) fn encodings() -> Vec<Encoding> {
    use Format::{Iq4Nl, Iq4Xs, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    let blocks = [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K, Iq4Nl, Iq4Xs, Mxfp4];
    let elements = [DType::F32, DType::F16, DType::BF16].map(Encoding::from);
    let affine = [4, 8].map(|bits| MlxFormat::new(MlxMode::Affine, bits, 64, DType::F16));
    let planes = affine.into_iter().filter_map(Result::ok).map(Encoding::Planes);
    elements.into_iter().chain(blocks.map(Encoding::Block)).chain(planes).collect()
}

/// Returns an encoding as one word.
pub(crate) fn name_of(encoding: Encoding) -> String {
    match encoding {
        Encoding::Planes(format) => format!("mlx{}", format.bits()),
        other => other.to_string(),
    }
}

/// Returns the bytes of a weight.
pub(crate) fn weight_bytes(encoding: Encoding) -> f64 {
    let bytes = Shape::new(&[N, K]).ok().and_then(|shape| encoding.bytes(&shape).ok());
    bytes.unwrap_or(0) as f64 / (N * K) as f64
}

/// The planes of a weight.
fn planes(encoding: Encoding, rows: &[usize]) -> Result<Vec<Input>, String> {
    let shape = Shape::new(&[rows, &[K]].concat()).map_err(|error| error.to_string())?;
    (0..encoding.planes())
        .map(|i| {
            let plane = encoding.plane(i, &shape).map_err(|error| error.to_string())?;
            Ok(Input::of(plane.dtype, plane.shape.axes(), Data::Blocks))
        })
        .collect()
}

fn linear(
    encoding: Encoding,
    rows: usize,
    products: usize,
    gate: Option<Activation>,
) -> Result<Case, String> {
    let mut inputs = vec![Input::gaussian(DType::F32, &[rows, K])];
    for _ in 0..products {
        inputs.extend(planes(encoding, &[N])?);
    }
    let products = std::iter::repeat_n(Product { encoding, bias: false }, products).collect();
    Ok(Case::new("", Linear { products, gate, ..Linear::default() }, inputs))
}

fn products(calls: &mut Vec<NamedCall>) -> Result<(), String> {
    for encoding in encodings() {
        let format = name_of(encoding);
        let mut add = |kind: &str, case| calls.push(NamedCall { name: format!("{kind}/{format}"), case });
        for rows in [1usize, 4, 8, 512] {
            add(&format!("linear/{rows}"), linear(encoding, rows, 1, None)?);
        }
        add("linear_gated/1", linear(encoding, 1, 2, Some(Activation::Silu))?);
        add("linear_three/1", linear(encoding, 1, 3, None)?);
        for rows in [1usize, 512] {
            let mut inputs = vec![Input::gaussian(DType::F32, &[rows, K])];
            inputs.extend(planes(encoding, &[EXPERTS, N])?);
            inputs.push(Input::of(DType::U32, &[rows, USED], Data::Values(vec![0.0; rows * USED])));
            add(&format!("expert_linear/{rows}"), Case::new("", ExpertLinear::new(encoding), inputs));
        }
    }
    Ok(())
}

fn attention(calls: &mut Vec<NamedCall>) {
    for tokens in [1usize, 512] {
        for (cache, dtype) in [("f16", DType::F16), ("q8_0", DType::Block(Format::Q8_0))] {
            for dim in [64, DIM] {
                let rule = Attention { scale: 0.1, softcap: None };
                // Only lists for few queries have items.
                let entries = if tokens > ITEM_QUERIES { tokens } else { tokens + CAPACITY / 128 };
                let inputs = vec![
                    Input::gaussian(DType::F32, &[tokens, HEADS, dim]),
                    Input::gaussian(dtype, &[KV_HEADS, CAPACITY, dim]),
                    Input::gaussian(dtype, &[KV_HEADS, CAPACITY, dim]),
                    Input::of(
                        DType::U32,
                        &[entries, ENTRY_WORDS],
                        Data::Values(vec![0.0; entries * ENTRY_WORDS]),
                    ),
                ];
                let case = Case::new("", Attend { rule, sinks: false, quantized: false }, inputs);
                calls.push(NamedCall { name: format!("attention/{tokens}/{cache}/{dim}"), case });
            }
        }
    }
}

fn others(calls: &mut Vec<NamedCall>) -> Result<(), String> {
    let row = || Input::gaussian(DType::F32, &[1, K]);
    let weight = || Input::gaussian(DType::F32, &[K]);
    let mut add = |name: &str, case| calls.push(NamedCall { name: name.to_owned(), case });
    add("rms_norm", Case::new("", RmsNorm::new(1e-6, true), vec![row(), weight()]));
    let inputs = vec![row(), row(), weight()];
    add("add_rms_norm", Case::new("", RmsNorm::with_residual(1e-6, true), inputs));
    for (name, style) in [("neighbours", RopeStyle::Interleaved), ("halves", RopeStyle::Halves)] {
        let heads = |count| Input::gaussian(DType::F32, &[1, count, DIM]);
        let table = || Input::gaussian(DType::F32, &[1, DIM / 2, 2]);
        add(&format!("rope/{name}"), Case::new("", Rope { style }, vec![heads(HEADS), table()]));
        let slots = Input::of(DType::U32, &[1], Data::Values(vec![5.0]));
        let inputs = vec![heads(HEADS), heads(KV_HEADS), heads(KV_HEADS), table(), slots];
        let mut case = Case::new("", RopeCache::new(style), inputs);
        let cache = || Input::gaussian(DType::F16, &[KV_HEADS, CAPACITY, DIM]);
        case.outputs = vec![heads(HEADS), cache(), cache()];
        add(&format!("rope_cache/{name}"), case);
    }
    for format in [Format::Q4K, Format::Q6K, Format::Q8_0] {
        let encoding = Encoding::Block(format);
        let mut inputs = planes(encoding, &[N])?;
        inputs.push(Input::of(DType::U32, &[1], Data::Values(vec![5.0])));
        add(
            &format!("gather_rows/{}", name_of(encoding)),
            Case::new("", GatherRows { encoding, to: DType::F32 }, inputs),
        );
    }
    Ok(())
}

/// Returns the capabilities of kernels, from the description of a device.
fn target(info: &DeviceInfo) -> SpirvTarget {
    SpirvTarget {
        version: (1, 6),
        f16: info.features.f16,
        int_8: true,
        int_16: info.features.int_16,
        int_64: info.features.int_64,
        integer_dot: info.features.integer_dot,
        subgroups: info.features.subgroups,
        f16_subnormals: info.features.f16_subnormals,
        f16_rounding: info.features.f16_rounding,
        cooperative_matrix: !info.features.matrices.is_empty(),
    }
}

/// Returns the kernels whose names contain `only`, for the first Vulkan device.
pub(crate) fn all(only: Option<&str>) -> Result<Vec<Kernel>, String> {
    let devices = silicide_hal::vulkan::enumerate().map_err(|error| error.to_string())?;
    let mut info = devices.into_iter().next().ok_or("no Vulkan device")?;
    // A device that only compiles has no memory.
    (info.limits.max_block, info.limits.max_binding) = (1 << 34, (1 << 32) - 4);
    let target = target(&info);
    let mut calls = Vec::new();
    products(&mut calls)?;
    attention(&mut calls);
    others(&mut calls)?;
    calls.retain(|call| only.is_none_or(|only| call.name.contains(only)));
    let mut kernels = Vec::new();
    for NamedCall { name, case } in calls {
        let call = Call::of(&case).map_err(|error| format!("{name}: {error}"))?;
        let fitting = (0..call.op.kernel_count())
            .filter_map(|i| Some((call.op.kernel_fits(i, &call.io(), &info).ok()?, i)));
        let preferred = fitting.reduce(|best, next| if next.0 < best.0 { next } else { best });
        let (_, preferred) = preferred.ok_or_else(|| format!("{name}: no kernel fits"))?;
        let is_product =
            call.op.kernel_name(preferred).contains("few") || call.op.kernel_name(preferred).contains("gemv");
        let plan = call.op.kernel_plan(preferred, &call.io(), &info);
        for (i, step) in plan.steps.iter().enumerate() {
            let Step::Dispatch(launch) = step else { continue };
            let Program::Wgsl(program) = &launch.program else { continue };
            let name = if i == 0 { name.clone() } else { format!("{name}/step{i}") };
            let weights = if is_product { weights_in_a_pass(program) } else { 0 };
            kernels.push(Kernel { name, program: program.clone(), target, weights });
        }
    }
    Ok(kernels)
}

/// Sixteen weights of each of a lane's columns.
fn weights_in_a_pass(program: &WgslKernel) -> u32 {
    let columns = program.constants().iter().find(|(name, _)| *name == "COLUMNS");
    16 * columns.map_or(4, |(_, columns)| *columns)
}
