//! Errors of a backend: those that the core cannot foresee.

/// The result of a backend's verb.
pub type Result<T> = std::result::Result<T, HalError>;

/// An error below the safe core.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HalError {
    /// Memory ran out.
    #[error("out of device memory: {requested} bytes requested")]
    OutOfMemory {
        /// Bytes requested.
        requested: usize,
    },
    /// The device is lost; nothing on it can be used.
    #[error("device lost: {detail}")]
    DeviceLost {
        /// The driver's message.
        detail: String,
    },
    /// The timeout passed; the work continues.
    #[error("not finished after {millis} ms")]
    Timeout {
        /// The timeout of the wait.
        millis: u64,
    },
    /// A kernel did not compile.
    #[error("kernel {label} does not compile: {detail}")]
    Compile {
        /// The kernel.
        label: String,
        /// The compiler's message, with the line where known.
        detail: String,
    },
    /// A kernel panicked. The outputs of its list are incomplete.
    #[error("kernel {label} panicked: {detail}")]
    KernelPanicked {
        /// The kernel.
        label: String,
        /// The panic's message.
        detail: String,
    },
    /// A backend or a library that it needs is not there.
    #[error("{backend} is not available: {detail}. {advice}")]
    Unavailable {
        /// The backend.
        backend: &'static str,
        /// Why.
        detail: String,
        /// Advice: what to install or do.
        advice: &'static str,
    },
    /// A validation layer reported an error of the submission.
    #[error("validation: {message}")]
    Validation {
        /// Its message.
        message: String,
    },
    /// Any other failure of the driver.
    #[error("{call} failed: {detail}")]
    Driver {
        /// The call that failed.
        call: &'static str,
        /// The value or message that it returned.
        detail: String,
    },
}
