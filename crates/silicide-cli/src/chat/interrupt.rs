//! Signals, and the mode of the terminal while text is generated.

use crate::common::{INTERRUPT, on_signal};
use silicide::CancelToken;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Cancels the current work when a signal such as Ctrl-C arrives. A second signal before new work begins ends the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts {
    current: Arc<Mutex<Current>>,
}

#[derive(Debug, Default)]
struct Current {
    token: CancelToken,
    /// Restores the terminal's settings.
    echo: Option<echo::EchoGuard>,
}

impl Interrupts {
    /// Handles signals from now on.
    pub(crate) fn listen() -> Interrupts {
        let interrupts = Interrupts::default();
        let handler = interrupts.clone();
        on_signal(move |signal| {
            let mut current = handler.lock();
            // A chat has nothing to clean up but the terminal, so SIGTERM and SIGHUP end it at once.
            if signal != INTERRUPT || current.token.is_cancelled() {
                current.echo = None;
                std::process::exit(128 + signal);
            }
            current.token.cancel();
        });
        interrupts
    }

    /// Returns a token for new work.
    pub(crate) fn begin(&self) -> CancelToken {
        let token = CancelToken::new();
        self.lock().token = token.clone();
        token
    }

    /// Hides keys that are pressed, Ctrl-C among them, until the guard is dropped. What is typed is read by the next
    /// prompt.
    pub(crate) fn hide_keys(&self) -> HiddenKeys {
        self.lock().echo = echo::EchoGuard::hide();
        HiddenKeys { interrupts: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys are not shown as long as this lives.
#[derive(Debug)]
pub(crate) struct HiddenKeys {
    interrupts: Interrupts,
}

impl Drop for HiddenKeys {
    fn drop(&mut self) {
        self.interrupts.lock().echo = None;
    }
}

#[cfg(unix)]
mod echo {
    use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
    use nix::unistd::{getpgrp, tcgetpgrp};
    use std::io::{IsTerminal, stdin, stdout};

    /// The settings of a terminal that does not echo now. Dropping them restores the terminal.
    #[derive(Debug)]
    pub(super) struct EchoGuard(Termios);

    impl EchoGuard {
        /// Stops the terminal's echo, where standard input and output are a terminal and the program is in its
        /// foreground. A pager at the other end of a pipe has settings of its own.
        pub(super) fn hide() -> Option<EchoGuard> {
            let foreground = || tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
            if !stdin().is_terminal() || !stdout().is_terminal() || !foreground() {
                return None;
            }
            let saved = tcgetattr(stdin()).ok()?;
            let mut hidden = saved.clone();
            hidden.local_flags.remove(LocalFlags::ECHO);
            tcsetattr(stdin(), SetArg::TCSANOW, &hidden).ok()?;
            Some(EchoGuard(saved))
        }
    }

    impl Drop for EchoGuard {
        fn drop(&mut self) {
            // A terminal that is gone needs no settings.
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, &self.0);
        }
    }
}

#[cfg(not(unix))]
mod echo {
    /// Other terminals do not echo Ctrl-C: there is nothing to restore.
    #[derive(Debug)]
    pub(super) enum EchoGuard {}

    impl EchoGuard {
        pub(super) fn hide() -> Option<EchoGuard> {
            None
        }
    }
}
