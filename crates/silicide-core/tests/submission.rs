//! Submissions: waiting, polling, failing, and what becomes of what they should have written.

use crate::common::ops::{Accumulate, Add, Panics, Scale};
use crate::common::{count, devices, holding_device, vector};
use silicide_core::hal::HalError;
use silicide_core::{Buffer, CommandEncoder, Device, EncoderOptions, Error, Recorder, Result, Submission};
use silicide_quant::DType;
use std::time::{Duration, Instant};

fn submit(device: &Device, record: impl FnOnce(&mut CommandEncoder) -> Result<()>) -> Result<Submission> {
    let mut encoder = CommandEncoder::new(device);
    record(&mut encoder)?;
    encoder.submit()
}

fn scale(x: &Buffer, y: &Buffer) -> Result<Submission> {
    submit(x.device(), |encoder| encoder.run_into(Scale(2.0), &[x], &[y]))
}

#[test]
fn a_submission_is_waited_for_and_polled() {
    for device in devices() {
        let (x, y) = (vector(&device, &count(100)), Buffer::new(&device, DType::F32, 100).unwrap());
        let submission = scale(&x, &y).unwrap();
        submission.wait().unwrap();
        assert!(submission.poll().unwrap());
        assert!(submission.error().is_none());
        submission.wait_for(Duration::ZERO).unwrap();
        let later = scale(&x, &y).unwrap();
        assert!(later.ticket() > submission.ticket());
        later.clone().wait().unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap()[99], 198.0);
    }
}

#[test]
fn waiting_runs_out_of_time_and_stops_nothing() {
    let (device, raw, _released) = holding_device();
    let (x, y) = (vector(&device, &[1.0]), vector(&device, &[0.0]));
    let submission = scale(&x, &y).unwrap();
    assert!(!submission.poll().unwrap());
    let started = Instant::now();
    let text = assert_error!(
        submission.wait_for(Duration::from_millis(20)),
        Error::Device { source: HalError::Timeout { millis: 20 }, .. }
    );
    assert!(started.elapsed() >= Duration::from_millis(20));
    assert!(text.contains("20 ms"), "{text}");
    assert!(!submission.poll().unwrap());
    assert!(submission.error().is_none(), "not done is not failed");
    raw.release_all();
    assert!(submission.poll().unwrap());
    submission.wait_for(Duration::ZERO).unwrap();
}

#[test]
fn an_empty_submission_is_fine() {
    for device in devices() {
        CommandEncoder::new(&device).submit().unwrap().wait().unwrap();
        device.synchronize().unwrap();
    }
}

#[test]
fn work_goes_on_without_its_handles() {
    for device in devices() {
        let (x, y) = (vector(&device, &count(10_000)), Buffer::new(&device, DType::F32, 10_000).unwrap());
        for _ in 0..10 {
            let _ = scale(&x, &y).unwrap();
        }
        drop(x);
        assert_eq!(y.to_vec::<f32>().unwrap()[9_999], 19_998.0);
    }
}

#[test]
fn submissions_take_effect_in_order_whatever_thread_they_come_from() {
    for device in devices() {
        let (one, total) = (vector(&device, &[1.0; 512]), vector(&device, &[0.0; 512]));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let add =
                            |encoder: &mut CommandEncoder| encoder.run_into(Accumulate, &[&one], &[&total]);
                        submit(&device, add).unwrap().wait().unwrap();
                    }
                });
            }
        });
        assert_eq!(total.to_vec::<f32>().unwrap(), [200.0; 512]);
    }
}

/// A kernel that panics is an error, and its outputs are poisoned.
#[test]
fn a_panic_in_a_kernel_is_an_error_of_the_submission_and_of_what_it_wrote() {
    let device = Device::cpu().unwrap();
    let (x, y) = (vector(&device, &[1.0; 4]), vector(&device, &[5.0; 4]));
    let failed = submit(&device, |encoder| encoder.run_into(Panics, &[&x], &[&y])).unwrap();
    for _ in 0..2 {
        let text =
            assert_error!(failed.wait(), Error::Device { source: HalError::KernelPanicked { .. }, .. });
        assert!(text.contains("panics.cpu") && text.contains("on purpose"), "{text}");
    }
    assert_error!(failed.poll(), Error::Device { .. });
    assert!(failed.error().is_some());
    let text = assert_error!(y.read::<f32>(), Error::Poisoned { what: "read", .. });
    assert!(text.contains("on purpose") && text.contains("write the buffer anew"), "{text}");
    assert_error!(y.to_vec::<f32>(), Error::Poisoned { .. });
    assert_error!(scale(&y, &x), Error::Poisoned { what: "submit", .. });
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0; 4], "what was read is not lost");
    // The device is fine.
    let z = Buffer::new(&device, DType::F32, 4).unwrap();
    scale(&x, &z).unwrap().wait().unwrap();
    assert_eq!(z.to_vec::<f32>().unwrap(), [2.0; 4]);
}

#[test]
fn overwriting_heals_and_updating_does_not() {
    let device = Device::cpu().unwrap();
    let (x, y) = (vector(&device, &[1.0; 4]), vector(&device, &[5.0; 4]));
    let fail = || {
        let failed = submit(&device, |encoder| encoder.run_into(Panics, &[&x], &[&y])).unwrap();
        assert!(failed.wait().is_err());
        assert_error!(y.read::<f32>(), Error::Poisoned { .. });
    };

    fail();
    y.copy_in(&[1.0f32; 4]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0; 4], "the host wrote it anew");

    fail();
    scale(&x, &y).unwrap().wait().unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0; 4], "a kernel wrote it anew");

    fail();
    y.copy_from(&x).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0; 4], "a copy wrote it anew");

    fail();
    assert_error!(
        submit(&device, |encoder| encoder.run_into(Accumulate, &[&x], &[&y])),
        Error::Poisoned { .. }
    );
    assert_error!(submit(&device, |encoder| encoder.run_into(Add, &[&y, &x], &[&y])), Error::Poisoned { .. });
    y.slice(0..2).unwrap().copy_in(&[1.0f32; 2]).unwrap();
    assert_error!(y.slice(0..2).unwrap().read::<f32>(), Error::Poisoned { .. });

    // Written anew and then read, in one list.
    let z = Buffer::new(&device, DType::F32, 4).unwrap();
    let both = |encoder: &mut CommandEncoder| {
        encoder.run_into(Scale(3.0), &[&x], &[&y])?;
        encoder.run_into(Scale(3.0), &[&y], &[&z])
    };
    submit(&device, both).unwrap().wait().unwrap();
    assert_eq!(z.to_vec::<f32>().unwrap(), [9.0; 4]);
}

/// On a device that keeps work in flight, lists depend on each other before any has run.
#[test]
fn failures_pass_to_dependents_in_flight_and_later() {
    let (device, raw, _released) = holding_device();
    let new = || vector(&device, &[0.0; 4]);
    let (x, a, b, c, d) = (new(), new(), new(), new(), new());
    let first = scale(&x, &a).unwrap();
    let dependent = scale(&a, &b).unwrap();
    let indirect = submit(&device, |encoder| encoder.run_into(Add, &[&b, &x], &[&c])).unwrap();
    let unrelated = scale(&x, &d).unwrap();
    let healing = scale(&x, &a).unwrap();
    raw.fail_ticket(first.ticket(), HalError::Driver { call: "test", detail: "it went wrong".to_owned() });
    raw.release_all();

    assert_error!(first.wait(), Error::Device { source: HalError::Driver { .. }, .. });
    let text = assert_error!(dependent.wait(), Error::Poisoned { .. });
    assert!(text.contains("it went wrong"), "{text}");
    assert_error!(indirect.poll(), Error::Poisoned { .. });
    unrelated.wait().unwrap();
    healing.wait().unwrap();

    assert_error!(b.read::<f32>(), Error::Poisoned { .. });
    assert_error!(c.read::<f32>(), Error::Poisoned { .. });
    assert!(d.read::<f32>().is_ok());
    assert!(a.read::<f32>().is_ok(), "written again by a later list");
    assert_error!(scale(&c, &d), Error::Poisoned { what: "submit", .. });
    assert!(scale(&a, &b).is_ok(), "b is overwritten");
    raw.release_all();
    assert!(b.read::<f32>().is_ok());
    assert_error!(c.synchronize(), Error::Poisoned { .. });
}

#[test]
fn one_failure_is_reported_once_by_synchronize_and_never_forgotten() {
    let (device, raw, _released) = holding_device();
    let (x, y) = (vector(&device, &[0.0; 4]), vector(&device, &[0.0; 4]));
    let failed = scale(&x, &y).unwrap();
    let _ = scale(&x, &y).unwrap();
    raw.fail_ticket(failed.ticket(), HalError::Driver { call: "test", detail: String::new() });
    raw.release_all();
    assert_error!(device.synchronize(), Error::Device { .. });
    device.synchronize().unwrap();
    assert_error!(failed.wait(), Error::Device { .. });
}

#[test]
fn marks_are_timed() {
    for device in devices() {
        if !device.info().features.timestamps {
            continue;
        }
        let (x, y) = (vector(&device, &count(100_000)), Buffer::new(&device, DType::F32, 100_000).unwrap());
        let mut encoder = CommandEncoder::new(&device);
        encoder.scope("first", |encoder| {
            encoder.run_into(Scale(2.0), &[&x], &[&y]).unwrap();
            encoder.scope("inner", |encoder| encoder.run_into(Accumulate, &[&x], &[&y])).unwrap();
            encoder.run_into(Scale(2.0), &[&x], &[&y]).unwrap();
        });
        encoder.run_into(Scale(4.0), &[&x], &[&y]).unwrap();
        encoder.scope("last", |_| ());
        let submission = encoder.submit().unwrap();
        submission.wait().unwrap();
        let times = submission.times();
        let labels: Vec<&str> = times.iter().map(|span| span.label).collect();
        assert_eq!(labels, ["first", "inner", "first", "outside", "last"]);
        assert!(times[..4].iter().all(|span| span.duration_ns > 0), "{times:?}");
        assert!(times.is_sorted_by_key(|span| span.start_ns), "{times:?}");
        assert_eq!(times[0].start_ns, 0);
        assert_eq!(y.to_vec::<f32>().unwrap()[3], 12.0);
    }
}

#[test]
fn times_are_summed_by_label() {
    for device in devices() {
        if !device.info().features.timestamps {
            continue;
        }
        let (x, y) = (vector(&device, &count(100_000)), Buffer::new(&device, DType::F32, 100_000).unwrap());
        let mut encoder = CommandEncoder::new(&device);
        for layer in [0, 1, 0] {
            encoder.label(&format!("layer {layer}"));
            encoder.run_into(Scale(2.0), &[&x], &[&y]).unwrap();
        }
        let submission = encoder.submit().unwrap();
        submission.wait().unwrap();
        let sums = submission.times_by_label();
        let counts: Vec<_> = sums.iter().map(|sum| (sum.label, sum.spans)).collect();
        assert_eq!(counts, [("layer 0", 2), ("layer 1", 1)]);
        let total: u64 = submission.times().iter().map(|span| span.duration_ns).sum();
        assert_eq!(sums.iter().map(|sum| sum.duration_ns).sum::<u64>(), total);
    }
}

#[test]
fn time_at_barriers_is_that_in_which_no_thread_works() {
    let device = Device::cpu().unwrap();
    let (x, y) = (vector(&device, &count(100_000)), Buffer::new(&device, DType::F32, 100_000).unwrap());
    let record = |options: EncoderOptions| {
        let mut encoder = CommandEncoder::with(&device, options);
        for _ in 0..50 {
            encoder.run_into(Accumulate, &[&x], &[&y]).unwrap();
        }
        let submission = encoder.submit().unwrap();
        submission.wait().unwrap();
        submission
    };
    let traced = record(EncoderOptions::default().trace(true));
    let span = traced.times()[0].duration_ns;
    let idle = traced.barrier_time().unwrap();
    assert!(idle > Duration::ZERO && idle.as_nanos() < u128::from(span), "{idle:?} of {span} ns");
    let busiest = |thread| {
        let spans = traced.thread_times().spans;
        spans.iter().filter(|span| span.thread == thread).map(|span| span.duration_ns).sum::<u64>()
    };
    assert!(idle.as_nanos() + u128::from(busiest(0)) <= u128::from(span));
    assert_eq!(record(EncoderOptions::default()).barrier_time(), None);
}
