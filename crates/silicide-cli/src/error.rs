//! Errors of commands, and their exit codes.

use silicide_llm::store::StoreError;
use std::path::PathBuf;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A model can't be read.
    #[error(transparent)]
    Weights(#[from] silicide_weights::Error),
    /// A tokenizer can't be used.
    #[error(transparent)]
    Tokenizer(#[from] silicide_llm::tokenizer::TokenizerError),
    /// Values can't be converted.
    #[error(transparent)]
    Format(#[from] silicide_quant::FormatError),
    /// A model that is not understood well enough to be converted.
    #[error("{}: can't be converted: {detail}", path.display())]
    NotConvertible {
        /// The model or the file.
        path: PathBuf,
        /// The part that is not supported.
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
    /// Fetching or removing a model.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A device, or memory on one.
    #[error(transparent)]
    Device(#[from] silicide::Error),
    /// A model.
    #[error("{}", with_flags(.0))]
    Model(#[from] silicide_llm::Error),
    /// A file can't be written.
    #[error("can't write {}: {error}", path.display())]
    OutputFile {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// An input can't be read.
    #[error("can't read {name}: {error}")]
    Input {
        /// The input.
        name: String,
        /// Why.
        error: std::io::Error,
    },
    /// A device computes wrong results.
    #[error("{device} computes wrong results; do not use it, and report the lines above")]
    Unwell {
        /// The device.
        device: String,
    },
    /// A stored model has other bytes than the downloaded one.
    #[error("the stored model {name} is damaged: `silicide rm {name}`, then `silicide pull {name}`")]
    DamagedModel {
        /// Its name.
        name: String,
    },
    /// Stopped by Ctrl-C. The command has printed its results so far.
    #[error("stopped")]
    Interrupted,
    /// A name of a model that is probably the first word of a prompt.
    #[error("{0}")]
    NoModel(String),
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
    /// The output can't be expressed as JSON.
    #[error("can't write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Exit codes of the program, besides 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Arguments that make no sense.
    Usage = 1,
    /// A model or an input is missing, unreadable or malformed.
    Input = 2,
    /// Too little memory.
    Memory = 3,
    /// A device is missing or fails.
    Device = 4,
    /// Stopped by Ctrl-C, as shells say it.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl Error {
    /// An input that can't be read.
    pub(crate) fn input(name: &str, error: std::io::Error) -> Error {
        Error::Input { name: name.to_owned(), error }
    }

    /// A file that can't be written.
    pub(crate) fn output(path: &std::path::Path, error: std::io::Error) -> Error {
        Error::OutputFile { path: path.to_owned(), error }
    }

    /// Returns whether the user cancelled the command.
    pub(crate) fn is_cancelled(&self) -> bool {
        use silicide::Error as Device;
        matches!(
            self,
            Error::Device(Device::Cancelled { .. })
                | Error::Model(silicide_llm::Error::Device(Device::Cancelled { .. }))
        )
    }

    /// Returns the exit code of this error.
    pub(crate) fn exit(&self) -> Exit {
        use silicide_llm::Error as Model;
        match self {
            Error::Exists { .. } | Error::Usage(_) | Error::Model(Model::BadOption { .. }) => Exit::Usage,
            Error::Model(Model::Device(error)) => device_exit(error),
            Error::Model(Model::DoesNotFit { .. }) => Exit::Memory,
            Error::Interrupted | Error::Store(StoreError::Cancelled) => Exit::Interrupted,
            Error::Device(error) => device_exit(error),
            Error::Unwell { .. } => Exit::Device,
            _ => Exit::Input,
        }
    }
}

/// Returns the message of a model's error, with the flags that help.
fn with_flags(error: &silicide_llm::Error) -> String {
    use silicide_llm::Error::{BadOption, ContextFull, DoesNotFit, TextTooShort};
    match error {
        ContextFull { tokens, .. } => format!("{error}; raise -c above {tokens}, or shorten the text"),
        TextTooShort { tokens: tokens @ 4.., .. } => {
            format!("{error}; give -c {tokens} or less, or a longer text")
        }
        DoesNotFit { device, fits, trained, .. } => {
            let mut text = error.to_string();
            if fits > trained {
                text += &format!(": give -c {trained}");
            } else if *fits > 0 {
                text += &format!(": give -c {fits}, or a smaller cache type (-ctk, -ctv)");
            }
            if device != "cpu" {
                text += ", or run fewer layers there (-ngl, -ngl auto)";
            }
            text
        }
        // A pass is recorded by an architecture. The other options of the library have the names of flags.
        BadOption { option, .. } if *option != "pass" => format!("--{error}"),
        error => error.to_string(),
    }
}

/// Errors of a device say more than where they came from.
fn device_exit(error: &silicide::Error) -> Exit {
    use silicide::Error::{Cancelled, OutOfMemory, Tensor, TooLarge, Weights};
    match error {
        OutOfMemory { .. } | TooLarge { .. } => Exit::Memory,
        Weights(_) => Exit::Input,
        Cancelled { .. } => Exit::Interrupted,
        Tensor { source, .. } => device_exit(source),
        _ => Exit::Device,
    }
}
