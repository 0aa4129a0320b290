//! Parameters of graphs: set before a replay, seen by it and by no other.

use crate::common::ops::{Accumulate, Add, Scale};
use crate::common::{count, devices, null_device, vector};
use silicide_core::hal::null::NullOptions;
use silicide_core::kernel::TensorInfo;
use silicide_core::{
    Buffer, Device, Error, GraphBuilder, GraphExecutor, GraphOptions, GraphSession, Parameter, Recorder,
};
use silicide_quant::{DType, Shape};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LEN: usize = 500;

fn info(dtype: DType, length: usize) -> TensorInfo {
    TensorInfo::new(dtype, Shape::new(&[length]).unwrap())
}

/// `state += 2 a + b`.
fn session(device: &Device, state: &Buffer) -> (GraphSession, [Parameter; 2]) {
    let mut builder = GraphBuilder::new(device);
    let state_value = builder.input("state", info(DType::F32, LEN));
    let (a, a_value) = builder.parameter("a", info(DType::F32, LEN)).unwrap();
    let (b, b_value) = builder.parameter("b", info(DType::F32, LEN)).unwrap();
    let double = builder.run_one(Scale(2.0), &[&a_value]).unwrap();
    let sum = builder.run_one(Add, &[&double, &b_value]).unwrap();
    builder.run_into(Accumulate, &[&sum], &[&state_value]).unwrap();
    let executor = GraphExecutor::new(builder.finish(&[&sum]).unwrap(), &GraphOptions::default()).unwrap();
    (executor.session(&[state]).unwrap(), [a, b])
}

#[test]
fn each_replay_reads_the_parameters_that_were_set_before_it() {
    for device in devices() {
        let state = vector(&device, &vec![0.0; LEN]);
        let (mut session, [a, b]) = session(&device, &state);
        // Parameters that were never set are zero.
        let _zeros = session.replay().unwrap();
        // Without waiting: earlier replays may still be running when the next values are set.
        let mut expected = 0.0;
        for round in 0..20 {
            session.set(a, &[round as f32; LEN]).unwrap();
            if round % 3 == 0 {
                session.set(b, &[0.5f32; LEN]).unwrap();
            } else if round % 3 == 1 {
                session.set(b, &[1f32; LEN]).unwrap();
            }
            let _submission = session.replay().unwrap();
            expected += 2.0 * round as f32 + if round % 3 == 0 { 0.5 } else { 1.0 };
        }
        session.set(a, &[3f32; LEN]).unwrap();
        session.set(b, &[3f32; LEN]).unwrap();
        session.replay().unwrap().wait().unwrap();
        expected += 9.0;
        assert!(state.read::<f32>().unwrap().iter().all(|got| *got == expected), "{device:?}");
        let sum = session.output(0).unwrap().read::<f32>().unwrap();
        assert!(sum.iter().all(|got| *got == 9.0), "{device:?}");
        assert!(device.validation_messages().is_empty());
    }
}

#[test]
fn sessions_have_parameters_of_their_own() {
    for device in devices() {
        let states = [0, 1].map(|_| vector(&device, &vec![0.0; LEN]));
        let (mut first, [a, _]) = session(&device, &states[0]);
        let mut second = first.executor().session(&[&states[1]]).unwrap();
        first.set(a, &count(LEN)).unwrap();
        let _both = (first.replay().unwrap(), second.replay().unwrap());
        assert_eq!(states[0].read::<f32>().unwrap()[7], 14.0);
        assert_eq!(states[1].read::<f32>().unwrap()[7], 0.0);
    }
}

/// New values wait for the replay that still reads the old ones; a replay that brings none does not.
#[test]
fn new_values_wait_for_earlier_replays() {
    let (device, raw) = null_device(&NullOptions::default().hold());
    let state = vector(&device, &vec![0.0; LEN]);
    let (mut session, [a, _]) = session(&device, &state);
    let _first = session.replay().unwrap();
    let _second = session.replay().unwrap();
    session.set(a, &vec![0f32; LEN]).unwrap();
    let _third = session.replay().unwrap();
    assert_eq!(device.counters().submissions, 3, "the same values again are nothing new");
    session.set(a, &count(LEN)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let submission = session.replay();
            done.store(true, Ordering::SeqCst);
            submission.map(drop)
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!done.load(Ordering::SeqCst), "an earlier replay reads what is there");
        raw.release_all();
        waiting.join().unwrap().unwrap();
    });
    raw.release_all();
}

#[test]
fn wrong_types_sizes_and_graphs_of_parameters_are_errors() {
    let device = Device::cpu().unwrap();
    let state = vector(&device, &count(LEN));
    let (mut session, [a, b]) = session(&device, &state);
    assert_error!(session.set(a, &[1f32; LEN - 1]), Error::SizeMismatch { expected: 2000, got: 1996, .. });
    assert_error!(session.set(a, &[1u32; LEN]), Error::DTypeMismatch { slot: "values", .. });
    assert_error!(session.set(b, &[1f32, 2.0]), Error::SizeMismatch { .. });
    let mut builder = GraphBuilder::new(&device);
    assert_error!(builder.parameter("half", info(DType::F16, 4)), Error::DTypeMismatch { .. });
    let others: Vec<_> = (0..3).map(|_| builder.parameter("n", info(DType::U32, 4)).unwrap().0).collect();
    assert_error!(session.set(others[0], &[1u32; 4]), Error::WrongGraph { .. });
    let (_, x) = builder.parameter("x", info(DType::F32, LEN)).unwrap();
    assert_error!(
        builder.run_into(Scale(1.0), &[&x], &[&x]),
        Error::ReadOnly { .. } | Error::Aliasing { .. }
    );
    let other = builder.input("other", info(DType::F32, LEN));
    assert_error!(builder.run_into(Scale(1.0), &[&other], &[&x]), Error::ReadOnly { what: "scale" });
}

#[test]
fn drawings_and_texts_show_parameters() {
    let device = Device::cpu().unwrap();
    let (session, _) = session(&device, &vector(&device, &count(LEN)));
    let graph = session.executor().graph();
    let text = graph.to_string();
    assert!(text.contains("parameters: $a f32[500], $b f32[500]"), "{text}");
    assert!(text.contains("scale Scale(2.0) ($a f32[500])"), "{text}");
    let drawing = graph.dot(0..graph.nodes().len());
    assert!(drawing.contains("label=\"$a\\nf32[500]\", style=\"dashed,rounded\""), "{drawing}");
    assert_eq!(graph.parameter_bytes(), 2048 + 2000);
    let names: Vec<&str> = graph.parameters().map(|(_, name, _)| name).collect();
    assert_eq!(names, ["a", "b"]);
}
