//! Fused graphs against the same graphs as recorded, on random shapes, on every device there is.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use silicide::graph::{COMMON_SUBEXPRESSIONS, GraphBuilder, GraphExecutor, GraphOptions, GraphValue, Pass};
use silicide::kernel::TensorInfo;
use silicide::ops::cache_write;
use silicide::ops::fuse::{
    ADD_RMS_NORM, FUSIONS, GATED_EXPERTS, GATED_LINEARS, LINEAR_BIAS, QUANTIZED_ROWS, ROPE_CACHE,
    SHARED_LINEARS,
};
use silicide::ops::glu::Activation;
use silicide::ops::linear::{Layer, Linear};
use silicide::ops::rope::RopeStyle;
use silicide::quant::{Encoding, Format};
use silicide::weights::Weight;
use silicide::{Buffer, DType, Device, Error, Recorder, Shape, ops};

/// What records the ops that are to be fused.
type Record<'a> = &'a dyn Fn(&mut GraphBuilder, &[GraphValue]) -> Result<Vec<GraphValue>, Error>;

fn devices() -> Vec<Device> {
    [Device::cpu(), Device::open("vulkan:0")].into_iter().flatten().collect()
}

fn run_cases<S: Strategy>(strategy: S, test: impl Fn(&Device, S::Value)) {
    run_some(12, 12, strategy, test);
}

/// Runs `test` with `native` cases on the CPU, and with `compiled` cases on GPUs.
fn run_some<S: Strategy>(native: u32, compiled: u32, strategy: S, test: impl Fn(&Device, S::Value)) {
    for device in devices() {
        let cases = if device.info().id == "cpu" { native } else { compiled };
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&strategy, |value| {
            test(&device, value);
            Ok(())
        });
        outcome.unwrap();
        assert!(device.validation_messages().is_empty());
    }
}

/// A buffer of made-up values of a type.
fn buffer(device: &Device, info: &TensorInfo, seed: usize) -> Buffer {
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f64 / 1001.0 - 1.0;
    let values: Vec<f64> = match info.dtype {
        DType::U32 => (0..info.elements()).map(|i| i as f64).collect(),
        _ => (0..info.elements()).map(value).collect(),
    };
    let buffer = Buffer::new(device, info.dtype, info.shape).unwrap();
    buffer.as_bytes().unwrap().copy_in(&silicide::quant::encode(info.dtype, &values)).unwrap();
    buffer
}

fn info(dtype: DType, axes: &[usize]) -> TensorInfo {
    TensorInfo::new(dtype, Shape::new(axes).unwrap())
}

/// Runs a graph with passes; gives all outputs and inputs afterwards, the rewrites and the commands.
fn run(
    device: &Device,
    inputs: &[TensorInfo],
    passes: &[Pass],
    record: Record<'_>,
) -> (Vec<Vec<f64>>, usize, usize) {
    let mut builder = GraphBuilder::new(device);
    let values: Vec<GraphValue> = inputs.iter().map(|info| builder.input("input", *info)).collect();
    let outputs = record(&mut builder, &values).unwrap();
    let outputs: Vec<&GraphValue> = outputs.iter().collect();
    let mut options = GraphOptions::default();
    // As graphs have it: what several products read is quantized once.
    options.passes = [&[COMMON_SUBEXPRESSIONS], passes].concat();
    let executor = GraphExecutor::new(builder.finish(&outputs).unwrap(), &options).unwrap();
    let buffers: Vec<Buffer> = inputs.iter().enumerate().map(|(i, info)| buffer(device, info, i)).collect();
    let mut session = executor.session(&buffers.iter().collect::<Vec<_>>()).unwrap();
    session.replay().unwrap().wait().unwrap();
    let made = (0..outputs.len()).filter_map(|i| session.output(i)).chain(&buffers);
    let values = made.map(|buffer| {
        let bytes = buffer.as_bytes().unwrap();
        silicide::quant::decode(buffer.dtype(), &bytes.read::<u8>().unwrap())
    });
    let report = executor.report();
    (values.collect(), report.passes.iter().skip(1).map(|pass| pass.rewrites).sum(), report.commands)
}

/// Runs a graph as it is and with a fusion, which must rewrite it `rewrites` times.
fn compare(device: &Device, inputs: &[TensorInfo], pass: Pass, rewrites: usize, record: Record<'_>) {
    let (plain, _, before) = run(device, inputs, &[], record);
    let (fused, count, after) = run(device, inputs, &[pass], record);
    assert_eq!(count, rewrites, "{} on {device:?}", pass.name);
    assert!(after < before || rewrites == 0, "{after} of {before} commands");
    if device.info().is_gpu() {
        agree(&plain, &fused);
    } else {
        assert_eq!(plain, fused, "{} changes bits", pass.name);
    }
}

/// Values that are the same but for rounding.
fn agree(plain: &[Vec<f64>], fused: &[Vec<f64>]) {
    for (plain, fused) in plain.iter().zip(fused) {
        let largest = plain.iter().fold(1.0f64, |most, value| most.max(value.abs()));
        for (a, b) in plain.iter().zip(fused) {
            // A step of bf16: values in between may round to either neighbour.
            assert!((a - b).abs() <= largest * 8e-3, "{a} and {b}");
        }
        let error: f64 = plain.iter().zip(fused).map(|(a, b)| (a - b).powi(2)).sum();
        assert!(error <= 1e-6 * plain.iter().map(|a| a * a).sum::<f64>() + 1e-12);
    }
}

#[test]
fn a_sum_and_its_norm() {
    let strategy = (1..5usize, 1..300usize, any::<bool>(), any::<bool>());
    run_cases(strategy, |device, (rows, columns, weighted, swapped)| {
        let x = info(DType::F32, &[rows, columns]);
        let inputs = [x, x, info(DType::F32, &[columns])];
        compare(device, &inputs, ADD_RMS_NORM, 1, &|builder, values| {
            let (a, b) = if swapped { (&values[1], &values[0]) } else { (&values[0], &values[1]) };
            let sum = ops::add(builder, a, b)?;
            let norm = ops::rms_norm(builder, &sum, weighted.then_some(&values[2]), 1e-5)?;
            // The stream goes on with the sum.
            Ok(vec![ops::add(builder, &sum, &norm)?, norm])
        });
    });
}

#[test]
fn a_bias_is_no_residual() {
    for device in devices() {
        let inputs = [info(DType::F32, &[3, 40]), info(DType::F32, &[40])];
        compare(&device, &inputs, ADD_RMS_NORM, 0, &|builder, values| {
            let sum = ops::add(builder, &values[0], &values[1])?;
            Ok(vec![ops::rms_norm(builder, &sum, None, 1e-5)?])
        });
    }
}

#[test]
fn turning_and_storing() {
    let types = prop_oneof![Just(DType::F32), Just(DType::F16), Just(DType::BF16)];
    let sizes = (1..9usize, 1..4usize, 1..4usize, 1..40usize, 1..20usize);
    let strategy = (sizes, types.clone(), types, any::<bool>());
    run_cases(strategy, |device, ((tokens, group, kv_heads, half, value_dim), keys, values, halves)| {
        let (heads, dim, capacity) = (group * kv_heads, 2 * half + 1, tokens + 3);
        let inputs = [
            info(DType::F32, &[tokens, heads, dim]),
            info(DType::F32, &[tokens, kv_heads, dim]),
            info(DType::F32, &[tokens, kv_heads, value_dim]),
            info(DType::F32, &[tokens, half, 2]),
            info(DType::U32, &[tokens]),
            info(keys, &[kv_heads, capacity, dim]),
            info(values, &[kv_heads, capacity, value_dim]),
        ];
        let style = if halves { RopeStyle::Halves } else { RopeStyle::Interleaved };
        compare(device, &inputs, ROPE_CACHE, 1, &|builder, x| {
            // Computed values, as those of projections are.
            let [q, k, v] =
                [0, 1, 2].map(|i| builder.run_one(ops::unary::Unary::Scale { factor: 0.5 }, &[&x[i]]));
            let (q, k, v) = (q?, k?, v?);
            let q = ops::rope(builder, &q, &x[3], style)?;
            let k = ops::rope(builder, &k, &x[3], style)?;
            cache_write(builder, &k, &x[4], &x[5])?;
            cache_write(builder, &v, &x[4], &x[6])?;
            Ok(vec![q])
        });
    });
}

#[test]
fn keys_that_someone_else_needs_are_not_hidden() {
    for device in devices() {
        let inputs = [
            info(DType::F32, &[1, 2, 8]),
            info(DType::F32, &[1, 4, 2]),
            info(DType::U32, &[1]),
            info(DType::F16, &[2, 5, 8]),
            info(DType::F16, &[2, 5, 8]),
        ];
        compare(&device, &inputs, ROPE_CACHE, 0, &|builder, x| {
            let q = ops::rope(builder, &x[0], &x[1], RopeStyle::Interleaved)?;
            let k = ops::rope(builder, &x[0], &x[1], RopeStyle::Interleaved)?;
            cache_write(builder, &k, &x[2], &x[3])?;
            cache_write(builder, &x[0], &x[2], &x[4])?;
            Ok(vec![q, k])
        });
    }
}

/// Element types that weights have.
fn weights() -> impl Strategy<Value = DType> {
    let formats = [Format::Q4_0, Format::Q8_0, Format::Q4K, Format::Q6K, Format::Mxfp4, Format::Iq1S];
    let formats = formats.map(DType::Block);
    prop::sample::select([formats.as_slice(), &[DType::F32, DType::F16]].concat())
}

/// The format, or one whose kernels are quicker to compile where they are compiled.
fn quick(device: &Device, dtype: DType) -> DType {
    let slow = [Format::Mxfp4, Format::Iq1S, Format::Q6K].map(DType::Block).contains(&dtype);
    if slow && device.info().id != "cpu" { DType::Block(Format::Q8_0) } else { dtype }
}

/// A depth of whole blocks.
fn depth(dtype: DType, blocks: usize) -> usize {
    blocks * dtype.block_len().max(32)
}

#[test]
fn a_product_and_its_bias() {
    let strategy = (1..12usize, 1..90usize, 1..4usize, weights(), any::<bool>());
    run_some(24, 4, strategy, |device, (m, n, blocks, dtype, swapped)| {
        let dtype = quick(device, dtype);
        let k = depth(dtype, blocks);
        let inputs = [info(DType::F32, &[m, k]), info(dtype, &[n, k]), info(DType::F32, &[n])];
        compare(device, &inputs, LINEAR_BIAS, 1, &|builder, x| {
            let y = ops::linear(builder, &x[0], &x[1], None)?;
            let sum = if swapped { ops::add(builder, &x[2], &y)? } else { ops::add(builder, &y, &x[2])? };
            Ok(vec![sum])
        });
    });
}

#[test]
fn a_product_that_someone_else_reads_keeps_its_bias_apart() {
    for device in devices() {
        let inputs = [info(DType::F32, &[2, 64]), info(DType::F16, &[40, 64]), info(DType::F32, &[40])];
        compare(&device, &inputs, LINEAR_BIAS, 0, &|builder, x| {
            let y = ops::linear(builder, &x[0], &x[1], None)?;
            Ok(vec![ops::add(builder, &y, &x[2])?, y])
        });
        // One row is added to every row; as many rows as there are are no bias.
        let inputs = [info(DType::F32, &[2, 64]), info(DType::F16, &[40, 64]), info(DType::F32, &[2, 40])];
        compare(&device, &inputs, LINEAR_BIAS, 0, &|builder, x| {
            let y = ops::linear(builder, &x[0], &x[1], None)?;
            Ok(vec![ops::add(builder, &y, &x[2])?])
        });
    }
}

#[test]
fn gate_and_up() {
    let activations = prop::sample::select(vec![Activation::Silu, Activation::GeluTanh, Activation::GeluErf]);
    let strategy = (1..20usize, 1..5usize, 1..4usize, weights(), activations);
    run_some(24, 4, strategy, |device, (m, runs, blocks, dtype, activation)| {
        let dtype = quick(device, dtype);
        let (k, n) = (depth(dtype, blocks), 32 * runs);
        // What follows quantizes it, on the CPU.
        let down = info(DType::Block(Format::Q8_0), &[24, n]);
        let inputs = [info(DType::F32, &[m, k]), info(dtype, &[n, k]), info(dtype, &[n, k]), down];
        compare(device, &inputs, GATED_LINEARS, 1, &|builder, x| {
            let gate = ops::linear(builder, &x[0], &x[1], None)?;
            let up = ops::linear(builder, &x[0], &x[2], None)?;
            ops::glu_into(builder, activation, &gate, &up, &gate)?;
            Ok(vec![ops::linear(builder, &gate, &x[3], None)?, gate])
        });
    });
}

#[test]
fn a_gate_that_someone_else_reads_is_not_hidden() {
    for device in devices() {
        let weight = info(DType::F16, &[40, 64]);
        let inputs = [info(DType::F32, &[2, 64]), weight, weight, info(DType::F32, &[2, 64])];
        for (up_of, shows_gate, rewrites) in [(0, false, 1), (0, true, 0), (3, false, 0)] {
            compare(&device, &inputs, GATED_LINEARS, rewrites, &|builder, x| {
                let gate = ops::linear(builder, &x[0], &x[1], None)?;
                let up = ops::linear(builder, &x[up_of], &x[2], None)?;
                let y = ops::glu(builder, Activation::Silu, &gate, &up)?;
                Ok(if shows_gate { vec![y, gate] } else { vec![y] })
            });
        }
    }
}

#[test]
fn gate_and_up_of_experts() {
    let activations = prop::sample::select(vec![
        Activation::Silu,
        Activation::Sigmoid,
        Activation::GeluTanh,
        Activation::GeluErf,
    ]);
    let strategy = (1..9usize, 1..4usize, 1..70usize, weights(), activations);
    run_some(24, 2, strategy, |device, (rows, used, n, dtype, activation)| {
        let dtype = quick(device, dtype);
        let k = depth(dtype, 2);
        // As many experts as pairs: ids are numbers of pairs.
        let weight = info(dtype, &[rows * used, n, k]);
        let inputs = [info(DType::F32, &[rows, k]), weight, weight, info(DType::U32, &[rows, used])];
        // On GPUs, products are gated in a launch of their own.
        let rewrites = usize::from(!device.info().is_gpu());
        compare(device, &inputs, GATED_EXPERTS, rewrites, &|builder, x| {
            let gate = ops::expert_linear(builder, &x[0], &x[1], &x[3])?;
            let up = ops::expert_linear(builder, &x[0], &x[2], &x[3])?;
            Ok(vec![ops::glu(builder, activation, &gate, &up)?])
        });
    });
}

#[test]
fn a_gate_of_other_experts_is_not_fused() {
    for device in devices() {
        let weight = info(DType::F16, &[6, 40, 64]);
        let ids = info(DType::U32, &[3, 2]);
        let inputs = [info(DType::F32, &[3, 64]), weight, weight, ids, ids];
        compare(&device, &inputs, GATED_EXPERTS, 0, &|builder, x| {
            let gate = ops::expert_linear(builder, &x[0], &x[1], &x[3])?;
            let up = ops::expert_linear(builder, &x[0], &x[2], &x[4])?;
            Ok(vec![ops::glu(builder, Activation::Silu, &gate, &up)?])
        });
    }
}

/// A norm, both products with their gate, and the product of that: each leaves its output quantized for the next.
#[test]
fn a_feed_forward_is_three_commands() {
    for (rows, device) in
        [1usize, 40].into_iter().flat_map(|rows| devices().into_iter().map(move |d| (rows, d)))
    {
        let weight = |axes: &[usize]| info(DType::Block(Format::Q4_0), axes);
        let inputs =
            [info(DType::F32, &[rows, 96]), weight(&[160, 96]), weight(&[160, 96]), weight(&[96, 160])];
        let record = |builder: &mut GraphBuilder, x: &[GraphValue]| -> Result<Vec<GraphValue>, Error> {
            let norm = ops::rms_norm(builder, &x[0], None, 1e-5)?;
            let gate = ops::linear(builder, &norm, &x[1], None)?;
            let up = ops::linear(builder, &norm, &x[2], None)?;
            ops::glu_into(builder, Activation::Silu, &gate, &up, &gate)?;
            Ok(vec![ops::linear(builder, &gate, &x[3], None)?])
        };
        let (plain, _, before) = run(&device, &inputs, &[], &record);
        let (fused, _, after) = run(&device, &inputs, FUSIONS, &record);
        assert_eq!(after, 3, "of {before} on {device:?}");
        agree(&plain, &fused);
    }
}

#[test]
fn products_of_one_input() {
    // Fewer outputs than a vector has lanes are not multiplied in integers, so they read another input.
    let sizes = (1..20usize, 16..90usize, 16..50usize, 16..50usize, 1..4usize);
    let strategy = (sizes, weights(), any::<[bool; 3]>(), any::<bool>());
    run_some(24, 4, strategy, |device, ((m, q, k, v, blocks), dtype, biases, two)| {
        let dtype = quick(device, dtype);
        let depth = depth(dtype, blocks);
        let columns = [q, k, v];
        let mut inputs = vec![info(DType::F32, &[m, depth])];
        inputs.extend(columns.map(|n| info(dtype, &[n, depth])));
        inputs.extend(columns.map(|n| info(DType::F32, &[n])));
        let record = |builder: &mut GraphBuilder, x: &[GraphValue]| -> Result<Vec<GraphValue>, Error> {
            let norm = ops::rms_norm(builder, &x[0], None, 1e-5)?;
            let mut outputs = Vec::new();
            for i in 0..if two { 2 } else { 3 } {
                let y = ops::linear(builder, &norm, &x[1 + i], None)?;
                outputs.push(if biases[i] { ops::add(builder, &y, &x[4 + i])? } else { y });
            }
            Ok(outputs)
        };
        let (plain, _, before) = run(device, &inputs, &[], &record);
        let (fused, rewrites, after) = run(device, &inputs, &[LINEAR_BIAS, SHARED_LINEARS], &record);
        let biased = biases.iter().take(if two { 2 } else { 3 }).filter(|bias| **bias).count();
        assert_eq!(rewrites, 1 + biased);
        assert!(after < before, "{after} of {before} commands");
        agree(&plain, &fused);
        assert!(device.info().id != "cpu" || plain == fused, "bits change");
    });
}

#[test]
fn a_product_of_something_else_stays_apart() {
    for device in devices() {
        let (x, weight) = (info(DType::F32, &[2, 64]), info(DType::F16, &[40, 64]));
        compare(&device, &[x, x, weight, weight], SHARED_LINEARS, 0, &|builder, x| {
            Ok(vec![ops::linear(builder, &x[0], &x[2], None)?, ops::linear(builder, &x[1], &x[3], None)?])
        });
        // The second product's weight is made of the first one.
        let square = info(DType::F32, &[64, 64]);
        compare(&device, &[square, square], SHARED_LINEARS, 0, &|builder, x| {
            let first = ops::linear(builder, &x[0], &x[1], None)?;
            Ok(vec![ops::linear(builder, &x[0], &first, None)?])
        });
    }
}

/// Where ops write over memory from outside that the fused op would still read, or write twice, they stay as they are.
#[test]
fn a_value_that_is_overwritten_in_between_is_not_fused() {
    for device in devices() {
        let (square, rows) = (info(DType::F32, &[64, 64]), info(DType::F32, &[2, 64]));
        let vector = info(DType::F32, &[64]);
        compare(&device, &[rows, square, vector], LINEAR_BIAS, 0, &|builder, x| {
            let product = ops::linear(builder, &x[0], &x[1], None)?;
            builder.run_into(ops::binary::Binary::Add, &[&product, &x[2]], &[&x[0]])?;
            Ok(vec![])
        });
        compare(&device, &[rows, square, square], GATED_LINEARS, 0, &|builder, x| {
            let (gate, up) =
                (ops::linear(builder, &x[0], &x[1], None)?, ops::linear(builder, &x[0], &x[2], None)?);
            let glu = ops::glu::Glu::new(Activation::Silu);
            builder.run_into(glu, &[&gate, &up], &[&x[0]])?;
            Ok(vec![])
        });
        compare(&device, &[rows, square, square, rows], SHARED_LINEARS, 0, &|builder, x| {
            let product = || Linear::from(Encoding::Element(DType::F32));
            builder.run_into(product(), &[&x[0], &x[1]], &[&x[3]])?;
            builder.run_into(product(), &[&x[0], &x[2]], &[&x[3]])?;
            Ok(vec![])
        });
        compare(&device, &[rows, rows, vector, rows], ADD_RMS_NORM, 0, &|builder, x| {
            builder.run_into(ops::binary::Binary::Add, &[&x[0], &x[1]], &[&x[3]])?;
            let norm = ops::rms_norm::RmsNorm::new(1e-5, true);
            builder.run_into(norm, &[&x[3], &x[2]], &[&x[3]])?;
            Ok(vec![])
        });
    }
}

/// Several products recorded as one op are what a graph makes of them.
#[test]
fn products_by_hand_are_those_that_are_fused() {
    for device in devices() {
        let (x, weight, bias) =
            (info(DType::F32, &[3, 64]), info(DType::F16, &[40, 64]), info(DType::F32, &[40]));
        let [w, v] = [1, 2].map(|seed| Weight::from(buffer(&device, &weight, seed)));
        let bias = buffer(&device, &bias, 3);
        let by_parts = |builder: &mut GraphBuilder, x: &[GraphValue]| -> Result<Vec<GraphValue>, Error> {
            let (w, v, bias) = (w.constant(builder), v.constant(builder), builder.constant(&bias));
            let [a, b] =
                [ops::linear(builder, &x[0], &w, Some(&bias))?, ops::linear(builder, &x[0], &v, None)?];
            let y = ops::glu(builder, Activation::Silu, &a, &b)?;
            Ok(vec![y])
        };
        let by_hand = |builder: &mut GraphBuilder, x: &[GraphValue]| -> Result<Vec<GraphValue>, Error> {
            let (w, v, bias) = (w.constant(builder), v.constant(builder), builder.constant(&bias));
            let (gate, up) = (Layer { weight: &w, bias: Some(&bias) }, Layer { weight: &v, bias: None });
            Ok(vec![ops::linear_gated(builder, &x[0], gate, up, Activation::Silu)?])
        };
        let (fused, _, _) = run(&device, &[x], FUSIONS, &by_parts);
        let (made, _, commands) = run(&device, &[x], &[], &by_hand);
        assert_eq!((fused, 1), (made, commands));
        let apart = |builder: &mut GraphBuilder, x: &[GraphValue]| -> Result<Vec<GraphValue>, Error> {
            let (w, v) = (w.constant(builder), v.constant(builder));
            Ok(vec![ops::linear(builder, &x[0], &w, None)?, ops::linear(builder, &x[0], &v, None)?])
        };
        let together = |builder: &mut GraphBuilder, x: &[GraphValue]| -> Result<Vec<GraphValue>, Error> {
            let (w, v) = (w.constant(builder), v.constant(builder));
            let layers = [&w, &v].map(|weight| Layer { weight, bias: None });
            Ok(ops::linear_shared(builder, &x[0], &layers)?.to_vec())
        };
        let (fused, _, _) = run(&device, &[x], FUSIONS, &apart);
        let (made, _, commands) = run(&device, &[x], &[], &together);
        assert_eq!((fused, 1), (made, commands));
    }
}

#[test]
fn every_fusion_has_a_name_of_its_own() {
    let mut names: Vec<&str> = FUSIONS.iter().map(|pass| pass.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FUSIONS.len());
}

/// Outputs of one command never share memory, even where nothing reads one of them any more because it was quantized.
#[test]
fn a_norm_that_only_products_read_leaves_the_sum_alone() {
    for device in devices() {
        let (k, weight) = (256, info(DType::Block(Format::Q8_0), &[64, 256]));
        let row = info(DType::F32, &[1, k]);
        compare(&device, &[row, row, weight], ADD_RMS_NORM, 1, &|builder, x| {
            let [a, b] = [0, 1].map(|i| ops::add(builder, &x[i], &x[0]));
            let (a, b) = (a?, b?);
            let sum = ops::add(builder, &a, &b)?;
            let norm = ops::rms_norm(builder, &sum, None, 1e-5)?;
            let y = ops::linear(builder, &norm, &x[2], None)?;
            let exact = ops::silu(builder, &sum)?;
            Ok(vec![y, exact])
        });
    }
}

/// A value that its producer quantizes has the same bits as one that `quantize_q8` quantizes.
#[test]
fn outputs_that_are_quantized_where_they_are_made() {
    let formats = [Format::Q4_1, Format::Q8_0, Format::Q4K];
    for device in devices() {
        for (rows, format) in [(1usize, 0usize), (3, 1), (2, 2), (40, 1)] {
            let format = formats[format];
            let (k, n) = (512, 64);
            let weight = info(DType::Block(format), &[n, k]);
            let inputs = [
                info(DType::F32, &[rows, k]),
                info(DType::F32, &[rows, k]),
                info(DType::F32, &[k]),
                weight,
                weight,
            ];
            let record = |builder: &mut GraphBuilder, x: &[GraphValue]| -> Result<Vec<GraphValue>, Error> {
                let norm = ops::rms_norm(builder, &x[0], Some(&x[2]), 1e-5)?;
                let first = ops::linear(builder, &norm, &x[3], None)?;
                let second = ops::linear(builder, &norm, &x[4], None)?;
                let gated = ops::glu(builder, Activation::Silu, &norm, &x[1])?;
                let third = ops::linear(builder, &gated, &x[3], None)?;
                Ok(vec![norm, first, second, gated, third])
            };
            let (captured, _, commands) = run(&device, &inputs, &[QUANTIZED_ROWS], &record);
            let buffers: Vec<Buffer> =
                inputs.iter().enumerate().map(|(i, info)| buffer(&device, info, i)).collect();
            let mut encoder = silicide::CommandEncoder::new(&device);
            let norm = ops::rms_norm(&mut encoder, &buffers[0], Some(&buffers[2]), 1e-5).unwrap();
            let first = ops::linear(&mut encoder, &norm, &buffers[3], None).unwrap();
            let second = ops::linear(&mut encoder, &norm, &buffers[4], None).unwrap();
            let gated = ops::glu(&mut encoder, Activation::Silu, &norm, &buffers[1]).unwrap();
            let third = ops::linear(&mut encoder, &gated, &buffers[3], None).unwrap();
            let recorded = encoder.list().commands.iter();
            let recorded =
                recorded.filter(|command| matches!(command, silicide::hal::Command::Dispatch(_))).count();
            encoder.submit().unwrap().wait().unwrap();
            for (value, captured) in [norm, first, second, gated, third].iter().zip(&captured) {
                let exact: Vec<f64> = value.read::<f32>().unwrap().iter().map(|x| f64::from(*x)).collect();
                assert_eq!(&exact, captured, "{rows} rows of {format:?} on {device:?}");
            }
            let on_cpu = device.info().id == "cpu";
            assert!(!on_cpu || commands + 2 <= recorded + usize::from(rows > 32), "{commands} of {recorded}");
        }
    }
}

/// Another op reads the norm before it is quantized, so the fused op stands where the norm stood.
#[test]
fn a_norm_that_others_read_too_is_quantized_where_it_is_made() {
    for device in devices() {
        let on_cpu = device.info().id == "cpu";
        for rows in [1, 3] {
            let inputs = [
                info(DType::F32, &[rows, 256]),
                info(DType::F32, &[8, 256]),
                info(DType::Block(Format::Q4K), &[32, 256]),
            ];
            compare(&device, &inputs, QUANTIZED_ROWS, usize::from(on_cpu), &|builder, x| {
                let norm = ops::rms_norm(builder, &x[0], None, 1e-5)?;
                let router = ops::linear(builder, &norm, &x[1], None)?;
                let product = ops::linear(builder, &norm, &x[2], None)?;
                Ok(vec![router, product])
            });
        }
    }
}
