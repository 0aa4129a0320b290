//! Progress bars, and stopping on signals, for all commands.
//!
//! SIGINT (Ctrl-C), SIGTERM and SIGHUP cancel a token: the command deletes what it has not finished and ends. The exit code
//! is 128 and the number of the signal (130, 143, 129). A second signal ends the program at once, and so does a SIGTERM or
//! SIGHUP that the command has not obeyed after [`GRACE`].

use crate::output::{is_quiet, note};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use silicide::CancelToken;
use silicide_llm::Model;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};

/// SIGINT on every Unix; the number that Ctrl-C has here on Windows.
pub(crate) const INTERRUPT: i32 = 2;
/// How long a command may take to clean up after SIGTERM or SIGHUP.
#[cfg(unix)]
const GRACE: std::time::Duration = std::time::Duration::from_secs(3);

/// The signal that was received last; 0 if none was.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// Returns a bar that counts bytes.
pub(crate) fn progress_bar(what: &'static str) -> ProgressBar {
    styled(ProgressBar::no_length(), "{bytes}/{total_bytes} {bytes_per_sec} {eta}").with_prefix(what)
}

/// Returns a bar that counts `total` items of a kind, such as "windows", with a message after the count.
pub(crate) fn count_bar(what: &'static str, total: u64, kind: &str) -> ProgressBar {
    styled(ProgressBar::new(total), &format!("{{pos}}/{{len}} {kind} {{msg}} {{eta}}")).with_prefix(what)
}

/// Sets the style of a bar. Nothing is drawn with `-q`, or if standard error is not a terminal.
fn styled(bar: ProgressBar, counts: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(&format!("{{prefix}} [{{bar:30}}] {counts}")) {
        bar.set_style(style.progress_chars("=> "));
    }
    if is_quiet() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// Prints notes about the kernels that a model's devices have compiled: those that a driver refused, and stored ones that were of no
/// use.
pub(crate) fn note_kernels(model: &Model) {
    for device in model.devices() {
        let (usage, id) = (device.kernels().usage(), &device.info().id);
        if usage.refused > 0 {
            let count = usage.refused;
            note(format_args!("the driver of {id} refused {count} kernels; their portable form ran instead"));
        }
        if usage.ignored > 0 {
            let count = usage.ignored;
            note(format_args!(
                "{count} stored kernels of {id} were damaged or of another version, and were compiled again"
            ));
        }
    }
}

/// Returns a token that SIGINT, SIGTERM and SIGHUP cancel.
pub(crate) fn cancel_on_interrupt() -> CancelToken {
    let cancel = CancelToken::new();
    let token = cancel.clone();
    on_signal(move |signal| {
        if token.is_cancelled() {
            std::process::exit(128 + signal);
        }
        token.cancel();
    });
    cancel
}

/// Calls `handle` with the number of each SIGINT, SIGTERM and SIGHUP, on a thread of its own. Where no handler can be set,
/// signals end the program as they do by default.
pub(crate) fn on_signal(handle: impl Fn(i32) + Send + 'static) {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let mut numbers = vec![SIGINT, SIGTERM];
        if !hangup_is_ignored() {
            numbers.push(SIGHUP);
        }
        let Ok(mut signals) = signal_hook::iterator::Signals::new(numbers) else { return };
        let watch = move || {
            for signal in signals.forever() {
                RECEIVED.store(signal, Ordering::Relaxed);
                handle(signal);
                if signal != SIGINT {
                    std::thread::spawn(move || {
                        std::thread::sleep(GRACE);
                        std::process::exit(128 + signal);
                    });
                }
            }
        };
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
    }
    #[cfg(not(unix))]
    {
        let _ = ctrlc::set_handler(move || {
            RECEIVED.store(INTERRUPT, Ordering::Relaxed);
            handle(INTERRUPT);
        });
    }
}

/// The exit code of a command that a signal stopped.
pub(crate) fn interrupted() -> ExitCode {
    let signal = match RECEIVED.load(Ordering::Relaxed) {
        0 => INTERRUPT,
        signal => signal,
    };
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

/// Returns whether the parent process, such as `nohup`, has SIGHUP ignored. A handler would undo that. Only Linux reports it; elsewhere
/// SIGHUP keeps its default, and the next command deletes unfinished files.
#[cfg(unix)]
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").ok();
    let mask =
        status.as_deref().and_then(|status| status.lines().find_map(|line| line.strip_prefix("SigIgn:")));
    // Bit 0 is signal 1, which is SIGHUP.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask & 1 != 0)
}
