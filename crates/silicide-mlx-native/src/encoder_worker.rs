//! A thread that runs closures in the order in which they were submitted.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// One thread and its queue.
#[derive(Debug)]
pub struct EncoderWorker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl EncoderWorker {
    /// Starts the thread. If the system has none, every [`EncoderWorker::submit`] is an error: mlx-native panics.
    pub fn spawn() -> EncoderWorker {
        let (sender, receiver) = channel::<Job>();
        let run = move || {
            for job in receiver {
                // A job that panics ends itself and no other: mlx-native's thread ends.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            }
        };
        let thread = std::thread::Builder::new().name("mlx_native encoder".to_owned()).spawn(run).ok();
        EncoderWorker { jobs: thread.is_some().then_some(sender), thread }
    }

    /// Adds a closure to the queue. An error after [`EncoderWorker::shutdown`].
    pub fn submit<F>(&self, f: F) -> Result<(), &'static str>
    where
        F: FnOnce() + Send + 'static,
    {
        let jobs = self.jobs.as_ref().ok_or("the encoder worker is shut down")?;
        jobs.send(Box::new(f)).map_err(|_| "the encoder worker has ended")
    }

    /// Runs what is in the queue, then ends the thread.
    pub fn shutdown(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for EncoderWorker {
    fn drop(&mut self) {
        self.shutdown();
    }
}
