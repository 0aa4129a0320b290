//! What several commands share: progress bars, and stopping when Ctrl-C is pressed.

use crate::error::Exit;
use indicatif::{ProgressBar, ProgressStyle};
use silicide::CancelToken;

/// A bar for bytes; nothing is drawn where standard error is no terminal.
pub(crate) fn progress_bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    let style = "{prefix} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_prefix(what)
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
