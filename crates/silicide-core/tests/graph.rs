//! Graphs against the encoder: the same program, captured or recorded, computes the same bits.

use crate::common::ops::{Accumulate, Add, Scale, Triple};
use crate::common::{count, devices, devices_with, null_device, vector};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use silicide_core::graph::{COMMON_SUBEXPRESSIONS, DEAD_CODE, Fusion, Operand};
use silicide_core::hal::null::NullOptions;
use silicide_core::kernel::TensorInfo;
use silicide_core::{
    Buffer, CommandEncoder, ComputeGraph, Device, DeviceOptions, Error, GraphBuilder, GraphExecutor,
    GraphOptions, Recorder, Result,
};
use silicide_quant::{DType, Shape};
use std::sync::Arc;

const LEN: usize = 300;

/// One op of a random program; numbers name values, modulo how many there are.
#[derive(Clone, Debug)]
enum Step {
    Add(usize, usize),
    AddOver(usize, usize),
    Scale(usize, u8),
    ScaleInto(usize, usize),
    Accumulate(usize, usize),
    Triple(usize),
    Reshape(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = 0..64usize;
    let step = prop_oneof![
        (n.clone(), n.clone()).prop_map(|(a, b)| Step::Add(a, b)),
        (n.clone(), n.clone()).prop_map(|(a, b)| Step::AddOver(a, b)),
        (n.clone(), 0..3u8).prop_map(|(a, f)| Step::Scale(a, f)),
        (n.clone(), n.clone()).prop_map(|(a, b)| Step::ScaleInto(a, b)),
        (n.clone(), n.clone()).prop_map(|(a, b)| Step::Accumulate(a, b)),
        n.clone().prop_map(Step::Triple),
        n.prop_map(Step::Reshape),
    ];
    proptest::collection::vec(step, 1..24)
}

/// Records a program; gives all values that there are in the end. What is refused is refused by every recorder.
fn record<R: Recorder>(recorder: &mut R, steps: &[Step], mut values: Vec<R::Value>) -> Result<Vec<R::Value>> {
    let flat = Shape::new(&[LEN]).unwrap();
    let square = Shape::new(&[3, LEN / 3]).unwrap();
    for step in steps {
        let at = |i: &usize| values[i % values.len()].clone();
        let refused = |result: Result<()>| match result {
            Err(Error::Aliasing { .. }) | Ok(()) => Ok(()),
            Err(other) => Err(other),
        };
        let made = match step {
            Step::Add(a, b) => recorder.run_one(Add, &[&at(a), &at(b)])?,
            Step::AddOver(a, b) => {
                refused(recorder.run_into(Add, &[&at(a), &at(b)], &[&at(a)]))?;
                continue;
            }
            Step::Scale(a, factor) => recorder.run_one(Scale(0.5 + f32::from(*factor)), &[&at(a)])?,
            Step::ScaleInto(a, b) => {
                refused(recorder.run_into(Scale(0.25), &[&at(a)], &[&at(b)]))?;
                continue;
            }
            Step::Accumulate(a, b) => {
                refused(recorder.run_into(Accumulate, &[&at(a)], &[&at(b)]))?;
                continue;
            }
            Step::Triple(a) => recorder.run_one(Triple, &[&at(a)])?,
            Step::Reshape(a) => {
                let there = recorder.reshape(&at(a), square)?;
                recorder.reshape(&there, flat)?
            }
        };
        values.push(made);
    }
    Ok(values)
}

fn info() -> TensorInfo {
    TensorInfo::new(DType::F32, Shape::new(&[LEN]).unwrap())
}

/// A graph of a program over two inputs and a constant; every second value is an output.
fn capture(device: &Device, steps: &[Step], constant: &Buffer) -> ComputeGraph {
    let mut builder = GraphBuilder::new(device);
    let values = vec![builder.input("a", info()), builder.input("b", info()), builder.constant(constant)];
    let values = record(&mut builder, steps, values).unwrap();
    let outputs: Vec<_> = values.iter().step_by(2).collect();
    builder.finish(&outputs).unwrap()
}

#[test]
fn random_graphs_equal_the_encoder() {
    let mut poison = DeviceOptions::default();
    poison.poison_scratch = true;
    for device in devices().into_iter().chain(devices_with(&poison)) {
        let mut runner =
            TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
        let run = |steps: Vec<Step>| {
            let fresh = || [1.0, 2.0, 3.0].map(|by| vector(&device, &count(LEN)).also_scaled(by));
            let (eager, replayed) = (fresh(), fresh());
            let executor =
                GraphExecutor::new(capture(&device, &steps, &replayed[2]), &GraphOptions::default()).unwrap();
            let mut session = executor.session(&[&replayed[0], &replayed[1]]).unwrap();
            for round in 0..3 {
                let mut encoder = CommandEncoder::new(&device);
                let values = record(&mut encoder, &steps, eager.to_vec()).unwrap();
                encoder.submit().unwrap().wait().unwrap();
                session.replay().unwrap().wait().unwrap();
                for (i, value) in values.iter().step_by(2).enumerate() {
                    let got = session.output(i).unwrap().read::<f32>().unwrap();
                    assert_eq!(*value.read::<f32>().unwrap(), *got, "output {i} of round {round}");
                }
                for (eager, replayed) in eager.iter().zip(&replayed) {
                    assert_eq!(*eager.read::<f32>().unwrap(), *replayed.read::<f32>().unwrap());
                }
            }
            let (commands, barriers) = session.size();
            let report = executor.report();
            assert_eq!((commands, barriers), (report.commands, report.barriers.1));
            assert!(report.barriers.1 <= report.barriers.0 && report.live_bytes <= report.arena_bytes);
            Ok(())
        };
        runner.run(&steps(), run).unwrap();
        assert!(device.validation_messages().is_empty());
    }
}

trait AlsoScaled {
    fn also_scaled(self, by: f32) -> Buffer;
}

impl AlsoScaled for Buffer {
    fn also_scaled(self, by: f32) -> Buffer {
        self.write::<f32>().unwrap().iter_mut().for_each(|value| *value = *value * by / LEN as f32);
        self
    }
}

#[test]
fn dead_nodes_are_removed_and_equal_nodes_are_merged() {
    let device = Device::cpu().unwrap();
    let cache = vector(&device, &count(LEN));
    let mut builder = GraphBuilder::new(&device);
    let (x, cache) = (builder.input("x", info()), builder.constant(&cache));
    let first = builder.run_one(Scale(2.0), &[&x]).unwrap();
    let second = builder.run_one(Scale(2.0), &[&x]).unwrap();
    let other = builder.run_one(Scale(3.0), &[&x]).unwrap();
    let _unused = builder.run_one(Add, &[&first, &other]).unwrap();
    // Reads what changes in between: never shared, never dead.
    let before = builder.run_one(Scale(2.0), &[&cache]).unwrap();
    builder.run_into(Accumulate, &[&first], &[&cache]).unwrap();
    let after = builder.run_one(Scale(2.0), &[&cache]).unwrap();
    let y = builder.run_one(Add, &[&before, &after]).unwrap();
    let y = builder.run_one(Add, &[&y, &second]).unwrap();
    let mut graph = builder.finish(&[&y]).unwrap();
    assert_eq!(graph.nodes().len(), 9);
    let reports = graph.optimise(&[COMMON_SUBEXPRESSIONS, DEAD_CODE]).unwrap();
    assert_eq!(reports.iter().map(|report| report.rewrites).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(graph.nodes().len(), 6);
    let text = graph.to_string();
    assert!(text.contains("Accumulate") && text.contains("x f32[300]"), "{text}");
    let dot = graph.dot(1..4);
    assert!(dot.starts_with("digraph {") && dot.contains("style=dashed") && dot.contains(" -> n2;"), "{dot}");
}

/// Replaces two `Scale`s by one with the product of their factors, even if the value between them has other readers.
fn fuse_scales(graph: &mut ComputeGraph, between_is_kept: bool) -> bool {
    let nodes = graph.nodes();
    let (inputs, mut outputs) = (nodes[0].inputs.clone(), nodes[1].outputs.clone());
    if between_is_kept {
        outputs = nodes[0].outputs.clone();
    }
    graph.fuse(&[0, 1], Fusion { op: Arc::new(Scale(6.0)), inputs, outputs })
}

#[test]
fn nodes_are_fused_only_where_that_changes_nothing() {
    let device = Device::cpu().unwrap();
    let build = |uses_between: bool, kept: bool| {
        let mut builder = GraphBuilder::new(&device);
        let x = builder.input("x", info());
        let between = builder.run_one(Scale(2.0), &[&x]).unwrap();
        let y = builder.run_one(Scale(3.0), &[&between]).unwrap();
        let z = builder.run_one(Add, &[&y, if uses_between { &between } else { &x }]).unwrap();
        if kept { builder.finish(&[&z, &between]).unwrap() } else { builder.finish(&[&z]).unwrap() }
    };
    let mut graph = build(false, false);
    assert!(fuse_scales(&mut graph, false));
    assert_eq!(graph.nodes().len(), 2);
    let x = vector(&device, &count(LEN));
    let executor = GraphExecutor::new(graph, &GraphOptions::default()).unwrap();
    let mut session = executor.session(&[&x]).unwrap();
    session.replay().unwrap().wait().unwrap();
    assert_eq!(session.output(0).unwrap().read::<f32>().unwrap()[5], 35.0);
    assert!(!fuse_scales(&mut build(true, false), false), "someone else reads what is between");
    assert!(!fuse_scales(&mut build(false, true), false), "it is an output");
    assert!(!fuse_scales(&mut build(false, false), true), "the result would not be made");
    let mut graph = build(false, false);
    let operand = Operand { value: graph.outputs()[0].value, shape: graph.outputs()[0].shape };
    let wrong =
        Fusion { op: Arc::new(Scale(1.0)), inputs: vec![operand].into(), outputs: vec![operand].into() };
    assert!(!graph.fuse(&[0, 1], wrong), "what comes later can't be read, nor made");
}

#[test]
fn writes_that_would_overtake_a_read_stay() {
    let device = Device::cpu().unwrap();
    let cache = vector(&device, &count(LEN));
    let mut builder = GraphBuilder::new(&device);
    let (x, cache) = (builder.input("x", info()), builder.constant(&cache));
    builder.run_into(Scale(2.0), &[&x], &[&cache]).unwrap();
    let seen = builder.run_one(Scale(5.0), &[&cache]).unwrap();
    builder.run_into(Scale(3.0), &[&x], &[&cache]).unwrap();
    let mut graph = builder.finish(&[&seen]).unwrap();
    let nodes = graph.nodes();
    let (inputs, outputs) = (nodes[0].inputs.clone(), nodes[2].outputs.clone());
    assert!(!graph.fuse(&[0, 2], Fusion { op: Arc::new(Scale(3.0)), inputs, outputs }));
}

#[test]
fn values_share_memory_and_chains_run_in_place() {
    let device = Device::cpu().unwrap();
    let mut builder = GraphBuilder::new(&device);
    let (mut x, y) = (builder.input("x", info()), builder.input("y", info()));
    for _ in 0..10 {
        x = builder.run_one(Add, &[&x, &y]).unwrap();
    }
    let executor = GraphExecutor::new(builder.finish(&[&x]).unwrap(), &GraphOptions::default()).unwrap();
    let report = executor.report();
    let one = (LEN * 4usize).next_multiple_of(256);
    assert_eq!((report.arena_bytes, report.value_bytes), (one, 10 * LEN * 4));
    assert_eq!((report.commands, report.barriers), (10, (9, 9)));
    let text = report.to_string();
    assert!(text.contains("10 commands (10 dispatches, 0 copies and fills), 9 barriers"), "{text}");
}

#[test]
fn independent_chains_share_their_groups() {
    let device = Device::cpu().unwrap();
    let mut builder = GraphBuilder::new(&device);
    let x = builder.input("x", info());
    let chains: Vec<_> = (0..4u8)
        .map(|chain| (0..5).fold(x, |x, _| builder.run_one(Scale(f32::from(chain)), &[&x]).unwrap()))
        .collect();
    let outputs: Vec<_> = chains.iter().collect();
    let executor = GraphExecutor::new(builder.finish(&outputs).unwrap(), &GraphOptions::default()).unwrap();
    assert_eq!(executor.report().barriers, (16, 4));
    assert_eq!(executor.session(&[&vector(&device, &count(LEN))]).unwrap().size(), (20, 4));
}

#[test]
fn inputs_are_checked() {
    let (device, _) = null_device(&NullOptions::default());
    let mut builder = GraphBuilder::new(&device);
    let (x, y) = (builder.input("x", info()), builder.input("y", info()));
    builder.run_into(Accumulate, &[&x], &[&y]).unwrap();
    let executor = GraphExecutor::new(builder.finish(&[&y]).unwrap(), &GraphOptions::default()).unwrap();
    let (a, b) = (vector(&device, &count(LEN)), vector(&device, &count(LEN)));
    assert_error!(executor.session(&[&a]), Error::ArgumentCount { expected: 2, got: 1, .. });
    let short = vector(&device, &count(LEN - 1));
    let text = assert_error!(executor.session(&[&a, &short]), Error::BadParameter { .. });
    assert!(text.contains("y = f32[300]") && text.contains("f32[299]"), "{text}");
    let double = vector(&device, &count(2 * LEN));
    let odd = double.slice(1..LEN + 1).unwrap();
    assert_error!(executor.session(&[&odd, &b]), Error::BadParameter { .. });
    assert_error!(executor.session(&[&a, &a]), Error::Aliasing { .. });
    let other = Device::cpu().unwrap();
    assert_error!(executor.session(&[&a, &vector(&other, &count(LEN))]), Error::WrongDevice { .. });
    let session = executor.session(&[&a, &b]).unwrap();
    assert_eq!(session.output(0).unwrap().storage_id(), b.storage_id());
    assert_eq!(executor.arena_bytes(), 0);
}
