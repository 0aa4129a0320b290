//! What a command can fail with, and the exit code that tells scripts.

use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A model can't be read.
    #[error(transparent)]
    Weights(#[from] silicide_weights::Error),
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
        ExitCode::from(2)
    }
}
