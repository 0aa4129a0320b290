//! Fusions round a softmax against the same graphs as recorded, on random shapes, on every device there is: scores that are
//! scaled and masked, and the choice of experts.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use silicide::graph::{GraphBuilder, GraphExecutor, GraphOptions, GraphValue, Pass};
use silicide::kernel::TensorInfo;
use silicide::ops::fuse::{ROUTE, SCALE_MASK_SOFTMAX};
use silicide::ops::reduce;
use silicide::{Buffer, DType, Device, Error, Recorder, Shape, ops};

type Record<'a> = &'a dyn Fn(&mut GraphBuilder, &[GraphValue]) -> Result<Vec<GraphValue>, Error>;

fn devices() -> Vec<Device> {
    [Device::cpu(), Device::open("vulkan:0")].into_iter().flatten().collect()
}

fn run_cases<S: Strategy>(strategy: S, test: impl Fn(&Device, S::Value)) {
    for device in devices() {
        let config = Config { cases: 16, failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config).run(&strategy, |value| {
            test(&device, value);
            Ok(())
        });
        outcome.unwrap();
        assert!(device.validation_messages().is_empty());
    }
}

fn info(axes: &[usize]) -> TensorInfo {
    TensorInfo::new(DType::F32, Shape::new(axes).unwrap())
}

/// Made-up numbers, of which none of two thousand in a row are equal.
fn buffer(device: &Device, info: &TensorInfo, seed: usize) -> Buffer {
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f64 / 250.0 - 4.0;
    let values: Vec<f64> = (0..info.elements()).map(value).collect();
    let buffer = Buffer::new(device, info.dtype, info.shape).unwrap();
    buffer.as_bytes().unwrap().copy_in(&silicide::quant::encode(info.dtype, &values)).unwrap();
    buffer
}

/// Runs a graph with passes; gives its outputs, the rewrites and the names of the ops that are left.
fn run(
    device: &Device,
    inputs: &[TensorInfo],
    passes: &[Pass],
    record: Record<'_>,
) -> (Vec<Vec<f64>>, usize, Vec<&'static str>) {
    let mut builder = GraphBuilder::new(device);
    let values: Vec<GraphValue> = inputs.iter().map(|info| builder.input("input", *info)).collect();
    let outputs = record(&mut builder, &values).unwrap();
    let mut options = GraphOptions::default();
    options.passes = passes.to_vec();
    let graph = builder.finish(&outputs.iter().collect::<Vec<_>>()).unwrap();
    let executor = GraphExecutor::new(graph, &options).unwrap();
    let buffers: Vec<Buffer> = inputs.iter().enumerate().map(|(i, info)| buffer(device, info, i)).collect();
    let mut session = executor.session(&buffers.iter().collect::<Vec<_>>()).unwrap();
    session.replay().unwrap().wait().unwrap();
    let values = (0..outputs.len()).filter_map(|i| session.output(i)).map(|buffer| {
        silicide::quant::decode(buffer.dtype(), &buffer.as_bytes().unwrap().read::<u8>().unwrap())
    });
    let names = executor.graph().nodes().iter().map(|node| node.op.name()).collect();
    (values.collect(), executor.report().passes.iter().map(|pass| pass.rewrites).sum(), names)
}

/// Runs a graph as it is and with a fusion, which must leave these ops.
fn compare(device: &Device, inputs: &[TensorInfo], pass: Pass, left: &[&str], record: Record<'_>) {
    let (plain, _, before) = run(device, inputs, &[], record);
    let (fused, rewrites, after) = run(device, inputs, &[pass], record);
    assert_eq!(after, left, "{} on {device:?}", pass.name);
    assert_eq!(rewrites > 0, before != after);
    for (plain, fused) in plain.iter().flatten().zip(fused.iter().flatten()) {
        assert!((plain - fused).abs() <= 1e-5 * plain.abs().max(1.0), "{plain} and {fused} on {device:?}");
    }
}

#[test]
fn scores_that_are_scaled_and_masked() {
    let sizes = (1..4usize, 1..6usize, 1..300usize);
    let strategy = (sizes, any::<[bool; 4]>(), -1.5f32..1.5);
    run_cases(strategy, |device, ((heads, queries, keys), [scaled, masked, swapped, each], factor)| {
        let mask = if each { info(&[heads, queries, keys]) } else { info(&[1, queries, keys]) };
        let inputs = [info(&[heads, queries, keys]), mask];
        let left: &[&str] = &["softmax"];
        compare(device, &inputs, SCALE_MASK_SOFTMAX, left, &|builder, x| {
            let mut scores = x[0];
            if scaled {
                scores = ops::unary::scale(builder, &scores, factor)?;
            }
            if masked {
                let (a, b) = if swapped { (&x[1], &scores) } else { (&scores, &x[1]) };
                scores = ops::add(builder, a, b)?;
            }
            Ok(vec![ops::softmax(builder, &scores, None, 1.0)?])
        });
    });
}

#[test]
fn a_factor_of_scores_that_have_a_mask_already() {
    for device in devices() {
        let inputs = [info(&[2, 3, 40]), info(&[3, 40])];
        compare(&device, &inputs, SCALE_MASK_SOFTMAX, &["softmax"], &|builder, x| {
            let scores = ops::unary::scale(builder, &x[0], 0.25)?;
            Ok(vec![ops::softmax(builder, &scores, Some(&x[1]), 0.5)?])
        });
    }
}

#[test]
fn scores_that_mean_something_else_stay() {
    for device in devices() {
        let inputs = [info(&[2, 3, 40]), info(&[3, 40])];
        // The mask would have to be scaled, too.
        compare(&device, &inputs, SCALE_MASK_SOFTMAX, &["binary", "softmax"], &|builder, x| {
            let sum = ops::add(builder, &x[0], &x[1])?;
            Ok(vec![ops::softmax(builder, &sum, None, 0.5)?])
        });
        // Two masks.
        compare(&device, &inputs, SCALE_MASK_SOFTMAX, &["binary", "softmax"], &|builder, x| {
            let sum = ops::add(builder, &x[0], &x[1])?;
            Ok(vec![ops::softmax(builder, &sum, Some(&x[1]), 1.0)?])
        });
        // The scaled scores have another reader.
        compare(&device, &inputs, SCALE_MASK_SOFTMAX, &["unary", "softmax"], &|builder, x| {
            let scaled = ops::unary::scale(builder, &x[0], 0.5)?;
            let sum = ops::add(builder, &scaled, &x[1])?;
            Ok(vec![ops::softmax(builder, &sum, None, 1.0)?, scaled])
        });
        // Not a sum; and a factor that is in a buffer.
        compare(&device, &inputs, SCALE_MASK_SOFTMAX, &["binary", "softmax"], &|builder, x| {
            let product = ops::mul(builder, &x[0], &x[1])?;
            Ok(vec![ops::softmax(builder, &product, None, 1.0)?])
        });
        // A single number is not a mask.
        let inputs = [info(&[2, 3, 40]), info(&[1])];
        compare(&device, &inputs, SCALE_MASK_SOFTMAX, &["binary", "softmax"], &|builder, x| {
            let sum = ops::add(builder, &x[0], &x[1])?;
            Ok(vec![ops::softmax(builder, &sum, None, 1.0)?])
        });
        // The scaled scores lie in memory that others see.
        let inputs = [info(&[2, 40])];
        compare(&device, &inputs, SCALE_MASK_SOFTMAX, &["unary", "softmax"], &|builder, x| {
            builder.run_into(ops::unary::Unary::Scale { factor: 0.5 }, &[&x[0]], &[&x[0]])?;
            Ok(vec![ops::softmax(builder, &x[0], None, 1.0)?])
        });
    }
}

/// The weights of rows divided by their sums, as plain ops do it.
fn normalized(builder: &mut GraphBuilder, weights: &GraphValue) -> Result<GraphValue, Error> {
    let sums = reduce::sum(builder, weights)?;
    let turned = ops::permute::permute(builder, weights, &[1, 0])?;
    let divided = ops::div(builder, &turned, &sums)?;
    ops::permute::permute(builder, &divided, &[1, 0])
}

#[test]
fn experts_chosen_by_a_gate() {
    let strategy = (1..6usize, 2..70usize, 1..9usize, any::<[bool; 3]>(), 0.1f32..3.0);
    run_cases(strategy, |device, (rows, experts, used, [sigmoid, divided, scaled], factor)| {
        let used = used.min(experts);
        let mut left = vec!["route"];
        if sigmoid && divided {
            // The sum of sigmoids may be smaller than what `route` divides by; what follows it stays with it.
            left.extend(["reduce", "permute", "binary", "permute"]);
            left.extend(scaled.then_some("unary"));
        }
        compare(device, &[info(&[rows, experts])], ROUTE, &left, &|builder, x| {
            let gated = match sigmoid {
                true => ops::sigmoid(builder, &x[0])?,
                false => ops::softmax(builder, &x[0], None, 1.0)?,
            };
            let (mut weights, ids) = ops::top_k(builder, &gated, used)?;
            if divided {
                weights = normalized(builder, &weights)?;
            }
            if scaled {
                weights = ops::unary::scale(builder, &weights, factor)?;
            }
            Ok(vec![ids, weights])
        });
    });
}

#[test]
fn experts_whose_weights_are_the_softmax_of_the_chosen() {
    let strategy = (1..6usize, 2..70usize, 1..9usize, any::<bool>());
    run_cases(strategy, |device, (rows, experts, used, scaled)| {
        let used = used.min(experts);
        compare(device, &[info(&[rows, experts])], ROUTE, &["route"], &|builder, x| {
            let (best, ids) = ops::top_k(builder, &x[0], used)?;
            let mut weights = ops::softmax(builder, &best, None, 1.0)?;
            if scaled {
                weights = ops::unary::scale(builder, &weights, 2.5)?;
            }
            Ok(vec![ids, weights])
        });
    });
}

#[test]
fn experts_of_one_row_chosen_with_a_bias() {
    let strategy = (2..70usize, 1..9usize, any::<[bool; 3]>());
    run_cases(strategy, |device, (experts, used, [sigmoid, scaled, swapped])| {
        let used = used.min(experts);
        let inputs = [info(&[1, experts]), info(&[experts])];
        compare(device, &inputs, ROUTE, &["route"], &|builder, x| {
            let gated = match sigmoid {
                true => ops::sigmoid(builder, &x[0])?,
                false => ops::softmax(builder, &x[0], None, 1.0)?,
            };
            let biased = match swapped {
                true => ops::add(builder, &x[1], &gated)?,
                false => ops::add(builder, &gated, &x[1])?,
            };
            let (_, ids) = ops::top_k(builder, &biased, used)?;
            let table = builder.reshape(&gated, Shape::new(&[experts]).unwrap())?;
            let mut weights = ops::gather_rows(builder, &table, &ids, DType::F32)?;
            if scaled {
                weights = ops::unary::scale(builder, &weights, 2.5)?;
            }
            Ok(vec![ids, weights])
        });
    });
}

#[test]
fn routing_of_one_row_with_division_by_its_sum_is_fused() {
    for device in devices() {
        compare(&device, &[info(&[1, 32])], ROUTE, &["route"], &|builder, x| {
            let gated = ops::softmax(builder, &x[0], None, 1.0)?;
            let (weights, ids) = ops::top_k(builder, &gated, 4)?;
            let sum = reduce::sum(builder, &weights)?;
            Ok(vec![ids, ops::div(builder, &weights, &sum)?])
        });
    }
}

#[test]
fn choices_that_others_look_into_stay() {
    for device in devices() {
        let logits = [info(&[3, 32])];
        // All probabilities are wanted.
        compare(&device, &logits, ROUTE, &["softmax", "top_k"], &|builder, x| {
            let gated = ops::softmax(builder, &x[0], None, 1.0)?;
            let (weights, ids) = ops::top_k(builder, &gated, 4)?;
            Ok(vec![ids, weights, gated])
        });
        // No gate, no weights.
        compare(&device, &logits, ROUTE, &["top_k"], &|builder, x| {
            let (weights, ids) = ops::top_k(builder, &x[0], 4)?;
            Ok(vec![ids, weights])
        });
        // A softmax of scaled logits is none that routing does.
        compare(&device, &logits, ROUTE, &["softmax", "top_k"], &|builder, x| {
            let gated = ops::softmax(builder, &x[0], None, 0.5)?;
            let (weights, ids) = ops::top_k(builder, &gated, 4)?;
            Ok(vec![ids, weights])
        });
        // Weights before the scale are wanted, too: the scale stays behind.
        compare(&device, &logits, ROUTE, &["route", "unary"], &|builder, x| {
            let gated = ops::softmax(builder, &x[0], None, 1.0)?;
            let (weights, ids) = ops::top_k(builder, &gated, 4)?;
            Ok(vec![ids, ops::unary::scale(builder, &weights, 2.0)?, weights])
        });
        // Ids of several rows name places of the first in the table.
        let inputs = [info(&[3, 32]), info(&[32])];
        let left: &[&str] = &["softmax", "binary", "top_k", "gather_rows"];
        compare(&device, &inputs, ROUTE, left, &|builder, x| {
            let gated = ops::softmax(builder, &x[0], None, 1.0)?;
            let biased = ops::add(builder, &gated, &x[1])?;
            let (_, ids) = ops::top_k(builder, &biased, 4)?;
            let table = builder.reshape(&gated, Shape::new(&[96]).unwrap())?;
            Ok(vec![ops::gather_rows(builder, &table, &ids, DType::F32)?, ids])
        });
    }
}
