//! The progress line of a terminal before the first text or measurement: how much of the prompt is processed, and how many kernels
//! are compiled.
//!
//! A thread looks at counters and draws on standard error. It draws nothing in the first half second, and nothing if
//! standard error is not a terminal. The line is removed before any text is written.

use crate::output::is_quiet;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use silicide::Device;
use silicide_llm::engine::{PromptEvent, PromptProgress};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long nothing is drawn.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often the line is drawn.
const PERIOD: Duration = Duration::from_millis(100);

/// The line that is shown while a text is waited for. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    done: AtomicU64,
    total: AtomicU64,
    running: Mutex<Option<Running>>,
}

/// The thread that draws; it ends when `_stop` is dropped.
#[derive(Debug)]
struct Running {
    _stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Waiting {
    /// Shows the line, after a while, until `stop` is called.
    pub(crate) fn start(&self, device: &Device) {
        self.stop();
        if !io::stderr().is_terminal() {
            return;
        }
        let ((stop, stopped), device, shared) = (channel(), device.clone(), Arc::clone(&self.shared));
        let (done, total) = (&self.shared.done, &self.shared.total);
        [done, total].into_iter().for_each(|count| count.store(0, Relaxed));
        let thread = std::thread::Builder::new().name("waiting".to_owned());
        // Where there is no thread to be had, nothing is shown.
        if let Ok(thread) = thread.spawn(move || draw(&shared, &device, &stopped)) {
            let mut running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner);
            *running = Some(Running { _stop: stop, thread });
        }
    }

    /// Removes the line.
    pub(crate) fn stop(&self) {
        let running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { _stop, thread }) = running {
            drop(_stop);
            // The line is of no importance.
            let _ = thread.join();
        }
    }

    /// Returns the callback that counts tokens of the prompt.
    pub(crate) fn progress(&self) -> PromptProgress {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |event: &PromptEvent| {
            shared.done.store(event.done as u64, Relaxed);
            shared.total.store(event.total as u64, Relaxed);
        })
    }

    /// Returns `stream` such that the line is gone before anything is written.
    pub(crate) fn before<W>(&self, stream: W) -> AfterWaiting<W> {
        AfterWaiting { stream, waiting: self.clone() }
    }
}

/// A stream that ends the waiting.
#[derive(Debug)]
pub(crate) struct AfterWaiting<W> {
    stream: W,
    waiting: Waiting,
}

impl<W: Write> Write for AfterWaiting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.stop();
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Draws until `stopped` is closed.
fn draw(shared: &Shared, device: &Device, stopped: &Receiver<()>) {
    let kernels = || device.kernels().usage().kernels;
    // Kernels of the CPU are compiled already.
    let is_gpu = device.info().is_gpu();
    let (mut bar, mut pause, mut seen): (Option<ProgressBar>, _, _) = (None, PATIENCE, (0, kernels()));
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = PERIOD;
        let (done, total) = (shared.done.load(Relaxed), shared.total.load(Relaxed));
        if done != seen.0 {
            seen = (done, kernels());
        }
        // Many drivers compile a kernel when it first runs: it counts as new until the pass that brought it has ended.
        let new = kernels().saturating_sub(seen.1);
        let bar = bar.get_or_insert_with(|| line(total > 0));
        bar.set_message(if is_gpu && new > 0 { format!(", compiling {new} kernels") } else { String::new() });
        bar.set_length(total);
        bar.set_position(done.min(total));
        bar.tick();
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

/// Returns the line without anything drawn. A benchmark has no prompt.
fn line(has_prompt: bool) -> ProgressBar {
    let bar = ProgressBar::no_length();
    if is_quiet() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = match has_prompt {
        true => "{spinner} reading the prompt [{bar:20}] {pos}/{len} tokens{msg}",
        false => "{spinner} warming up{msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
