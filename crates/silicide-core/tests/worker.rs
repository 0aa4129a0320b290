//! The encoding worker: order, errors, and that nothing hangs or is left.

use crate::common::ops::{Accumulate, Panics, Scale};
use crate::common::{count, devices, null_device, vector};
use silicide_core::hal::null::NullOptions;
use silicide_core::{CommandEncoder, Device, EncodingWorker, Error, Recorder};

const LEN: usize = 2000;

#[test]
fn lists_take_effect_in_the_order_they_were_handed_over() {
    for device in devices() {
        let (one, state) = (vector(&device, &vec![1.0; LEN]), vector(&device, &vec![0.0; LEN]));
        let worker = EncodingWorker::new(1).unwrap();
        let mut pending = Vec::new();
        let mut expected = 0f32;
        for round in 0..40 {
            let mut encoder = CommandEncoder::new(&device);
            match round % 2 {
                0 => encoder.run_into(Accumulate, &[&one], &[&state]).unwrap(),
                // Halved, by way of a value that lives in the list alone.
                _ => {
                    let half = encoder.run_one(Scale(0.5), &[&state]).unwrap();
                    encoder.run_into(Scale(1.0), &[&half], &[&state]).unwrap();
                }
            }
            expected = if round % 2 == 0 { expected + 1.0 } else { expected * 0.5 };
            pending.push(worker.submit(encoder));
        }
        let last = pending.last().unwrap().submitted().unwrap();
        assert!(pending.iter().all(|pending| pending.submitted().unwrap().ticket() <= last.ticket()));
        assert!(state.read::<f32>().unwrap().iter().all(|got| *got == expected), "{device:?}");
    }
}

#[test]
fn errors_reach_whoever_handed_the_list_over() {
    let device = Device::cpu().unwrap();
    let (x, y) = (vector(&device, &count(LEN)), vector(&device, &count(LEN)));
    let worker = EncodingWorker::new(2).unwrap();
    let encode = |fails: bool| {
        let mut encoder = CommandEncoder::new(&device);
        match fails {
            true => encoder.run_into(Panics, &[&x], &[&y]).unwrap(),
            false => encoder.run_into(Scale(2.0), &[&x], &[&y]).unwrap(),
        }
        encoder
    };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failed = worker.submit(encode(true)).wait();
    std::panic::set_hook(hook);
    assert_error!(failed, Error::Device { .. });
    // Refused before anything runs: the host reads what the list would write.
    let guard = x.read::<f32>().unwrap();
    let mut encoder = CommandEncoder::new(&device);
    encoder.run_into(Scale(2.0), &[&y], &[&x]).unwrap();
    let refused = worker.submit(encoder);
    assert!(refused.submitted().is_err());
    drop(guard);
    worker.submit(encode(false)).wait().unwrap();
    assert_eq!(y.read::<f32>().unwrap()[3], 6.0);
}

#[test]
fn dropping_submits_what_was_handed_over_and_leaves_nothing() {
    for device in devices() {
        {
            let (one, state) = (vector(&device, &vec![1.0; LEN]), vector(&device, &vec![0.0; LEN]));
            let worker = EncodingWorker::new(8).unwrap();
            for _ in 0..8 {
                let mut encoder = CommandEncoder::new(&device);
                encoder.run_into(Accumulate, &[&one], &[&state]).unwrap();
                let _nobody_asks = worker.submit(encoder);
            }
            drop(worker);
            assert_eq!(state.read::<f32>().unwrap()[0], 8.0, "{device:?}");
            // Gone before its work is done.
            let mut encoder = CommandEncoder::new(&device);
            encoder.run_into(Accumulate, &[&one], &[&state]).unwrap();
            let _nobody_asks = EncodingWorker::new(0).unwrap().submit(encoder);
        }
        device.synchronize().unwrap();
        device.trim();
        assert_eq!(device.usage().total(), 0, "{device:?}");
    }
    let (device, raw) = null_device(&NullOptions::default().hold());
    let x = vector(&device, &count(LEN));
    let worker = EncodingWorker::new(4).unwrap();
    for _ in 0..20 {
        let mut encoder = CommandEncoder::new(&device);
        encoder.run_into(Accumulate, &[&x], &[&vector(&device, &count(LEN))]).unwrap();
        let _nobody_asks = worker.submit(encoder);
    }
    drop((worker, x));
    raw.release_all();
    device.synchronize().unwrap();
    device.trim();
    assert_eq!((raw.counts().blocks, raw.counts().bytes), (0, 0));
}
