//! The error type, and how errors of silicide become it.

/// The result of the functions of this crate.
pub type Result<T> = std::result::Result<T, MlxError>;

/// An error of this crate. The texts begin as those of mlx-native do.
#[derive(Debug, thiserror::Error)]
pub enum MlxError {
    /// No device could be opened.
    #[error("No Metal GPU device found, and no other device that silicide can open")]
    DeviceNotFound,
    /// Submitted work failed.
    #[error("Command buffer error: {0}")]
    CommandBufferError(String),
    /// A kernel did not compile.
    #[error("Shader compilation error in '{name}': {message}")]
    ShaderCompilationError {
        /// The kernel.
        name: String,
        /// The message of the compiler.
        message: String,
    },
    /// Memory could not be allocated.
    #[error("Failed to allocate a buffer of {bytes} bytes")]
    BufferAllocationError {
        /// The bytes that were requested.
        bytes: usize,
    },
    /// A residency set failed. This crate has none and does not return it.
    #[error("Residency set error: {0}")]
    ResidencySetError(String),
    /// An argument is out of range, of the wrong type or too small.
    #[error("Invalid argument: {0}")]
    InvalidArgument(String),
    /// The registry has no kernel of this name.
    #[error("Kernel not found: {0}")]
    KernelNotFound(String),
    /// A file could not be read.
    #[error("I/O error: {0}")]
    IoError(String),
    /// A safetensors file is malformed.
    #[error("Safetensors error: {0}")]
    SafetensorsError(String),
    /// A quantization config is malformed.
    #[error("Quantization config error: {0}")]
    QuantConfigError(String),
    /// An element type that this crate does not have.
    #[error("Unsupported dtype: {0}")]
    UnsupportedDtype(String),
    /// A GGUF file is malformed, or has no tensor of this name.
    #[error("GGUF parse error: {0}")]
    GgufParseError(String),
}

impl MlxError {
    /// Returns whether the same call may succeed later: true for [`MlxError::CommandBufferError`] only.
    pub fn is_transient(&self) -> bool {
        matches!(self, MlxError::CommandBufferError(_))
    }

    /// An invalid argument.
    pub(crate) fn argument(text: impl Into<String>) -> MlxError {
        MlxError::InvalidArgument(text.into())
    }
}

impl From<silicide::Error> for MlxError {
    fn from(error: silicide::Error) -> MlxError {
        use silicide::Error;
        match error {
            Error::OutOfMemory { requested, .. } => MlxError::BufferAllocationError { bytes: requested },
            Error::TooLarge { bytes, .. } => MlxError::BufferAllocationError { bytes },
            Error::Device { .. } | Error::Poisoned { .. } | Error::Cancelled { .. } => {
                MlxError::CommandBufferError(error.to_string())
            }
            other => MlxError::InvalidArgument(other.to_string()),
        }
    }
}

/// Returns [`MlxError::InvalidArgument`] with a formatted text.
macro_rules! refuse {
    ($($text:tt)*) => {
        return Err($crate::MlxError::InvalidArgument(format!($($text)*)))
    };
}
pub(crate) use refuse;
