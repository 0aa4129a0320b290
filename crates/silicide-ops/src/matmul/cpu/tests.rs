//! Every kernel on every instruction set of this machine, tile by tile, against the reference; and what the kernels
//! promise about bits.

use super::super::cases::cases;
use super::*;
use crate::case::{Case, Random};
use silicide_core::kernel::{Host, Launch, Op, Operand, Step, TensorInfo, Tolerance};
use silicide_hal::cpu::Isa;
use silicide_hal::{TileBinding, WORKSPACE_ALIGNMENT, Workspace};
use silicide_quant::Shape;
use std::collections::HashMap;

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
            let tile = Tile::new(index, *grid, params, &bindings).with_workspace(workspace);
            // SAFETY: the instruction set is available, and the bindings are what the plan asks for.
            unsafe { (variant.entry)(&tile) };
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
    let largest = expected.iter().fold(0f64, |a, b| a.max(b.abs()));
    let (mut error, mut power, mut worst) = (0f64, 0f64, 0f64);
    for (&got, &expected) in got.iter().zip(expected) {
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

/// Whether a kernel rounds activations to 8 bits.
fn rounds(kernel: &str) -> bool {
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
                    if rounds(name) { case.op.tolerance(&io, &expected.outputs[0]) } else { exact };
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
        .filter(|dtype| crate::product::integer::may_round(*dtype))
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

/// The bits of an output depend on its row, its column and the instruction set, not on what is computed beside it:
/// so neither tiles nor threads change them.
#[test]
fn bits_do_not_depend_on_the_neighbours() {
    let (n, k) = (70, 1100);
    let mut random = Random::new(3);
    let activations: Vec<f32> = (0..130 * k).map(|_| random.gaussian() as f32).collect();
    let weights: Vec<f64> = (0..n * k).map(|_| random.gaussian()).collect();
    let weights = silicide_quant::encode(DType::F16, &weights);
    let product = |kernel: &dyn Kernel<Op = Matmul>, isa: Isa, m: usize, n: usize| {
        let info = |dtype, rows| TensorInfo::new(dtype, Shape::new(&[rows, k]).unwrap());
        let inputs = [info(DType::F32, m), info(DType::F16, n)];
        let outputs = Matmul::default().infer(&inputs).unwrap();
        let plan = kernel.plan(&Matmul::default(), &Io { inputs: &inputs, outputs: &outputs }, &device(isa));
        let a = bytemuck::cast_slice(&activations[..m * k]).to_vec();
        run(&plan, isa, &[a, weights[..n * k * 2].to_vec()], m * n)
    };
    for isa in Isa::available() {
        for (kernel, m) in [(&FEW[1] as &dyn Kernel<Op = Matmul>, 8), (&MANY[1], 130)] {
            let whole = product(kernel, isa, m, n);
            for (few, columns) in [(m - 1, n), (m / 2, 49), (1, 17), (m, 1)] {
                for (row, part) in product(kernel, isa, few, columns).chunks_exact(columns).enumerate() {
                    assert_eq!(part, &whole[row * n..row * n + columns], "{} {isa}", kernel.name());
                }
            }
        }
    }
}

/// Dense weights have one rounding for every number of rows: a sum of exact products in f32. So no number of rows is far from
/// the reference, whichever kernel is selected for it.
#[test]
fn dense_weights_keep_activations_exact_for_every_number_of_rows() {
    let (n, k) = (50, 320);
    let mut random = Random::new(17);
    let activations: Vec<f32> = (0..512 * k).map(|_| random.gaussian() as f32).collect();
    let weights: Vec<f64> = (0..n * k).map(|_| random.gaussian()).collect();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let bytes = silicide_quant::encode(dtype, &weights);
        let exact = silicide_quant::decode(dtype, &bytes);
        let expected: Vec<f64> = activations
            .chunks_exact(k)
            .flat_map(|a| {
                exact.chunks_exact(k).map(|b| a.iter().zip(b).map(|(a, b)| f64::from(*a) * b).sum())
            })
            .collect();
        for isa in Isa::available() {
            let (on, mut bits) = (device(isa), HashMap::new());
            for m in (1..=70).chain([512]) {
                let info = |dtype, rows| TensorInfo::new(dtype, Shape::new(&[rows, k]).unwrap());
                let inputs = [info(DType::F32, m), info(dtype, n)];
                let outputs = Matmul::default().infer(&inputs).unwrap();
                let io = Io { inputs: &inputs, outputs: &outputs };
                // As kernels are selected: the cheapest that fits.
                let op = Matmul::default();
                let fitting = Matmul::kernels()
                    .iter()
                    .filter_map(|kernel| Some((kernel.fits(&op, &io, &on).ok()?.0, kernel)));
                let (_, kernel) = fitting.min_by_key(|(cost, _)| *cost).unwrap();
                let plan = kernel.plan(&op, &io, &on);
                let a = bytemuck::cast_slice(&activations[..m * k]).to_vec();
                let got = run(&plan, isa, &[a, bytes.clone()], m * n);
                let label = format!("{dtype} {isa}, {m} rows");
                check(&got, &expected[..m * n], Tolerance { nmse: 1e-10, max: 1e-4 }, &label);
                // The first row has one set of bits for each of the two kernels.
                let first = bits.entry(kernel.name()).or_insert_with(|| got[..n].to_vec());
                assert_eq!(first, &got[..n], "{label}");
            }
            assert_eq!(bits.len(), 2, "a kernel for few rows, and one for many");
        }
    }
}
