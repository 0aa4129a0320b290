//! What several commands share: progress bars, and stopping when Ctrl-C is pressed.

use crate::error::Exit;
use crate::output::is_quiet;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use silicide::CancelToken;

/// Returns a bar that counts bytes.
pub(crate) fn progress_bar(what: &'static str) -> ProgressBar {
    styled(ProgressBar::no_length(), "{bytes}/{total_bytes} {bytes_per_sec} {eta}").with_prefix(what)
}

/// Returns a bar that counts `total` items of a kind, such as "windows", with a message after the count.
pub(crate) fn count_bar(what: &'static str, total: u64, kind: &str) -> ProgressBar {
    styled(ProgressBar::new(total), &format!("{{pos}}/{{len}} {kind} {{msg}} {{eta}}")).with_prefix(what)
}

/// Gives every bar the same style. Nothing is drawn if quiet, or if standard error is no terminal.
fn styled(bar: ProgressBar, counts: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(&format!("{{prefix}} [{{bar:30}}] {counts}")) {
        bar.set_style(style.progress_chars("=> "));
    }
    if is_quiet() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// A token that Ctrl-C cancels; a second Ctrl-C ends the program at once.
pub(crate) fn cancel_on_interrupt() -> CancelToken {
    let cancel = CancelToken::new();
    let token = cancel.clone();
    // Where no handler can be set, Ctrl-C just ends the program.
    let _ = ctrlc::set_handler(move || {
        if token.is_cancelled() {
            std::process::exit(Exit::Interrupted as i32);
        }
        token.cancel();
    });
    cancel
}
