//! The first panic of a submission. Once there is one, the rest of the list is skipped: its results would be built
//! on bytes that were never written.

use crate::HalError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Empty, or the first panic.
#[derive(Default)]
pub(crate) struct Fault {
    set: AtomicBool,
    first: Mutex<Option<HalError>>,
}

impl Fault {
    /// Returns whether a kernel panicked. Threads that do not see it yet run a few tiles more, which is harmless.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Relaxed)
    }

    /// Keeps a panic's message, if it is the first.
    #[cold]
    pub(crate) fn record(&self, label: &str, payload: Box<dyn Any + Send>) {
        let detail = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (_, Some(text)) => text.clone(),
            _ => "a value that is not text".to_owned(),
        };
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(HalError::KernelPanicked { label: label.to_owned(), detail });
        }
        self.set.store(true, Ordering::Relaxed);
        drop(first);
        // The payload's destructor is the kernel's own code, too. Should it panic, what it throws is leaked.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
    }

    /// Removes and returns the panic.
    pub(crate) fn take(&self) -> Option<HalError> {
        if !self.is_set() {
            return None;
        }
        self.set.store(false, Ordering::Relaxed);
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
