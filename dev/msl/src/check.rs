//! Checks many kernels, some in each process and a process for each core.

use crate::clang::Clang;
use crate::unit::{Kernel, unit};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Kernels in a process: enough that the headers cost little, and few enough that all cores stay busy to the end.
const BATCH: usize = 24;

/// Checks kernels. Returns the errors: each message names a kernel and a line.
pub fn check(clang: &Clang, kernels: &[Kernel]) -> Vec<String> {
    let batches: Vec<&[Kernel]> = kernels.chunks(BATCH).collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some(batch) = batches.get(next.fetch_add(1, Relaxed)) {
            let outcome = unit(batch).and_then(|unit| clang.check(&unit));
            if let (Err(words), Ok(mut failures)) = (outcome, failures.lock()) {
                failures.push(words);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    failures.into_inner().unwrap_or_default()
}
