//! Sessions of graphs: many at once, failures, guards, times; and that nothing is left when they are gone.

use crate::common::ops::{Accumulate, Add, Panics, Scale, Triple};
use crate::common::{count, devices, null_device, vector};
use silicide_core::hal::null::NullOptions;
use silicide_core::kernel::TensorInfo;
use silicide_core::{
    Buffer, CancelToken, CommandEncoder, Device, Error, GraphBuilder, GraphExecutor, GraphOptions, Recorder,
};
use silicide_quant::{DType, Shape};

const LEN: usize = 500;

/// `state += 3 (w + x)`, giving `state * 2`, over a constant `w`.
fn executor(device: &Device, weight: &Buffer) -> GraphExecutor {
    let info = TensorInfo::new(DType::F32, Shape::new(&[LEN]).unwrap());
    let mut builder = GraphBuilder::new(device);
    let (x, state) = (builder.input("x", info), builder.input("state", info));
    let w = builder.constant(weight);
    let sum = builder.run_one(Add, &[&x, &w]).unwrap();
    let triple = builder.run_one(Triple, &[&sum]).unwrap();
    builder.run_into(Accumulate, &[&triple], &[&state]).unwrap();
    let y = builder.scope("double", |builder| builder.run_one(Scale(2.0), &[&state])).unwrap();
    GraphExecutor::new(builder.finish(&[&y]).unwrap(), &GraphOptions::default()).unwrap()
}

/// Many sessions on many threads, each cancelled at a time of its own.
fn storm(device: &Device, runs: bool) {
    let weight = vector(device, &vec![1.0; LEN]);
    let executor = executor(device, &weight);
    let tokens: Vec<CancelToken> = (0..64).map(|_| CancelToken::new()).collect();
    std::thread::scope(|scope| {
        for (number, cancel) in tokens.iter().enumerate() {
            let executor = &executor;
            scope.spawn(move || {
                let x = vector(executor.graph().device(), &vec![number as f32; LEN]);
                let state = vector(executor.graph().device(), &vec![0.0; LEN]);
                let mut session = executor.session(&[&x, &state]).unwrap();
                let mut expected = 0.0;
                for _ in 0..40 {
                    if cancel.check("test").is_err() {
                        // Dropped as it is, perhaps with a replay under way.
                        return;
                    }
                    let submission = session.replay().unwrap();
                    expected += 3.0 * (1.0 + number as f32);
                    if number % 3 == 0 {
                        submission.wait().unwrap();
                    }
                }
                let got = session.output(0).unwrap().read::<f32>().unwrap();
                assert!(!runs || got.iter().all(|got| *got == 2.0 * expected), "session {number}");
            });
        }
        let mut random = 7u32;
        for cancel in &tokens {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if random >> 30 != 0 {
                std::thread::sleep(std::time::Duration::from_micros(u64::from(random >> 24)));
                cancel.cancel();
            }
        }
    });
}

#[test]
fn sixty_four_sessions_cancelled_at_random_leak_nothing() {
    let (device, raw) = null_device(&NullOptions::default().keep_lists(0));
    storm(&device, false);
    device.synchronize().unwrap();
    device.trim();
    let counts = raw.counts();
    assert_eq!((counts.baked, counts.blocks, counts.bytes), (0, 0, 0));
    for device in devices() {
        storm(&device, true);
        device.synchronize().unwrap();
        device.trim();
        assert_eq!(device.usage().total(), 0, "{device:?}");
        assert!(device.validation_messages().is_empty());
    }
}

#[test]
fn a_session_may_go_before_its_work() {
    let (device, raw) = null_device(&NullOptions::default().hold());
    let weight = vector(&device, &count(LEN));
    let executor = executor(&device, &weight);
    let (x, state) = (vector(&device, &count(LEN)), vector(&device, &count(LEN)));
    let mut session = executor.session(&[&x, &state]).unwrap();
    let submission = session.replay().unwrap();
    let blocks = raw.counts().blocks;
    drop((session, executor, weight, x, state));
    device.trim();
    assert_eq!((raw.counts().baked, raw.counts().blocks), (1, blocks), "the device still runs it");
    raw.release_all();
    submission.wait().unwrap();
    device.trim();
    assert_eq!((raw.counts().baked, raw.counts().blocks), (0, 0));
}

#[test]
fn a_replay_that_fails_poisons_what_it_wrote_and_the_next_heals_it() {
    let device = Device::cpu().unwrap();
    let info = TensorInfo::new(DType::F32, Shape::new(&[LEN]).unwrap());
    let mut builder = GraphBuilder::new(&device);
    let (x, state) = (builder.input("x", info), builder.input("state", info));
    let y = builder.run_one(Panics, &[&x]).unwrap();
    let z = builder.run_one(Scale(2.0), &[&y]).unwrap();
    builder.run_into(Accumulate, &[&z], &[&state]).unwrap();
    let executor = GraphExecutor::new(builder.finish(&[&z]).unwrap(), &GraphOptions::default()).unwrap();
    let (x, state) = (vector(&device, &count(LEN)), vector(&device, &count(LEN)));
    let mut session = executor.session(&[&x, &state]).unwrap();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failure = session.replay().unwrap().wait();
    std::panic::set_hook(hook);
    assert_error!(failure, Error::Device { .. });
    assert_error!(session.output(0).unwrap().read::<f32>(), Error::Poisoned { .. });
    // What it changes was lost; the arena is its own and is made anew each time.
    assert_error!(session.replay(), Error::Poisoned { .. });
    state.copy_in(&count(LEN)).unwrap();
    let submission = session.replay().unwrap();
    assert_error!(submission.wait(), Error::Device { .. });
}

#[test]
fn the_device_keeps_away_from_what_the_host_reads() {
    for device in devices() {
        let weight = vector(&device, &count(LEN));
        let executor = executor(&device, &weight);
        let (x, state) = (vector(&device, &count(LEN)), vector(&device, &vec![0.0; LEN]));
        let mut session = executor.session(&[&x, &state]).unwrap();
        session.replay().unwrap().wait().unwrap();
        let output = session.output(0).unwrap().clone();
        let guard = output.read::<f32>().unwrap();
        assert_error!(session.replay(), Error::HostGuard { .. });
        assert_eq!(guard[1], 12.0);
        drop(guard);
        session.replay().unwrap().wait().unwrap();
        assert_eq!(output.read::<f32>().unwrap()[1], 24.0);
        let counters = device.counters();
        assert_eq!(counters.submissions, 2);
        assert_eq!(counters.dispatches, 2 * 5);
    }
}

#[test]
fn marks_name_ops() {
    let device = Device::cpu().unwrap();
    let info = TensorInfo::new(DType::F32, Shape::new(&[LEN]).unwrap());
    let mut builder = GraphBuilder::new(&device);
    let x = builder.input("x", info);
    let y = builder.run_one(Triple, &[&x]).unwrap();
    let y = builder.run_one(Scale(2.0), &[&y]).unwrap();
    let mut options = GraphOptions::default();
    options.mark_ops = true;
    let executor = GraphExecutor::new(builder.finish(&[&y]).unwrap(), &options).unwrap();
    let mut session = executor.session(&[&vector(&device, &count(LEN))]).unwrap();
    let submission = session.replay().unwrap();
    let names: Vec<&str> = submission.times().iter().map(|span| span.label).collect();
    assert_eq!(names, ["triple", "scale"]);
    assert!(submission.thread_times().spans.len() >= 3, "three launches");
    let mut encoder = CommandEncoder::new(&device);
    encoder.scope("part", |encoder| encoder.run_one(Scale(2.0), &[&vector(&device, &count(LEN))])).unwrap();
    let scoped = encoder.submit().unwrap();
    assert_eq!(scoped.times().len(), 1);
    assert!(scoped.thread_times().spans.is_empty(), "thread times were not enabled");
    assert_eq!(session.output(0).unwrap().read::<f32>().unwrap()[7], 42.0);
}
