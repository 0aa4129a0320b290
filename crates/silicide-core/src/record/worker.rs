//! An encoding worker: a thread that submits lists, so that whoever recorded them goes on recording.
//!
//! On the CPU a list runs inside its submission, and on GPUs a submission encodes it; both happen beside the next recording then.
//! Lists take effect in the order in which they were handed over. Until a list is submitted, the buffers it uses know nothing of
//! it: whoever wants to read what it writes, or to write what it reads, waits for [`Pending::submitted`] first.

use super::{CommandEncoder, Submission};
use crate::error::{Error, Result};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// See the module. Dropping it submits what was handed over, and waits for that.
#[derive(Debug)]
pub struct EncodingWorker {
    queue: Option<SyncSender<Task>>,
    thread: Option<JoinHandle<()>>,
}

/// A list that was handed to an [`EncodingWorker`]. Dropping it loses nothing but the news.
#[derive(Clone, Debug)]
#[must_use = "an error of the submission shows when it is asked for"]
pub struct Pending(Arc<News>);

/// What became of a list, once that is known.
#[derive(Debug, Default)]
struct News {
    outcome: Mutex<Option<Result<Submission>>>,
    told: Condvar,
}

#[derive(Debug)]
struct Task {
    encoder: CommandEncoder,
    promise: Promise,
}

/// The side that tells. Whoever waits hears something even if the worker is gone.
#[derive(Debug)]
struct Promise(Arc<News>);

impl EncodingWorker {
    /// A worker that at most so many lists wait for, beside the one that it submits.
    pub fn new(waiting: usize) -> Result<EncodingWorker> {
        let (queue, tasks) = sync_channel(waiting);
        let thread = Builder::new().name("silicide-encoder".to_owned()).spawn(move || serve(&tasks));
        let thread = thread.map_err(|error| Error::BadParameter {
            op: "encoding worker",
            what: format!("the system gives no thread: {error}"),
        })?;
        Ok(EncodingWorker { queue: Some(queue), thread: Some(thread) })
    }

    /// Hands a list over. Waits while as many lists wait as may.
    pub fn submit(&self, encoder: CommandEncoder) -> Pending {
        let news = Arc::new(News::default());
        let task = Task { encoder, promise: Promise(Arc::clone(&news)) };
        if let Some(queue) = &self.queue {
            // What a worker that is gone does not take is dropped, which tells those who wait.
            let _ = queue.send(task);
        }
        Pending(news)
    }
}

impl Drop for EncodingWorker {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A worker that panicked has told those who wait.
            let _ = thread.join();
        }
    }
}

fn serve(tasks: &Receiver<Task>) {
    while let Ok(Task { encoder, promise }) = tasks.recv() {
        promise.tell(encoder.submit());
    }
}

impl Promise {
    fn tell(&self, outcome: Result<Submission>) {
        let mut known = self.0.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert(outcome);
        drop(known);
        self.0.told.notify_all();
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.tell(Err(Error::WorkerEnded));
    }
}

impl Pending {
    /// Waits until the list is submitted. Its error if the device has refused it; nothing of it runs then.
    pub fn submitted(&self) -> Result<Submission> {
        let mut known = self.0.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = &*known {
                return outcome.clone();
            }
            known = self.0.told.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the list is done; says how it went.
    pub fn wait(&self) -> Result<()> {
        self.submitted()?.wait()
    }
}
