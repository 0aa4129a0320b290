//! Asking long work to stop: loading, generating, fetching.

use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop, shared by the caller and the work. Clones are the same token; a cancelled token stays cancelled.
///
/// Work checks it between steps of milliseconds, and leaves things as if it had not been begun.
///
/// ```
/// use silicide_core::CancelToken;
///
/// let program = CancelToken::new();
/// let request = program.child();
/// request.cancel();
/// assert!(request.is_cancelled() && !program.is_cancelled());
/// program.cancel();
/// assert!(program.child().is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    cancelled: AtomicBool,
    parent: Option<CancelToken>,
}

impl CancelToken {
    /// Returns a token that is not cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Returns a token that is cancelled with this one, and can be cancelled alone.
    pub fn child(&self) -> CancelToken {
        CancelToken(Arc::new(CancelState { cancelled: AtomicBool::new(false), parent: Some(self.clone()) }))
    }

    /// Cancels the token. Allocates nothing and never blocks: a signal handler may call it.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether this token or one of its parents was cancelled.
    pub fn is_cancelled(&self) -> bool {
        let mut tokens = std::iter::successors(Some(self), |token| token.0.parent.as_ref());
        tokens.any(|token| token.0.cancelled.load(Ordering::Relaxed))
    }

    /// Returns [`Error::Cancelled`] if the token was cancelled; `what` names the work that stops.
    pub fn check(&self, what: &'static str) -> Result<()> {
        if self.is_cancelled() { Err(Error::Cancelled { what }) } else { Ok(()) }
    }
}
