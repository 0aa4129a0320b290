//! Asking long work to stop: loading, generating, fetching.

use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop, shared by who asks and who works. Clones are the same token; once cancelled it stays so.
///
/// Work looks at it between pieces that take milliseconds, and leaves things as if it had not been begun.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Asks for the end of the work. Allocates nothing and never blocks: a signal handler may call it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// [`Error::Cancelled`] if somebody asked; `what` is the work that stops.
    pub fn check(&self, what: &'static str) -> Result<()> {
        if self.is_cancelled() { Err(Error::Cancelled { what }) } else { Ok(()) }
    }
}
