//! Host guards: they wait for the device, exclude each other, and keep submissions away.

use crate::common::ops::{Accumulate, Add};
use crate::common::{count, devices, holding_device, vector, wrapped};
use silicide_core::hal::HalError;
use silicide_core::hal::null::NullDevice;
use silicide_core::{Buffer, CommandEncoder, Device, Error, Recorder, Submission};
use silicide_quant::DType;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Submits `y = a + b`.
fn submit_add(a: &Buffer, b: &Buffer, y: &Buffer) -> silicide_core::Result<Submission> {
    let mut encoder = CommandEncoder::new(a.device());
    encoder.run_into(Add, &[a, b], &[y])?;
    encoder.submit()
}

/// Whether `access` waits until the device is released.
fn waits<T: Send>(raw: &NullDevice, access: impl FnOnce() -> T + Send) -> bool {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let accessing = scope.spawn(|| {
            access();
            done.store(true, Ordering::SeqCst);
        });
        // Long enough for an access that does not wait, even on a busy machine.
        let mut waited = true;
        for _ in 0..200 {
            if done.load(Ordering::SeqCst) {
                waited = false;
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        raw.release_all();
        accessing.join().unwrap();
        waited
    })
}

#[test]
fn reads_wait_for_writes_of_the_device() {
    let (device, raw, _released) = holding_device();
    let (a, b, y) = (vector(&device, &[1.0]), vector(&device, &[2.0]), vector(&device, &[3.0]));
    let _ = submit_add(&a, &b, &y).unwrap();
    assert!(waits(&raw, || y.read::<f32>().unwrap().len()), "y is being written");
    let _ = submit_add(&a, &b, &y).unwrap();
    assert!(!waits(&raw, || a.read::<f32>().unwrap().len()), "a is only read");
}

#[test]
fn writes_wait_for_every_use_by_the_device() {
    let (device, raw, _released) = holding_device();
    let (a, b, y) = (vector(&device, &[1.0]), vector(&device, &[2.0]), vector(&device, &[3.0]));
    let other = vector(&device, &[4.0]);
    let _ = submit_add(&a, &b, &y).unwrap();
    assert!(waits(&raw, || a.write::<f32>().unwrap().len()), "a is being read");
    let _ = submit_add(&a, &b, &y).unwrap();
    assert!(waits(&raw, || y.write::<f32>().unwrap().len()), "y is being written");
    let _ = submit_add(&a, &b, &y).unwrap();
    assert!(!waits(&raw, || other.write::<f32>().unwrap().len()), "nothing uses the other");
}

#[test]
fn synchronize_waits_for_this_buffer_or_for_all() {
    let (device, raw, _released) = holding_device();
    let (a, b, y) = (vector(&device, &[1.0]), vector(&device, &[2.0]), vector(&device, &[3.0]));
    let other = vector(&device, &[4.0]);
    let _ = submit_add(&a, &b, &y).unwrap();
    assert!(!waits(&raw, || other.synchronize().unwrap()));
    let _ = submit_add(&a, &b, &y).unwrap();
    assert!(waits(&raw, || a.synchronize().unwrap()));
    let _ = submit_add(&a, &b, &y).unwrap();
    assert!(waits(&raw, || device.synchronize().unwrap()));
}

#[test]
fn guards_see_what_the_device_wrote() {
    for device in devices() {
        let (a, b) = (vector(&device, &count(1000)), vector(&device, &[1.0; 1000]));
        let y = Buffer::new(&device, DType::F32, 1000).unwrap();
        for round in 1..10 {
            let _ = submit_add(&a, &b, &y).unwrap();
            assert_eq!(y.read::<f32>().unwrap()[7], 7.0 * round as f32 + 1.0);
            let mut values = a.write::<f32>().unwrap();
            values.iter_mut().zip(count(1000)).for_each(|(value, i)| *value += i);
        }
    }
}

#[test]
fn readers_share_and_writers_do_not() {
    for device in devices() {
        let buffer = vector(&device, &count(8));
        let (low, high) = (buffer.slice(0..5).unwrap(), buffer.slice(4..8).unwrap());
        let (one, two) = (buffer.read::<f32>().unwrap(), low.read::<f32>().unwrap());
        assert_eq!((one[3], two[3]), (3.0, 3.0));
        let text = assert_error!(high.write::<f32>(), Error::HostGuard { held: "read", what: "write", .. });
        assert!(text.contains("drop the guard"), "{text}");
        drop((one, two));
        let mut writer = high.write::<f32>().unwrap();
        assert_error!(low.read::<f32>(), Error::HostGuard { held: "write", start: 16, end: 32, .. });
        assert_error!(low.write::<f32>(), Error::HostGuard { .. });
        assert_error!(buffer.copy_in(&[0.0f32; 8]), Error::HostGuard { .. });
        assert_error!(buffer.to_vec::<f32>(), Error::HostGuard { .. });
        assert_error!(high.item::<f32>(), Error::Shape { .. });
        writer[0] = -1.0;
        drop(writer);
        assert_eq!(buffer.to_vec::<f32>().unwrap()[4], -1.0);
    }
}

#[test]
fn guards_of_disjoint_views_are_independent() {
    let device = Device::cpu().unwrap();
    let buffer = vector(&device, &count(8));
    let (low, high) = (buffer.slice(0..4).unwrap(), buffer.slice(4..8).unwrap());
    let (mut first, mut second) = (low.write::<f32>().unwrap(), high.write::<f32>().unwrap());
    first.swap_with_slice(&mut second);
    drop((first, second));
    assert_eq!(buffer.to_vec::<f32>().unwrap(), [4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0]);
    let (reader, _writer) = (low.read::<f32>().unwrap(), high.write::<f32>().unwrap());
    assert_eq!(reader[0], 4.0);
}

#[test]
fn guards_need_the_right_type() {
    let device = Device::cpu().unwrap();
    let buffer = vector(&device, &count(4));
    let text = assert_error!(buffer.read::<i32>(), Error::DTypeMismatch { got: DType::F32, .. });
    assert!(text.contains("i32"), "{text}");
    assert_error!(buffer.write::<u8>(), Error::DTypeMismatch { .. });
    let as_integers = buffer.reinterpret(DType::I32).unwrap();
    assert_eq!(as_integers.read::<i32>().unwrap()[1], 1f32.to_bits() as i32);
}

#[test]
fn a_submission_that_conflicts_with_a_guard_changes_nothing() {
    for device in devices() {
        let (a, b, y) = (vector(&device, &[1.0; 4]), vector(&device, &[2.0; 4]), vector(&device, &[9.0; 4]));
        let before = device.counters();

        let reader = y.read::<f32>().unwrap();
        let text = assert_error!(
            submit_add(&a, &b, &y),
            Error::HostGuard { what: "submit", held: "read", start: 0, end: 16, .. }
        );
        assert!(text.contains(&y.storage_id().to_string()), "{text}");
        assert_eq!(*reader, [9.0; 4], "what the guard shows stays");
        drop(reader);

        let writer = b.slice(3..4).unwrap().write::<f32>().unwrap();
        assert_error!(submit_add(&a, &b, &y), Error::HostGuard { held: "write", start: 12, end: 16, .. });
        drop(writer);
        assert_eq!(y.to_vec::<f32>().unwrap(), [9.0; 4]);
        assert_eq!(device.counters().since(&before).submissions, 0);

        // The same recording, made again, runs.
        submit_add(&a, &b, &y).unwrap().wait().unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [3.0; 4]);
    }
}

#[test]
fn guards_of_other_bytes_do_not_stand_in_the_way() {
    for device in devices() {
        let (a, b, y) = (vector(&device, &[1.0; 8]), vector(&device, &[2.0; 8]), vector(&device, &[9.0; 8]));
        let part = |buffer: &Buffer| buffer.slice(0..4).unwrap();
        let reads_a = a.read::<f32>().unwrap();
        let mut writes_y = y.slice(4..8).unwrap().write::<f32>().unwrap();
        submit_add(&part(&a), &part(&b), &part(&y)).unwrap().wait().unwrap();
        writes_y.fill(-1.0);
        assert_eq!(reads_a[0], 1.0);
        drop((reads_a, writes_y));
        assert_eq!(y.to_vec::<f32>().unwrap(), [3.0, 3.0, 3.0, 3.0, -1.0, -1.0, -1.0, -1.0]);
    }
}

#[test]
fn a_guard_outlives_its_buffer_and_device() {
    for device in devices() {
        let buffer = vector(&device, &count(100));
        let guard = buffer.read::<f32>().unwrap();
        drop((buffer, device));
        assert_eq!(*guard, count(100));
    }
}

#[test]
fn a_refused_submission_leaves_earlier_work_to_be_waited_for() {
    // A submission that fails has claimed its storages for a moment. Guards must go on waiting for the one before.
    let (device, raw, _released) = holding_device();
    let (a, b, y) = (vector(&device, &[1.0]), vector(&device, &[2.0]), vector(&device, &[3.0]));
    let z = vector(&device, &[4.0]);
    let held = z.read::<f32>().unwrap();
    let _ = submit_add(&a, &b, &y).unwrap();
    let mut encoder = CommandEncoder::new(&device);
    encoder.run_into(Add, &[&a, &b], &[&y]).unwrap();
    encoder.run_into(Add, &[&a, &b], &[&z]).unwrap();
    assert_error!(encoder.submit(), Error::HostGuard { .. });
    assert!(waits(&raw, || y.read::<f32>().unwrap().len()));
    drop(held);
}

#[test]
fn a_guard_taken_during_a_submission_that_fails_waits_for_the_one_before() {
    let (device, backend, raw, _released) = wrapped::interruptible();
    let (a, b, y) = (vector(&device, &[1.0]), vector(&device, &[2.0]), vector(&device, &[3.0]));
    let _ = submit_add(&a, &b, &y).unwrap();
    let (entered, is_entered) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    backend.instead_of_submit(move || {
        entered.send(()).unwrap();
        may_leave.recv().unwrap();
        HalError::Driver { call: "test", detail: "refused".to_owned() }
    });
    std::thread::scope(|scope| {
        let failing = scope.spawn(|| submit_add(&a, &b, &y).map(drop));
        is_entered.recv().unwrap();
        // The second submission has claimed y. The guard must not take it for the one to wait for.
        let reading = scope.spawn(|| y.read::<f32>().map(drop));
        std::thread::sleep(Duration::from_millis(50));
        leave.send(()).unwrap();
        assert_error!(failing.join().unwrap(), Error::Device { source: HalError::Driver { .. }, .. });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!reading.is_finished(), "the first submission still writes y");
        raw.release_all();
        reading.join().unwrap().unwrap();
    });
    assert!(y.read::<f32>().is_ok(), "a list that never ran loses nothing");
}

#[test]
fn threads_that_guard_and_submit_never_see_half_of_anything() {
    // Writers keep all elements of a buffer equal; two different ones are a race.
    const ROUNDS: usize = 150;
    for device in devices() {
        let total = vector(&device, &[0.0; 2048]);
        let one = vector(&device, &[1.0; 2048]);
        let (done, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let count = |result: Result<(), Error>| match result {
            Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
            Err(Error::HostGuard { .. }) => _ = refused.fetch_add(1, Ordering::Relaxed),
            Err(other) => panic!("{other:?}"),
        };
        let uniform = |values: &[f32]| assert!(values.iter().all(|value| *value == values[0]));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut encoder = CommandEncoder::new(&device);
                        encoder.run_into(Accumulate, &[&one], &[&total]).unwrap();
                        count(encoder.submit().map(drop));
                    }
                });
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        count(total.read::<f32>().map(|values| uniform(&values)));
                    }
                });
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        count(total.write::<f32>().map(|mut values| {
                            uniform(&values);
                            values.iter_mut().for_each(|value| *value += 1.0);
                            uniform(&values);
                        }));
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::Relaxed) + refused.load(Ordering::Relaxed), 6 * ROUNDS);
        uniform(&total.to_vec::<f32>().unwrap());
        total.copy_in(&[0.0f32; 2048]).unwrap();
    }
}
