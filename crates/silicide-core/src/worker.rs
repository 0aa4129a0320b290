//! A thread that runs closures in the order in which they were given, over a value that it owns: an encoder, for example.

use crate::error::{Error, Result};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};

/// What errors of a worker name.
const WORKER: &str = "encoder worker";

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// A thread that owns an `S` and runs closures over it, one after the other.
///
/// A closure that panics ends itself alone: its [`WorkerTask`] returns the error, and the value stays as the closure left it.
/// Dropping the worker runs what is in the queue, then ends the thread.
///
/// ```
/// # extern crate silicide_core as silicide;
/// use silicide::{Buffer, CommandEncoder, Device, EncoderWorker, Error};
/// use std::mem::replace;
///
/// let device = Device::cpu()?;
/// let from = Buffer::from_slice(&device, [2], &[1u32, 2])?;
/// let to = Buffer::from_slice(&device, [2], &[0u32; 2])?;
/// let worker = EncoderWorker::new(16, CommandEncoder::new(&device))?;
/// let (source, target) = (from.clone(), to.clone());
/// let recorded = worker.run(move |encoder| encoder.copy(&source, &target))?;
/// let submitted = worker.run(move |encoder| replace(encoder, CommandEncoder::new(&device)).submit())?;
/// recorded.wait()??;
/// submitted.wait()??.wait()?;
/// assert_eq!(to.to_vec::<u32>()?, [1, 2]);
/// # Ok::<(), Error>(())
/// ```
pub struct EncoderWorker<S> {
    jobs: Option<SyncSender<Job<S>>>,
    thread: Option<JoinHandle<()>>,
}

/// A closure that was given to a worker. Dropping it changes nothing: the closure runs.
#[derive(Debug)]
#[must_use = "the result of the closure, or its panic, shows when it is waited for"]
pub struct WorkerTask<T> {
    result: Receiver<Result<T>>,
}

impl<S: Send + 'static> EncoderWorker<S> {
    /// Starts a thread that owns `state`. Its queue holds `capacity` closures, at least one.
    pub fn new(capacity: usize, mut state: S) -> Result<EncoderWorker<S>> {
        let (jobs, queue) = sync_channel::<Job<S>>(capacity.max(1));
        let run = move || queue.into_iter().for_each(|job| job(&mut state));
        let thread = thread::Builder::new().name("silicide worker".to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::NoThread { what: WORKER, detail: error.to_string() })?;
        Ok(EncoderWorker { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Adds a closure to the queue, and waits while the queue is full. So a closure must not add others to a queue that may be full.
    pub fn run<T, F>(&self, f: F) -> Result<WorkerTask<T>>
    where
        T: Send + 'static,
        F: FnOnce(&mut S) -> T + Send + 'static,
    {
        let (sender, result) = sync_channel(1);
        let job = move |state: &mut S| {
            let outcome = catch_unwind(AssertUnwindSafe(|| f(state)));
            // Sending fails if the task was dropped; the result is then discarded.
            let _ = sender
                .send(outcome.map_err(|panic| Error::Panicked { what: WORKER, message: message(&*panic) }));
        };
        let jobs = self.jobs.as_ref().ok_or(Error::Cancelled { what: WORKER })?;
        jobs.send(Box::new(job)).map_err(|_| Error::Cancelled { what: WORKER })?;
        Ok(WorkerTask { result })
    }

    /// Runs what is in the queue and ends the thread. Later closures are refused as cancelled.
    pub fn shutdown(&mut self) {
        self.end();
    }
}

impl<S> EncoderWorker<S> {
    fn end(&mut self) {
        self.jobs = None;
        let Some(thread) = self.thread.take() else { return };
        // A closure that owns the last handle of its worker ends it from within; the thread can't wait for itself.
        if thread.thread().id() != thread::current().id() {
            // Closures are caught: the thread itself panics only where a value's own drop does, which is then gone.
            let _ = thread.join();
        }
    }
}

impl<T> WorkerTask<T> {
    /// Waits for the closure and returns its result, or its panic as an error.
    pub fn wait(self) -> Result<T> {
        self.result.recv().unwrap_or(Err(Error::Cancelled { what: WORKER }))
    }

    /// Returns the result if the closure has run, or the task again.
    pub fn poll(self) -> std::result::Result<Result<T>, WorkerTask<T>> {
        match self.result.try_recv() {
            Ok(result) => Ok(result),
            Err(TryRecvError::Disconnected) => Ok(Err(Error::Cancelled { what: WORKER })),
            Err(TryRecvError::Empty) => Err(self),
        }
    }
}

/// Returns the text of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a text").to_owned()
}

impl<S> Drop for EncoderWorker<S> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<S> fmt::Debug for EncoderWorker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncoderWorker({})", if self.jobs.is_some() { "running" } else { "ended" })
    }
}
