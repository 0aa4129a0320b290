//! Errors of chat templates.

use minijinja::ErrorKind;
use std::path::PathBuf;

/// Why a chat can't be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The template has an error, or can't render these messages.
    #[error("the chat template, line {line}: {detail}")]
    Template {
        /// Where in the template, counted from 1; 0 if unknown.
        line: usize,
        /// The error of the template engine.
        detail: String,
    },
    /// The template refused these messages by `raise_exception`.
    #[error("the model's chat template refuses these messages: {detail}")]
    Refused {
        /// Its message.
        detail: String,
    },
    /// The template exceeds its limits of instructions or bytes.
    #[error("the chat template takes more work than any sensible one; the file may be damaged or malicious")]
    Exhausted,
    /// The template engine panicked.
    #[error("the chat template makes the template engine fail; the file may be damaged or malicious")]
    Panicked,
    /// A template or its output exceeds a limit.
    #[error("the {what} is too long: {got} bytes of at most {limit}")]
    TooLong {
        /// What.
        what: &'static str,
        /// Its bytes.
        got: usize,
        /// Most bytes.
        limit: usize,
    },
    /// Messages use too many different characters of the private-use planes to be guarded.
    #[error("the messages use nearly all private-use characters, and no stand-ins are left")]
    NoStandins,
    /// The model has no template, and nothing says which one to use.
    #[error("{}: the model has no chat template, as models have that only continue text; \
         give it a text to continue instead (`--raw`)", path.display())]
    NoTemplate {
        /// The model.
        path: PathBuf,
    },
    /// A file can't be read.
    #[error("{}: {detail}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        detail: String,
    },
}

/// The message of `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

/// Marks an error as exceeding the budget.
#[derive(Debug, thiserror::Error)]
#[error("the template takes too much")]
struct TooMuch;

/// Returns the error of a template that exceeds its budget.
pub(super) fn exhausted() -> minijinja::Error {
    minijinja::Error::new(ErrorKind::OutOfFuel, "too many bytes").with_source(TooMuch)
}

impl ChatError {
    pub(super) fn from_jinja(error: minijinja::Error) -> ChatError {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if let Some(Raised(detail)) = inner.downcast_ref::<Raised>() {
                return ChatError::Refused { detail: detail.clone() };
            }
            let jinja = inner.downcast_ref::<minijinja::Error>();
            let out = jinja.is_some_and(|jinja| jinja.kind() == ErrorKind::OutOfFuel);
            if out || inner.is::<TooMuch>() {
                return ChatError::Exhausted;
            }
            cause = inner.source();
        }
        let detail = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        ChatError::Template { line: error.line().unwrap_or(0), detail }
    }
}
