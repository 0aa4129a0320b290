//! Turns panics of the template engine into errors: templates are untrusted programs.

use super::error::ChatError;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether this thread compiles or renders a template.
    static RENDERING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on a template; a panic becomes [`ChatError::Panicked`]. Rendering writes only its own output, so a panic
/// leaves no broken state.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, ChatError>) -> Result<T, ChatError> {
    let outer = RENDERING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    RENDERING.set(outer);
    done.unwrap_or(Err(ChatError::Panicked))
}

/// Keeps the panic hook from printing a message when a template makes the template engine panic. Such a panic is
/// returned as [`ChatError::Panicked`] with or without this call. The hook that is set now sees all other panics.
///
/// A program calls this once, at its start, after it has set a hook of its own.
pub fn silence_template_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !RENDERING.try_with(Cell::get).unwrap_or(false) {
                hook(info);
            }
        }));
    });
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_the_next_rendering_works() {
        silence_template_panics();
        let panicked = caught(|| -> Result<(), ChatError> { panic!("index out of bounds") });
        assert_eq!(panicked, Err(ChatError::Panicked));
        assert!(!RENDERING.get());
        assert_eq!(caught(|| Ok(3)), Ok(3));
        // A rendering inside another leaves the outer one marked.
        assert_eq!(caught(|| caught(|| Ok(())).map(|()| RENDERING.get())), Ok(true));
    }
}
