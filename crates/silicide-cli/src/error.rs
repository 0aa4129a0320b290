//! What a command can fail with, and the exit code that tells scripts.

use std::path::PathBuf;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A model can't be read.
    #[error(transparent)]
    Weights(#[from] silicide_weights::Error),
    /// Values can't be converted.
    #[error(transparent)]
    Format(#[from] silicide_quant::FormatError),
    /// A model that is not understood well enough to be converted.
    #[error("{}: can't be converted: {detail}", path.display())]
    NotConvertible {
        /// The model or the file.
        path: PathBuf,
        /// What is not understood.
        detail: String,
    },
    /// The output is there already.
    #[error("{} exists; use --force to replace it", path.display())]
    Exists {
        /// The output.
        path: PathBuf,
    },
    /// The output can't be written.
    #[error("can't write the output: {0}")]
    Output(#[from] std::io::Error),
    /// The output can't be expressed as JSON.
    #[error("can't write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// The code that the program exits with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if matches!(self, Error::Exists { .. }) { 1 } else { 2 })
    }
}
