//! Failures of the device at every point of a workload: each call works or says why not; nothing leaks, hangs,
//! panics or loses other work.

use crate::common::ops::{Accumulate, Add, Scale, Triple, variant};
use crate::common::{count, null_device, vector};
use silicide_core::hal::HalError;
use silicide_core::hal::null::{NullDevice, NullOptions};
use silicide_core::{
    Buffer, BufferOptions, BufferPool, CommandEncoder, Device, Error, MemoryKind, Purpose, Recorder, Result,
};
use silicide_quant::DType;
use std::time::{Duration, Instant};

/// Everything that allocates: each step by itself, so that one failure does not hide the others.
fn workload(device: &Device, mut step: impl FnMut(&str, Result<()>)) {
    let pool = BufferPool::new(device, 1 << 30);
    let mut live = Vec::new();
    for round in 0..4 {
        let large = (17 + round) << 20;
        let plain = Buffer::allocate(device, DType::F32, 1000);
        step("a small buffer", plain.as_ref().map(drop).map_err(Clone::clone));
        let own = Buffer::allocate(device, DType::U8, large);
        step("a large buffer", own.as_ref().map(drop).map_err(Clone::clone));
        let lazy = Buffer::new(device, DType::U8, large).unwrap();
        step("a lazy buffer", lazy.write::<u8>().map(|mut bytes| bytes[7] = 7));
        let pooled = pool.buffer(DType::U8, large).unwrap();
        step("a pooled buffer", pooled.ensure_allocated());
        let mut options = BufferOptions::default();
        (options.kind, options.purpose) = (MemoryKind::Private, Purpose::Weights);
        let private = Buffer::with(device, DType::U8, large, &options).unwrap();
        step("a private buffer", private.view(0, 5).and_then(|part| part.copy_in(&[1u8; 5])));
        let mut encoder = CommandEncoder::new(device);
        let x = Buffer::new(device, DType::F32, 5 << 20).unwrap();
        let tripled = encoder.run_one(Triple, &[&x]);
        step("an op with scratch", tripled.as_ref().map(drop).map_err(Clone::clone));
        if let Ok(tripled) = &tripled {
            step("another op", encoder.run_one(Scale(2.0), &[tripled]).map(drop));
        }
        step("a submission", encoder.submit().and_then(|submission| submission.wait()));
        live.push((plain, own, lazy, pooled, private));
        if round == 2 {
            live.clear();
        }
    }
}

fn assert_empty(raw: &NullDevice) {
    let counts = raw.counts();
    assert_eq!((counts.blocks, counts.bytes, counts.pipelines), (0, 0, 0));
}

#[test]
fn running_out_of_memory_anywhere_is_an_error_of_that_call_alone() {
    let allocs = {
        let (device, raw) = null_device(&NullOptions::default());
        workload(&device, |what, result| result.unwrap_or_else(|error| panic!("{what}: {error}")));
        raw.counts().allocs
    };
    assert!(allocs > 20, "{allocs} allocations");
    for n in 1..=20 {
        // Once: memory is reclaimed and allocated again.
        let (device, raw) = null_device(&NullOptions::default().fail_alloc(n));
        workload(&device, |what, result| result.unwrap_or_else(|error| panic!("{what} at {n}: {error}")));
        drop(device);
        assert_empty(&raw);

        // Some in a row, and for good.
        for failing in [2, 5, u64::MAX] {
            let (device, raw) = null_device(&NullOptions::default().fail_alloc(n).failing_allocs(failing));
            let (mut worked, mut refused) = (0, 0);
            workload(&device, |what, result| match result {
                Ok(()) => worked += 1,
                Err(Error::OutOfMemory { requested, limit, .. }) => {
                    assert!(requested > 0 && limit > 0);
                    refused += 1;
                }
                Err(other) => panic!("{what} at {n}: {other}"),
            });
            assert!(worked > 0 && (refused > 0 || failing == 2), "{worked} worked, {refused} were refused");
            assert_eq!(device.usage().total(), device.usage().of(Purpose::Pool).bytes, "nothing is charged");
            drop(device);
            assert_empty(&raw);
        }
    }
}

#[test]
fn work_before_a_refusal_is_not_lost() {
    let (device, _) = null_device(&NullOptions::default().fail_alloc(3).failing_allocs(u64::MAX));
    let first = vector(&device, &count(1000));
    let large = Buffer::allocate(&device, DType::U8, 20 << 20).unwrap();
    let mut encoder = CommandEncoder::new(&device);
    encoder.run_into(Scale(2.0), &[&first], &[&vector(&device, &count(1000))]).unwrap();
    let x = Buffer::new(&device, DType::F32, 5 << 20).unwrap();
    assert_error!(encoder.run_one(Triple, &[&x]), Error::OutOfMemory { purpose: "other", .. });
    assert_eq!(encoder.list().commands.len(), 1, "the op that was refused left nothing");
    encoder.submit().unwrap().wait().unwrap();
    assert_eq!(first.to_vec::<f32>().unwrap(), count(1000));
    // Memory that is given back serves again.
    drop(large);
    assert_error!(x.ensure_allocated(), Error::OutOfMemory { requested: 20_971_520, .. });
    assert!(Buffer::allocate(&device, DType::U8, 1 << 20).is_ok(), "there is room in the first block");
}

fn is_lost(error: &Error) -> bool {
    match error {
        Error::Device { source: HalError::DeviceLost { .. }, .. } => true,
        Error::Poisoned { cause, .. } => is_lost(cause),
        _ => false,
    }
}

#[test]
fn a_lost_device_says_so_everywhere_and_gives_everything_back() {
    for n in 1..=6 {
        let (device, raw) = null_device(&NullOptions::default().hold().lose_at_submit(n));
        let pool = BufferPool::new(&device, 1 << 20);
        let untouched = vector(&device, &count(10));
        let (x, one) = (vector(&device, &count(10)), vector(&device, &[1.0; 10]));
        let mut submissions = Vec::new();
        let lost = loop {
            let mut encoder = CommandEncoder::new(&device);
            let y = encoder.run_one(Add, &[&x, &one]).unwrap();
            encoder.run_into(Accumulate, &[&y], &[&x]).unwrap();
            match encoder.submit() {
                Ok(submission) => submissions.push(submission),
                Err(error) => break error,
            }
        };
        assert!(is_lost(&lost), "{lost}");
        assert_eq!(submissions.len() as u64, n - 1);

        let started = Instant::now();
        for submission in &submissions {
            assert!(is_lost(&submission.wait().unwrap_err()));
            assert!(is_lost(&submission.poll().unwrap_err()));
            assert!(is_lost(&submission.wait_for(Duration::from_millis(1)).unwrap_err()));
            assert!(is_lost(&submission.error().unwrap()));
        }
        if n > 1 {
            assert!(is_lost(&x.read::<f32>().unwrap_err()), "what was being written is lost");
            assert!(is_lost(&x.synchronize().unwrap_err()));
            assert!(is_lost(&x.to_vec::<f32>().unwrap_err()));
        }
        assert_eq!(untouched.to_vec::<f32>().unwrap(), count(10), "what the device did not write is not");
        assert_eq!(one.to_vec::<f32>().unwrap(), [1.0; 10]);
        assert!(is_lost(&CommandEncoder::new(&device).submit().unwrap_err()));
        assert!(is_lost(&untouched.copy_from(&one).unwrap_err()));
        assert!(is_lost(&Buffer::allocate(&device, DType::U8, 20 << 20).unwrap_err()));
        assert!(is_lost(&pool.buffer(DType::U8, 20 << 20).unwrap().ensure_allocated().unwrap_err()));
        assert!(is_lost(&device.kernels().warm_up(&[variant(1)]).unwrap_err()));
        device.synchronize().unwrap();
        device.trim();
        assert!(started.elapsed() < Duration::from_secs(5), "nothing waits for a lost device");
        drop((submissions, x, one, untouched, pool, device));
        assert_empty(&raw);
    }
}

#[test]
fn waiters_are_freed_when_the_device_is_lost() {
    let (device, _raw) = null_device(&NullOptions::default().hold().lose_at_submit(2));
    let x = vector(&device, &count(10));
    let submit = || {
        let mut encoder = CommandEncoder::new(&device);
        encoder.run_into(Accumulate, &[&vector(&device, &count(10))], &[&x])?;
        encoder.submit()
    };
    let first = submit().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first.wait().unwrap_err());
        let reading = scope.spawn(|| x.read::<f32>().map(drop).unwrap_err());
        let draining = scope.spawn(|| device.synchronize().unwrap_err());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        // The reader's guard may already be registered, which refuses the submission before the device hears of it.
        drop(submit());
        let _ = CommandEncoder::new(&device).submit();
        for error in [waiting.join().unwrap(), reading.join().unwrap(), draining.join().unwrap()] {
            assert!(is_lost(&error), "{error}");
        }
    });
    // The host may write it anew, for what that is worth.
    x.copy_in(&[0.0f32; 10]).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0; 10]);
}

#[test]
fn a_failed_compilation_leaves_the_recording_as_it_was() {
    let (device, raw) = null_device(&NullOptions::default().fail_compile(2));
    let x = vector(&device, &count(10));
    let mut encoder = CommandEncoder::new(&device);
    let y = encoder.run_one(Scale(2.0), &[&x]).unwrap();
    assert_error!(encoder.run_one(Add, &[&y, &x]), Error::Device { source: HalError::Compile { .. }, .. });
    assert_eq!(encoder.list().commands.len(), 1);
    encoder.run_one(Add, &[&y, &x]).unwrap();
    encoder.submit().unwrap().wait().unwrap();
    drop((x, y, device));
    assert_empty(&raw);
}
