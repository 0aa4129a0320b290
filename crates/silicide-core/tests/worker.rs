//! The worker: closures run in order, their results and panics come back, nothing is lost at its end.

use crate::common::{devices, vector};
use silicide_core::{CommandEncoder, EncoderWorker, Error};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn closures_run_in_order_and_return_their_results() {
    let worker = EncoderWorker::new(2, Vec::new()).unwrap();
    let tasks: Vec<_> = (0..100)
        .map(|i| {
            let run = move |all: &mut Vec<i32>| {
                all.push(i);
                all.len()
            };
            worker.run(run).unwrap()
        })
        .collect();
    let lengths: Vec<usize> = tasks.into_iter().map(|task| task.wait().unwrap()).collect();
    assert_eq!(lengths, (1..=100).collect::<Vec<_>>());
    let all = worker.run(|all| all.clone()).unwrap().wait().unwrap();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

#[test]
fn an_encoder_is_filled_and_submitted_by_its_thread() {
    for device in devices() {
        let (from, to) = (vector(&device, &[1.0, 2.0]), vector(&device, &[0.0; 2]));
        let worker = EncoderWorker::new(1, CommandEncoder::new(&device)).unwrap();
        let (source, target) = (from.clone(), to.clone());
        worker.run(move |encoder| encoder.copy(&source, &target)).unwrap().wait().unwrap().unwrap();
        let submit = move |encoder: &mut CommandEncoder| {
            std::mem::replace(encoder, CommandEncoder::new(&device)).submit()
        };
        worker.run(submit).unwrap().wait().unwrap().unwrap().wait().unwrap();
        assert_eq!(to.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    }
}

#[test]
fn a_panic_is_the_error_of_its_own_task() {
    let worker = EncoderWorker::new(4, 7).unwrap();
    let panics = worker.run(|n: &mut i32| -> i32 { panic!("at {n}") }).unwrap();
    let next = worker.run(|n| *n).unwrap();
    let text = assert_error!(panics.wait(), Error::Panicked { .. });
    assert!(text.contains("at 7"), "{text}");
    assert_eq!(next.wait().unwrap(), 7);
}

#[test]
fn a_full_queue_makes_callers_wait() {
    let worker = EncoderWorker::new(1, ()).unwrap();
    let (release, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let held = worker.run(move |()| gate.lock().unwrap().recv().unwrap()).unwrap();
    let added = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3 {
                let _ = worker.run(|()| ()).unwrap();
                added.fetch_add(1, Ordering::SeqCst);
            }
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(added.load(Ordering::SeqCst) <= 2, "one closure runs, one waits");
        let held = held.poll().expect_err("it runs");
        release.send(()).unwrap();
        held.wait().unwrap();
    });
    assert_eq!(added.load(Ordering::SeqCst), 3);
}

#[test]
fn the_end_of_a_worker_runs_its_queue_and_refuses_more() {
    let ran = Arc::new(AtomicUsize::new(0));
    let mut worker = EncoderWorker::new(8, ()).unwrap();
    for _ in 0..5 {
        let ran = Arc::clone(&ran);
        let _ = worker.run(move |()| ran.fetch_add(1, Ordering::SeqCst)).unwrap();
    }
    worker.shutdown();
    worker.shutdown();
    assert_eq!(ran.load(Ordering::SeqCst), 5);
    assert_error!(worker.run(|()| ()), Error::Cancelled { .. });
    let last = Arc::new(EncoderWorker::new(8, ()).unwrap());
    let (own, (done, ended)) = (Arc::clone(&last), channel());
    let end = move |(): &mut ()| {
        std::thread::sleep(Duration::from_millis(5));
        drop(own);
        done.send(()).unwrap();
    };
    let _ = last.run(end).unwrap();
    drop(last);
    ended.recv().unwrap();
}
