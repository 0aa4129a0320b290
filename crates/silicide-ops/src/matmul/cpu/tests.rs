//! Every kernel on every instruction set of this machine, tile by tile, against the reference; and what the kernels
//! promise about bits.

use super::super::cases::cases;
use super::*;
use crate::case::{Case, Random};
use silicide_core::kernel::{Host, Launch, Op, Operand, Step, TensorInfo, Tolerance};
use silicide_gemm::isa::{Portable, Simd};
use silicide_hal::cpu::Isa;
use silicide_hal::{TileBinding, WORKSPACE_ALIGNMENT, Workspace};
use silicide_quant::Shape;

const SENTINEL: f32 = -12345.5;
const MARGIN: usize = 64;

/// Runs a plan's launches, tiles in reverse order, with outputs between sentinels, scratch and workspaces full of NaN.
fn run(plan: &Plan, isa: Isa, inputs: &[Vec<u8>], outputs: usize) -> Vec<f32> {
    let mut inputs = inputs.to_vec();
    let mut y = vec![SENTINEL; outputs + 2 * MARGIN];
    let mut scratch: Vec<Vec<u8>> = plan.scratch.iter().map(|&bytes| vec![0xff; bytes]).collect();
    for step in &plan.steps {
        let Step::Dispatch(Launch { program: Program::Native(kernel), args, params, grid }) = step else {
            panic!("{step:?}");
        };
        let bindings: Vec<TileBinding> = args
            .iter()
            .map(|arg| match arg.operand {
                Operand::Slot(2) => {
                    TileBinding { start: y[MARGIN..].as_mut_ptr().cast(), bytes: outputs * 4 }
                }
                Operand::Slot(i) => {
                    let input = &mut inputs[usize::from(i)];
                    TileBinding { start: input.as_mut_ptr(), bytes: input.len() }
                }
                Operand::Scratch(i, _) => {
                    let scratch = &mut scratch[usize::from(i)];
                    TileBinding { start: scratch.as_mut_ptr(), bytes: scratch.len() }
                }
                Operand::Table(_) => panic!("native kernels have tables of their own"),
            })
            .collect();
        let variant = kernel.variants().iter().find(|variant| variant.isa <= isa).unwrap();
        let mut memory = vec![0xffu8; kernel.workspace() + WORKSPACE_ALIGNMENT];
        let [x, y, z] = *grid;
        for tile in (0..x * y * z).rev() {
            let index = [tile % x, tile / x % y, tile / x / y];
            memory.fill(0xff);
            let start = memory.as_ptr().align_offset(WORKSPACE_ALIGNMENT);
            let workspace = Workspace { start: memory[start..].as_mut_ptr(), bytes: kernel.workspace() };
            // SAFETY: the instruction set is available, and the bindings are what the plan asks for. The workspace is aligned, and
            // nothing else uses it.
            unsafe {
                let tile = Tile::new(index, *grid, params, &bindings).with_workspace(workspace);
                (variant.entry)(&tile);
            }
        }
    }
    assert!(y[..MARGIN].iter().chain(&y[MARGIN + outputs..]).all(|&x| x == SENTINEL), "wrote outside");
    y[MARGIN..MARGIN + outputs].to_vec()
}

/// A device with an instruction set.
fn device(isa: Isa) -> DeviceInfo {
    let mut info = DeviceInfo::new(Backend::Cpu, "cpu", "test");
    info.isa = Some(isa);
    info
}

/// Inputs and the reference's answer.
struct Expected {
    infos: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
    bytes: Vec<Vec<u8>>,
    values: Vec<f64>,
}

fn expect(case: &Case) -> Expected {
    let bytes: Vec<Vec<u8>> =
        case.inputs.iter().enumerate().map(|(i, input)| input.bytes(i as u64 + 7)).collect();
    let hosts: Vec<Host> = (case.inputs.iter().zip(&bytes))
        .map(|(input, bytes)| Host {
            dtype: input.dtype,
            shape: input.shape,
            values: silicide_quant::decode(input.dtype, bytes),
        })
        .collect();
    let infos: Vec<TensorInfo> = hosts.iter().map(|host| TensorInfo::new(host.dtype, host.shape)).collect();
    let outputs = case.op.infer(&infos).unwrap().to_vec();
    let mut y =
        [Host { dtype: DType::F32, shape: outputs[0].shape, values: vec![f64::NAN; outputs[0].elements()] }];
    case.op.reference(&hosts, &mut y);
    let [y] = y;
    Expected { infos, outputs, bytes, values: y.values }
}

#[track_caller]
fn check(got: &[f32], expected: &[f64], tolerance: Tolerance, label: &str) {
    let largest = expected.iter().filter(|value| value.is_finite()).fold(0f64, |a, b| a.max(b.abs()));
    let (mut error, mut power, mut worst) = (0f64, 0f64, 0f64);
    for (&got, &expected) in got.iter().zip(expected) {
        if !expected.is_finite() {
            let same = f64::from(got) == expected || (got.is_nan() && expected.is_nan());
            assert!(same, "{label}: {got}, expected {expected}");
            continue;
        }
        let difference = f64::from(got) - expected;
        assert!(difference.is_finite(), "{label}: {got}");
        error += difference * difference;
        power += expected * expected;
        worst = worst.max(difference.abs());
    }
    assert!(error <= tolerance.nmse * power, "{label}: nmse {:.1e} of {:.1e}", error / power, tolerance.nmse);
    assert!(
        worst <= tolerance.max * largest,
        "{label}: max {:.1e} of {:.1e}",
        worst / largest,
        tolerance.max
    );
}

/// Whether a kernel quantizes activations.
fn quantizes(kernel: &str) -> bool {
    kernel == INTEGER.name()
}

#[test]
fn every_kernel_agrees_with_the_reference() {
    for case in cases() {
        let expected = expect(&case);
        let io = Io { inputs: &expected.infos, outputs: &expected.outputs };
        let k = expected.infos[0].shape.last() as f64;
        let exact = Tolerance { nmse: 1e-12 + 1e-13 * k, max: 1e-6 + 1e-6 * k.sqrt() };
        let mut runs = 0;
        for isa in Isa::available() {
            samples::note_isa(isa.name(), "kernels");
            let on = device(isa);
            for i in 0..case.op.kernel_count() {
                let name = case.op.kernel_name(i);
                if case.op.kernel_fits(i, &io, &on).is_err() {
                    continue;
                }
                let plan = case.op.kernel_plan(i, &io, &on);
                let got = run(&plan, isa, &expected.bytes, expected.values.len());
                let tolerance =
                    if quantizes(name) { case.op.tolerance(&io, &expected.outputs[0]) } else { exact };
                check(&got, &expected.values, tolerance, &format!("{name} {isa} {}", case.label));
                runs += 1;
            }
        }
        assert!(runs >= Isa::available().len(), "{}", case.label);
    }
}

/// Formats with integer products.
fn integer_formats() -> impl Iterator<Item = DType> {
    silicide_quant::Format::ALL
        .into_iter()
        .map(DType::Block)
        .filter(|dtype| crate::weight::has_integer_product((*dtype).into()))
}

/// In integers an output is the same sum in the same order, however many rows and columns are computed beside it.
#[test]
fn integer_products_agree_bit_for_bit() {
    let (n, k) = (70, 2304);
    let mut random = Random::new(5);
    let activations: Vec<f32> = (0..130 * k).map(|_| random.gaussian() as f32).collect();
    let weights: Vec<f64> = (0..n * k).map(|_| random.gaussian()).collect();
    for dtype in integer_formats() {
        let weights = silicide_quant::encode(dtype, &weights);
        let column = weights.len() / n;
        let product = |isa: Isa, m: usize, n: usize| {
            let info = |dtype, rows| TensorInfo::new(dtype, Shape::new(&[rows, k]).unwrap());
            let inputs = [info(DType::F32, m), info(dtype, n)];
            let outputs = Matmul::default().infer(&inputs).unwrap();
            let io = Io { inputs: &inputs, outputs: &outputs };
            let plan = INTEGER.plan(&Matmul::default(), &io, &device(isa));
            let a = bytemuck::cast_slice(&activations[..m * k]).to_vec();
            run(&plan, isa, &[a, weights[..n * column].to_vec()], m * n)
        };
        for isa in Isa::available() {
            let whole = product(isa, 130, n);
            for (m, columns) in [(1, 17), (3, 49), (16, n), (1, 16)] {
                for (row, part) in product(isa, m, columns).chunks_exact(columns).enumerate() {
                    assert_eq!(part, &whole[row * n..row * n + columns], "{dtype} {isa} {m}");
                }
            }
        }
    }
}

/// The same for blocks of any bits, and so for any code, sign and scale.
#[test]
fn integer_products_of_any_blocks_agree_bit_for_bit() {
    let (rows, n, k) = (17, 37, 768);
    let mut random = Random::new(11);
    let activations: Vec<f32> = (0..rows * k).map(|_| random.gaussian() as f32).collect();
    for dtype in integer_formats() {
        let bytes = n * k / dtype.block_len() * dtype.block_bytes();
        let weights: Vec<u8> = (0..bytes).map(|_| (random.bits() >> 56) as u8).collect();
        let product = |isa: Isa, m: usize| {
            let info = |dtype, rows| TensorInfo::new(dtype, Shape::new(&[rows, k]).unwrap());
            let inputs = [info(DType::F32, m), info(dtype, n)];
            let outputs = Matmul::default().infer(&inputs).unwrap();
            let plan =
                INTEGER.plan(&Matmul::default(), &Io { inputs: &inputs, outputs: &outputs }, &device(isa));
            let a = bytemuck::cast_slice(&activations[..m * k]).to_vec();
            run(&plan, isa, &[a, weights.clone()], m * n)
        };
        for isa in Isa::available() {
            let whole = product(isa, rows);
            assert!(whole.iter().filter(|y| y.is_finite()).count() > rows, "{dtype} {isa}");
            for m in 1..=4 {
                for (i, (got, expected)) in product(isa, m).iter().zip(&whole).enumerate() {
                    // A scale that is not finite leaves nothing to compare.
                    let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
                    assert!(same, "{dtype} {isa}, {m} rows, output {i}: {got} and {expected}");
                }
            }
        }
    }
}

/// A run of activations that is not finite spoils the outputs of its row, and of no other.
#[test]
fn integer_products_keep_nan_in_its_row() {
    for dtype in integer_formats() {
        let info = |dtype, rows| TensorInfo::new(dtype, Shape::new(&[rows, 256]).unwrap());
        let inputs = [info(DType::F32, 3), info(dtype, 20)];
        let outputs = Matmul::default().infer(&inputs).unwrap();
        let weights = silicide_quant::encode(dtype, &[0.5; 20 * 256]);
        for isa in Isa::available() {
            for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut a = vec![1f32; 3 * 256];
                a[256 + 40] = wrong;
                let io = Io { inputs: &inputs, outputs: &outputs };
                let plan = INTEGER.plan(&Matmul::default(), &io, &device(isa));
                let y = run(&plan, isa, &[bytemuck::cast_slice(&a).to_vec(), weights.clone()], 60);
                for (row, y) in y.chunks_exact(20).enumerate() {
                    assert!(y.iter().all(|y| y.is_nan() == (row == 1)), "{dtype} {isa} {wrong}: {y:?}");
                }
            }
        }
    }
}

/// Runs the kernel that is selected for `m` rows of `activations` by `n` weights of `dtype`, activations as they are.
fn exact_product(
    isa: Isa,
    activations: &[f32],
    [m, n, k]: [usize; 3],
    dtype: DType,
    weights: &[u8],
) -> Vec<f32> {
    let info = |dtype, rows| TensorInfo::new(dtype, Shape::new(&[rows, k]).unwrap());
    let (inputs, op, on) = ([info(DType::F32, m), info(dtype, n)], Matmul { exact: true }, device(isa));
    let outputs = op.infer(&inputs).unwrap();
    let io = Io { inputs: &inputs, outputs: &outputs };
    let fitting =
        Matmul::kernels().iter().filter_map(|kernel| Some((kernel.fits(&op, &io, &on).ok()?.0, kernel)));
    let (_, kernel) = fitting.min_by_key(|(cost, _)| *cost).unwrap();
    let a = bytemuck::cast_slice(&activations[..m * k]).to_vec();
    run(&kernel.plan(&op, &io, &on), isa, &[a, weights.to_vec()], m * n)
}

/// As [`exact_product`], with dense weights that are interleaved.
fn interleaved_product(
    isa: Isa,
    activations: &[f32],
    [m, n, k]: [usize; 3],
    dtype: DType,
    weights: &[u8],
) -> Vec<f32> {
    let set = crate::interleave::TOGETHER * k * dtype.size();
    let mut sets = weights.to_vec();
    for (from, to) in weights.chunks_exact(set).zip(sets.chunks_exact_mut(set)) {
        silicide_gemm::f32::interleave(Portable::detect().unwrap(), dtype, from, to).unwrap();
    }
    let (program, params, grid) =
        dense_launch(&Problem { batch: 1, m, n, k }, dtype, crate::interleave::TOGETHER);
    let a = bytemuck::cast_slice(&activations[..m * k]).to_vec();
    run(&Plan::launch(program, &ARGS, &params, grid), isa, &[a, sets], m * n)
}

const DENSE_TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// On an instruction set the bits of an output depend on its row of activations and its weights, not on how many rows and outputs are
/// computed beside it, nor on where the weights lie.
#[test]
fn dense_products_have_the_same_bits_for_every_number_of_rows() {
    let (n, k) = (80, 1100);
    let mut random = Random::new(3);
    let activations: Vec<f32> = (0..512 * k).map(|_| random.gaussian() as f32).collect();
    let weights: Vec<f64> = (0..n * k).map(|_| random.gaussian()).collect();
    for dtype in DENSE_TYPES {
        let bytes = silicide_quant::encode(dtype, &weights);
        let row_bytes = bytes.len() / n;
        for isa in Isa::available() {
            let whole = exact_product(isa, &activations, [512, n, k], dtype, &bytes);
            for m in (1..=70).chain([512]) {
                let got = interleaved_product(isa, &activations, [m, n, k], dtype, &bytes);
                assert_eq!(got, whole[..m * n], "{dtype} {isa} interleaved, {m} rows");
                let got = exact_product(isa, &activations, [m, n, k], dtype, &bytes);
                assert_eq!(got, whole[..m * n], "{dtype} {isa}, {m} rows");
            }
            for (m, outputs) in [(1, 1), (3, 17), (9, 49), (70, 79)] {
                let part = &bytes[..outputs * row_bytes];
                let got = exact_product(isa, &activations, [m, outputs, k], dtype, part);
                for (row, got) in got.chunks_exact(outputs).enumerate() {
                    assert_eq!(got, &whole[row * n..row * n + outputs], "{dtype} {isa}, {outputs} outputs");
                }
            }
        }
    }
}

/// Blocks that are multiplied exactly have the bits of their numbers as dense weights, for every number of rows.
#[test]
fn exact_products_of_blocks_have_the_bits_of_dense_ones() {
    let n = 33;
    let mut random = Random::new(4);
    for format in silicide_quant::Format::ALL {
        let k = format.block_len() * 288usize.div_ceil(format.block_len());
        let activations: Vec<f32> = (0..512 * k).map(|_| random.gaussian() as f32).collect();
        let weights: Vec<f64> = (0..n * k).map(|_| random.gaussian()).collect();
        let blocks = silicide_quant::encode(DType::Block(format), &weights);
        let mut wide = vec![0f32; n * k];
        format.decode(&blocks, &mut wide).unwrap();
        let wide: &[u8] = bytemuck::cast_slice(&wide);
        for isa in Isa::available() {
            let whole = exact_product(isa, &activations, [70, n, k], DType::F32, wide);
            for m in (1..=20).chain([48, 49, 70]) {
                let got = exact_product(isa, &activations, [m, n, k], DType::Block(format), &blocks);
                assert_eq!(got, whole[..m * n], "{format} {isa}, {m} rows");
            }
            let most = exact_product(isa, &activations, [512, n, k], DType::Block(format), &blocks);
            assert_eq!(most[..70 * n], whole, "{format} {isa}, 512 rows");
        }
    }
}

/// Dense products are sums of exact products in f32: no number of rows is far from the reference.
#[test]
fn dense_products_are_near_the_reference_for_every_number_of_rows() {
    let (n, k) = (50, 320);
    let mut random = Random::new(17);
    let activations: Vec<f32> = (0..512 * k).map(|_| random.gaussian() as f32).collect();
    let weights: Vec<f64> = (0..n * k).map(|_| random.gaussian()).collect();
    for dtype in DENSE_TYPES {
        let bytes = silicide_quant::encode(dtype, &weights);
        let exact = silicide_quant::decode(dtype, &bytes);
        let expected: Vec<f64> = activations
            .chunks_exact(k)
            .flat_map(|a| {
                exact.chunks_exact(k).map(|b| a.iter().zip(b).map(|(a, b)| f64::from(*a) * b).sum())
            })
            .collect();
        for isa in Isa::available() {
            for m in [1, 8, 9, 70, 512] {
                let got = exact_product(isa, &activations, [m, n, k], dtype, &bytes);
                let label = format!("{dtype} {isa}, {m} rows");
                check(&got, &expected[..m * n], Tolerance { nmse: 1e-10, max: 1e-4 }, &label);
            }
        }
    }
}
